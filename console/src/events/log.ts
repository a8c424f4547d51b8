/** The newest events, in the order of their hybrid times, with a bound; and filters over them. */

import { groupOf, GAP, type ClusterEvent, type Group, type Severity } from "./types";

/** Older events are dropped. */
export const LOG_EVENTS_MAX = 5000;

/** Hybrid times are digits without leading zeros: the longer is the later. */
export function compareAt(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
}

/** Joins new events to a log that is sorted already. */
export function appendEvents(
  log: readonly ClusterEvent[],
  events: readonly ClusterEvent[],
  max = LOG_EVENTS_MAX,
): ClusterEvent[] {
  const last = log.at(-1);
  // A stream that begins anew may repeat what came before.
  const isNew = last === undefined || events.every((event) => compareAt(event.at, last.at) > 0);
  const known = new Set(isNew ? [] : log.map((event) => event.cursor));
  const fresh = isNew ? events : events.filter((event) => event.cursor === "" || !known.has(event.cursor));
  const joined = [...log, ...fresh];
  const isSorted = fresh.every((event, i) => {
    const before = i === 0 ? last : fresh[i - 1];
    return before === undefined || compareAt(before.at, event.at) <= 0;
  });
  if (!isSorted) joined.sort((a, b) => compareAt(a.at, b.at));
  return joined.slice(-max);
}

export interface EventFilter {
  /** Groups that are not shown. */
  hidden: ReadonlySet<Group>;
  severity: Severity;
  /** Words that all have to occur, in any case. */
  text: string;
  shard: number | null;
}

export const NO_FILTER: EventFilter = { hidden: new Set(), severity: "debug", text: "", shard: null };
const RANK: Record<Severity, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** `said`: what is shown of the event besides, so that what one reads can be found. */
export function matches(event: ClusterEvent, filter: EventFilter, said = event.text): boolean {
  if (event.type === GAP && !filter.hidden.has("stream")) return true;
  if (filter.hidden.has(groupOf(event.type))) return false;
  if (RANK[event.severity] < RANK[filter.severity]) return false;
  if (filter.shard !== null && event.shard !== filter.shard) return false;
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const heap = `${event.type} ${event.node} ${event.keyspace ?? ""} ${said}`.toLowerCase();
  return words.every((word) => heap.includes(word));
}
