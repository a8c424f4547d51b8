/** How much shards and nodes have to do, as nodes measure it. Pure. */

import type { NodeStatus, ShardStatus } from "../api/types";
import { shortCount } from "./format";
import type { Model } from "./model";

export interface Load {
  reads: number;
  writes: number;
  requests: number;
  /** Written. */
  bytes: number;
}

/** A second; `null`: nobody has told. */
export function loadOf(shard: ShardStatus): Load | null {
  const load = shard.load ?? null;
  if (load === null) return null;
  const [reads, writes] = [load.reads_per_second, load.writes_per_second];
  return { reads, writes, requests: reads + writes, bytes: load.written_bytes_per_second };
}

export interface Hottest {
  shard: ShardStatus;
  load: Load;
  /** Its part of the requests to all shards, from 0 to 1. */
  share: number;
}

/** The shard with the most requests; `null`: none has any, or nobody has told. */
export function hottest(shards: readonly ShardStatus[]): Hottest | null {
  let best: { shard: ShardStatus; load: Load } | null = null;
  let total = 0;
  for (const shard of shards) {
    const load = loadOf(shard);
    if (load === null) continue;
    total += load.requests;
    if (load.requests > (best?.load.requests ?? 0)) best = { shard, load };
  }
  return best && { ...best, share: best.load.requests / total };
}

/** Whether nodes say how often they are asked: a file of events does not, and nobody measures it in a simulation. */
export function hasRates(model: Pick<Model, "isFromEvents" | "status">): boolean {
  return !model.isFromEvents && !(model.status?.surfaces ?? []).includes("sim");
}

/** What a node serves a second, or that nobody says. */
export function rateOf(model: Pick<Model, "isFromEvents" | "status">, node: NodeStatus): string {
  return hasRates(model) ? shortCount(node.requests_per_second) : "–";
}
