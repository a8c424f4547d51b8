// ioredis's cluster client where nodes have listeners for replicas: replicas.js HOST:PORT,…
import assert from "node:assert/strict";
import { Cluster } from "ioredis";

const nodes = process.argv[2].split(",").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});
let failed = false;

async function check(name, test) {
  try {
    await test();
    console.log(`ok ioredis replicas ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAIL ioredis replicas ${name}: ${String(error.message).slice(0, 300).replace(/\n/g, " ")}`);
  }
}

const redis = new Cluster(nodes, { scaleReads: "slave" });
redis.on("error", (error) => console.log(`note: ${error.message}`));
await redis.ping();

await check("nodes", async () => {
  assert.equal(redis.nodes("master").length, 3);
  assert.equal(redis.nodes("slave").length, 3);
  for (const node of redis.nodes("slave")) {
    const [role, , port] = await node.role();
    assert.equal(role, "slave");
    assert.ok(nodes.some((known) => known.port === port), `${port} is a master's`);
  }
});
await check("reads", async () => {
  const count = async () => {
    const infos = await Promise.all(redis.nodes("slave").map((node) => node.info("commandstats")));
    return infos.map((info) => Number(/cmdstat_get:calls=(\d+)/.exec(info)?.[1] ?? 0)).reduce((a, b) => a + b);
  };
  const before = await count();
  for (let i = 0; i < 100; i++) {
    assert.equal(await redis.set(`irr:${i}`, i), "OK");
    assert.equal(await redis.get(`irr:${i}`), String(i));
  }
  assert.ok((await count()) - before >= 100);
});
await check("each replica", async () => {
  for (const node of redis.nodes("slave")) {
    for (let i = 0; i < 100; i++) assert.equal(await node.get(`irr:${i}`), String(i));
    await assert.rejects(node.flushall(), /READONLY/);
  }
});
redis.disconnect();
process.exit(failed ? 1 : 0);
