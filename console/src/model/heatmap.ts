/**
 * Load of the key space over time: for each moment of the history, how many entries each shard has
 * committed a second, and how the shard's place was. Splits and merges show as edges.
 */

import type { Model } from "./model";
import { shardsOf } from "./model";
import { layout, type Weight } from "./ring";

export interface HeatCell {
  shard: number;
  from: number;
  to: number;
  /** Entries a second; `null`: unknown, as in a shard's first moment or without a replica here. */
  rate: number | null;
}

export interface HeatColumn {
  atMs: number;
  seconds: number;
  cells: HeatCell[];
}

/** At most so many columns: moments are joined. */
export const COLUMNS_MAX = 240;

/** The columns of a keyspace between successive models. */
export function heatColumns(
  history: readonly Model[],
  keyspace: string | null,
  weight: Weight,
): HeatColumn[] {
  const stride = Math.max(1, Math.ceil(history.length / COLUMNS_MAX));
  const moments = history.filter((_, i) => i % stride === 0 || i === history.length - 1);
  const columns: HeatColumn[] = [];
  let before = new Map<number, { committed: number; atMs: number }>();
  let previous: Model | undefined;
  for (const model of moments) {
    if (model.shards === previous?.shards) continue; // nothing new was heard of shards
    const arcs = layout(shardsOf(model, keyspace), weight);
    const now = new Map<number, { committed: number; atMs: number }>();
    const cells = arcs.map(({ shard, from, to }): HeatCell => {
      const old = before.get(shard.id);
      now.set(shard.id, { committed: shard.committed, atMs: model.atMs });
      const seconds = old ? (model.atMs - old.atMs) / 1000 : 0;
      // Without a replica here the log's figures are those that the shard began with.
      const isKnown = shard.here && old !== undefined && seconds > 0 && shard.committed >= old.committed;
      return {
        shard: shard.id,
        from,
        to,
        rate: isKnown ? (shard.committed - old.committed) / seconds : null,
      };
    });
    columns.push({ atMs: model.atMs, seconds: previous ? (model.atMs - previous.atMs) / 1000 : 0, cells });
    before = now;
    previous = model;
  }
  return columns;
}
