/** Bytes of keys and values: as text, as hexadecimal, in addresses and in JSON. */

import type { JsonBytes } from "../api/types";

const encoder = new TextEncoder();
const strictDecoder = new TextDecoder("utf-8", { fatal: true });

export function fromText(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The text that bytes are, or `null` if they are no UTF-8. */
export function toText(bytes: Uint8Array): string | null {
  try {
    return strictDecoder.decode(bytes);
  } catch {
    return null;
  }
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes of a hexadecimal text, or `null` if it is none. */
export function fromHex(text: string): Uint8Array | null {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 !== 0 || /[^0-9a-f]/i.test(digits)) return null;
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) =>
    parseInt(digits.slice(2 * i, 2 * i + 2), 16),
  );
}

/** A key in an address: every byte but letters, digits, `-`, `_`, `.`, `~` is percent-encoded. */
export function encodeKey(key: Uint8Array): string {
  return Array.from(key, (byte) => {
    const char = String.fromCharCode(byte);
    return /[A-Za-z0-9\-_.~]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

/** Bytes as the JSON of transactions has them. */
export function toJson(bytes: Uint8Array): JsonBytes {
  const text = toText(bytes);
  if (text !== null) return text;
  return { base64: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
}

export function fromJson(json: JsonBytes): Uint8Array {
  if (typeof json === "string") return fromText(json);
  return Uint8Array.from(atob(json.base64), (char) => char.charCodeAt(0));
}

/** A key for people: text as it is, but for `\\`, and other bytes as `\xff`. {@link parseTyped} reads it. */
export function printable(bytes: Uint8Array): string {
  const text = toText(bytes);
  if (text !== null && !/[\u0000-\u001f\u007f]/.test(text)) return text.replaceAll("\\", "\\\\");
  return Array.from(bytes, (byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x5c
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).padStart(2, "0")}`,
  ).join("");
}

/** What somebody typed: text, with `\xff` for single bytes and `\\` for a backslash. */
export function parseTyped(typed: string): Uint8Array {
  const parts: number[] = [];
  const pattern = /\\x([0-9a-fA-F]{2})|\\\\|[^\\]+|\\/g;
  for (const match of typed.matchAll(pattern)) {
    if (match[1] !== undefined) parts.push(parseInt(match[1], 16));
    else if (match[0] === "\\\\") parts.push(0x5c);
    else parts.push(...fromText(match[0]));
  }
  return Uint8Array.from(parts);
}

/** Compares bytewise, as an ordered keyspace does. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** The smallest bytes behind all that begin with `prefix`, or `null` if there are none. */
export function endOfPrefix(prefix: Uint8Array): Uint8Array | null {
  for (let end = prefix.length; end > 0; end--) {
    const last = prefix[end - 1] ?? 0;
    if (last < 0xff) {
      const bytes = prefix.slice(0, end);
      bytes[end - 1] = last + 1;
      return bytes;
    }
  }
  return null;
}
