/** Reads one event's JSON. What is missing gets a default; what is no event is an error. */

import { versionMs } from "../model/format";
import type { ClusterEvent, Severity } from "./types";

/** No date is farther from 1970. */
const DATE_MS_MAX = 8.64e15;

export class BadEvent extends Error {}

const SEVERITIES: readonly string[] = ["debug", "info", "warn", "error"];

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

function string(value: unknown): string | null {
  if (typeof value === "string") return value;
  return typeof value === "number" && Number.isFinite(value) ? String(value) : null;
}

/** Reads the JSON of one frame; `cursor` is the frame's `id:`. */
export function parseEvent(data: string, cursor: string, nowMs: number): ClusterEvent {
  let json: unknown;
  try {
    json = JSON.parse(data);
  } catch {
    throw new BadEvent(`an event is no JSON: ${data.slice(0, 80)}`);
  }
  const fields = record(json);
  const type = string(fields["type"]);
  if (type === null || type === "") throw new BadEvent(`an event has no type: ${data.slice(0, 80)}`);
  const at = string(fields["at"]) ?? "";
  const atMs = typeof fields["at_ms"] === "number" ? fields["at_ms"] : (versionMs(at) ?? nowMs);
  if (!(Math.abs(atMs) <= DATE_MS_MAX)) throw new BadEvent(`an event has no such time: ${data.slice(0, 80)}`);
  const severity = string(fields["severity"]) ?? "info";
  const shard = fields["shard"];
  return {
    cursor,
    type,
    node: string(fields["node"]) ?? "",
    atMs,
    at: /^\d+$/.test(at) ? at : String(BigInt(Math.max(0, Math.trunc(atMs))) << 16n),
    severity: SEVERITIES.includes(severity) ? (severity as Severity) : "info",
    shard: typeof shard === "number" ? shard : null,
    keyspace: string(fields["keyspace"]),
    text: string(fields["text"]) ?? "",
    isLate: fields["late"] === true,
    fields,
  };
}
