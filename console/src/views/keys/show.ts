/** A value as text, JSON or hexadecimal. */

import { fromHex, fromText, toText } from "../../model/bytes";

export const SHAPES = ["text", "json", "hex"] as const;
export type Shape = (typeof SHAPES)[number];

/** So many bytes of a value are shown. */
export const SHOWN_BYTES_MAX = 64 * 1024;

export function asJson(bytes: Uint8Array): string | null {
  const text = toText(bytes);
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return JSON.stringify(value, null, 2);
  } catch {
    return null;
  }
}

/** Rows of 16 bytes with their offsets and characters. */
export function hexDump(bytes: Uint8Array): string {
  const rows: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.slice(at, at + 16);
    const digits = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const halves = `${digits.slice(0, 8).join(" ")}  ${digits.slice(8).join(" ")}`;
    const chars = Array.from(row, (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".",
    ).join("");
    rows.push(`${at.toString(16).padStart(6, "0")}  ${halves.padEnd(48)}  ${chars}`);
  }
  return rows.join("\n");
}

/** The shape that shows a value best. */
export function bestShape(bytes: Uint8Array): Shape {
  const json = asJson(bytes);
  if (json !== null && /^[[{]/.test(json)) return "json";
  return toText(bytes) === null ? "hex" : "text";
}

/** A value in a shape, or `null` if it has none. */
export function render(bytes: Uint8Array, shape: Shape): string | null {
  const shown = bytes.slice(0, SHOWN_BYTES_MAX);
  switch (shape) {
    case "text":
      return toText(bytes) === null ? null : new TextDecoder().decode(shown);
    case "json":
      return bytes.length > SHOWN_BYTES_MAX ? null : asJson(bytes);
    case "hex":
      return hexDump(shown);
  }
}

/** What was written into the editor, or why it is no value. */
export function parseValue(text: string, shape: Shape): { bytes: Uint8Array } | { wrong: string } {
  if (shape === "hex") {
    const bytes = fromHex(text);
    return bytes ? { bytes } : { wrong: "These are no pairs of hexadecimal digits." };
  }
  if (shape === "json") {
    try {
      return { bytes: fromText(JSON.stringify(JSON.parse(text) as unknown)) };
    } catch (error) {
      return { wrong: `This is no JSON: ${error instanceof Error ? error.message : String(error)}` };
    }
  }
  return { bytes: fromText(text) };
}

/** A value as the editor begins with it. */
export function editable(bytes: Uint8Array, shape: Shape): string {
  if (shape === "hex") return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  return (shape === "json" ? asJson(bytes) : toText(bytes)) ?? "";
}

/** A time to live as people write it: `30s`, `5m`, `2h`, `1d`, or milliseconds. */
export function parseTtl(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*$/.exec(text);
  if (!match) return null;
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  const ms = Math.round(Number(match[1]) * units[(match[2] ?? "ms") as keyof typeof units]);
  return ms > 0 ? ms : null;
}
