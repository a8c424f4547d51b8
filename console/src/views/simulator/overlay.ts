/** Where members of a simulated ring are drawn, and by which of them a lookup comes. Pure. */

import type { SimNode } from "../../api/sim";
import type { Route, ShardStatus } from "../../api/types";
import { fraction, pointAt, type Point } from "../../model/ring";
import type { Targets } from "../../model/swarm";

export const MEMBER_CIRCLE = 420;

export interface Member {
  name: string;
  state: SimNode["state"];
  turn: number;
  point: Point;
}

/** Members that are not gone for good, at their positions; without positions in the order of the list. */
export function membersOf(
  nodes: readonly SimNode[],
  starts: ReadonlyMap<string, string> = new Map(),
): Member[] {
  const there = nodes.filter((node) => node.state !== "gone");
  return there.map((node, i) => {
    const start = node.start ?? starts.get(node.id);
    const turn = start === undefined ? i / there.length : fraction(start);
    return { name: node.name, state: node.state, turn, point: pointAt(turn, MEMBER_CIRCLE) };
  });
}

/** Where members begin, by the shards that they lead: a member's shard is its arc. */
export function startsOf(shards: readonly ShardStatus[]): Map<string, string> {
  return new Map(
    shards.flatMap((shard) => (shard.leader && shard.arc ? [[shard.leader, shard.arc[0]]] : [])),
  );
}

/** Colours of members, by state. */
export const MEMBER_COLORS = { up: 0, paused: 1, down: 2, gone: 2 } as const;

export function memberTargets(members: readonly Member[], names: readonly string[]): Targets {
  return {
    names,
    x: Float32Array.from(members, (member) => member.point.x),
    y: Float32Array.from(members, (member) => member.point.y),
    color: Uint16Array.from(members, (member) => MEMBER_COLORS[member.state]),
  };
}

/** A dot's radius, so that a thousand do not touch and a few are seen. */
export function memberRadius(count: number): number {
  return Math.max(2.2, Math.min(13, (0.4 * 2 * Math.PI * MEMBER_CIRCLE) / Math.max(1, count)));
}

/** The places that a lookup comes by; steps to members that are gone are left out. */
export function hopsOf(route: Route, from: string | null, members: readonly Member[]): Point[] {
  const places = new Map(members.map((member) => [member.name, member.point]));
  const names = [...(from === null ? [] : [from]), ...route.steps.map((step) => step.name)];
  return names.flatMap((name) => places.get(name) ?? []);
}
