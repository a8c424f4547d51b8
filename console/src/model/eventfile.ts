/**
 * A file of `carillon record`: one event a line. From the events the states of the cluster are made
 * that views show: which nodes there were, who led which shard, what was split and merged. What events
 * do not tell, as sizes and the slots of shards, stays unknown.
 */

import type { Keyspace, NodeStatus, ReplicaStatus, ShardStatus } from "../api/types";
import { BadEvent, parseEvent } from "../events/parse";
import { applyEvent } from "../events/reducer";
import { addSample, NO_SAMPLES, type Samples } from "../events/samples";
import { SAMPLE_TYPES, STREAM_TYPES, type ClusterEvent } from "../events/types";
import { EMPTY, nodeById, type Model } from "./model";
import { BadRecording, RECORDING_FORMAT, type Recording } from "./recording";

/** So many states are made at most, as far apart as that needs. */
export const STATES_MAX = 2000;
/** Events beyond are left out, and that is said. */
export const EVENTS_MAX = 200_000;
/** The format of events that is read. */
const EVENTS_VERSION = 1;

/** Whether a text looks like a file of `carillon record`: its first line is an event. */
export function isEventFile(text: string): boolean {
  const line = text.slice(0, 4096).trimStart().split("\n", 1)[0] ?? "";
  return /^\{.*"type"\s*:/.test(line) && !/"models"\s*:/.test(line);
}

/** Events as a file of the same form, with the names of nodes: {@link decodeEvents} reads it again. */
export function encodeEvents(
  events: readonly ClusterEvent[],
  model: Pick<Model, "nodes" | "status">,
): string {
  const [first, last] = [events.at(0), events.at(-1)];
  const of = (event: ClusterEvent | undefined) => ({
    at: event?.at ?? "0",
    at_ms: event?.atMs ?? 0,
    node: model.status?.node_id ?? event?.node ?? "",
    severity: "info",
  });
  const hello = {
    type: "hello",
    version: EVENTS_VERSION,
    ...of(first),
    name: model.status?.name ?? "",
    scope: "cluster",
    nodes: model.nodes.map(({ id, name }) => ({ node: id, name })),
  };
  const end = { type: "end", ...of(last) };
  return [hello, ...events.map((event) => event.fields), end]
    .map((each) => `${JSON.stringify(each)}\n`)
    .join("");
}

interface Read {
  events: ClusterEvent[];
  notes: string[];
}

function readLines(text: string): Read {
  const events: ClusterEvent[] = [];
  const notes: string[] = [];
  let unreadable = 0;
  let first = 0;
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? "";
    if (line.trim() === "") continue;
    if (events.length === EVENTS_MAX) {
      notes.push(`It has more than ${EVENTS_MAX} events: the rest is left out.`);
      break;
    }
    try {
      events.push(parseEvent(line, "", 0));
    } catch (error) {
      if (!(error instanceof BadEvent)) throw error;
      unreadable += 1;
      first ||= i + 1;
    }
  }
  if (unreadable > 0) {
    const lines_ =
      unreadable === 1 ? "1 line is no event and was" : `${unreadable} lines are no events and were`;
    notes.push(`${lines_} left out; the first is line ${first}.`);
  }
  return { events, notes };
}

function node(id: string, name: string, atMs: number): NodeStatus {
  return {
    id,
    name,
    this: false,
    state: "unknown",
    standing: "member",
    since_at_ms: atMs,
    linked: true,
    addresses: { peer: null, resp: null, native: null, http: null },
    domain: "",
    version: "",
    replicas: 0,
    leads: 0,
    shards: 0,
    leaders: 0,
    data_bytes: 0,
    requests_per_second: 0,
    slow_disk: false,
    joined_at_ms: atMs,
  };
}

function shard(id: number, keyspace: string | null): ShardStatus {
  return {
    id,
    keyspace,
    slots: null,
    arc: null,
    generation: 0,
    verdict: "ok",
    here: false,
    replicas_wanted: 0,
    replicas_live: 0,
    voters: 0,
    changing: false,
    replicas: [],
    leader: null,
    without_leader_ms: 0,
    term: 0,
    committed: 0,
    applied: 0,
    lease_ms: null,
    sessions: 0,
    keys: 0,
    bytes: 0,
    quarantined: [],
    lagging: [],
  };
}

function keyspace(name: string, id: number): Keyspace {
  return {
    id,
    name,
    placement: "hashed",
    durability: "sync",
    retention_ms: 0,
    replicas: 0,
    shards: 0,
    keys: 0,
  };
}

/** The nodes that an event names. */
function idsIn(event: ClusterEvent): string[] {
  return [event.node, event.fields["member"], event.fields["of"]].filter(
    (id): id is string => typeof id === "string" && id !== "",
  );
}

/** Whether an event is the beginning of a node: it starts, or another one sees it come up. */
function begins(event: ClusterEvent, id: string): boolean {
  if (event.type === "node-started") return event.node === id;
  return event.type === "member" && event.fields["member"] === id && event.fields["state"] === "up";
}

/** Adds what an event is the first to name: its nodes, its keyspace, its shard. */
function meet(model: Model, event: ClusterEvent, names: ReadonlyMap<string, string>): Model {
  let next = meetNodes(model, event, names);
  const name = event.keyspace;
  if (name !== null && !next.keyspaces.some((each) => each.name === name)) {
    next = { ...next, keyspaces: [...next.keyspaces, keyspace(name, next.keyspaces.length)] };
  }
  const numbers = [event.shard, event.type === "split" ? event.fields["right"] : null];
  for (const id of numbers) {
    if (typeof id !== "number" || next.shards.some((each) => each.id === id)) continue;
    const shards = [...next.shards, shard(id, name)].sort((a, b) => a.id - b.id);
    next = { ...next, shards };
  }
  return next;
}

/** Counts what nodes lead, as far as it is told. */
function counted(model: Model): Model {
  const leads = new Map<string, number>();
  for (const each of model.shards) {
    if (each.leader !== null) leads.set(each.leader, (leads.get(each.leader) ?? 0) + 1);
  }
  const shardsOf = (name: string) => model.shards.filter((each) => each.keyspace === name).length;
  return {
    ...model,
    nodes: model.nodes.map((each) => ({
      ...each,
      leads: leads.get(each.id) ?? 0,
    })),
    keyspaces: model.keyspaces.map((each) => ({ ...each, shards: shardsOf(each.name) })),
  };
}

function meetNodes(model: Model, event: ClusterEvent, names: ReadonlyMap<string, string>): Model {
  let next = model;
  for (const id of idsIn(event)) {
    if (!next.nodes.some((each) => each.id === id)) {
      next = { ...next, nodes: [...next.nodes, node(id, names.get(id) ?? id.slice(0, 6), event.atMs)] };
    }
  }
  return next;
}

/** A node that sends an event runs, whether or not an event names it as up. */
function heard(model: Model, event: ClusterEvent): Model {
  if (STREAM_TYPES.includes(event.type)) return model;
  const index = model.nodes.findIndex((each) => each.id === event.node);
  const found = model.nodes[index];
  const isBack = event.type === "node-started" && found?.state !== "up";
  if (!found || (found.state !== "unknown" && !isBack)) return model;
  const up: NodeStatus = { ...found, state: "up", since_at_ms: event.atMs };
  return { ...model, nodes: model.nodes.with(index, up) };
}

/** Names of nodes, by their ids, as the first line has them. */
function namesIn(hello: ClusterEvent): Map<string, string> {
  const listed = hello.fields["nodes"];
  return new Map(
    (Array.isArray(listed) ? listed : []).flatMap((each: unknown): [string, string][] => {
      const { node: id, name } = (each ?? {}) as Record<string, unknown>;
      return typeof id === "string" && typeof name === "string" ? [[id, name]] : [];
    }),
  );
}

/** Adds or removes the replica that an event shows to be on its node. */
function placed(model: Model, event: ClusterEvent): Model {
  const index = model.shards.findIndex((each) => each.id === event.shard);
  const found = model.shards[index];
  const number = event.fields["replica"];
  if (!found || typeof number !== "number") return model;
  const others = found.replicas.filter((each) => each.replica !== number);
  const isHere = event.type === "leader-elected" || event.type === "replica-started";
  if (event.type === "replica-ended") {
    if (others.length === found.replicas.length) return model;
  } else if (!isHere || others.length < found.replicas.length) return model;
  const replica: ReplicaStatus = {
    replica: number,
    node: event.node,
    name: nodeById(model, event.node)?.name ?? null,
    role: "voter",
    live: true,
    leader: found.leader === event.node,
    behind: null,
    contact_ms: null,
    awaits_snapshot: false,
    snapshot: null,
  };
  const replicas = isHere ? [...others, replica].sort((a, b) => a.replica - b.replica) : others;
  return { ...model, shards: model.shards.with(index, { ...found, replicas }) };
}

export interface EventFile {
  recording: Recording;
  /** What was wrong with it, though it can be shown. */
  notes: string[];
}

export function decodeEvents(text: string): EventFile {
  const { events, notes } = readLines(text);
  const hello = events.find((event) => event.type === "hello");
  if (!hello) {
    throw new BadRecording("This is no recording of events: it has no line “hello”.");
  }
  const version = hello.fields["version"];
  if (version !== EVENTS_VERSION) {
    throw new BadRecording(
      `This recording of events has format ${String(version)}; this console reads ${EVENTS_VERSION}.`,
    );
  }
  const happened = events
    .filter((event) => !STREAM_TYPES.includes(event.type) || event.type === "gap" || event.type === "node")
    .sort((a, b) => a.at.length - b.at.length || (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  if (happened.length === 0) throw new BadRecording("This recording has no events.");
  if (!events.some((event) => event.type === "end")) {
    notes.push("It does not end with “end”: it was cut off, or goes on.");
  }
  const gaps = happened.filter((event) => event.type === "gap").length;
  if (gaps > 0)
    notes.push(`Events are missing in ${gaps === 1 ? "one place" : `${gaps} places`}: see “gap”.`);

  const fromMs = happened[0]?.atMs ?? 0;
  const toMs = happened.at(-1)?.atMs ?? 0;
  const spacing = (toMs - fromMs) / STATES_MAX;
  const names = namesIn(hello);
  let model: Model = { ...EMPTY, atMs: fromMs, isFromEvents: true, hasAllShards: false };
  let samples: Samples = NO_SAMPLES;
  const models: Model[] = [];
  // Shards and keyspaces are there from the beginning, except for right halves of splits; and so are
  // nodes, except for those that are seen to begin. Those that no event names come first.
  const told = new Map<string, ClusterEvent>();
  for (const event of happened) {
    for (const id of idsIn(event)) if (!told.has(id)) told.set(id, event);
  }
  for (const id of [...names.keys(), ...told.keys()]) {
    const first = told.get(id);
    if (first && begins(first, id)) continue;
    if (!model.nodes.some((each) => each.id === id))
      model = { ...model, nodes: [...model.nodes, node(id, names.get(id) ?? id.slice(0, 6), fromMs)] };
  }
  const born = new Set(happened.map((each) => (each.type === "split" ? each.fields["right"] : undefined)));
  const { nodes } = model;
  for (const event of happened) {
    if (event.shard === null || !born.has(event.shard)) model = meet(model, { ...event, type: "" }, names);
  }
  model = { ...model, nodes };
  models.push(counted(model));
  for (const event of happened) {
    samples = addSample(samples, event);
    if (SAMPLE_TYPES.includes(event.type)) continue;
    const next = placed(heard(applyEvent(meet(model, event, names), event), event), event);
    if (next === model) continue;
    model = { ...next, atMs: event.atMs };
    const last = models.at(-1);
    const isClose = models.length > 1 && last !== undefined && event.atMs - last.atMs < spacing;
    if (isClose) models.pop();
    models.push(counted(model));
  }
  const last = models.at(-1);
  if (last && last.atMs < toMs) models.push({ ...last, atMs: toMs });
  return {
    recording: {
      format: RECORDING_FORMAT,
      savedAtMs: toMs,
      source: "events",
      models,
      events: happened.filter((event) => !SAMPLE_TYPES.includes(event.type)),
      points: [],
      samples,
    },
    notes,
  };
}
