/**
 * Geometry of the ring. A *turn* is a place on the circle: 0 at the top, 0.25 at the right, 1 at the
 * top again. Pure: the same shards give the same picture.
 */

import type { Keyspace, Placement, ShardStatus } from "../api/types";
import { fromHex } from "./bytes";
import { isKnown } from "./model";
import { positionOf, slotOf, SLOTS, owns } from "./position";

export interface Point {
  x: number;
  y: number;
}

/** What the length of an arc says. */
export const WEIGHTS = ["width", "equal", "keys", "bytes"] as const;
export type Weight = (typeof WEIGHTS)[number];

export interface ShardArc {
  shard: ShardStatus;
  from: number;
  to: number;
}

export function pointAt(turn: number, radius: number): Point {
  const angle = turn * 2 * Math.PI;
  return { x: radius * Math.sin(angle), y: -radius * Math.cos(angle) };
}

/** The first 8 bytes of a position as a part of the whole circle. */
export function fraction(hex: string): number {
  const bytes = fromHex(hex) ?? new Uint8Array();
  let part = 0;
  for (let i = Math.min(7, bytes.length) - 1; i >= 0; i--) part = (part + (bytes[i] ?? 0)) / 256;
  return part;
}

/** How much of the circle a shard owns, if that says something: of ordered keyspaces it does not. */
export function widthOf(shard: ShardStatus): number | null {
  if (shard.slots !== null) return (shard.slots[1] - shard.slots[0] + 1) / SLOTS;
  if (shard.arc === null) return 1;
  const [start, end] = shard.arc;
  return (end === "" ? 1 : fraction(end)) - fraction(start);
}

/** Weights that make sense for a placement; the first is the default. */
export function weightsFor(placement: Placement): Weight[] {
  return placement === "ordered" ? ["equal", "keys", "bytes"] : ["width", "equal", "keys", "bytes"];
}

/** No arc is shorter than this part of an equal one, so that each can be seen and hit. */
const SHARE_MIN = 0.25;
/** Where lengths say what shards own, they are let be nearly as they are. */
const WIDTH_SHARE_MIN = 0.02;

/** Arcs of shards, which are in the order of the circle. */
export function layout(shards: readonly ShardStatus[], weight: Weight): ShardArc[] {
  // Of shards that nobody has told of, sizes are taken for average.
  const known = shards.filter(isKnown);
  const average = (of: (shard: ShardStatus) => number) =>
    known.length === 0 ? 1 : known.reduce((sum, shard) => sum + of(shard), 0) / known.length;
  const [keys, bytes] = [average((shard) => shard.keys), average((shard) => shard.bytes)];
  const raw = shards.map((shard) => {
    switch (weight) {
      case "equal":
        return 1;
      case "width":
        return widthOf(shard) ?? 1;
      case "keys":
        return isKnown(shard) ? shard.keys : keys;
      case "bytes":
        return isKnown(shard) ? shard.bytes : bytes;
    }
  });
  const total = raw.reduce((sum, each) => sum + each, 0);
  const equal = 1 / Math.max(1, shards.length);
  const floor = equal * (weight === "width" ? WIDTH_SHARE_MIN : SHARE_MIN);
  const floored = raw.map((each) => Math.max(floor, total > 0 ? each / total : equal));
  const whole = floored.reduce((sum, each) => sum + each, 0);
  let at = 0;
  return shards.map((shard, i) => {
    const from = at;
    at += (floored[i] ?? 0) / whole;
    return { shard, from, to: i === shards.length - 1 ? 1 : at };
  });
}

/** How far into its shard's arc a key lies, from 0 to 1. */
export function partOf(shard: ShardStatus, placement: Placement, key: Uint8Array): number {
  if (placement === "hashed" && shard.slots !== null) {
    const [first, last] = shard.slots;
    return (slotOf(key) - first + 0.5) / (last - first + 1);
  }
  if (shard.arc === null) return 0.5;
  const position = positionOf(placement, key);
  const [start, end] = shard.arc;
  const prefix = commonPrefix(start, end === "" ? start : end);
  const tail = (hex: string) => fraction(hex.slice(prefix));
  if (!position.startsWith(start.slice(0, prefix))) return 0.5;
  const [low, high] = [tail(start), end === "" ? 1 : tail(end)];
  return high > low ? Math.min(1, Math.max(0, (tail(position) - low) / (high - low))) : 0.5;
}

/** So many hexadecimal digits, whole bytes only, do two positions share. */
function commonPrefix(a: string, b: string): number {
  if (a === "" || b === "") return 0;
  let shared = 0;
  while (shared < a.length && shared < b.length && a[shared] === b[shared]) shared += 1;
  return a === b ? 0 : shared - (shared % 2);
}

/** Where a key is drawn, or `null` if no shard that is drawn owns it. */
export function turnOfKey(arcs: readonly ShardArc[], keyspace: Keyspace, key: Uint8Array): number | null {
  const arc = arcs.find(({ shard }) => owns(shard, keyspace.placement, key));
  if (!arc) return null;
  return arc.from + (arc.to - arc.from) * partOf(arc.shard, keyspace.placement, key);
}

export function middle(arc: { from: number; to: number }): number {
  return (arc.from + arc.to) / 2;
}

const fixed = (value: number) => (Math.round(value * 100) / 100).toString();

/** The path of a band from one turn to another, between two radii. A whole circle is two halves. */
export function band(from: number, to: number, inner: number, outer: number): string {
  if (to - from >= 0.9999) {
    return `${circle(outer)} ${circle(inner)}`;
  }
  const [a, b] = [pointAt(from, outer), pointAt(to, outer)];
  const [c, d] = [pointAt(to, inner), pointAt(from, inner)];
  const large = to - from > 0.5 ? 1 : 0;
  return [
    `M${fixed(a.x)} ${fixed(a.y)}`,
    `A${fixed(outer)} ${fixed(outer)} 0 ${large} 1 ${fixed(b.x)} ${fixed(b.y)}`,
    `L${fixed(c.x)} ${fixed(c.y)}`,
    `A${fixed(inner)} ${fixed(inner)} 0 ${large} 0 ${fixed(d.x)} ${fixed(d.y)}Z`,
  ].join("");
}

function circle(radius: number): string {
  const r = fixed(radius);
  return `M0 -${r}A${r} ${r} 0 1 1 0 ${r}A${r} ${r} 0 1 1 0 -${r}Z`;
}

/** A gap between neighbours in turns, for a gap in pixels; never more than a third of an arc. */
export function inset(
  arc: { from: number; to: number },
  gap: number,
  radius: number,
): { from: number; to: number } {
  if (arc.to - arc.from >= 0.9999) return arc;
  const half = Math.min(gap / 2 / (2 * Math.PI * radius), (arc.to - arc.from) / 6);
  return { from: arc.from + half, to: arc.to - half };
}

/** A curve from one place to another that bends towards the middle of the circle. */
export function chord(from: Point, to: Point, bend = 0.55): string {
  const distance = Math.hypot(to.x - from.x, to.y - from.y);
  if (distance < 1) return "";
  const pull = 1 - bend;
  const control = { x: ((from.x + to.x) / 2) * pull, y: ((from.y + to.y) / 2) * pull };
  return `M${fixed(from.x)} ${fixed(from.y)}Q${fixed(control.x)} ${fixed(control.y)} ${fixed(to.x)} ${fixed(to.y)}`;
}

/** A loop outside the circle, for a hop from a shard to itself. */
export function loop(at: number, radius: number, size: number): string {
  const start = pointAt(at - size / radius / 14, radius);
  const end = pointAt(at + size / radius / 14, radius);
  const tip = pointAt(at, radius + size * 1.6);
  return `M${fixed(start.x)} ${fixed(start.y)}Q${fixed(tip.x)} ${fixed(tip.y)} ${fixed(end.x)} ${fixed(end.y)}`;
}

/** A place on the curve of {@link chord}: `part` from 0 to 1. */
export function alongChord(from: Point, to: Point, part: number, bend = 0.55): Point {
  const pull = 1 - bend;
  const control = { x: ((from.x + to.x) / 2) * pull, y: ((from.y + to.y) / 2) * pull };
  const rest = 1 - part;
  return {
    x: rest * rest * from.x + 2 * rest * part * control.x + part * part * to.x,
    y: rest * rest * from.y + 2 * rest * part * control.y + part * part * to.y,
  };
}

/** How large nodes are drawn on an inner circle, so that neighbours do not touch. */
export function nodeRadius(nodes: number, circleRadius: number, largest: number): number {
  if (nodes <= 1) return largest;
  return Math.max(3, Math.min(largest, 0.42 * 2 * circleRadius * Math.sin(Math.PI / nodes)));
}
