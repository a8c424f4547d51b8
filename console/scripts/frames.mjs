// npm run frames: how many frames a second the ring draws while keys move, in headless Chromium, which
// draws in software. Synthetic data: 200 nodes, 400 shards. It prints figures and judges them; it is no
// test, since they depend on what else the machine does: let it be quiet.
import { openBrowser, openPage } from "../tests/browser/page.mjs";
import { sleep } from "./cluster.mjs";
import { serve } from "./serve.mjs";
import { synthetic } from "./synthetic.mjs";

const NODES = 200;
const SHARDS = 400;
const KEYS = 10_000;
/** How long each figure is measured, and how often keys are set in motion meanwhile. */
const SECONDS = 6;
const NUDGE_MS = 450;

/** Frames with so many moving keys as are wanted, and the mean time between them. */
async function measure(
  /** @type {import("playwright-core").Page} */ page,
  /** @type {() => Promise<void> | void} */ nudge,
) {
  const cdp = await page.context().newCDPSession(page);
  // Processor time of the page's thread: what else runs does not count.
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return metrics.find((/** @type {{ name: string }} */ each) => each.name === "TaskDuration")?.value ?? 0;
  };
  await nudge();
  const before = await busy();
  const counting = page.evaluate(
    (seconds) =>
      new Promise((done) => {
        /** @type {{ frames: number, moving: number, longest: number }} */
        const sum = { frames: 0, moving: 0, longest: 0 };
        const start = performance.now();
        let last = start;
        const frame = () => {
          const now = performance.now();
          sum.frames += 1;
          sum.longest = Math.max(sum.longest, now - last);
          last = now;
          const canvas = document.querySelector("canvas[data-moving]");
          sum.moving += Number(canvas instanceof HTMLElement ? canvas.dataset["moving"] : 0);
          if (now - start < seconds * 1000) requestAnimationFrame(frame);
          else done({ ...sum, seconds: (now - start) / 1000 });
        };
        requestAnimationFrame(frame);
      }),
    SECONDS,
  );
  const end = Date.now() + SECONDS * 1000 - NUDGE_MS;
  while (Date.now() < end) {
    await sleep(NUDGE_MS);
    await nudge();
  }
  const { frames, moving, longest, seconds } = /** @type {any} */ (await counting);
  const cost = ((await busy()) - before) / frames;
  await cdp.detach();
  return {
    cost: cost * 1000,
    perSecond: frames / seconds,
    moving: Math.round(moving / frames),
    longest: Math.round(longest),
  };
}

const moment = synthetic({ nodes: NODES, shards: SHARDS, keys: KEYS });
const server = await serve({ moments: [moment] });
const browser = await openBrowser();
let isBelow = false;
try {
  const { page } = await openPage(browser, {});
  await page.goto(`${server.url}#/ring`);
  await page.getByText(`10\u2009000 keys`).first().waitFor({ timeout: 60_000 });
  await sleep(1500);
  /** @type {any} */
  const shards = moment.answers["/v1/shards"]?.body;
  let round = 0;
  const moved = shards.shards.slice(0, SHARDS / 5);
  /** A fifth of the shards exchange leaders: in the physical view their keys fly there. */
  const lead = () => {
    round += 1;
    const at = (BigInt(Date.now()) << 16n).toString();
    server.emitAll(
      moved.map((/** @type {any} */ shard, /** @type {number} */ i) => ({
        type: "leader-elected",
        node: moved[(i + round) % moved.length].leader,
        at,
        shard: shard.id,
        keyspace: "0",
        replica: 1,
        term: 100 + round,
        text: "elected",
      })),
    );
  };
  const views = page.getByRole("group", { name: "How shards are placed" });
  const toggle = async () => {
    round += 1;
    await views.getByText(round % 2 === 0 ? "By position" : "By node", { exact: true }).click();
  };
  const report = (/** @type {string} */ what, /** @type {any} */ found, /** @type {number} */ wanted) => {
    isBelow ||= found.perSecond < wanted;
    const verdict = found.perSecond < wanted ? "too few" : "enough";
    console.log(
      `${what}: ${found.perSecond.toFixed(1)} frames a second (wanted: ${wanted}, ${verdict}); ` +
        `${found.moving} keys moved on average; a frame took the page ${found.cost.toFixed(1)} ms of processor ` +
        `time, the longest ${found.longest} ms of the clock`,
    );
  };
  await views.getByText("By node", { exact: true }).click();
  await sleep(2000);
  report("2 000 of 10 000 keys moving", await measure(page, lead), 50);
  report("all 10 000 keys moving", await measure(page, toggle), 20);
} finally {
  await browser.close();
  await server.close();
}
process.exitCode = isBelow ? 1 : 0;
