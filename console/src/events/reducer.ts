/**
 * Applies an event to the model. Events are early and partial: they move leaders, replicas, arcs
 * and states at once, and the next answer of the API settles what they leave open. An event that
 * says nothing new, or that the model does not know the objects of, changes nothing.
 */

import type { AdminState, NodeState, ReplicaStatus, ShardStatus } from "../api/types";
import { fromText, toHex } from "../model/bytes";
import type { Model } from "../model/model";
import type { ClusterEvent } from "./types";

const NODE_STATES: readonly string[] = ["up", "suspected", "down", "left"];
const ADMIN_STATES: readonly string[] = ["member", "cordoned", "draining", "removed"];

function changeShard(model: Model, id: number | null, change: (shard: ShardStatus) => ShardStatus): Model {
  const index = model.shards.findIndex((shard) => shard.id === id);
  const shard = model.shards[index];
  if (!shard) return model;
  const changed = change(shard);
  return changed === shard ? model : { ...model, shards: model.shards.with(index, changed) };
}

function text(fields: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = fields[name];
  return typeof value === "string" ? value : null;
}

function number(fields: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = fields[name];
  return typeof value === "number" ? value : null;
}

/** A list of replicas in an event: `[{replica, node}]`. */
function places(value: unknown): { replica: number; node: string }[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((each: unknown) => {
    const { replica, node } = (each ?? {}) as Record<string, unknown>;
    return typeof replica === "number" && typeof node === "string" ? [{ replica, node }] : [];
  });
}

function elect(model: Model, event: ClusterEvent): Model {
  const leader = event.node;
  const term = number(event.fields, "term") ?? 0;
  return changeShard(model, event.shard, (shard) => {
    if (term < shard.term) return shard; // late
    return {
      ...shard,
      leader,
      term,
      without_leader_ms: 0,
      replicas: shard.replicas.map((replica) => ({ ...replica, leader: replica.node === leader })),
    };
  });
}

function changeReplicas(model: Model, event: ClusterEvent): Model {
  const added = places(event.fields["added"]);
  const removed = new Set(places(event.fields["removed"]).map(({ replica }) => replica));
  return changeShard(model, event.shard, (shard) => {
    const stay = shard.replicas.filter(({ replica }) => !removed.has(replica));
    const known = new Set(stay.map(({ replica }) => replica));
    const come = added
      .filter(({ replica }) => !known.has(replica))
      .map(({ replica, node }): ReplicaStatus => {
        const found = model.nodes.find((each) => each.id === node);
        return {
          replica,
          node,
          name: found?.name ?? null,
          role: "voter",
          live: found?.state === "up",
          leader: false,
          behind: null,
          contact_ms: null,
          awaits_snapshot: false,
          snapshot: null,
        };
      });
    return { ...shard, replicas: [...stay, ...come].sort((a, b) => a.replica - b.replica) };
  });
}

type Ends = Pick<ShardStatus, "slots" | "arc">;

/** The ends of both halves of a shard that is cut at a slot, a key, or a position in hexadecimal. */
function cut(model: Model, shard: ShardStatus, at: number | string): [Ends, Ends] | null {
  if (shard.slots !== null) {
    const [first, last] = shard.slots;
    const slot = Number(at);
    if (!(slot > first && slot <= last)) return null;
    return [
      { slots: [first, slot - 1], arc: null },
      { slots: [slot, last], arc: null },
    ];
  }
  if (shard.arc === null) return null;
  const placement = model.keyspaces.find((each) => each.name === shard.keyspace)?.placement;
  const position = placement === "ordered" ? toHex(fromText(String(at))) : String(at);
  return [
    { slots: null, arc: [shard.arc[0], position] },
    { slots: null, arc: [position, shard.arc[1]] },
  ];
}

/** A decision says where a shard will be cut; the split itself does not. */
function decide(model: Model, event: ClusterEvent): Model {
  const [right, at] = [number(event.fields, "right"), event.fields["cut"]];
  if (event.fields["decision"] !== "split" || right === null) return model;
  if (typeof at !== "number" && typeof at !== "string") return model;
  return { ...model, cuts: { ...model.cuts, [right]: at } };
}

/** Where a shard is cut, as an event says it: a slot, or a key, whose bytes may be no text. */
function placeOf(value: unknown): number | string | undefined {
  return typeof value === "number" || typeof value === "string" ? value : undefined;
}

function split(model: Model, event: ClusterEvent): Model {
  const right = number(event.fields, "right");
  if (right === null || model.shards.some((shard) => shard.id === right)) return model;
  const shard = model.shards.find((each) => each.id === event.shard);
  const at = placeOf(event.fields["cut"]) ?? model.cuts[right];
  const halves = shard && at !== undefined ? cut(model, shard, at) : null;
  if (!shard || !halves) return model;
  const generation = shard.generation + 1;
  const half = { keys: Math.round(shard.keys / 2), bytes: Math.round(shard.bytes / 2), generation };
  const shards = model.shards.map((each) => (each === shard ? { ...each, ...half, ...halves[0] } : each));
  const born = {
    ...shard,
    ...half,
    ...halves[1],
    id: right,
    term: 0,
    committed: 0,
    applied: 0,
    lease_ms: null,
  };
  const cuts = Object.fromEntries(Object.entries(model.cuts).filter(([id]) => Number(id) !== right));
  return { ...model, shards: [...shards, born].sort((a, b) => a.id - b.id), cuts };
}

function merge(model: Model, event: ClusterEvent): Model {
  const rightId = number(event.fields, "right");
  const right = model.shards.find((shard) => shard.id === rightId);
  if (!right) return model;
  const without = { ...model, shards: model.shards.filter((shard) => shard !== right) };
  return changeShard(without, event.shard, (left) => ({
    ...left,
    slots: left.slots && right.slots && [left.slots[0], right.slots[1]],
    arc: left.arc && right.arc && [left.arc[0], right.arc[1]],
    keys: left.keys + right.keys,
    bytes: left.bytes + right.bytes,
    generation: Math.max(left.generation, right.generation) + 1,
  }));
}

function changeMember(model: Model, event: ClusterEvent): Model {
  const id = text(event.fields, "member");
  const told = text(event.fields, "state");
  const state = told === "gone" ? "left" : told;
  const index = model.nodes.findIndex((node) => node.id === id);
  const node = model.nodes[index];
  if (!node || state === null || !NODE_STATES.includes(state) || node.state === state) return model;
  const changed = { ...node, state: state as NodeState, since_at_ms: event.atMs };
  const live = state === "up" || state === "suspected";
  return {
    ...model,
    nodes: model.nodes.with(index, changed),
    shards: model.shards.map((shard) => setLive(shard, node.id, live)),
  };
}

function setLive(shard: ShardStatus, node: string, live: boolean): ShardStatus {
  if (!shard.replicas.some((replica) => replica.node === node && replica.live !== live)) return shard;
  const replicas = shard.replicas.map((replica) => (replica.node === node ? { ...replica, live } : replica));
  const replicas_live = replicas.filter((replica) => replica.live && replica.role !== "learner").length;
  return { ...shard, replicas, replicas_live };
}

function changeAdminState(model: Model, event: ClusterEvent): Model {
  const id = text(event.fields, "member");
  const told = text(event.fields, "now");
  const now = told === "active" ? "member" : told;
  const index = model.nodes.findIndex((node) => node.id === id);
  const node = model.nodes[index];
  if (!node || now === null || !ADMIN_STATES.includes(now) || node.standing === now) return model;
  return { ...model, nodes: model.nodes.with(index, { ...node, standing: now as AdminState }) };
}

function changeLink(model: Model, event: ClusterEvent): Model {
  // Only the links of the node that answers are in the model.
  if (event.node !== model.status?.node_id) return model;
  const index = model.nodes.findIndex((node) => node.id === event.fields["peer"]);
  const node = model.nodes[index];
  const linked = event.fields["state"] === "up";
  if (!node || node.linked === linked) return model;
  return { ...model, nodes: model.nodes.with(index, { ...node, linked }) };
}

/** What each type does; other types change nothing. */
const CHANGES: Readonly<Record<string, (model: Model, event: ClusterEvent) => Model>> = {
  "leader-elected": elect,
  "replicas-changed": changeReplicas,
  decision: decide,
  split,
  merged: merge,
  member: changeMember,
  "admin-state": changeAdminState,
  link: changeLink,
};

/** Types after which the shard table is asked for at once, since they say less than it does. */
export const RESHAPES: ReadonlySet<string> = new Set([
  "split",
  "merged",
  "replicas-changed",
  "leader-elected",
  "replica-ended",
  "snapshot-sent",
]);

/** Applies one event. */
export function applyEvent(model: Model, event: ClusterEvent): Model {
  const changed = CHANGES[event.type]?.(model, event) ?? model;
  return changed === model ? model : { ...changed, atMs: Math.max(model.atMs, event.atMs) };
}
