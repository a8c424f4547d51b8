/** Whether what a file holds has the form that views rely on. A file may come from anybody. Pure. */

type Check = (value: unknown) => boolean;
type Shape = Record<string, Check>;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const number: Check = (value) => typeof value === "number";
const string: Check = (value) => typeof value === "string";
const bool: Check = (value) => typeof value === "boolean";
const nullOr =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
/** Files of older consoles do not have it. */
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const mapOf =
  (check: Check): Check =>
  (value) =>
    isObject(value) && Object.values(value).every(check);
const pairOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.length === 2 && value.every(check);
const oneOf =
  (...words: readonly unknown[]): Check =>
  (value) =>
    words.includes(value);
const has =
  (shape: Shape): Check =>
  (value) =>
    isObject(value) && Object.entries(shape).every(([name, check]) => check(value[name]));
const all = (names: readonly string[], check: Check): Shape =>
  Object.fromEntries(names.map((name) => [name, check]));

const verdict = oneOf("ok", "degraded", "failing");
const health = has({ verdict, reasons: listOf(string) });
const named = has({ id: string, name: string });

const status = has({
  ...all(["name", "node_id", "version", "dir"], string),
  ...all(["uptime_ms", "threads", "connections"], number),
  health,
  warnings: listOf(string),
  listeners: listOf(has({ protocol: string, address: string })),
  cluster: has({ id: string }),
  memory: has(all(["used_bytes", "max_bytes"], number)),
  log: has(all(["bytes", "segments", "bytes_since_checkpoint"], number)),
  level: has({ level: number, speaks: pairOf(number), objections: listOf(string) }),
  surfaces: optional(listOf(string)),
});

const node = has({
  ...all(["id", "name", "domain", "version"], string),
  ...all(["since_at_ms", "replicas", "leads", "data_bytes", "requests_per_second", "joined_at_ms"], number),
  state: oneOf("up", "suspected", "down", "left", "unknown"),
  standing: oneOf("member", "cordoned", "draining", "removed"),
  addresses: mapOf(nullOr(string)),
  follower_reads_per_second: optional(number),
});

const replica = has({
  replica: number,
  node: string,
  role: string,
  live: bool,
  leader: bool,
  ...all(["behind", "contact_ms"], nullOr(number)),
  snapshot: nullOr(has(all(["sent_bytes", "about_bytes"], number))),
});

const load = has({
  ...all(["reads_per_second", "writes_per_second", "written_bytes_per_second"], number),
  follower_reads_per_second: optional(number),
});

const shard = has({
  ...all(["id", "generation", "replicas_wanted", "replicas_live", "without_leader_ms", "term"], number),
  ...all(["committed", "applied", "keys", "bytes", "sessions", "voters"], number),
  verdict,
  keyspace: nullOr(string),
  slots: nullOr(pairOf(number)),
  arc: nullOr(pairOf(string)),
  leader: nullOr(string),
  lease_ms: nullOr(number),
  replicas: listOf(replica),
  ...all(["quarantined", "lagging"], listOf(number)),
  load: optional(nullOr(load)),
  told_by: optional(nullOr(string)),
});

const keyspace = has({
  name: string,
  placement: oneOf("hashed", "ordered", "linear-hash"),
  durability: string,
  ...all(["id", "retention_ms", "replicas", "shards", "keys"], number),
  volume: optional(nullOr(has({ bytes: number, block_bytes: optional(number), shared: optional(bool) }))),
  clone_of: optional(nullOr(has({ volume: string, at: string, at_ms: number }))),
});

const half = all(["shard", "right"], number);
const place: Check = (value) => number(value) || string(value);
const decision = has({
  at_ms: number,
  shard: number,
  keyspace: nullOr(string),
  add: listOf(named),
  remove: listOf(number),
  leader: nullOr(named),
  split: nullOr(has({ ...half, at: place })),
  merge: nullOr(has(half)),
  why: string,
  came: string,
  deviation: nullOr(has({ ...all(["before", "predicted"], number), achieved: nullOr(number) })),
  took_ms: nullOr(number),
  waits: nullOr(string),
  by: optional(nullOr(named)),
});
const silent = listOf(has({ id: string, name: string, why: string }));

export const isModel: Check = has({
  atMs: number,
  status: nullOr(status),
  nodes: listOf(node),
  removed: listOf(string),
  nodesHealth: nullOr(health),
  shards: listOf(shard),
  shardsHealth: nullOr(health),
  hasAllShards: bool,
  silent,
  keyspaces: listOf(keyspace),
  decisions: nullOr(has({ balances: bool, decisions: listOf(decision), silent: optional(silent) })),
  isFromEvents: bool,
  cuts: mapOf(place),
});

export const isEvent: Check = has({
  ...all(["type", "at", "node", "text", "cursor"], string),
  atMs: number,
  severity: string,
  shard: nullOr(number),
  keyspace: nullOr(string),
  fields: isObject,
});

/** A lookup's route, as the API answers it and events have it. */
export const isRoute: Check = has({
  lookup: string,
  hops: number,
  micros: optional(number),
  messages: optional(nullOr(number)),
  ...all(["shard", "begins_at"], optional(nullOr(number))),
  ...all(["leader", "failure"], optional(nullOr(string))),
  steps: listOf(has({ shard: number, node: string, ...all(["name", "by"], optional(nullOr(string))) })),
});

export const isRequest: Check = has({
  ...all(["node", "key", "op"], string),
  ...all(["atMs", "keys"], number),
  ...all(["keyspace", "leader"], nullOr(string)),
  shard: nullOr(number),
  route: nullOr(isRoute),
});

export const isTransaction: Check = has({
  ...all(["id", "node"], string),
  keyspace: nullOr(string),
  record: nullOr(number),
  outcome: oneOf("running", "committed", "aborted", "refused"),
  isRecovered: bool,
  steps: listOf(
    has({
      ...all(["at", "node", "phase"], string),
      ...all(["atMs", "attempt", "keys"], number),
      shards: listOf(number),
      reason: nullOr(string),
    }),
  ),
});

const peer = has({
  ...all(["id", "name"], string),
  isConnected: bool,
  ...all(["inBytes", "outBytes"], number),
  roundTripSeconds: nullOr(number),
});
const uses = has(all(["processors", "memoryBytes", "memoryMaxBytes", "diskBytes"], nullOr(number)));
const LISTS = ["peers", "all", "nodes", "uses", "links"];
const rates: Check = (value) =>
  isObject(value) &&
  Object.entries(value).every(
    ([name, each]) => ["id", "name", "uses"].includes(name) || nullOr(number)(each),
  );

/** All that a point has beside its lists are numbers. */
export const isPoint: Check = (value) =>
  isObject(value) &&
  number(value["atMs"]) &&
  rates(Object.fromEntries(Object.entries(value).filter(([name]) => !LISTS.includes(name)))) &&
  has({
    peers: optional(listOf(peer)),
    all: optional(rates),
    nodes: optional(
      listOf((each) => rates(each) && has({ id: string, name: string, uses: optional(uses) })(each)),
    ),
    uses: optional(mapOf(uses)),
    links: optional(listOf((each) => peer(each) && has({ from: string })(each))),
  })(value);
