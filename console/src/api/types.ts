/**
 * What Carillon's HTTP API answers, as `docs/http.md` describes it and `crates/api` declares it.
 * Later versions add fields and change the meaning of none.
 */

export type Verdict = "ok" | "degraded" | "failing";

export interface Health {
  verdict: Verdict;
  /** A sentence each, the worst first. */
  reasons: string[];
}

/** The versions that nodes support and the one that the cluster uses: `/v1/level`. */
export interface ClusterVersion {
  level: number;
  speaks: [number, number];
  automatic: boolean;
  objections: string[];
  nodes: { id: string; name: string; speaks: [number, number] | null }[];
}

/** `GET /v1/status`: the node that answers. */
export interface Status {
  name: string;
  node_id: string;
  version: string;
  ready: boolean;
  health: Health;
  cluster: {
    id: string;
    members_up: number;
    members_suspected: number;
    members_down: number;
    shards_led: number;
    shards_without_leader: number;
    shards_under_replicated: number;
  };
  level: ClusterVersion;
  uptime_ms: number;
  listeners: { protocol: string; address: string }[];
  dir: string;
  threads: number;
  connections: number;
  keyspaces: number;
  shards: number;
  keys: number;
  memory: { used_bytes: number; old_versions_bytes: number; max_bytes: number };
  log: { bytes: number; segments: number; bytes_since_checkpoint: number; checkpoint_at_ms: number };
  recovered: string;
  warnings: string[];
  /** Parts of the API that the server has, such as `sim` and `dev`. Older nodes do not say. */
  surfaces?: string[];
}

/** `unknown` is no word of the API: a recording of events has not yet told. */
export type NodeState = "up" | "suspected" | "down" | "left" | "unknown";
export type AdminState = "member" | "cordoned" | "draining" | "removed";

export interface NodeStatus {
  id: string;
  name: string;
  /** Whether it is the node that answers. */
  this: boolean;
  state: NodeState;
  standing: AdminState;
  since_at_ms: number;
  linked: boolean;
  addresses: {
    peer: string | null;
    resp: string | null;
    /** Older nodes do not say. */
    resp_replica?: string | null;
    native: string | null;
    http: string | null;
  };
  domain: string;
  version: string;
  /** By the shard table of the node that answers. */
  replicas: number;
  leads: number;
  /** As the node last reported. */
  shards: number;
  leaders: number;
  data_bytes: number;
  /** That it serves. Older nodes leave out what their followers serve. */
  requests_per_second: number;
  /** Of these, reads from replicas that do not lead. */
  follower_reads_per_second?: number;
  slow_disk: boolean;
  joined_at_ms: number;
}

/** `GET /v1/nodes`. */
export interface Nodes {
  health: Health;
  nodes: NodeStatus[];
  removed: string[];
}

export interface NodeAdminState {
  id: string;
  name: string | null;
  standing: AdminState;
  replicas: number;
  leads: number;
  data_bytes: number;
}

export type Survive = "node" | "domain" | "2-nodes";

/** Nodes or domains whose loss leaves a shard without a majority; none: it has none now. */
export interface FailingSet {
  shard: number;
  keyspace: string | null;
  lost: string[];
  left: number;
  voters: number;
  needed: number;
}

/** `GET /v1/prove`: what the cluster may lose. */
export interface Survivability {
  survive: Survive;
  holds: boolean;
  shards: number;
  failing_count: number;
  failing: FailingSet[];
  smallest: FailingSet | null;
  unproven: number[];
  obstacles: string[];
  silent: SilentNode[];
  down: string[];
}

/** `GET /v1/nodes/{node}/drain`: how far a drain is, and what it waits for. */
export interface Drain {
  id: string;
  name: string | null;
  standing: AdminState;
  replicas: number;
  leads: number;
  data_bytes: number;
  rate: { over_ms: number; replicas: number; bytes: number } | null;
  waits: { state: string; shards: number; why: string }[];
  shards: {
    shard: number;
    keyspace: string | null;
    leads: boolean;
    bytes: number;
    state: string;
    why: string;
  }[];
  silent: { id: string; name: string; why: string }[];
}

export type ReplicaRole = "voter" | "learner" | "outgoing";

export interface ReplicaStatus {
  replica: number;
  node: string;
  name: string | null;
  role: ReplicaRole;
  live: boolean;
  leader: boolean;
  /** Entries that it lacks; only the leader's node knows. */
  behind: number | null;
  contact_ms: number | null;
  awaits_snapshot: boolean;
  snapshot: { sent_bytes: number; about_bytes: number } | null;
}

export interface ShardStatus {
  id: number;
  /** `null` for the shard that holds the catalogue. */
  keyspace: string | null;
  /** First and last slot, of a hashed keyspace. */
  slots: [number, number] | null;
  /** First position owned and first not owned, in hexadecimal; empty: an end of the circle. */
  arc: [string, string] | null;
  generation: number;
  verdict: Verdict;
  /** Whether the node that answers has a replica. If not, the members are those of its bootstrap. */
  here: boolean;
  replicas_wanted: number;
  replicas_live: number;
  voters: number;
  changing: boolean;
  replicas: ReplicaStatus[];
  leader: string | null;
  without_leader_ms: number;
  term: number;
  committed: number;
  applied: number;
  lease_ms: number | null;
  sessions: number;
  keys: number;
  bytes: number;
  quarantined: number[];
  lagging: number[];
  /** At its leader, roughly; `null` elsewhere, and where nobody measures. Older nodes do not say. */
  load?: ShardLoad | null;
  /** The node that knows all this; `null`: nobody told more than how the shard began. Older nodes do not say. */
  told_by?: string | null;
}

export interface ShardLoad {
  reads_per_second: number;
  /** Of these, reads from replicas that do not lead. Older nodes leave them out. */
  follower_reads_per_second?: number;
  writes_per_second: number;
  written_bytes_per_second: number;
}

/** A node that did not answer the one that was asked for the whole cluster. */
export interface SilentNode {
  id: string;
  name: string;
  why: string;
}

/** What an answer is about; `cluster`: all nodes. Older nodes refuse it. */
export type Scope = "node" | "cluster";

/** `GET /v1/shards`: one page. */
export interface Shards {
  node: string;
  health: Health;
  shards: ShardStatus[];
  next: number | null;
  silent?: SilentNode[];
}

export type Placement = "hashed" | "ordered" | "linear-hash";
export type Durability = "sync" | "interval" | "memory";

export interface Keyspace {
  id: number;
  name: string;
  placement: Placement;
  durability: Durability;
  retention_ms: number;
  replicas: number;
  shards: number;
  keys: number;
  volume?: VolumeOptions | null;
  clone_of?: { volume: string; at: string; at_ms: number } | null;
}

/** What makes a keyspace a volume. */
export interface VolumeOptions {
  bytes: number;
  block_bytes?: number;
  shared?: boolean;
}

export interface NewKeyspace {
  name: string;
  placement?: Placement;
  durability?: Durability;
  retention_ms?: number;
  replicas?: number;
  volume?: VolumeOptions;
}

export interface KeyspaceChange extends Omit<NewKeyspace, "name" | "placement" | "volume"> {
  volume_bytes?: number;
}

export type DecisionOutcome = "dry" | "under-way" | "done" | "not-done" | "handed-on";

export interface Decision {
  at_ms: number;
  shard: number;
  keyspace: string | null;
  add: { id: string; name: string }[];
  remove: number[];
  leader: { id: string; name: string } | null;
  split: { shard: number; right: number; at: number | string } | null;
  merge: { shard: number; right: number; moves: boolean } | null;
  why: string;
  deviation: { before: number; predicted: number; achieved: number | null } | null;
  came: DecisionOutcome;
  took_ms: number | null;
  waits: string | null;
  /** Who has decided. Older nodes do not say: it is the one that answers. */
  by?: { id: string; name: string } | null;
}

/** `GET /v1/decisions`: those of the node that answers, or of all. */
export interface Decisions {
  balances: boolean;
  decisions: Decision[];
  silent?: SilentNode[];
}

/** `GET /v1/metrics`: sums over labels, by name without `carillon_`. */
export interface NodeMetrics {
  id: string;
  name: string;
  at_ms: number;
  uptime_ms: number;
  numbers: Record<string, number>;
  histograms: Record<string, { buckets: number[][]; sum: number; count: number }>;
  /** Only if they were asked for. */
  links?: LinkMetrics[];
}

/** A link as the node sees it that tells it; what it counted since it started. */
export interface LinkMetrics {
  to: string;
  connected: boolean;
  received_bytes: number;
  sent_bytes: number;
  /** 0: no ping has come back. */
  round_trip_seconds: number;
}

export interface Metrics {
  nodes: NodeMetrics[];
  silent?: SilentNode[];
}

export const LOOKUPS = ["full", "chord", "chord-sharp", "linear", "lh"] as const;
export type LookupName = (typeof LOOKUPS)[number];
export const FORMS = ["iterative", "recursive", "semi-recursive"] as const;
export type LookupForm = (typeof FORMS)[number];

export interface RouteStep {
  /** To which shard; 0 if any of the node's was asked. */
  shard: number;
  node: string;
  name: string;
  /** Which entry of a table led there. */
  by: string;
  micros?: number;
}

/** How one lookup found the owner of a key: `GET /v1/route/{keyspace}/{key}`. */
export interface Route {
  lookup: LookupName;
  form: LookupForm;
  images: boolean;
  shard: number | null;
  leader: string | null;
  hops: number;
  messages: number | null;
  micros: number;
  failure?: string;
  /** The shard whose table it was begun with; `null`: no shard's. Older nodes do not say. */
  begins_at?: number | null;
  steps: RouteStep[];
}

/** Bytes in JSON: text, or base64 where they are no UTF-8. */
export type JsonBytes = string | { base64: string };

/** `GET /v1/history/{keyspace}/{key}`: one page, the newest first. */
export interface KeyHistory {
  changes: KeyChange[];
  /** There are more: those before this version. */
  next: string | null;
  /** Of what was at or below it only the last is known. */
  safe_point: string;
  safe_point_ms: number;
}

export interface KeyChange {
  what: "put" | "deleted" | "expired";
  at_ms: number;
  /** Not of what expired. */
  version?: string;
  bytes?: number;
  expires_at_ms?: number;
  value?: JsonBytes;
}

/** `GET /v1/keys/{keyspace}`: one page. */
export interface KeyPage {
  keys: JsonBytes[];
  next: string | null;
}

export type TxnCondition = { key: JsonBytes } & (
  { exists: boolean } | { value: JsonBytes } | { version: string }
);

export type TxnOperation =
  | { get: JsonBytes }
  | { put: { key: JsonBytes; value: JsonBytes; ttl_ms?: number } }
  | { delete: JsonBytes }
  | { increment: { key: JsonBytes; by?: number | string } }
  | { publish: { topic: string; message: JsonBytes } }
  | { range: { from?: JsonBytes; to?: JsonBytes; limit?: number; reverse?: boolean } };

export interface TxnRequest {
  keyspace?: string;
  compare?: TxnCondition[];
  then?: TxnOperation[];
  else?: TxnOperation[];
}

export interface TxnEntry {
  key: JsonBytes;
  value: JsonBytes;
  version?: string;
}

export type TxnResult =
  | { value: JsonBytes | null; version?: string }
  | { put: true }
  | { deleted: boolean }
  | { published: string }
  | { keys: TxnEntry[] };

export interface TxnAnswer {
  succeeded: boolean;
  results: TxnResult[];
}
