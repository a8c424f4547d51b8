/** Filtering and sorting of shards. */

import type { ShardStatus } from "../../api/types";
import { loadOf } from "../../model/load";
import { arcStart, isKnown, isMoving, nodeName, type Model } from "../../model/model";
import { fromHex, printable } from "../../model/bytes";
import { bytes, count } from "../../model/format";

export const COLUMNS = [
  "id",
  "keyspace",
  "place",
  "requests",
  "reads",
  "writes",
  "keys",
  "bytes",
  "leader",
  "generation",
  "lag",
] as const;
export type Column = (typeof COLUMNS)[number];
export const SHOWS = ["all", "troubled", "moving"] as const;
export type Show = (typeof SHOWS)[number];

/** What a shard owns, in words. */
export function placeOf(shard: ShardStatus): string {
  if (shard.keyspace === null) return "catalogue";
  if (shard.slots) return `slots ${shard.slots[0]}–${shard.slots[1]}`;
  if (!shard.arc)
    return shard.replicas_wanted === 0 && !shard.here ? "what it owns is not recorded" : "everything";
  const [from, to] = shard.arc.map((end) => printable(fromHex(end) ?? new Uint8Array()));
  const [start, end] = shard.arc;
  // Ends of linear-hash arcs are numbers of 8 bytes: their digits say more than their bytes.
  const show = (hex: string, text: string | undefined) =>
    /\\x/.test(text ?? "") ? hex.replace(/0+$/, "") || "0" : text;
  if (start === "" && end === "") return "everything";
  if (start === "") return `up to ${show(end, to)}`;
  if (end === "") return `from ${show(start, from)}`;
  return `${show(start, from)} – ${show(end, to)}`;
}

/** A shard in words: what it owns, who leads it, how large it is. */
export function describeShard(model: Model, shard: ShardStatus): string {
  const none = model.isFromEvents ? "leader not recorded so far" : "no leader";
  const leader = shard.leader === null ? none : `led by ${nodeName(model, shard.leader)}`;
  const known = isKnown(shard) ? `${count(shard.keys)} keys, ${bytes(shard.bytes)}` : "no replica here";
  const size = model.isFromEvents ? "sizes not recorded" : known;
  return `Shard ${shard.id}, ${placeOf(shard)}, ${leader}, ${size}`;
}

/** Entries that its most lagging replica lacks, as far as this node knows. */
export function lagOf(shard: ShardStatus): number | null {
  const known = shard.replicas.map((replica) => replica.behind).filter((behind) => behind !== null);
  return known.length === 0 ? null : Math.max(...known);
}

export function isTroubled(shard: ShardStatus): boolean {
  return (
    shard.verdict !== "ok" ||
    shard.leader === null ||
    shard.quarantined.length > 0 ||
    shard.lagging.length > 0
  );
}

/** What is wrong with a shard, in a few words. */
export function troubleOf(shard: ShardStatus): string {
  const parts = [
    ...(shard.leader === null ? ["no leader"] : []),
    ...(shard.replicas_live < shard.replicas_wanted
      ? [`${shard.replicas_live} of ${shard.replicas_wanted} replicas`]
      : []),
    ...(shard.quarantined.length > 0 ? ["quarantined"] : []),
    ...(shard.lagging.length > 0 ? ["a replica lags"] : []),
  ];
  return `shard ${shard.id} (${parts.join(", ") || shard.verdict})`;
}

/** `merge_bytes` unless the settings say otherwise; no request tells what they say. */
export const MERGE_BYTES = 16 * 1024 * 1024;

/** A sentence for who splits a shard that is so small that its halves become one again by themselves. */
export function mergesAgain(
  shard: Pick<ShardStatus, "bytes" | "here" | "told_by">,
  isUnknown = false,
): string {
  if (isUnknown || !(shard.here || (shard.told_by ?? null) !== null) || shard.bytes >= MERGE_BYTES) return "";
  return " It is small: two neighbours that hold less than merge_bytes together (16 MiB unless it was set otherwise) become one again by themselves after some ten seconds. To keep the halves apart, set merge_bytes to off or lower.";
}

export interface ShardFilter {
  /** `*`: all keyspaces; empty: the catalogue. */
  keyspace: string;
  show: Show;
  node: string;
}

export function filterShards(shards: readonly ShardStatus[], filter: ShardFilter): ShardStatus[] {
  return shards.filter((shard) => {
    if (filter.keyspace !== "*" && (shard.keyspace ?? "") !== filter.keyspace) return false;
    if (filter.node !== "" && !shard.replicas.some((replica) => replica.node === filter.node)) return false;
    if (filter.show === "troubled") return isTroubled(shard);
    if (filter.show === "moving") return isMoving(shard);
    return true;
  });
}

function compare(a: string | number | null, b: string | number | null): number {
  if (a === b) return 0;
  if (a === null) return -1;
  if (b === null) return 1;
  return a < b ? -1 : 1;
}

export function sortShards(
  shards: readonly ShardStatus[],
  column: Column,
  isDescending: boolean,
  leaderName: (id: string | null) => string,
): ShardStatus[] {
  const value: Record<Column, (shard: ShardStatus) => string | number | null> = {
    id: (shard) => shard.id,
    keyspace: (shard) => shard.keyspace,
    place: (shard) => `${shard.keyspace ?? ""}\0${arcStart(shard)}`,
    requests: (shard) => loadOf(shard)?.requests ?? null,
    reads: (shard) => loadOf(shard)?.reads ?? null,
    writes: (shard) => loadOf(shard)?.writes ?? null,
    keys: (shard) => (isKnown(shard) ? shard.keys : null),
    bytes: (shard) => (isKnown(shard) ? shard.bytes : null),
    leader: (shard) => leaderName(shard.leader),
    generation: (shard) => shard.generation,
    lag: lagOf,
  };
  const of = value[column];
  const sign = isDescending ? -1 : 1;
  return [...shards].sort((a, b) => sign * compare(of(a), of(b)) || a.id - b.id);
}
