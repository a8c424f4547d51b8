/**
 * Rates and latencies over time, from successive readings of `/metrics` of the node that answers, of
 * `/v1/metrics` of all nodes, and of the loads that they report. Pure.
 */

import { buckets, parseMetrics, quantile, sum, type Sample } from "./metrics";
import type { LinkMetrics, Metrics, NodeMetrics } from "../api/types";
import type { Model } from "./model";

/** With one reading in 2 s: half an hour. */
export const POINTS_MAX = 900;

/** A link of the node that answers: bytes a second. */
export interface PeerTraffic {
  id: string;
  name: string;
  isConnected: boolean;
  inBytes: number;
  outBytes: number;
  roundTripSeconds: number | null;
}

/** A link as one of its two nodes sees it. */
export interface LinkTraffic extends PeerTraffic {
  /** That node. */
  from: string;
}

interface PeerReading {
  name: string;
  isConnected: boolean;
  inBytes: number;
  outBytes: number;
  roundTripSeconds: number | null;
}

export interface Reading {
  atMs: number;
  commands: number;
  writes: number;
  errors: number;
  transactions: number;
  conflicts: number;
  http: number;
  inputBytes: number;
  outputBytes: number;
  memoryBytes: number;
  connections: number;
  fsync: Map<number, number>;
  lookups: Map<number, number>;
  requests: Map<number, number>;
  uptimeKey: number;
  peers: ReadonlyMap<string, PeerReading>;
  /** Of all nodes by their ids, if they were asked. */
  nodes?: ReadonlyMap<string, NodeReading>;
}

/** What one node has counted since it started. */
export interface NodeReading {
  name: string;
  atMs: number;
  uptimeMs: number;
  counts: Record<Counted, number>;
  cpuSeconds: number | null;
  memoryBytes: number | null;
  memoryMaxBytes: number | null;
  diskBytes: number | null;
  fsync: Map<number, number>;
  lookups: Map<number, number>;
  requests: Map<number, number>;
  /** By the id of the other node. */
  links: ReadonlyMap<string, PeerReading>;
}

const COUNTED = [
  "commands",
  "writes",
  "errors",
  "transactions",
  "conflicts",
  "inputBytes",
  "outputBytes",
] as const;
type Counted = (typeof COUNTED)[number];

/** A second, and quantiles, between two readings: of one node or of several together. */
export interface Rates extends Record<Counted, number> {
  /** Recordings of older consoles have none. */
  requestP50?: number | null;
  requestP99?: number | null;
  fsyncP50: number | null;
  fsyncP99: number | null;
  lookupP50: number | null;
  lookupP99: number | null;
}

/** What a node takes of its machine; `null`: it does not say. */
export interface Uses {
  /** Processors that were busy with it, on average. */
  processors: number | null;
  memoryBytes: number | null;
  memoryMaxBytes: number | null;
  /** Of its log. */
  diskBytes: number | null;
}

export interface NodeRates extends Rates {
  id: string;
  name: string;
  /** Of recordings of older consoles; points have them themselves now. */
  uses?: Uses;
}

/** Points keep the rates of so many nodes one by one; those of all together they always have. */
export const NODES_MAX = 32;

/** Of so many nodes all links are asked for: they grow with the square of the nodes. */
export const LINKED_NODES_MAX = 32;

/** Of the newest points, what single nodes and links did is kept: so many entries of all points together. */
export const DETAILS_MAX = 40_000;

export interface TimePoint {
  atMs: number;
  /** A second, at the node that answers. */
  commands: number;
  writes: number;
  errors: number;
  transactions: number;
  conflicts: number;
  http: number;
  inputBytes: number;
  outputBytes: number;
  memoryBytes: number;
  connections: number;
  /** Of all nodes, as they report it. */
  clusterRequests: number;
  requestP50?: number | null;
  requestP99?: number | null;
  fsyncP50: number | null;
  fsyncP99: number | null;
  lookupP50: number | null;
  lookupP99: number | null;
  nodesDown: number;
  shardsWithoutLeader: number;
  shardsUnderReplicated: number;
  /** Recordings of older consoles have none. */
  peers?: readonly PeerTraffic[];
  /** Of all nodes together, and of each. Not there if the node that answers does not ask the others. */
  all?: Rates;
  nodes?: readonly NodeRates[];
  /** What every node takes of its machine. Newer points have them, see `DETAILS_MAX`. */
  uses?: Readonly<Record<string, Uses>>;
  /** Links of all nodes that were asked. Newer points have them. */
  links?: readonly LinkTraffic[];
}

function nodeReading(node: NodeMetrics): NodeReading {
  const of = (name: string) => node.numbers[name] ?? 0;
  return {
    name: node.name,
    atMs: node.at_ms,
    uptimeMs: node.uptime_ms,
    counts: {
      commands: of("commands_total"),
      writes: of("writes_total"),
      // A simulation has a name of its own for them.
      errors: of("errors_total") + of("command_errors_total"),
      transactions: of("transactions_total"),
      conflicts: of("transactions_conflicts_total"),
      inputBytes: of("input_bytes_total"),
      outputBytes: of("output_bytes_total"),
    },
    cpuSeconds: node.numbers["process_cpu_seconds_total"] ?? null,
    memoryBytes: node.numbers["memory_used_bytes"] ?? null,
    memoryMaxBytes: node.numbers["memory_max_bytes"] ?? null,
    diskBytes: node.numbers["log_disk_bytes"] ?? null,
    fsync: histogram(node, "fsync_seconds"),
    lookups: histogram(node, "lookup_seconds"),
    requests: histogram(node, "request_seconds"),
    links: new Map((node.links ?? []).map((link) => [link.to, linkReading(link)])),
  };
}

function linkReading(link: LinkMetrics): PeerReading {
  return {
    name: link.to,
    isConnected: link.connected,
    inBytes: link.received_bytes,
    outBytes: link.sent_bytes,
    roundTripSeconds: link.round_trip_seconds > 0 ? link.round_trip_seconds : null,
  };
}

/** Cumulative counts by upper bound; the last bound is infinite, as that of Prometheus. */
function histogram(node: NodeMetrics, name: string): Map<number, number> {
  const found = node.histograms[name];
  if (!found) return new Map();
  const bounds = found.buckets.map(([le, count]): [number, number] => [le ?? Infinity, count ?? 0]);
  return new Map([...bounds, [Infinity, found.count]]);
}

export function nodeReadings(metrics: Metrics): Map<string, NodeReading> {
  return new Map(metrics.nodes.map((node) => [node.id, nodeReading(node)]));
}

/** Between two readings; `null` if nothing can be said, as after a restart. */
function ratesOf(before: NodeReading, now: NodeReading): Rates | null {
  const seconds = (now.atMs - before.atMs) / 1000;
  if (seconds <= 0 || now.uptimeMs < before.uptimeMs) return null;
  const counts = COUNTED.map((name) => [
    name,
    Math.max(0, (now.counts[name] - before.counts[name]) / seconds),
  ]);
  return { ...(Object.fromEntries(counts) as Record<Counted, number>), ...quantiles([[before, now]]) };
}

function usesOf(before: NodeReading, now: NodeReading): Uses {
  const { memoryBytes, memoryMaxBytes, diskBytes } = now;
  const seconds = (now.atMs - before.atMs) / 1000;
  const isKnown = now.cpuSeconds !== null && before.cpuSeconds !== null && seconds > 0;
  const processors = isKnown
    ? Math.max(0, ((now.cpuSeconds ?? 0) - (before.cpuSeconds ?? 0)) / seconds)
    : null;
  return { processors, memoryBytes, memoryMaxBytes, diskBytes };
}

function quantiles(pairs: readonly [NodeReading, NodeReading][]) {
  const sumOf = (histograms: readonly Map<number, number>[]) => {
    const total = new Map<number, number>();
    for (const each of histograms) {
      for (const [le, count] of each) total.set(le, (total.get(le) ?? 0) + count);
    }
    return new Map([...total].sort(([a], [b]) => a - b));
  };
  const between = (of: (reading: NodeReading) => Map<number, number>, q: number) =>
    quantile(sumOf(pairs.map(([before]) => of(before))), sumOf(pairs.map(([, now]) => of(now))), q);
  return {
    requestP50: between((each) => each.requests, 0.5),
    requestP99: between((each) => each.requests, 0.99),
    fsyncP50: between((each) => each.fsync, 0.5),
    fsyncP99: between((each) => each.fsync, 0.99),
    lookupP50: between((each) => each.lookups, 0.5),
    lookupP99: between((each) => each.lookups, 0.99),
  };
}

/** Of each node that both readings have, and of these together; nothing if there is none. */
function ratesBetween(before: Reading, now: Reading): Pick<TimePoint, "all" | "nodes" | "uses" | "links"> {
  const nodes: NodeRates[] = [];
  const uses: Record<string, Uses> = {};
  const links: LinkTraffic[] = [];
  const pairs: [NodeReading, NodeReading][] = [];
  for (const [id, reading] of now.nodes ?? []) {
    const old = before.nodes?.get(id);
    const rates = old ? ratesOf(old, reading) : null;
    if (!old || !rates) continue;
    pairs.push([old, reading]);
    nodes.push({ id, name: reading.name, ...rates });
    uses[id] = usesOf(old, reading);
    const seconds = (reading.atMs - old.atMs) / 1000;
    for (const link of trafficBetween(old.links, reading.links, seconds)) {
      links.push({ ...link, from: id, name: now.nodes?.get(link.id)?.name ?? link.name });
    }
  }
  if (nodes.length === 0) return {};
  const sums = COUNTED.map((name) => [name, nodes.reduce((total, node) => total + node[name], 0)]);
  const all = { ...(Object.fromEntries(sums) as Record<Counted, number>), ...quantiles(pairs) };
  const told = { all, nodes: nodes.slice(0, NODES_MAX), uses };
  return links.length > 0 ? { ...told, links } : told;
}

export function readMetrics(text: string, atMs: number, nodes?: ReadonlyMap<string, NodeReading>): Reading {
  const samples: Sample[] = parseMetrics(text);
  const of = (name: string) => sum(samples, `carillon_${name}`);
  return {
    atMs,
    commands: of("commands_total"),
    writes: of("writes_total"),
    errors: of("errors_total"),
    transactions: of("transactions_total"),
    conflicts: of("transactions_conflicts_total"),
    http: of("http_replies_total"),
    inputBytes: of("input_bytes_total"),
    outputBytes: of("output_bytes_total"),
    memoryBytes: of("memory_used_bytes"),
    connections: of("connections") + of("http_connections"),
    fsync: buckets(samples, "carillon_fsync_seconds"),
    lookups: buckets(samples, "carillon_lookup_seconds"),
    requests: buckets(samples, "carillon_request_seconds"),
    uptimeKey: of("log_written_bytes_total"),
    peers: readPeers(samples),
    ...(nodes === undefined ? {} : { nodes }),
  };
}

function readPeers(samples: readonly Sample[]): Map<string, PeerReading> {
  const peers = new Map<string, PeerReading>();
  for (const { name, labels, value } of samples) {
    const id = labels["peer"];
    if (id === undefined || !name.startsWith("carillon_peer_")) continue;
    const peer = peers.get(id) ?? {
      name: labels["name"] ?? id,
      isConnected: false,
      inBytes: 0,
      outBytes: 0,
      roundTripSeconds: null,
    };
    if (name === "carillon_peer_connected") peer.isConnected = value === 1;
    if (name === "carillon_peer_round_trip_seconds") peer.roundTripSeconds = value;
    if (name === "carillon_peer_bytes_total") {
      if (labels["direction"] === "received") peer.inBytes += value;
      else peer.outBytes += value;
    }
    peers.set(id, peer);
  }
  return peers;
}

function trafficBetween(
  before: ReadonlyMap<string, PeerReading>,
  now: ReadonlyMap<string, PeerReading>,
  seconds: number,
): PeerTraffic[] {
  return [...now].map(([id, peer]) => {
    const old = before.get(id);
    const rate = (a: number, b: number | undefined) => Math.max(0, (a - (b ?? a)) / seconds);
    return {
      id,
      ...peer,
      inBytes: rate(peer.inBytes, old?.inBytes),
      outBytes: rate(peer.outBytes, old?.outBytes),
    };
  });
}

/** What happened between two readings; `null` if the node was restarted between them. */
export function point(before: Reading, now: Reading, model: Model): TimePoint | null {
  const seconds = (now.atMs - before.atMs) / 1000;
  if (seconds <= 0 || now.uptimeKey < before.uptimeKey || now.commands < before.commands) return null;
  const rate = (of: (reading: Reading) => number) => Math.max(0, (of(now) - of(before)) / seconds);
  const up = (node: { state: string }) => node.state === "up" || node.state === "suspected";
  return {
    atMs: now.atMs,
    commands: rate((each) => each.commands),
    writes: rate((each) => each.writes),
    errors: rate((each) => each.errors),
    transactions: rate((each) => each.transactions),
    conflicts: rate((each) => each.conflicts),
    http: rate((each) => each.http),
    inputBytes: rate((each) => each.inputBytes),
    outputBytes: rate((each) => each.outputBytes),
    memoryBytes: now.memoryBytes,
    connections: now.connections,
    clusterRequests: model.nodes.filter(up).reduce((total, node) => total + node.requests_per_second, 0),
    requestP50: quantile(before.requests, now.requests, 0.5),
    requestP99: quantile(before.requests, now.requests, 0.99),
    fsyncP50: quantile(before.fsync, now.fsync, 0.5),
    fsyncP99: quantile(before.fsync, now.fsync, 0.99),
    lookupP50: quantile(before.lookups, now.lookups, 0.5),
    lookupP99: quantile(before.lookups, now.lookups, 0.99),
    nodesDown: model.nodes.filter((node) => node.state === "down").length,
    shardsWithoutLeader: model.shards.filter((shard) => shard.leader === null).length,
    shardsUnderReplicated: model.shards.filter((shard) => shard.replicas_live < shard.replicas_wanted).length,
    peers: trafficBetween(before.peers, now.peers, seconds),
    ...ratesBetween(before, now),
  };
}

export function appendPoint(points: readonly TimePoint[], next: TimePoint, max = POINTS_MAX): TimePoint[] {
  const kept = [...points, next].slice(-max);
  let entries = 0;
  for (let i = kept.length - 1; i >= 0; i--) {
    const point = kept[i];
    if (!point) continue;
    entries += Object.keys(point.uses ?? {}).length + (point.links?.length ?? 0);
    if (entries <= DETAILS_MAX) continue;
    // Those before it have none any more.
    if (point.uses === undefined && point.links === undefined) break;
    const { uses, links, ...rest } = point;
    void uses;
    void links;
    kept[i] = rest;
  }
  return kept;
}

/** What each node takes of its machine, by its id. */
export function usesAt(point: TimePoint | undefined): ReadonlyMap<string, Uses> {
  if (point?.uses) return new Map(Object.entries(point.uses));
  return new Map((point?.nodes ?? []).flatMap((node) => (node.uses ? [[node.id, node.uses] as const] : [])));
}

/** All links that are known: those of the node that answers, and those that others tell. */
export function linksAt(point: TimePoint | undefined, here: string): LinkTraffic[] {
  const own = (point?.peers ?? []).map((peer) => ({ ...peer, from: here }));
  return [...own, ...(point?.links ?? []).filter((link) => link.from !== here)];
}
