/** Sampled requests and transactions, as the views of lookups and transactions show them. */

import { fromJson, printable } from "../model/bytes";
import { isRoute } from "../model/shapes";
import type { JsonBytes, Route } from "../api/types";
import { compareAt } from "./log";
import type { ClusterEvent } from "./types";

/** So many requests are kept; older ones are dropped. */
export const REQUESTS_MAX = 500;
/** So many transactions are kept; the one that changed longest ago is dropped. */
export const TRANSACTIONS_MAX = 200;
/** So many steps of one transaction are kept: the first ones. */
export const STEPS_MAX = 256;

export interface RequestSample {
  atMs: number;
  node: string;
  op: string;
  key: string;
  keyBytes: Uint8Array;
  keys: number;
  keyspace: string | null;
  shard: number | null;
  leader: string | null;
  route: Route | null;
}

export type Phase =
  | "prepare"
  | "voted"
  | "refused"
  | "committed"
  | "aborted"
  | "decide"
  | "resolve"
  | "finished"
  | "given-up"
  | "recover"
  | "prevent";

export interface TransactionStep {
  at: string;
  atMs: number;
  node: string;
  attempt: number;
  phase: Phase | string;
  shards: number[];
  keys: number;
  reason: string | null;
  /** Of `prepare`: the shards are asked one after the other, and the last one commits. */
  inOrder?: boolean;
}

export interface TransactionSample {
  id: string;
  keyspace: string | null;
  /** The coordinator's node. */
  node: string;
  /** The shard that holds the record, if it is known. */
  record: number | null;
  steps: TransactionStep[];
  /** The last phase that decides what came of it. */
  outcome: "running" | "committed" | "aborted" | "refused";
  isRecovered: boolean;
}

export interface Samples {
  requests: readonly RequestSample[];
  transactions: readonly TransactionSample[];
}

export const NO_SAMPLES: Samples = { requests: [], transactions: [] };

function keyOf(value: unknown): Uint8Array {
  const isKey =
    typeof value === "string" ||
    (typeof value === "object" &&
      value !== null &&
      typeof (value as { base64?: unknown }).base64 === "string");
  if (!isKey) return new Uint8Array();
  try {
    return fromJson(value as JsonBytes);
  } catch {
    return new Uint8Array();
  }
}

function routeOf(value: unknown): Route | null {
  return isRoute(value) ? (value as Route) : null;
}

function addRequest(samples: Samples, event: ClusterEvent): Samples {
  const { fields } = event;
  const keyBytes = keyOf(fields["key"]);
  const request: RequestSample = {
    atMs: event.atMs,
    node: event.node,
    op: typeof fields["op"] === "string" ? fields["op"] : "",
    key: printable(keyBytes),
    keyBytes,
    keys: typeof fields["keys"] === "number" ? fields["keys"] : 1,
    keyspace: event.keyspace,
    shard: event.shard,
    leader: typeof fields["leader"] === "string" ? fields["leader"] : null,
    route: routeOf(fields["route"]),
  };
  return { ...samples, requests: [...samples.requests, request].slice(-REQUESTS_MAX) };
}

function outcomeAfter(before: TransactionSample["outcome"], phase: string): TransactionSample["outcome"] {
  if (phase === "committed") return "committed";
  if (phase === "aborted" && before !== "committed") return "aborted";
  if (phase === "refused" && before === "running") return "refused";
  return phase === "prepare" && before !== "committed" ? "running" : before;
}

function addStep(samples: Samples, event: ClusterEvent): Samples {
  const { fields } = event;
  const id = fields["txn"];
  const phase = fields["phase"];
  if (typeof id !== "string" || typeof phase !== "string") return samples;
  const shards = Array.isArray(fields["shards"])
    ? fields["shards"].filter((each) => typeof each === "number")
    : [];
  const step: TransactionStep = {
    at: event.at,
    atMs: event.atMs,
    node: event.node,
    attempt: typeof fields["attempt"] === "number" ? fields["attempt"] : 0,
    phase,
    shards,
    keys: typeof fields["keys"] === "number" ? fields["keys"] : 0,
    reason: typeof fields["reason"] === "string" ? fields["reason"] : null,
    ...(fields["in_order"] === true ? { inOrder: true } : {}),
  };
  const known = samples.transactions.find((each) => each.id === id);
  const before: TransactionSample = known ?? {
    id,
    keyspace: event.keyspace,
    node: event.node,
    record: null,
    steps: [],
    outcome: "running",
    isRecovered: false,
  };
  const steps =
    before.steps.length < STEPS_MAX
      ? [...before.steps, step].sort((a, b) => compareAt(a.at, b.at))
      : before.steps;
  const changed: TransactionSample = {
    ...before,
    record: before.record ?? event.shard,
    steps,
    outcome: outcomeAfter(before.outcome, phase),
    isRecovered: before.isRecovered || phase === "recover",
  };
  const others = samples.transactions.filter((each) => each.id !== id);
  return { ...samples, transactions: [...others, changed].slice(-TRANSACTIONS_MAX) };
}

/** Adds an event, if it is a sample. */
export function addSample(samples: Samples, event: ClusterEvent): Samples {
  if (event.type === "request") return addRequest(samples, event);
  if (event.type === "transaction") return addStep(samples, event);
  return samples;
}

/** What was known at a time. */
export function samplesUntil(samples: Samples, atMs: number): Samples {
  return {
    requests: samples.requests.filter((request) => request.atMs <= atMs),
    transactions: samples.transactions.flatMap((transaction) => {
      const steps = transaction.steps.filter((step) => step.atMs <= atMs);
      if (steps.length === 0) return [];
      if (steps.length === transaction.steps.length) return [transaction];
      const outcome = steps.reduce<TransactionSample["outcome"]>(
        (before, step) => outcomeAfter(before, step.phase),
        "running",
      );
      return [{ ...transaction, steps, outcome }];
    }),
  };
}
