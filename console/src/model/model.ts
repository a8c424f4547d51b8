/**
 * What the console knows of the cluster at one moment, and how it changes: by answers of the API,
 * which are whole, and by events, which come first. Pure: every change makes a new model, so that
 * an old one can be kept and looked at again.
 */

import type {
  Decisions,
  Health,
  Keyspace,
  NodeStatus,
  Nodes,
  ShardStatus,
  Shards,
  SilentNode,
  Status,
} from "../api/types";
import { equals, reuse } from "./reuse";

export interface Model {
  /** When it last changed, by the clock of the browser. */
  atMs: number;
  status: Status | null;
  nodes: readonly NodeStatus[];
  removed: readonly string[];
  nodesHealth: Health | null;
  shards: readonly ShardStatus[];
  shardsHealth: Health | null;
  /** Whether `shards` has all shards there are. */
  hasAllShards: boolean;
  /** Leaders that did not tell of their shards. */
  silent: readonly SilentNode[];
  keyspaces: readonly Keyspace[];
  decisions: Decisions | null;
  /** Whether it was made from recorded events alone: they tell neither sizes nor replicas, loads or health. */
  isFromEvents: boolean;
  /** Where shards are to be cut, by the number of the right half, as decisions have said. */
  cuts: Readonly<Record<number, number | string>>;
}

export const EMPTY: Model = {
  atMs: 0,
  status: null,
  nodes: [],
  removed: [],
  nodesHealth: null,
  shards: [],
  shardsHealth: null,
  hasAllShards: true,
  silent: [],
  keyspaces: [],
  decisions: null,
  isFromEvents: false,
  cuts: {},
};

export type Answer =
  | { kind: "status"; value: Status }
  | { kind: "nodes"; value: Nodes }
  | { kind: "shards"; value: Shards & { isWhole: boolean } }
  | { kind: "keyspaces"; value: Keyspace[] }
  | { kind: "decisions"; value: Decisions };

/** Takes over an answer of the API. */
export function applyAnswer(model: Model, answer: Answer, atMs: number): Model {
  switch (answer.kind) {
    case "status":
      return { ...model, atMs, status: answer.value };
    case "nodes": {
      const { nodes, removed, health } = answer.value;
      return { ...model, atMs, nodes: reuse(model.nodes, nodes), removed, nodesHealth: health };
    }
    case "shards": {
      const { shards, health, isWhole, silent } = answer.value;
      const known = new Set(shards.map((shard) => shard.id));
      const cuts = Object.fromEntries(
        Object.entries(model.cuts).filter(([right]) => !known.has(Number(right))),
      );
      return {
        ...model,
        atMs,
        shards: reuse(model.shards, shards),
        shardsHealth: health,
        hasAllShards: isWhole,
        silent: reuse(model.silent, silent ?? []),
        cuts: equals(model.cuts, cuts) ? model.cuts : cuts,
      };
    }
    case "keyspaces":
      return { ...model, atMs, keyspaces: reuse(model.keyspaces, answer.value) };
    case "decisions":
      return {
        ...model,
        atMs,
        decisions: equals(model.decisions, answer.value) ? model.decisions : answer.value,
      };
  }
}

const WORSE = { ok: 0, degraded: 1, failing: 2 } as const;

/** The worst of the verdicts, with all reasons once. */
export function worst(healths: readonly (Health | null)[]): Health {
  const known = healths.filter((health): health is Health => health !== null);
  const sorted = [...known].sort((a, b) => WORSE[b.verdict] - WORSE[a.verdict]);
  return {
    verdict: sorted[0]?.verdict ?? "ok",
    reasons: [...new Set(sorted.flatMap((health) => health.reasons))],
  };
}

/** How things are, as the node that answers sees them. */
export function healthOf(model: Model): Health {
  return worst([model.shardsHealth, model.nodesHealth, model.status?.health ?? null]);
}

/** Whether what the health is judged by has been asked for. */
export function isHealthKnown(model: Model): boolean {
  return model.nodesHealth !== null && model.shardsHealth !== null && model.status !== null;
}

/** Without the first states, of which not everything was known yet; all if no state is whole. */
export function wholeModels(models: readonly Model[]): readonly Model[] {
  const first = models.findIndex(isHealthKnown);
  return first > 0 ? models.slice(first) : models;
}

export function nodeById(model: Pick<Model, "nodes">, id: string): NodeStatus | null {
  return model.nodes.find((node) => node.id === id) ?? null;
}

/** A node's name, or its id where no name is known. */
export function nodeName(model: Model, id: string | null): string {
  if (id === null) return "nobody";
  return nodeById(model, id)?.name ?? id;
}

/** Numbers of nodes, by their ids: a node keeps its colour though others go. */
const numbers = new Map<string, number>();
/** Numbers of nodes that went are forgotten beyond so many. */
const NUMBERS_MAX = 2000;

/** Nodes get colours by the order in which they joined; one that comes later gets the lowest that is free. */
export function nodeIndex(model: Pick<Model, "nodes">, id: string | null): number {
  if (id === null) return -1;
  const known = numbers.get(id);
  if (known !== undefined) return known;
  if (!model.nodes.some((node) => node.id === id)) return -1;
  const there = new Set(model.nodes.map((node) => node.id));
  if (numbers.size > NUMBERS_MAX) {
    for (const each of numbers.keys()) if (!there.has(each)) numbers.delete(each);
  }
  const taken = new Set([...there].map((each) => numbers.get(each)));
  let next = 0;
  for (const each of there) {
    if (numbers.has(each)) continue;
    while (taken.has(next)) next += 1;
    taken.add(next);
    numbers.set(each, next);
  }
  return numbers.get(id) ?? -1;
}

export function keyspaceByName(model: Model, name: string): Keyspace | null {
  return model.keyspaces.find((keyspace) => keyspace.name === name) ?? null;
}

/** The start of a shard's arc as text that sorts like the circle. */
export function arcStart(shard: ShardStatus): string {
  if (shard.slots !== null) return shard.slots[0].toString(16).padStart(4, "0");
  return shard.arc?.[0] ?? "";
}

/** Whether the answer has a shard's sizes: of a replica on the asked node, or as another node told. */
export function isKnown(shard: ShardStatus): boolean {
  return shard.here || (shard.told_by ?? null) !== null;
}

/** A keyspace's shards in the order of its circle; `null` names the catalogue. */
export function shardsOf(model: Pick<Model, "shards">, keyspace: string | null): ShardStatus[] {
  return model.shards
    .filter((shard) => shard.keyspace === keyspace)
    .sort((a, b) => (arcStart(a) < arcStart(b) ? -1 : arcStart(a) > arcStart(b) ? 1 : a.id - b.id));
}

export interface Totals {
  nodesUp: number;
  nodesTroubled: number;
  shards: number;
  shardsTroubled: number;
  shardsMoving: number;
  replicas: number;
  dataBytes: number;
  requestsPerSecond: number;
  keys: number;
}

/** The cluster in figures. */
export function totals(model: Model): Totals {
  const sum = (of: (node: NodeStatus) => number) => model.nodes.reduce((total, node) => total + of(node), 0);
  return {
    nodesUp: model.nodes.filter((node) => node.state === "up").length,
    nodesTroubled: model.nodes.filter((node) => node.state === "down" || node.state === "suspected").length,
    shards: model.shards.length,
    shardsTroubled: model.shards.filter((shard) => shard.verdict !== "ok").length,
    shardsMoving: model.shards.filter(isMoving).length,
    replicas: model.shards.reduce((total, shard) => total + shard.replicas.length, 0),
    dataBytes: sum((node) => node.data_bytes),
    requestsPerSecond: sum((node) => node.requests_per_second),
    keys: model.keyspaces.reduce((total, keyspace) => total + keyspace.keys, 0),
  };
}

/** Whether replicas of a shard come or go. */
export function isMoving(shard: ShardStatus): boolean {
  return (
    shard.changing ||
    shard.replicas.some((replica) => replica.role !== "voter" || replica.awaits_snapshot || replica.snapshot)
  );
}
