// redlock over ioredis: three databases, each through another node, count as its three servers; so
// a majority is there also while a node is dead. Never two holders, always free in the end.

import Redlock from 'redlock';
import { assert, check, client, finish, load, nodes, now, sleep, untilWorks } from './shared.js';

const TTL_MS = 1500;
const WORKERS = 6;
const NAMES = ['redlock-a', 'redlock-b'];
const DATABASES = [1, 2, 3];

const managers = Array.from({ length: WORKERS }, (_, number) => {
  const servers = DATABASES.map((db) => client(number + db, db));
  const manager = new Redlock(servers, { retryCount: 0 });
  manager.on('clientError', () => {});
  return manager;
});
const held = new Map();
let taken = 0;
let unreleased = 0;

/** Takes a lock for a moment; whether it could. */
async function hold(manager, name, who) {
  const asked = now();
  let lock;
  try {
    lock = await manager.lock(name, TTL_MS);
  } catch (error) {
    if (error.name !== 'LockError') throw error;
    return false;
  }
  const other = held.get(name);
  assert(!other || now() >= other.until,
    `${who} got ${name} while ${other?.who} had it for ${other?.until - now()} ms more`);
  taken += 1;
  held.set(name, { who, until: asked + TTL_MS * 0.95 });
  await sleep(2 + Math.random() * 15);
  if (held.get(name)?.who === who) held.delete(name);
  try {
    await lock.unlock();
  } catch (error) {
    if (error.name !== 'LockError') throw error;
    unreleased += 1;
  }
  return true;
}

await check('redlock: calls', async () => {
  await sleep(500);
  const lock = await managers[0].lock('redlock-calm', 10_000);
  for (const manager of managers) {
    const second = await manager.lock('redlock-calm', 10_000).catch((error) => error);
    assert(second.name === 'LockError', String(second));
  }
  const longer = await lock.extend(20_000);
  assert(longer.expiration - Date.now() > 15_000, `${longer.expiration}`);
  await longer.unlock();
  for (const number of nodes.keys()) {
    for (const db of DATABASES) {
      const one = client(number, db);
      assert(await one.get('redlock-calm') === null, `left in database ${db}`);
      one.disconnect();
    }
  }
  const both = await managers[1].lock(['redlock-calm', 'redlock-other'], 10_000);
  await both.unlock();
});
await check('redlock: never two holders', () => load(WORKERS, async (number, end) => {
  while (now() < end) {
    const name = NAMES[Math.floor(Math.random() * NAMES.length)];
    if (!await hold(managers[number], name, number)) await sleep(5 + Math.random() * 30);
  }
}));
await check('redlock: taken often', () => {
  console.log(`note: taken ${taken} times, ${unreleased} releases without an answer`);
  assert(taken > 20, `${taken}`);
});
await check('redlock: free after its time', async () => {
  for (const [number, manager] of managers.entries()) {
    for (const name of NAMES) {
      await untilWorks(`${name} by manager ${number}`, () => hold(manager, name, 'last'));
    }
  }
});
finish();
