// ioredis at a past time: past.js HOST:PORT,…
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const nodes = process.argv[2].split(",").map((address) => address.split(":"));
const key = `past:io:${Date.now()}`;
let failed = false;

async function check(name, test) {
  try {
    await test();
    console.log(`ok ioredis past ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ioredis past ${name}: ${String(error.message).slice(0, 300).replace(/\n/g, " ")}`);
  }
}

const clients = nodes.map(([host, port]) => new Redis({ host, port: Number(port) }));
await clients[0].set(key, "before");
await sleep(50);
// By the node's clock: where this machine's clock is set while nodes run, they do not follow it.
const [seconds, micros] = await clients[0].time();
const at = `${Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)}ms`;
await sleep(50);
await clients[0].mset(key, "after", `${key}:later`, "x");

await check("CLIENT AT", async () => {
  for (const redis of clients) {
    assert.equal(await redis.call("CLIENT", "AT", at), "OK");
    assert.deepEqual(await redis.mget(key, `${key}:later`), ["before", null]);
    assert.equal(await redis.call("STATE", `${key}:later`), "nil_yet");
    await assert.rejects(redis.set(key, "never"), /SET cannot run at a past time/);
    // A pipeline of reads, too.
    const replies = await redis.pipeline().get(key).strlen(key).get(`${key}:later`).exec();
    assert.deepEqual(replies, [[null, "before"], [null, 6], [null, null]]);
    assert.equal(await redis.call("CLIENT", "AT", "OFF"), "OK");
    assert.equal(await redis.get(key), "after");
  }
});
await check("MULTI with AT", async () => {
  for (const redis of clients) {
    const done = await redis.multi().call("AT", at).get(key).exists(`${key}:later`).exec();
    assert.deepEqual(done.map(([, reply]) => reply), ["OK", "before", 0]);
    await assert.rejects(redis.multi().call("AT", at).incr(key).exec(), /EXECABORT/);
    assert.equal(await redis.get(key), "after");
  }
});
clients.forEach((redis) => redis.disconnect());
process.exit(failed ? 1 : 0);
