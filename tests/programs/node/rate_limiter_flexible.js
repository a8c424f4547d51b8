// rate-limiter-flexible over ioredis: six workers through all nodes.

import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { Admitted, assert, check, client, finish, load, now, passing, sleep, untilWorks } from './shared.js';

const LIMIT = 20;
const BRIEF_LIMIT = 5;
const WORKERS = 6;

const limiters = Array.from({ length: WORKERS }, (_, number) => {
  const storeClient = client(number);
  return {
    long: new RateLimiterRedis({ storeClient, keyPrefix: 'rlf', points: LIMIT, duration: 60 }),
    brief: new RateLimiterRedis({ storeClient, keyPrefix: 'rlfb', points: BRIEF_LIMIT, duration: 1 }),
  };
});

/** 0 admitted, 1 refused, 2 without an answer */
async function consume(limiter, name) {
  try {
    const admitted = await limiter.consume(name);
    assert(admitted.consumedPoints >= 1, JSON.stringify(admitted));
    return 0;
  } catch (refused) {
    if (refused instanceof RateLimiterRes) {
      assert(refused.msBeforeNext > 0 && refused.remainingPoints === 0, JSON.stringify(refused));
      return 1;
    }
    if (!passing(refused)) throw refused;
    await sleep(20);
    return 2;
  }
}

await check('rate-limiter-flexible: calls', async () => {
  const { long } = limiters[0];
  const first = await long.consume('calm', 3);
  assert(first.consumedPoints === 3 && first.remainingPoints === 17, JSON.stringify(first));
  assert(first.msBeforeNext > 55_000 && first.msBeforeNext <= 60_000, JSON.stringify(first));
  const seen = await limiters[1].long.get('calm');
  assert(seen.consumedPoints === 3, JSON.stringify(seen));
  await limiters[2].long.reward('calm', 1);
  await limiters[2].long.penalty('calm', 2);
  assert((await long.get('calm')).consumedPoints === 4, 'reward and penalty');
  await long.block('calm', 5);
  assert(await consume(limiters[1].long, 'calm') === 1, 'blocked');
  assert(await limiters[2].long.delete('calm'), 'deleted');
  assert(await consume(limiters[1].long, 'calm') === 0, 'free again');
});

const count = new Admitted(LIMIT);
let briefly = 0;
let took = 0;
await check('rate-limiter-flexible: load over a kill -9', async () => {
  const began = now();
  await load(WORKERS, async (number, end) => {
    while (now() < end) {
      const name = count.name();
      count.count(name, await consume(limiters[number].long, name));
      if (await consume(limiters[number].brief, 'brief') === 0) briefly += 1;
    }
  });
  took = now() - began;
});
await check('rate-limiter-flexible: never above the limit', () => count.judge());
await check('rate-limiter-flexible: windows of a second', async () => {
  const most = BRIEF_LIMIT * (Math.floor(took / 1000) + 2);
  assert(briefly > BRIEF_LIMIT && briefly <= most, `${briefly}, at most ${most}`);
  for (const { brief } of limiters) {
    await untilWorks('a new window', async () => await consume(brief, 'brief') === 0);
  }
});
finish();
