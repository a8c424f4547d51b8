/** A drain in words and figures. Pure. */

import type { Drain } from "../../api/types";
import { nodeById, type Model } from "../../model/model";

/** Why a replica is still there: of one shard, and of several. */
const WAITS: Readonly<Record<string, readonly [string, string]>> = {
  "no-leader": ["has no leader", "have no leader"],
  silent: ["has a leader that does not answer", "have a leader that does not answer"],
  stuck: ["finds no node to go to", "find no node to go to"],
  waiting: ["goes later", "go later"],
  due: ["goes next", "go next"],
  moving: ["is on its way", "are on their way"],
};

export function waitWords(state: string, shards: number): string {
  const words = WAITS[state];
  return words ? words[shards === 1 ? 0 : 1] : state;
}

/** States in which a shard does not go on by itself. */
const STANDS: readonly string[] = ["no-leader", "silent", "stuck"];

/**
 * How long it takes if it goes on so, in milliseconds; `null`: nobody can say, since nothing has gone
 * lately, or since some of the shards cannot go.
 */
export function remaining(drain: Pick<Drain, "replicas" | "rate" | "waits">): number | null {
  const { rate, replicas, waits } = drain;
  if (!rate || rate.replicas === 0 || rate.over_ms === 0 || replicas === 0) return null;
  if (waits.some((wait) => STANDS.includes(wait.state))) return null;
  return (replicas * rate.over_ms) / rate.replicas;
}

export interface LostTarget {
  shard: number;
  /** The node that is down. */
  name: string;
}

/** New replicas of a draining node's shards that are to be on nodes which are down by now. */
export function lostTargets(draining: string, model: Pick<Model, "nodes" | "shards">): LostTarget[] {
  return model.shards
    .filter((shard) => shard.replicas.some((replica) => replica.node === draining))
    .flatMap((shard) =>
      shard.replicas
        .filter((replica) => replica.role === "learner" || replica.awaits_snapshot)
        .flatMap((replica) => {
          const target = nodeById(model, replica.node);
          return target?.state === "down" && target.id !== draining
            ? [{ shard: shard.id, name: target.name }]
            : [];
        }),
    );
}

/** Whether a reason was given before in the same list. */
export function isRepeated(waits: readonly { why: string }[], index: number): boolean {
  return waits.findIndex((wait) => wait.why === waits[index]?.why) < index;
}

export interface ReasonGroup<T> {
  state: string;
  why: string;
  shards: T[];
}

/** Shards that wait in the same way for the same reason, so that it is said once. */
export function byReason<T extends { state: string; why: string }>(shards: readonly T[]): ReasonGroup<T>[] {
  const groups = new Map<string, ReasonGroup<T>>();
  for (const shard of shards) {
    const { state, why } = shard;
    const name = `${state} ${why}`;
    const group = groups.get(name) ?? { state, why, shards: [] };
    group.shards.push(shard);
    groups.set(name, group);
  }
  return [...groups.values()];
}
