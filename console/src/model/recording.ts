/** A recording: what the console saw in the last minutes, as a file that it can show again. */

import { BadFile } from "../api/problem";
import { NO_SAMPLES, type Samples } from "../events/samples";
import type { ClusterEvent } from "../events/types";
import { parseTyped } from "./bytes";
import { EMPTY, type Model } from "./model";
import { isEvent, isModel, isObject, isPoint, isRequest, isTransaction } from "./shapes";
import type { TimePoint } from "./timeline";

export const RECORDING_FORMAT = 1;
/** A larger file is refused. */
export const RECORDING_BYTES_MAX = 64 * 1024 * 1024;

export interface Recording {
  format: typeof RECORDING_FORMAT;
  savedAtMs: number;
  /** What it was made from: what a page saw, or a file of `carillon record`. */
  source: "page" | "events";
  models: readonly Model[];
  events: readonly ClusterEvent[];
  points: readonly TimePoint[];
  samples: Samples;
}

export class BadRecording extends BadFile {}

/** Models share what did not change; in the file each shared part is written once. */
interface Packed {
  format: number;
  savedAtMs: number;
  parts: unknown[];
  models: Record<string, number | unknown>[];
  events: readonly ClusterEvent[];
  points: readonly TimePoint[];
  samples: unknown;
}

/** Keys of requests are bytes, which JSON has not: the printable key is enough to show. */
function packSamples({ requests, transactions }: Samples): unknown {
  return { transactions, requests: requests.map((request) => ({ ...request, keyBytes: undefined })) };
}

function unpackSamples(value: unknown): Samples {
  if (!isObject(value) || !Array.isArray(value["requests"]) || !Array.isArray(value["transactions"])) {
    return NO_SAMPLES;
  }
  const { requests, transactions } = value as unknown as Samples;
  if (!requests.every(isRequest) || !transactions.every(isTransaction)) {
    throw new BadRecording("This recording is damaged: a sample lacks what it should have.");
  }
  return {
    transactions,
    requests: requests.map((request) => ({ ...request, keyBytes: parseTyped(String(request.key)) })),
  };
}

export function encodeRecording(recording: Recording): string {
  const parts: unknown[] = [];
  const numbers = new Map<unknown, number>();
  const pack = (value: unknown): unknown => {
    if (typeof value !== "object" || value === null) return value;
    let number = numbers.get(value);
    if (number === undefined) {
      number = parts.length;
      numbers.set(value, number);
      parts.push(value);
    }
    return { part: number };
  };
  const models = recording.models.map((model) =>
    Object.fromEntries(Object.entries(model).map(([name, value]) => [name, pack(value)])),
  );
  const packed: Packed = { ...recording, parts, models, samples: packSamples(recording.samples) };
  return JSON.stringify(packed);
}

export function decodeRecording(text: string): Recording {
  let packed: unknown;
  try {
    packed = JSON.parse(text);
  } catch {
    throw new BadRecording("This is no recording: it is no JSON.");
  }
  if (!isObject(packed) || typeof packed["format"] !== "number") {
    throw new BadRecording("This is no recording: it has no format.");
  }
  if (packed["format"] !== RECORDING_FORMAT) {
    throw new BadRecording(
      `This recording has format ${packed["format"]}; this console reads ${RECORDING_FORMAT}.`,
    );
  }
  const { parts, models, events, points, savedAtMs } = packed;
  if (!Array.isArray(parts) || !Array.isArray(models) || !Array.isArray(events) || !Array.isArray(points)) {
    throw new BadRecording("This recording is damaged: a part of it is missing.");
  }
  if (!events.every(isEvent) || !points.every(isPoint)) {
    throw new BadRecording("This recording is damaged: an event or a point lacks what it should have.");
  }
  if (models.length === 0) throw new BadRecording("This recording is empty.");
  const unpack = (value: unknown): unknown => {
    if (!isObject(value)) return value;
    const part = parts[value["part"] as number] as unknown;
    if (part === undefined)
      throw new BadRecording("This recording is damaged: it names a part that is missing.");
    return part;
  };
  return {
    format: RECORDING_FORMAT,
    savedAtMs: typeof savedAtMs === "number" ? savedAtMs : 0,
    source: "page",
    models: models.map((model: unknown) => {
      if (!isObject(model)) throw new BadRecording("This recording is damaged: a model is no object.");
      const fields = Object.fromEntries(Object.entries(model).map(([name, value]) => [name, unpack(value)]));
      const whole = { ...EMPTY, ...fields };
      if (typeof fields["atMs"] !== "number" || !isModel(whole))
        throw new BadRecording("This recording is damaged: a model lacks what it should have.");
      return whole as Model;
    }),
    events: events as ClusterEvent[],
    points: points as TimePoint[],
    samples: unpackSamples(packed["samples"]),
  };
}
