/** What the ring draws: places of shards, nodes and hops. Pure. */

import type { Route } from "../../api/types";
import { nodeIndex, shardsOf, type Model } from "../../model/model";
import {
  layout,
  middle,
  nodeRadius,
  pointAt,
  type Point,
  type ShardArc,
  type Weight,
} from "../../model/ring";

/** Radii; the picture is 1000 wide, with its origin in the middle. */
export const SIZE = 1000;
export const OUTER = 424;
export const INNER = 384;
/** Followers' bands lie within, each so thick and so far apart. */
export const REPLICA_THICK = 8;
export const REPLICA_STEP = 11;
export const NODE_CIRCLE = 218;
export const PHYSICAL_CIRCLE = 318;
export const NODE_LARGEST = 34;

export interface NodePlace {
  id: string;
  name: string;
  index: number;
  turn: number;
  point: Point;
  radius: number;
  state: string;
}

/** Nodes stand on a circle inside the ring, in the order in which they joined. */
export function placeNodes(
  model: Pick<Model, "nodes">,
  circleRadius = NODE_CIRCLE,
  largest = NODE_LARGEST,
): NodePlace[] {
  const nodes = model.nodes.filter((node) => node.state !== "left");
  const radius = nodeRadius(nodes.length, circleRadius, largest);
  return nodes.map((node, i) => {
    const turn = i / Math.max(1, nodes.length);
    return {
      id: node.id,
      name: node.name,
      index: nodeIndex(model, node.id),
      turn,
      point: nodes.length === 1 ? { x: 0, y: 0 } : pointAt(turn, circleRadius),
      radius,
      state: node.state,
    };
  });
}

export function arcsOf(model: Pick<Model, "shards">, keyspace: string, weight: Weight): ShardArc[] {
  return layout(shardsOf(model, keyspace), weight);
}

/** So many nodes stand on a circle when shards gather round them; more fill a disc. */
const CIRCLE_NODES_MAX = 12;
const DISC = 440;
/** The angle between neighbours of a sunflower's spiral. */
const GOLDEN = 2.399963;

/** Where nodes stand when shards gather round them, and how much room each has. */
export function gather(count: number): { points: Point[]; room: number } {
  if (count <= 1) return { points: [{ x: 0, y: 0 }], room: PHYSICAL_CIRCLE };
  if (count <= CIRCLE_NODES_MAX) {
    const points = Array.from({ length: count }, (_, i) => pointAt(i / count, PHYSICAL_CIRCLE));
    return { points, room: Math.min(130, PHYSICAL_CIRCLE * Math.sin(Math.PI / count) * 0.92) };
  }
  const points = Array.from({ length: count }, (_, i) => {
    const radius = (DISC - 20) * Math.sqrt((i + 0.4) / count);
    return { x: radius * Math.cos(i * GOLDEN), y: radius * Math.sin(i * GOLDEN) };
  });
  return { points, room: (0.86 * DISC) / Math.sqrt(count) };
}

export interface Bubble {
  shard: number;
  point: Point;
  radius: number;
}

/** Shards round the node that leads them, as the seeds of a sunflower; those without a leader in the middle. */
export function bubbles(
  arcs: readonly ShardArc[],
  nodes: readonly NodePlace[],
  size: (arc: ShardArc) => number,
): Bubble[] {
  const { points, room } = gather(nodes.length);
  const homes = new Map(nodes.map((node, i) => [node.id, points[i] ?? { x: 0, y: 0 }]));
  const led = new Map<string, number>();
  for (const { shard } of arcs) led.set(shard.leader ?? "", (led.get(shard.leader ?? "") ?? 0) + 1);
  const most = Math.max(1, ...nodes.map((node) => led.get(node.id) ?? 0));
  // A sunflower of n seeds of radius r has a radius of about 2 r √n.
  const unit = Math.min(22, room / (2 * Math.sqrt(most + 1.2)));
  const counts = new Map<string, number>();
  return arcs.map((arc) => {
    const leader = arc.shard.leader ?? "";
    const number = counts.get(leader) ?? 0;
    counts.set(leader, number + 1);
    const centre = homes.get(leader) ?? { x: 0, y: 0 };
    const distance = 2 * unit * Math.sqrt(number + 1.2);
    const angle = number * GOLDEN;
    return {
      shard: arc.shard.id,
      point: { x: centre.x + distance * Math.cos(angle), y: centre.y + distance * Math.sin(angle) },
      radius: unit * (0.4 + 0.5 * size(arc)),
    };
  });
}

export interface Waypoint {
  point: Point;
  /** The shard or the node that is reached. */
  shard: number | null;
  node: string;
  by: string;
  micros: number | null;
}

/**
 * The places that a lookup comes by: the shard whose table the asked node began with, or that node,
 * then each step. Steps to what is not drawn are left out.
 */
export function waypoints(
  route: Route,
  start: string,
  arcs: readonly ShardArc[],
  nodes: readonly NodePlace[],
): Waypoint[] {
  const nodePoint = (id: string) => nodes.find((node) => node.id === id)?.point ?? null;
  const found: Waypoint[] = [];
  const first = route.begins_at ?? null;
  const firstArc = first === null ? undefined : arcs.find(({ shard }) => shard.id === first);
  const begin = firstArc ? pointAt(middle(firstArc), INNER) : nodePoint(start);
  if (begin) {
    const shard = firstArc ? first : null;
    found.push({ point: begin, shard, node: start, by: shard === null ? "asked" : "begins", micros: null });
  }
  for (const step of route.steps) {
    const arc = step.shard === 0 ? undefined : arcs.find(({ shard }) => shard.id === step.shard);
    const point = arc ? pointAt(middle(arc), INNER) : nodePoint(step.node);
    if (!point) continue;
    found.push({
      point,
      shard: step.shard === 0 ? null : step.shard,
      node: step.node,
      by: step.by,
      micros: step.micros ?? null,
    });
  }
  return found;
}

/** A table entry in words: `finger 61`, `successor 0`, `image` …. */
export function explainBy(by: string): string {
  const match = /^(finger|successor) (\d+)$/.exec(by);
  if (match?.[1] === "finger") return `finger ${match[2]}: a long jump over the ring`;
  if (match?.[1] === "successor") {
    return match[2] === "0"
      ? "successor: the next shard on the ring"
      : `successor ${match[2]}: some shards further`;
  }
  const words: Record<string, string> = {
    asked: "the node that was asked",
    begins: "the node that was asked begins with the table of this shard",
    "full table": "full table: the node knows every shard",
    image: "remembered: this owner was found before",
    bucket: "bucket: computed from the size of the table",
    "any node": "any node: the asked one leads nothing there to begin with",
  };
  return words[by] ?? by;
}
