// ioredis by TLS: tls.js HOST:PORT,… CA OTHER_CA
import assert from "node:assert/strict";
import fs from "node:fs";
import Redis, { Cluster } from "ioredis";

const nodes = process.argv[2].split(",").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});
const [ca, otherCa] = process.argv.slice(3, 5).map((file) => fs.readFileSync(file));
let failed = false;

async function check(name, test) {
  try {
    await test();
    console.log(`ok ioredis tls ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ioredis tls ${name}: ${String(error.message).slice(0, 300).replace(/\n/g, " ")}`);
  }
}

await check("alone", async () => {
  const redis = new Redis({ ...nodes[0], tls: { ca } });
  assert.equal(await redis.ping(), "PONG");
  const long = "x".repeat(300000);
  assert.equal(await redis.echo(long), long);
  redis.disconnect();
});
await check("cluster", async () => {
  const redis = new Cluster(nodes, { redisOptions: { tls: { ca } } });
  await Promise.all(Array.from({ length: 100 }, (_, i) => redis.set(`io:${i}`, i)));
  for (let i = 0; i < 100; i++) assert.equal(await redis.get(`io:${i}`), String(i));
  const ports = redis.nodes("master").map((node) => node.options.port).sort();
  assert.deepEqual(ports, nodes.map((node) => node.port).sort());
  redis.disconnect();
});
await check("others are refused", async () => {
  const options = { ...nodes[0], retryStrategy: null, maxRetriesPerRequest: 0 };
  for (const tls of [{ ca: otherCa }, undefined]) {
    const redis = new Redis({ ...options, tls, connectTimeout: 5000 });
    redis.on("error", () => {});
    await assert.rejects(redis.ping());
    redis.disconnect();
  }
});
process.exit(failed ? 1 : 0);
