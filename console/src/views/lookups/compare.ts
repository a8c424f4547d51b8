/** Lookups compared: the same keys, looked up by each, in figures. */

import type { LookupName, Route } from "../../api/types";
import { LOOKUPS } from "../../api/types";

export interface Summary {
  lookup: LookupName;
  /** Routes that found an owner. */
  found: number;
  failed: number;
  /** Why the last one failed. */
  failure: string | null;
  hopsMean: number;
  hopsMax: number;
  messagesMean: number;
  microsMedian: number;
  /** How many routes had so many hops: the index is the number of hops. */
  histogram: number[];
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return 0;
  return sorted.length % 2 === 1 ? (sorted[half] ?? 0) : ((sorted[half - 1] ?? 0) + (sorted[half] ?? 0)) / 2;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function summarise(routes: readonly Route[]): Summary[] {
  return LOOKUPS.flatMap((lookup) => {
    const own = routes.filter((route) => route.lookup === lookup);
    if (own.length === 0) return [];
    const found = own.filter((route) => route.failure === undefined && route.shard !== null);
    const hops = found.map((route) => route.hops);
    const histogram = Array.from(
      { length: Math.max(0, ...hops) + 1 },
      (_, n) => hops.filter((h) => h === n).length,
    );
    return [
      {
        lookup,
        found: found.length,
        failed: own.length - found.length,
        failure: own.findLast((route) => route.failure !== undefined)?.failure ?? null,
        hopsMean: mean(hops),
        hopsMax: Math.max(0, ...hops),
        messagesMean: mean(found.flatMap((route) => (route.messages === null ? [] : [route.messages]))),
        microsMedian: median(found.map((route) => route.micros)),
        histogram: found.length === 0 ? [] : histogram,
      },
    ];
  });
}

/** So many keys are tried at most: each costs up to five lookups on the live cluster. */
export const KEYS_MAX = 100;

/** Keys to try: named ones first, then generated ones. */
export function keysToTry(prefix: string, count: number): string[] {
  return Array.from({ length: Math.min(KEYS_MAX, Math.max(1, count)) }, (_, i) => `${prefix}${i + 1}`);
}

/**
 * How well the routes of a key show that one lookup is shorter than another: 2 if both begin at the same shard and
 * the second is shorter, 1 if it is no longer, 0 if they cannot be compared.
 */
export function lesson(routes: readonly Route[], longer: LookupName, shorter: LookupName): 0 | 1 | 2 {
  const [a, b] = [longer, shorter].map((name) => routes.find((route) => route.lookup === name));
  if (!a || !b || a.failure !== undefined || b.failure !== undefined) return 0;
  if ((a.begins_at ?? null) !== (b.begins_at ?? null) || b.hops > a.hops) return 0;
  return b.hops < a.hops ? 2 : 1;
}

/** Whether the lookups of one key began at different shards: then their hops differ by that, too. */
export function isUneven(routes: readonly Route[]): boolean {
  const begins = routes
    .filter((route) => route.failure === undefined)
    .map((route) => route.begins_at ?? null);
  return new Set(begins.filter((shard) => shard !== null)).size > 1;
}
