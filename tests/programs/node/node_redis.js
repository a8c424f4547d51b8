// node-redis with its client-side cache on: what is cached is never stale for long, whichever node
// a write goes through, and never for ever.

import { createClient } from 'redis';
import { assert, check, finish, load, nodes, now, passing, sleep, untilWorks } from './shared.js';

const KEYS = 20;
// With healthy links, and while a node is dead, whose lease of a second runs out then. Both are
// generous, as machines of tests are busy.
const HEALTHY_MS = 1000;
const STALE_MS_MAX = 3000;

async function connected(number, cached) {
  const { host, port } = nodes[number % nodes.length];
  const one = createClient({
    RESP: 3,
    socket: { host, port, reconnectStrategy: () => 100 },
    disableOfflineQueue: true,
    ...(cached ? { clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: 'LRU' } } : {}),
  });
  one.on('error', () => {});
  await one.connect();
  return one;
}

const writers = await Promise.all(nodes.map((_, number) => connected(number, false)));
const readers = await Promise.all(nodes.map((_, number) => connected(number, true)));

await check('node-redis: a cached value, invalidated by another node', async () => {
  for (const [number, reader] of readers.entries()) {
    await writers[number].set('nr:calm', `a${number}`);
    await untilWorks('the first read', async () => await reader.get('nr:calm') === `a${number}`);
    for (let again = 0; again < 20; again += 1) await reader.get('nr:calm');
    const began = now();
    await writers[(number + 1) % writers.length].set('nr:calm', `b${number}`);
    await untilWorks('the new value', async () => await reader.get('nr:calm') === `b${number}`);
    assert(now() - began < HEALTHY_MS, `stale for ${now() - began} ms`);
    await writers[(number + 2) % writers.length].del('nr:calm');
    await untilWorks('its deletion', async () => await reader.get('nr:calm') === null);
  }
  const { hitCount } = readers[0].clientSideCache?.stats?.() ?? { hitCount: undefined };
  assert(hitCount === undefined || hitCount > 0, 'nothing came from the cache');
});

const written = new Array(KEYS).fill(0);
// Per key: when each version was acknowledged.
const acknowledged = Array.from({ length: KEYS }, () => []);
let stalest = 0;
let stale = 0;
let reads = 0;
let unanswered = 0;
await check('node-redis: load over a kill -9', () => load(nodes.length * 2, async (number, end) => {
  const at = number % nodes.length;
  for (let round = 1; now() < end; round += 1) {
    const key = Math.floor(Math.random() * KEYS);
    try {
      if (number < nodes.length) {
        // One writer per key, so that values only grow.
        const mine = key - (key % nodes.length) + at;
        if (mine < KEYS) {
          await writers[at].set(`nr:${mine}`, String(written[mine] + 1));
          written[mine] += 1;
          acknowledged[mine][written[mine]] = now();
        }
        await sleep(5);
      } else {
        const began = now();
        const seen = Number(await readers[at].get(`nr:${key}`) ?? 0);
        const replaced = acknowledged[key][seen + 1];
        reads += 1;
        if (replaced < began) {
          stale += 1;
          stalest = Math.max(stalest, began - replaced);
        }
        await sleep(1);
      }
    } catch (error) {
      if (!passing(error) && !/closed|offline|Socket|Disconnect/i.test(`${error.name} ${error.message}`)) {
        throw error;
      }
      unanswered += 1;
      await sleep(50);
    }
  }
}));
console.log(`note: ${written.reduce((sum, each) => sum + each)} writes, ${unanswered} requests without an `
  + `answer, ${stale} of ${reads} reads stale, by ${stalest.toFixed(0)} ms at most`);
await check('node-redis: bounded staleness', () => {
  assert(stalest < STALE_MS_MAX, `${stalest} ms`);
});
await check('node-redis: nothing stays stale', async () => {
  for (const [number, reader] of readers.entries()) {
    for (let key = 0; key < KEYS; key += 1) {
      await untilWorks(`nr:${key} through node ${number + 1}`,
        async () => Number(await reader.get(`nr:${key}`) ?? 0) >= written[key]);
    }
  }
});
finish();
