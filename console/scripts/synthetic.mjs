// A large cluster in the shape of the recording, for what a recording of three nodes cannot show:
// whether pages stay legible and quick with a hundred nodes and a thousand shards.
import { readRecording } from "./serve.mjs";

/** So many keys are listed at most. */
const KEYS_LISTED_MAX = 20_000;

/** Numbers that look random and are the same each time (mulberry32). */
function generator(/** @type {number} */ seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * A moment as `serve` takes it.
 * @param {{ nodes: number, shards: number, down?: number, keys?: number, isAsked?: boolean }} size `keys`: so many in all,
 * which `/v1/keys/0` lists if they are no more than the console draws one by one. `isAsked`: the node that
 * answers asks the others, so that each tells what it counts
 */
export function synthetic({ nodes: nodeCount, shards: shardCount, down = 0, keys = 0, isAsked = false }) {
  const [base] = readRecording();
  if (!base) throw new Error("the recording is empty");
  const random = generator(nodeCount * 1000 + shardCount);
  /** @type {any} */
  const body = (/** @type {string} */ path) => base.answers[path]?.body;
  const [firstNode] = body("/v1/nodes").nodes;
  const firstShard = body("/v1/shards").shards.find((/** @type {any} */ shard) => shard.slots);
  // Replicas on nodes that are this far apart: never twice on one.
  const stride = Math.max(1, Math.floor(nodeCount / 3));
  const nodes = Array.from({ length: nodeCount }, (_, i) => ({
    ...firstNode,
    id: i === 0 ? firstNode.id : (0xabc0000000000000n + BigInt(i)).toString(16),
    name: `node-${i + 1}`,
    this: i === 0,
    state: i > 0 && i <= down ? "down" : "up",
    domain: `rack-${(i % 8) + 1}`,
    replicas: 0,
    leads: 0,
    requests_per_second: Math.round(random() * 9000),
    data_bytes: Math.round((0.6 + random()) * 2e9),
  }));
  const shards = Array.from({ length: shardCount }, (_, i) => {
    const first = Math.floor((i * 16384) / shardCount);
    const last = Math.floor(((i + 1) * 16384) / shardCount) - 1;
    const at = Math.floor(random() * nodeCount);
    const places = [0, 1, 2].map((k) => nodes[(at + k * stride) % nodeCount] ?? nodes[0]);
    const leader = places.findIndex((node) => node.state === "up");
    const replicas = places.map((node, k) => {
      node.replicas += 1;
      if (k === leader) node.leads += 1;
      return {
        ...firstShard.replicas[0],
        replica: k + 1,
        node: node.id,
        name: node.name,
        live: node.state === "up",
        leader: k === leader,
      };
    });
    const live = replicas.filter((replica) => replica.live).length;
    return {
      ...firstShard,
      ...(isAsked ? { told_by: places[leader]?.id ?? null } : {}),
      id: i + 1,
      keyspace: "0",
      slots: [first, last],
      leader: places[leader]?.id ?? null,
      replicas,
      replicas_live: live,
      verdict: live === 3 ? "ok" : live === 2 ? "degraded" : "failing",
      keys: keys > 0 ? Math.round(keys / shardCount) : Math.round(random() * 100_000),
      bytes: Math.round(random() ** 3 * 64e6),
    };
  });
  const health = {
    verdict: down > 0 ? "degraded" : "ok",
    reasons: down > 0 ? [`${down} nodes are down`] : [],
  };
  const keyspaces = [{ ...body("/v1/keyspaces").keyspaces[0], shards: shardCount }];
  /** @type {Record<string, import("./serve.mjs").Answer>} */
  const answers = {
    ...base.answers,
    "/v1/nodes": { status: 200, type: "application/json", body: { health, nodes, removed: [] } },
    "/v1/keyspaces": { status: 200, type: "application/json", body: { keyspaces } },
  };
  // As a node pages them.
  const PAGE = 1000;
  for (let at = 0; at < keys && keys <= KEYS_LISTED_MAX; at += PAGE) {
    const page = Array.from({ length: Math.min(PAGE, keys - at) }, (_, i) => `user:${at + i}`);
    const path = `/v1/keys/0?limit=${PAGE}${at === 0 ? "" : `&cursor=${at}`}`;
    const next = at + PAGE < keys ? String(at + PAGE) : null;
    answers[path] = { status: 200, type: "application/json", body: { keys: page, next } };
  }
  for (let at = 0; at < shards.length; at += PAGE) {
    const page = shards.slice(at, at + PAGE);
    const next = at + PAGE < shards.length ? (page.at(-1)?.id ?? null) : null;
    const path = at === 0 ? "/v1/shards" : `/v1/shards?after=${at}`;
    answers[path] = {
      status: 200,
      type: "application/json",
      body: { node: firstNode.id, health, shards: page, next },
    };
  }
  if (isAsked) {
    const decisions = body("/v1/decisions");
    answers["/v1/shards?scope=cluster"] = /** @type {import("./serve.mjs").Answer} */ (answers["/v1/shards"]);
    answers["/v1/decisions?scope=cluster"] = { status: 200, type: "application/json", body: decisions };
    const metrics = () => ({ nodes: nodes.filter(({ state }) => state === "up").map(counted), silent: [] });
    for (const links of ["", "&links=true"]) {
      answers[`/v1/metrics?scope=cluster${links}`] = { status: 200, type: "application/json", body: metrics };
    }
  }
  return { name: `${nodeCount} nodes`, at_ms: base.at_ms, answers };
}

/** What a node has counted by now: half a processor, and memory that tells which node it is. */
function counted(/** @type {{ id: string, name: string }} */ node, /** @type {number} */ i) {
  const now = Date.now();
  const numbers = {
    process_cpu_seconds_total: now / 2000,
    memory_used_bytes: (i + 1) * 2 ** 20,
    log_disk_bytes: 64 * 2 ** 20,
  };
  return { id: node.id, name: node.name, at_ms: now, uptime_ms: now, numbers, histograms: {} };
}
