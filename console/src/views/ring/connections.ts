/** What a node is connected with: replicas that it holds, entries of its tables, links to other nodes. Pure. */

import { bytes } from "../../model/format";
import { fraction, type ShardArc } from "../../model/ring";
import { SLOTS } from "../../model/position";
import type { LinkTraffic } from "../../model/timeline";

export const LINK_LAYERS = ["links", "fingers", "successors", "peers"] as const;
export type LinkLayer = (typeof LINK_LAYERS)[number];

/** Successors that each shard's table has. */
export const SUCCESSORS = 4;

export interface Connection {
  layer: LinkLayer;
  /** Numbers of arcs, or ids of nodes. */
  from: { arc: number } | { node: string };
  to: { arc: number } | { node: string };
  /** Heavier ones are drawn thicker, from 0 to 1. */
  weight: number;
  text: string;
}

/** Where an arc begins, as a part of the keyspace's circle. */
function startOf({ shard }: ShardArc): number {
  if (shard.slots) return shard.slots[0] / SLOTS;
  return fraction(shard.arc?.[0] ?? "");
}

/** The number of the arc that owns a place of the circle. */
function ownerAt(starts: readonly number[], place: number): number {
  const at = ((place % 1) + 1) % 1;
  let found = starts.length - 1;
  for (let i = 0; i < starts.length && (starts[i] ?? 0) <= at; i++) found = i;
  return found;
}

/**
 * The fingers that the table of a shard ends up with, each once and without its successors: of Chord,
 * half the circle ahead, a quarter, an eighth, …; where lengths say nothing, of Chord#: half of the
 * shards ahead, a quarter, ….
 */
export function fingersOf(arcs: readonly ShardArc[], index: number, isByPlace: boolean): number[] {
  const found = new Set<number>();
  const starts = isByPlace ? arcs.map(startOf) : [];
  const near = new Set(successorsOf(arcs.length, index).concat(index));
  if (isByPlace) {
    for (let part = 0.5; part > 1 / 4 / Math.max(1, arcs.length); part /= 2) {
      found.add(ownerAt(starts, (starts[index] ?? 0) + part));
    }
  } else {
    for (let ahead = 1; ahead < arcs.length; ahead *= 2) found.add((index + ahead) % arcs.length);
  }
  return [...found].filter((each) => !near.has(each));
}

export function successorsOf(count: number, index: number): number[] {
  const some = Math.min(SUCCESSORS, count - 1);
  return Array.from({ length: Math.max(0, some) }, (_, i) => (index + i + 1) % count);
}

function trafficOf(peer: LinkTraffic): number {
  return peer.inBytes + peer.outBytes;
}

/** Of a node that leads more shards than this, the tables of the first ones are drawn. */
export const TABLES_MAX = 8;

export function connectionsOf(
  node: string,
  arcs: readonly ShardArc[],
  hidden: ReadonlySet<string>,
  peers: readonly LinkTraffic[],
  isByPlace: boolean,
): Connection[] {
  const found: Connection[] = [];
  const led = arcs.flatMap(({ shard }, i) => (shard.leader === node ? [i] : []));
  if (!hidden.has("links")) {
    arcs.forEach(({ shard }, i) => {
      const replica = shard.replicas.find((each) => each.node === node);
      if (!replica) return;
      const text = replica.leader ? `leads shard ${shard.id}` : `a replica of shard ${shard.id}`;
      found.push({ layer: "links", from: { node }, to: { arc: i }, weight: replica.leader ? 1 : 0, text });
    });
  }
  for (const index of led.slice(0, TABLES_MAX)) {
    const shard = (i: number) => arcs[i]?.shard.id ?? 0;
    if (!hidden.has("successors")) {
      successorsOf(arcs.length, index).forEach((to, k) =>
        found.push({
          layer: "successors",
          from: { arc: index },
          to: { arc: to },
          weight: k === 0 ? 1 : 0,
          text: `shard ${shard(index)}: successor ${k} is shard ${shard(to)}`,
        }),
      );
    }
    if (!hidden.has("fingers")) {
      for (const to of fingersOf(arcs, index, isByPlace)) {
        const text = `shard ${shard(index)}: a finger points to shard ${shard(to)}`;
        found.push({ layer: "fingers", from: { arc: index }, to: { arc: to }, weight: 0.5, text });
      }
    }
  }
  if (!hidden.has("peers")) {
    const most = Math.max(1, ...peers.map(trafficOf));
    // Both ends may tell of a link: one line is enough.
    const drawn = new Set<string>();
    for (const peer of peers) {
      if (!peer.isConnected || (node !== peer.from && node !== peer.id)) continue;
      const other = node === peer.from ? peer.id : peer.from;
      if (drawn.has(other)) continue;
      drawn.add(other);
      const weight = Math.sqrt(trafficOf(peer) / most);
      const text = `link, ${bytes(trafficOf(peer))}/s`;
      found.push({ layer: "peers", from: { node: peer.from }, to: { node: peer.id }, weight, text });
    }
  }
  return found;
}
