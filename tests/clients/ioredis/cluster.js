// ioredis's cluster client against mode cluster: cluster.js HOST:PORT,… SECONDS
// Tries everything, prints `loading`, writes for so many seconds (meanwhile a node is killed),
// prints `loaded`, waits for a line, and looks whether every acknowledged write is there.
import assert from "node:assert/strict";
import readline from "node:readline";
import { Cluster } from "ioredis";

const nodes = process.argv[2].split(",").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});
const seconds = Number(process.argv[3]);
// What the client retries by itself, until its attempts are used up.
const passing =
  /Connection is closed|ECONN|EPIPE|Too many Cluster redirections|Command timed out|Failed to refresh|CLUSTERDOWN|TRYAGAIN|MOVED|None of startup nodes|ETIMEDOUT/;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
let failed = false;

async function check(name, test) {
  try {
    await test();
    console.log(`ok ioredis cluster ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ioredis cluster ${name}: ${String(error.message).slice(0, 300).replace(/\n/g, " ")}`);
  }
}

function client(options) {
  const redis = new Cluster(nodes, { retryDelayOnFailover: 200, maxRedirections: 50, ...options });
  redis.on("error", (error) => console.log(`note: ${error.message}`));
  return redis;
}

const redis = client({});

await check("keys", async () => {
  await Promise.all(Array.from({ length: 300 }, (_, i) => redis.set(`ic:${i}`, i)));
  for (let i = 0; i < 300; i++) assert.equal(await redis.get(`ic:${i}`), String(i));
  assert.equal(await redis.incr("ic:n"), 1);
  await redis.mset("ic:{t}1", 1, "ic:{t}2", 2);
  assert.deepEqual(await redis.mget("ic:{t}1", "ic:{t}2"), ["1", "2"]);
  assert.equal(await redis.del("ic:0"), 1);
});
await check("pipeline", async () => {
  // ioredis wants the keys of a pipeline on one node: those of one tag are.
  for (let tag = 0; tag < 20; tag++) {
    let replies;
    // A lead may move within a pipeline: ioredis sends it again only if all of it was refused.
    for (let tries = 0; tries < 3 && (!replies || replies.some(([error]) => /MOVED/.test(error?.message))); tries++) {
      const pipeline = redis.pipeline();
      for (let i = 0; i < 50; i++) pipeline.set(`ip:{${tag}}${i}`, i).get(`ip:{${tag}}${i}`);
      replies = await pipeline.exec();
    }
    assert.deepEqual(replies[99], [null, "49"]);
  }
});
await check("keys of several slots", async () => {
  await assert.rejects(redis.mget("a", "b"), /same slot/);
});
await check("nodes", async () => {
  assert.equal(redis.nodes("all").length, 3);
  // A node that leads again counts as a replica until the slots are fetched again; and a lead may
  // move from a node that was not asked yet to one that was.
  let found;
  for (let tries = 0; tries < 5 && found?.size !== 1000; tries++) {
    if (tries > 0) await sleep(1000);
    await new Promise((done) => redis.refreshSlotsCache(done));
    found = new Set();
    for (const node of redis.nodes("master")) {
      for await (const keys of node.scanStream({ match: "ip:*", count: 100 })) keys.forEach((k) => found.add(k));
    }
  }
  assert.equal(found.size, 1000);
});
await check("reads at replicas", async () => {
  const near = client({ scaleReads: "slave" });
  for (let i = 0; i < 50; i++) {
    await near.set(`ir:${i}`, i);
    assert.equal(await near.get(`ir:${i}`), String(i));
  }
  await near.quit();
});

const acknowledged = new Map();
const counts = new Map();
const errors = new Map();
let longest = 0;

async function write(worker, end) {
  let last = Date.now();
  for (let i = 0; Date.now() < end; i++) {
    const key = `il:${worker}:${i}`;
    try {
      assert.equal(await redis.set(key, i), "OK");
      acknowledged.set(key, String(i));
      const counter = `il:count${i % 9}`;
      await redis.incr(counter);
      counts.set(counter, (counts.get(counter) ?? 0) + 1);
      const keys = Array.from({ length: 16 }, (_, each) => `il:{${worker}:${i}}${each}`);
      const pipeline = redis.pipeline();
      keys.forEach((each) => pipeline.set(each, i));
      const replies = await pipeline.exec();
      replies.forEach(([error, reply], at) => {
        if (error) throw error;
        if (reply === "OK") acknowledged.set(keys[at], String(i));
      });
    } catch (error) {
      if (!passing.test(error.message)) throw error;
      errors.set(error.message, (errors.get(error.message) ?? 0) + 1);
      continue;
    }
    longest = Math.max(longest, Date.now() - last);
    last = Date.now();
  }
}

console.log("loading");
await check("load over a kill -9", async () => {
  const end = Date.now() + seconds * 1000;
  await Promise.all(Array.from({ length: 4 }, (_, worker) => write(worker, end)));
  console.log(`note: ${acknowledged.size} keys, longest pause ${longest} ms, errors ${JSON.stringify([...errors])}`);
});
console.log("loaded");
for await (const _ of readline.createInterface({ input: process.stdin })) break;
await check("nothing acknowledged is lost", async () => {
  assert.ok(acknowledged.size > 100, String(acknowledged.size));
  const keys = [...acknowledged.keys()];
  const values = await Promise.all(keys.map((key) => redis.get(key)));
  keys.forEach((key, at) => assert.equal(values[at], acknowledged.get(key), key));
  // A client that retries what it had no answer to may count twice, but never less.
  for (const [counter, count] of counts) assert.ok(Number(await redis.get(counter)) >= count, counter);
});
redis.disconnect();
process.exit(failed ? 1 : 0);
