// A cluster of real nodes for the recorder and the browser check: in a directory of its own, on
// loopback, and ended by the ids of its processes.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** How long nodes may take until they serve. */
const READY_TIMEOUT_MS = 30_000;
/** How long they may take to end before they are killed. */
const STOP_TIMEOUT_MS = 10_000;
/** A node's ports are at these distances from its port for Redis clients. */
const PORT_OFFSETS = { resp: 0, native: 1021, http: 1101, peer: 1221, nbd: 4430 };
/** The base ports to choose from: the system gives no port of such a cluster to an outgoing connection (those are
 * from 32768 on). */
const BASE_PORTS = { first: 12_000, count: 16_000 };

/** The binary: CARILLON, or what `make build` has built. */
export function binary() {
  const path = resolve(process.env["CARILLON"] ?? "../target/release/carillon");
  if (!existsSync(path)) throw new Error(`${path} is not there: run make build, or set CARILLON`);
  return path;
}

export const sleep = (/** @type {number} */ ms) => new Promise((done) => setTimeout(done, ms));

/** Calls `probe` until it returns something true.
 * @returns {Promise<any>} */
export async function until(
  /** @type {string} */ what,
  /** @type {() => unknown} */ probe,
  timeout = READY_TIMEOUT_MS,
) {
  const end = Date.now() + timeout;
  for (;;) {
    const found = await Promise.resolve(probe()).catch(() => undefined);
    if (found) return found;
    if (Date.now() > end) throw new Error(`gave up after ${timeout} ms: ${what}`);
    await sleep(100);
  }
}

/** Whether a port of this machine can be listened on. */
function isFree(/** @type {number} */ port) {
  return new Promise((done) => {
    const server = createServer()
      .once("error", () => done(false))
      .once("listening", () => server.close(() => done(true)))
      .listen(port, "127.0.0.1");
  });
}

/** A base port whose offsets are all free. */
async function freeBasePort(/** @type {number} */ nodes) {
  for (let tries = 0; tries < 50; tries++) {
    const base = BASE_PORTS.first + Math.floor(Math.random() * BASE_PORTS.count);
    const ports = Object.values(PORT_OFFSETS).flatMap((offset) =>
      Array.from({ length: nodes }, (_, i) => base + offset + i),
    );
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return base;
  }
  throw new Error("found no free ports");
}

/** For clusters whose small shards are to stay as they were cut. */
export const UNMERGED = ["--merge-bytes", "off"];

/** Starts a cluster, with flags of `carillon start` for every node, and waits until every node serves. */
export async function startCluster(nodes = 3, /** @type {readonly string[]} */ flags = []) {
  const dir = mkdtempSync(join(tmpdir(), "carillon-console-"));
  const base = await freeBasePort(nodes);
  const args = ["dev", "--nodes", String(nodes), "--dir", join(dir, "data"), "--base-port", String(base)];
  if (flags.length > 0) args.push("--", ...flags);
  const child = spawn(binary(), args, { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const ended = new Promise((done) => child.once("exit", done));
  const urls = Array.from({ length: nodes }, (_, i) => `http://127.0.0.1:${base + PORT_OFFSETS.http + i}`);

  const stop = async () => {
    child.kill("SIGINT");
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(late);
    rmSync(dir, { recursive: true, force: true });
  };
  /** The process of a node, by the table that `carillon dev` prints. */
  const pid = (/** @type {string} */ name) => {
    const row = output.split("\n").find((line) => line.startsWith(`${name} `));
    const found = Number(row?.trim().split(/\s+/)[5]);
    if (!Number.isInteger(found) || found < 2) throw new Error(`no process of ${name} in:\n${output}`);
    return found;
  };
  try {
    await until("all nodes are ready", async () => {
      if (child.exitCode !== null) throw new Error(`carillon dev has ended:\n${output}`);
      const answers = await Promise.all(urls.map((url) => fetch(`${url}/v1/status`).then((r) => r.json())));
      return answers.every((each) => each.ready && each.cluster.members_up === nodes);
    });
  } catch (error) {
    await stop();
    throw new Error(`${error}\n${output}`, { cause: error });
  }
  return { urls, dir, pid, stop };
}

/** Whether the binary has `carillon console`. */
export function hasSimulator() {
  return spawnSync(binary(), ["console", "--help"], { stdio: "ignore" }).status === 0;
}

/** Starts `carillon console`, and waits until it answers. */
export async function startSimulator(/** @type {string[]} */ args = []) {
  const port = await freeBasePort(1);
  const child = spawn(binary(), ["console", "--http", `127.0.0.1:${port}`, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const ended = new Promise((done) => child.once("exit", done));
  const url = `http://127.0.0.1:${port}`;
  const stop = async () => {
    child.kill("SIGINT");
    const late = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(late);
  };
  try {
    await until("the simulator answers", async () => {
      if (child.exitCode !== null) throw new Error(`carillon console has ended:\n${output}`);
      return (await fetch(`${url}/v1/sim`)).ok;
    });
  } catch (error) {
    await stop();
    throw new Error(`${error}\n${output}`, { cause: error });
  }
  return { url, stop };
}

/** A request with a JSON body, if there is one; throws what a node answers that is no success. */
export async function call(
  /** @type {string} */ method,
  /** @type {string} */ url,
  /** @type {unknown} */ json,
) {
  const headers = { "Content-Type": "application/json" };
  const body = json === undefined ? null : JSON.stringify(json);
  const response = await fetch(url, { method, ...(body === null ? {} : { body, headers }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

/** Puts a value; a node that says it did nothing, as while a leader is elected, is asked again. */
export async function put(
  /** @type {string} */ base,
  /** @type {string} */ keyspace,
  /** @type {string} */ key,
  /** @type {string} */ value,
) {
  const url = `${base}/v1/kv/${keyspace}/${encodeURIComponent(key)}`;
  for (let end = Date.now() + READY_TIMEOUT_MS; ;) {
    const response = await fetch(url, { method: "PUT", body: value });
    const text = await response.text();
    if (response.ok) return;
    if (response.status !== 503 || Date.now() > end)
      throw new Error(`PUT ${url}: ${response.status} ${text}`);
    await sleep(200);
  }
}

/** Splits a shard at its leader, whichever that is. */
export async function split(
  /** @type {string[]} */ urls,
  /** @type {number} */ shard,
  /** @type {unknown} */ at,
) {
  return until(`shard ${shard} is split`, async () => {
    for (const url of urls) {
      const done = await call(
        "POST",
        `${url}/v1/shards/${shard}/split`,
        at === undefined ? {} : { at },
      ).catch(() => null);
      if (done) return done;
    }
    return null;
  });
}

/** Three keyspaces with keys in them, in several shards: what the recording and the check show. */
export async function fill(/** @type {string[]} */ urls) {
  const base = urls[0] ?? "";
  await call("POST", `${base}/v1/keyspaces`, {
    name: "orders",
    placement: "ordered",
    retention_ms: 3_600_000,
  });
  await call("POST", `${base}/v1/keyspaces`, { name: "catalog", placement: "linear-hash" });
  const towns = ["Antwerp", "Bruges", "Ghent", "Leuven", "Mechelen", "Namur"];
  for (let i = 1; i <= 120; i++) {
    const order = { order: i, town: towns[i % towns.length], bells: (i * 7) % 49, paid: i % 3 === 0 };
    await put(base, "orders", `order/${String(i).padStart(5, "0")}`, JSON.stringify(order));
    await put(base, "catalog", `bell-${i}`, `bell ${i}: ${(i * 37) % 900} kg`);
  }
  for (let i = 1; i <= 200; i++) await put(base, "0", `user:${i}`, `user ${i}`);
  await put(base, "0", "greeting", "hello");
  const shards = (await call("GET", `${base}/v1/shards?keyspace=orders`, undefined)).shards;
  const first = await split(urls, shards[0].id, "order/00060");
  await sleep(500);
  await split(urls, shards[0].id, "order/00030");
  await split(urls, first.right, "order/00090");
  const bucket = (await call("GET", `${base}/v1/shards?keyspace=catalog`, undefined)).shards[0].id;
  const second = await split(urls, bucket, undefined);
  await sleep(500);
  await split(urls, bucket, undefined);
  await split(urls, second.right, undefined);
  await until("leaders are spread", async () => {
    const { nodes } = await call("GET", `${base}/v1/nodes`, undefined);
    const leads = nodes.map((/** @type {{ leads: number }} */ node) => node.leads);
    return Math.max(...leads) - Math.min(...leads) <= 3;
  });
}
