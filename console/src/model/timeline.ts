/**
 * Rates and latencies over time, from successive readings of `/metrics` of the node that answers,
 * and of the loads that all nodes report. Pure.
 */

import { buckets, parseMetrics, quantile, sum, type Sample } from "./metrics";
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
  uptimeKey: number;
  peers: ReadonlyMap<string, PeerReading>;
}

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
  fsyncP50: number | null;
  fsyncP99: number | null;
  lookupP50: number | null;
  lookupP99: number | null;
  nodesDown: number;
  shardsWithoutLeader: number;
  shardsUnderReplicated: number;
  /** Recordings of older consoles have none. */
  peers?: readonly PeerTraffic[];
}

export function readMetrics(text: string, atMs: number): Reading {
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
    uptimeKey: of("log_written_bytes_total"),
    peers: readPeers(samples),
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

function peersBetween(before: Reading, now: Reading, seconds: number): PeerTraffic[] {
  return [...now.peers].map(([id, peer]) => {
    const old = before.peers.get(id);
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
    fsyncP50: quantile(before.fsync, now.fsync, 0.5),
    fsyncP99: quantile(before.fsync, now.fsync, 0.99),
    lookupP50: quantile(before.lookups, now.lookups, 0.5),
    lookupP99: quantile(before.lookups, now.lookups, 0.99),
    nodesDown: model.nodes.filter((node) => node.state === "down").length,
    shardsWithoutLeader: model.shards.filter((shard) => shard.leader === null).length,
    shardsUnderReplicated: model.shards.filter((shard) => shard.replicas_live < shard.replicas_wanted).length,
    peers: peersBetween(before, now, seconds),
  };
}

export function appendPoint(points: readonly TimePoint[], next: TimePoint, max = POINTS_MAX): TimePoint[] {
  return [...points, next].slice(-max);
}
