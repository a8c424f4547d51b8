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
export function placeNodes(model: Model, circleRadius = NODE_CIRCLE, largest = NODE_LARGEST): NodePlace[] {
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

export function arcsOf(model: Model, keyspace: string, weight: Weight): ShardArc[] {
  return layout(shardsOf(model, keyspace), weight);
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
  const counts = new Map<string | null, number>();
  const room = nodes.length > 1 ? PHYSICAL_CIRCLE * Math.sin(Math.PI / nodes.length) * 0.9 : PHYSICAL_CIRCLE;
  const perNode = Math.max(
    1,
    ...nodes.map((node) => arcs.filter(({ shard }) => shard.leader === node.id).length),
  );
  // A sunflower of n seeds of radius r has a radius of about 2 r √n.
  const unit = Math.min(22, Math.max(2, Math.min(room, 130) / (2 * Math.sqrt(perNode + 2))));
  return arcs.map((arc) => {
    const home = nodes.find((node) => node.id === arc.shard.leader);
    const number = counts.get(home?.id ?? null) ?? 0;
    counts.set(home?.id ?? null, number + 1);
    const centre = home
      ? nodes.length === 1
        ? { x: 0, y: 0 }
        : pointAt(home.turn, PHYSICAL_CIRCLE)
      : { x: 0, y: 0 };
    const distance = 2 * unit * Math.sqrt(number + 1.2);
    const angle = number * 2.399963;
    return {
      shard: arc.shard.id,
      point: { x: centre.x + distance * Math.cos(angle), y: centre.y + distance * Math.sin(angle) },
      radius: unit * (0.45 + 0.5 * size(arc)),
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

/** The places that a lookup comes by: the asking node, then each step. Steps to what is not drawn are left out. */
export function waypoints(
  route: Route,
  start: string,
  arcs: readonly ShardArc[],
  nodes: readonly NodePlace[],
): Waypoint[] {
  const nodePoint = (id: string) => nodes.find((node) => node.id === id)?.point ?? null;
  const found: Waypoint[] = [];
  const begin = nodePoint(start);
  if (begin) found.push({ point: begin, shard: null, node: start, by: "asked", micros: null });
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
    "full table": "full table: the node knows every shard",
    image: "remembered: this owner was found before",
    bucket: "bucket: computed from the size of the table",
    "any node": "any node: the asked one leads nothing there to begin with",
  };
  return words[by] ?? by;
}
