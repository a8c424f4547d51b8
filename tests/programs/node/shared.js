// What the programs of Node.js share; shared.py says what they are called with and print.

import Redis from 'ioredis';

export const nodes = process.argv[2].split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});
export const seconds = Number(process.argv[3]);
export const mode = process.argv[4];
export const RECOVERY_MS = 20_000;
const ROUND_MS = 500;
const failed = [];

export const now = () => performance.now();
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** A client through a node that sends nothing twice; in mode cluster the cluster client. */
export function client(number, db = 0) {
  const one = mode === 'cluster'
    ? new Redis.Cluster(nodes, { redisOptions: { commandTimeout: 5000 } })
    : new Redis({
      ...nodes[number % nodes.length], db, commandTimeout: 5000, maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false, retryStrategy: () => 100,
    });
  one.on('error', () => {});
  return one;
}

/** Whether a node may answer so while another is dead. */
export function passing(error) {
  return /^(UNKNOWN|TRYAGAIN|BUSY|LOADING|CLUSTERDOWN)\b/.test(error.message)
    || /ECONN|EPIPE|Connection is closed|Command timed out|max retries|Stream isn't writeable/.test(
      error.message)
    || ['AbortError', 'ClusterAllFailedError', 'MaxRetriesPerRequestError'].includes(error.name);
}

export function assert(truth, text) {
  if (!truth) throw new Error(text);
}

export async function check(name, test) {
  try {
    await test();
    console.log(`ok ${name}`);
  } catch (error) {
    failed.push(name);
    console.log(`FAIL ${name}: ${error.name}: ${String(error.message).slice(0, 300)}`);
  }
}

/** Runs so many workers at once until the load's end. */
export async function load(count, worker) {
  console.log('loading');
  const end = now() + seconds * 1000;
  await Promise.all(Array.from({ length: count }, (_, number) => worker(number, end)));
}

/** Tries until the attempt holds, as it must soon after the kill. */
export async function untilWorks(what, attempt) {
  const deadline = now() + RECOVERY_MS;
  let why = 'no';
  for (;;) {
    try {
      if (await attempt()) return;
    } catch (error) {
      why = error.message;
    }
    assert(now() < deadline, `${what} not within ${RECOVERY_MS} ms: ${why}`);
    await sleep(50);
  }
}

/** Counts by round of what a rate limiter said. */
export class Admitted {
  constructor(limit) {
    this.limit = limit;
    this.began = now();
    this.counts = new Map();
  }

  name() {
    return String(Math.floor((now() - this.began) / ROUND_MS));
  }

  /** kind: 0 admitted, 1 refused, 2 without an answer */
  count(name, kind) {
    if (!this.counts.has(name)) this.counts.set(name, [0, 0, 0]);
    this.counts.get(name)[kind] += 1;
  }

  /** Never more than the limit; less only by attempts without an answer. */
  judge() {
    const sums = [0, 0, 0];
    assert(this.counts.size > (seconds * 1000) / ROUND_MS / 2, `${this.counts.size} rounds`);
    for (const [name, counts] of this.counts) {
      const [admitted, refused, unanswered] = counts;
      counts.forEach((each, kind) => { sums[kind] += each; });
      assert(admitted <= this.limit, `${admitted} of ${this.limit} admitted in round ${name}`);
      if (refused && mode === 'any') {
        assert(admitted + unanswered >= this.limit,
          `round ${name}: ${admitted} admitted, ${refused} refused, ${unanswered} unanswered`);
      }
    }
    assert(sums[0] && sums[1], String(sums));
    console.log(`note: ${this.counts.size} rounds, ${sums[0]} admitted, ${sums[1]} refused, `
      + `${sums[2]} without an answer`);
  }
}

export function finish() {
  process.exit(failed.length ? 1 : 0);
}
