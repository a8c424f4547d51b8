// ioredis as applications use it: test.js HOST PORT use|verify [default|resp2|resp3]
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const [host, port, phase] = [process.argv[2], Number(process.argv[3]), process.argv[4]];
const only = process.argv[5];
const big = Buffer.alloc(10 << 20, "0123456789abcdef");
let failed = false;

async function report(name, test) {
  try {
    await test();
    console.log(`ok ioredis ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ioredis ${name}: ${String(error.message).slice(0, 300).replace(/\n/g, " ")}`);
  }
}

async function scanAll(redis, match) {
  const found = new Set();
  for await (const keys of redis.scanStream({ match, count: 50 })) keys.forEach((k) => found.add(k));
  return found;
}

async function use(mode, redis, other) {
  const key = (text) => `io:${mode}:${text}`;
  const check = (name, test) => report(`${mode} ${name}`, test);
  await check("set and get", async () => {
    assert.equal(await redis.set(key("a"), "x"), "OK");
    assert.equal(await redis.get(key("a")), "x");
    assert.equal(await redis.get(key("none")), null);
    assert.equal(await redis.set(key("a"), "y", "NX"), null);
    assert.equal(await redis.set(key("a"), "z", "EX", 100, "GET"), "x");
    assert.deepEqual(await redis.mget(key("a"), key("none")), ["z", null]);
    assert.equal(await redis.incrby(key("n"), 5), 5);
    assert.equal(await redis.del(key("a"), key("none")), 1);
  });
  await check("pipeline", async () => {
    const pipeline = redis.pipeline();
    for (let i = 0; i < 2000; i++) pipeline.set(key(`p${i}`), i).get(key(`p${i}`));
    const replies = await pipeline.exec();
    assert.equal(replies.length, 4000);
    assert.deepEqual(replies[3999], [null, "1999"]);
  });
  await check("pipeline with an error", async () => {
    const replies = await redis.pipeline().set(key("e"), "abc").incr(key("e")).get(key("e")).exec();
    assert.match(replies[1][0].message, /value is not an integer/);
    assert.equal(replies[2][1], "abc");
  });
  await check("multi", async () => {
    const [a, b] = [key("{t}a"), key("{t}b")];
    const done = await redis.multi().set(a, 1).incr(a).mset(b, "x").mget(a, b).del(b, a).exec();
    assert.deepEqual(done.map(([, reply]) => reply), ["OK", 2, "OK", ["2", "x"], 2]);
    const refused = await redis.multi().set(a, "word").incr(a).get(a).exec();
    assert.match(refused[1][0].message, /value is not an integer/);
    assert.equal(refused[2][1], "word");
    await assert.rejects(redis.multi().get(a).call("get").exec(), /EXECABORT/);
    const apart = redis.multi();
    for (let i = 0; i < 20; i++) apart.incrby(key(`apart${i}`), i);
    const sums = (await apart.exec()).map(([, reply]) => reply);
    assert.deepEqual(sums, Array.from({ length: 20 }, (_, i) => i));
    await redis.del(Array.from({ length: 20 }, (_, i) => key(`apart${i}`)));
  });
  await check("watch", async () => {
    const [a, b] = [key("{w}a"), key("{w}b")];
    const mine = redis.duplicate();
    await mine.watch(a, b);
    await redis.set(a, "changed");
    assert.equal(await mine.multi().set(b, 1).exec(), null);
    await mine.watch(a, b);
    assert.deepEqual(await mine.multi().set(b, 1).exec(), [[null, "OK"]]);
    mine.disconnect();
  });
  await check("many at once on one connection", async () => {
    const values = await Promise.all(Array.from({ length: 1000 }, () => redis.incr(key("count"))));
    assert.deepEqual(values, Array.from({ length: 1000 }, (_, i) => i + 1));
  });
  await check("expire", async () => {
    await redis.set(key("soon"), "x", "PX", 60);
    await sleep(150);
    // Up to a second later where another node has just come to lead.
    const deadline = Date.now() + 1200;
    while ((await redis.get(key("soon"))) !== null && Date.now() < deadline) await sleep(50);
    assert.equal(await redis.get(key("soon")), null);
    await redis.set(key("later"), "x");
    assert.equal(await redis.expire(key("later"), 5000), 1);
    assert.ok((await redis.ttl(key("later"))) > 4990);
  });
  await check("scan", async () => {
    for (let i = 0; i < 500; i++) redis.set(key(`scan${i}`), i);
    assert.equal((await scanAll(redis, key("scan*"))).size, 500);
  });
  await check("keyspaces", async () => {
    await redis.set(key("here"), "zero");
    await other.set(key("here"), "six");
    assert.equal(await redis.get(key("here")), "zero");
    assert.equal(await other.get(key("here")), "six");
  });
  await check("binary", async () => {
    const value = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await redis.set(value, value);
    assert.deepEqual(await redis.getBuffer(value), value);
  });
  await check("10 MiB", async () => {
    assert.equal(await redis.set(key("big"), big), "OK");
    assert.ok(big.equals(await redis.getBuffer(key("big"))));
  });
  await check("errors", async () => {
    await assert.rejects(redis.incr(key("e")), /value is not an integer/);
    await assert.rejects(redis.call("NOSUCH", "x"), /unknown command 'NOSUCH'/);
    await assert.rejects(redis.call("GET"), /wrong number of arguments/);
  });
  await check("info and a name", async () => {
    assert.match(await redis.info(), /redis_version:7\.0\.15/);
    await redis.client("SETNAME", "io-test");
    assert.equal(await redis.client("GETNAME"), "io-test");
  });
  await check("kept", async () => {
    await redis.set(key("kept"), "kept");
    await redis.set(key("expiring"), "x", "EX", 100000);
  });
}

async function verify(mode, redis, other) {
  await report(`${mode} kept over a restart`, async () => {
    assert.equal(await redis.get(`io:${mode}:kept`), "kept");
    assert.ok((await redis.ttl(`io:${mode}:expiring`)) > 99000);
    assert.ok(big.equals(await redis.getBuffer(`io:${mode}:big`)));
    assert.equal(await other.get(`io:${mode}:here`), "six");
    assert.equal((await scanAll(redis, `io:${mode}:scan*`)).size, 500);
    assert.equal(await redis.get(`io:${mode}:count`), "1000");
  });
}

for (const protocol of [undefined, 2, 3]) {
  const mode = protocol ? `resp${protocol}` : "default";
  if (only && only !== mode) continue;
  const options = { host, port, ...(protocol && { protocol }) };
  const redis = new Redis(options);
  const other = new Redis({ ...options, db: 6 });
  for (const each of [redis, other]) each.on("error", (error) => console.log(`note: ${error.message}`));
  await (phase === "use" ? use : verify)(mode, redis, other);
  await redis.quit();
  await other.quit();
}
process.exit(failed ? 1 : 0);
