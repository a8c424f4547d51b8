// Records what three real nodes answer into tests/data/three-nodes.json: the demonstration data of
// the unit tests and of the browser check. `CARILLON=PATH npm run record`.
import { writeFileSync } from "node:fs";
import { call, fill, put, sleep, split, startCluster, until } from "./cluster.mjs";

const KEYS = { 0: ["greeting", "user:42"], orders: ["order/00042", "order/00099"], catalog: ["bell-7"] };

/** One answer, as a page sees it. */
async function answer(/** @type {string} */ url) {
  const response = await fetch(url);
  const type = response.headers.get("content-type") ?? "";
  const headers = Object.fromEntries(
    [...response.headers].filter(([name]) => name === "etag" || name.startsWith("carillon-")),
  );
  const text = await response.text();
  return { status: response.status, type, headers, body: type.includes("json") ? JSON.parse(text) : text };
}

/** All that the console asks for at one moment. */
async function moment(/** @type {string} */ base, /** @type {string} */ name) {
  const paths = [
    "/v1/status",
    "/v1/nodes",
    "/v1/shards",
    "/v1/keyspaces",
    "/v1/decisions",
    "/v1/decisions?dry=true",
    "/metrics",
  ];
  for (const [keyspace, keys] of Object.entries(KEYS)) {
    for (const key of keys) {
      const path = `${keyspace}/${encodeURIComponent(key)}`;
      paths.push(`/v1/kv/${path}`, `/v1/route/${path}`);
      for (const form of ["iterative", "recursive", "semi-recursive"]) {
        paths.push(`/v1/route/${path}?lookup=${form}+noimages`);
      }
    }
  }
  paths.push("/v1/kv/0/nothing-here", "/v1/kv/nowhere/k", "/v1/kv/0/greeting?at=5ms");
  /** @type {Record<string, unknown>} */
  const answers = {};
  for (const path of paths) answers[path] = await answer(base + path);
  return { name, at_ms: Date.now(), answers };
}

const cluster = await startCluster(3);
try {
  const [base = ""] = cluster.urls;
  await fill(cluster.urls);
  await sleep(3_000);
  const moments = [await moment(base, "all is well")];

  const { shards } = await call("GET", `${base}/v1/shards?keyspace=0`, undefined);
  await split(cluster.urls, shards[2].id, undefined);
  await until("the split is seen", async () => {
    const now = await call("GET", `${base}/v1/shards?keyspace=0`, undefined);
    return now.shards.length > shards.length;
  });
  await put(base, "0", "greeting", "hello again");
  await sleep(1_500);
  moments.push(await moment(base, "a shard was split"));

  process.kill(cluster.pid("node-3"), "SIGKILL");
  await until("node-3 is seen down", async () => {
    const { nodes } = await call("GET", `${base}/v1/nodes`, undefined);
    return nodes.some((/** @type {{ state: string }} */ node) => node.state === "down");
  });
  await until("every shard has a leader again", async () => {
    const now = await call("GET", `${base}/v1/shards`, undefined);
    return now.shards.every((/** @type {{ leader: string | null }} */ shard) => shard.leader !== null);
  });
  moments.push(await moment(base, "node-3 is down"));

  const out = new URL("../tests/data/three-nodes.json", import.meta.url);
  const text = JSON.stringify({ format: 1, moments }, null, 1);
  writeFileSync(out, text.replaceAll(`${cluster.dir}/data`, "/var/lib/carillon") + "\n");
  console.log(`recorded ${moments.length} moments`);
} finally {
  await cluster.stop();
}
