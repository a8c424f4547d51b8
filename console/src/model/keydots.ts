/** Where the keys of a keyspace are drawn: at their positions, or round the node that keeps them. Pure. */

import type { Keyspace, ShardStatus } from "../api/types";
import { fromHex, compareBytes, printable } from "./bytes";
import { isKnown } from "./model";
import { positionOf, SLOTS, slotOf } from "./position";
import { fraction, pointAt, type Point, type ShardArc } from "./ring";
import type { Targets } from "./swarm";

/** So many keys are drawn one by one; of more, each dot stands for several. */
export const KEYS_DRAWN_MAX = 10_000;

export interface KeyDot {
  name: string;
  bytes: Uint8Array;
  /** A slot of a hashed keyspace, else the position in hexadecimal. */
  position: number | string;
}

export function keyDot(placement: Keyspace["placement"], bytes: Uint8Array): KeyDot {
  const position = placement === "hashed" ? slotOf(bytes) : positionOf(placement, bytes);
  return { name: printable(bytes), bytes, position };
}

/** Which arc owns each key (-1: none), and where on it the key lies, from 0 to 1. */
export interface Located {
  arc: Int32Array;
  part: Float32Array;
}

export function locate(dots: readonly KeyDot[], arcs: readonly ShardArc[]): Located {
  const arc = new Int32Array(dots.length).fill(-1);
  const part = new Float32Array(dots.length);
  const bySlot = slotTable(arcs);
  const starts = arcs.map(({ shard }) => fromHex(shard.arc?.[0] ?? "") ?? new Uint8Array());
  dots.forEach((dot, i) => {
    const found =
      typeof dot.position === "number" ? (bySlot[dot.position] ?? -1) : search(starts, dot.position);
    const owner = arcs[found]?.shard;
    if (!owner) return;
    arc[i] = found;
    part[i] = partOn(owner, dot.position);
  });
  return { arc, part };
}

function slotTable(arcs: readonly ShardArc[]): Int32Array {
  const table = new Int32Array(SLOTS).fill(-1);
  arcs.forEach(({ shard }, i) => {
    if (shard.slots) table.fill(i, shard.slots[0], shard.slots[1] + 1);
  });
  return table;
}

/** The last arc that begins at or before a position. */
function search(starts: readonly Uint8Array[], position: string): number {
  const bytes = fromHex(position) ?? new Uint8Array();
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const start = starts[middle] ?? new Uint8Array();
    if (compareBytes(start, bytes) <= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function partOn(shard: ShardStatus, position: number | string): number {
  if (typeof position === "number") {
    const [first, last] = shard.slots ?? [0, SLOTS - 1];
    return (position - first + 0.5) / (last - first + 1);
  }
  const [start, end] = shard.arc ?? ["", ""];
  let shared = 0;
  if (start !== "" && end !== "") {
    while (shared < start.length && start[shared] === end[shared]) shared += 1;
    shared -= shared % 2;
  }
  if (!position.startsWith(start.slice(0, shared))) return 0.5;
  const [low, high] = [fraction(start.slice(shared)), end === "" ? 1 : fraction(end.slice(shared))];
  const at = fraction(position.slice(shared));
  return high > low ? Math.min(1, Math.max(0, (at - low) / (high - low))) : 0.5;
}

/** Dots that stand for several keys each, spread over the shards as their keys are. */
export function aggregate(arcs: readonly ShardArc[], keys: number, max = KEYS_DRAWN_MAX): AggregatedDots {
  const per = Math.ceil(keys / max);
  const known = arcs.filter(({ shard }) => isKnown(shard));
  const average = known.reduce((sum, { shard }) => sum + shard.keys, 0) / Math.max(1, known.length);
  const names: string[] = [];
  const arc: number[] = [];
  const part: number[] = [];
  arcs.forEach(({ shard }, i) => {
    const dots = Math.round((isKnown(shard) ? shard.keys : average) / per);
    for (let k = 0; k < dots && names.length < max; k++) {
      names.push(`${shard.id}/${k}`);
      arc.push(i);
      part.push((k + 0.5) / dots);
    }
  });
  return { per, names, located: { arc: Int32Array.from(arc), part: Float32Array.from(part) } };
}

export interface AggregatedDots {
  /** Each dot stands for so many keys. */
  per: number;
  names: string[];
  located: Located;
}

/** Dots pile up outside the ring where many share a place: so many columns round the circle. */
const COLUMNS = 900;
/** How high a pile may be, and how far apart its dots are at most. */
const PILE_HEIGHT = 62;
const PILE_STEP = 5;

/** Each key at its position, piled up where they are dense. */
export function logicalTargets(
  names: readonly string[],
  { arc, part }: Located,
  arcs: readonly ShardArc[],
  colors: readonly number[],
  radius: number,
): Targets {
  const count = names.length;
  const turns = new Float32Array(count);
  const columns = new Uint32Array(COLUMNS);
  const place = new Uint32Array(count);
  let highest = 1;
  for (let i = 0; i < count; i++) {
    const owner = arcs[arc[i] ?? -1];
    const turn = owner ? owner.from + (owner.to - owner.from) * (part[i] ?? 0) : 0;
    turns[i] = turn;
    const column = Math.min(COLUMNS - 1, Math.floor(turn * COLUMNS));
    const height = columns[column] ?? 0;
    place[i] = height;
    columns[column] = height + 1;
    highest = Math.max(highest, height + 1);
  }
  const step = Math.min(PILE_STEP, PILE_HEIGHT / highest);
  return fill(names, arc, arcs, colors, (i) => pointAt(turns[i] ?? 0, radius + (place[i] ?? 0) * step));
}

export interface Home extends Point {
  radius: number;
}

/** The angle between neighbours of a sunflower's spiral. */
const GOLDEN = 2.399963;

/** Each key within the bubble of its shard, beside the node that leads it. */
export function physicalTargets(
  names: readonly string[],
  { arc }: Located,
  arcs: readonly ShardArc[],
  homes: readonly Home[],
  colors: readonly number[],
): Targets {
  const totals = new Uint32Array(arcs.length);
  for (const owner of arc) if (owner >= 0) totals[owner] = (totals[owner] ?? 0) + 1;
  const numbers = new Uint32Array(arcs.length);
  return fill(names, arc, arcs, colors, (i) => {
    const owner = arc[i] ?? -1;
    const home = homes[owner];
    if (!home) return { x: 0, y: 0 };
    const number = numbers[owner] ?? 0;
    numbers[owner] = number + 1;
    const distance = home.radius * Math.sqrt((number + 0.5) / Math.max(1, totals[owner] ?? 1));
    const angle = number * GOLDEN;
    return { x: home.x + distance * Math.cos(angle), y: home.y + distance * Math.sin(angle) };
  });
}

function fill(
  names: readonly string[],
  arc: Int32Array,
  arcs: readonly ShardArc[],
  colors: readonly number[],
  at: (i: number) => Point,
): Targets {
  const targets: Targets = {
    names,
    x: new Float32Array(names.length),
    y: new Float32Array(names.length),
    color: new Uint16Array(names.length),
  };
  for (let i = 0; i < names.length; i++) {
    const point = at(i);
    targets.x[i] = point.x;
    targets.y[i] = point.y;
    targets.color[i] = arcs[arc[i] ?? -1] === undefined ? 0 : (colors[arc[i] ?? -1] ?? 0);
  }
  return targets;
}

/** Keys as paths of an SVG picture, one for each colour: dots are lines without length, with round ends. */
export function dotPaths(
  points: { x: Float32Array; y: Float32Array; color: Uint16Array; count: number },
  colors: readonly string[],
): { color: string; d: string }[] {
  const parts = new Map<number, string[]>();
  for (let i = 0; i < points.count; i++) {
    const color = points.color[i] ?? 0;
    const list = parts.get(color) ?? [];
    list.push(`M${(points.x[i] ?? 0).toFixed(1)} ${(points.y[i] ?? 0).toFixed(1)}h0`);
    parts.set(color, list);
  }
  return [...parts].map(([color, list]) => ({ color: colors[color] ?? "#888888", d: list.join("") }));
}
