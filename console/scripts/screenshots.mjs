// npm run screenshots: pictures for docs/console.md and the README, from a real cluster and from a
// simulated one, as WebP under docs/images/. `CARILLON` names the binary, `--dist` shows dist.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openBrowser, openPage } from "../tests/browser/page.mjs";
import { call, fill, hasSimulator, put, sleep, startCluster, startSimulator, UNMERGED } from "./cluster.mjs";
import { serve } from "./serve.mjs";

/** No picture may be larger. */
const BYTES_MAX = 150 * 1024;
const QUALITIES = [0.92, 0.85, 0.75, 0.6];
const out = fileURLToPath(new URL("../../docs/images/", import.meta.url));
mkdirSync(out, { recursive: true });

const browser = await openBrowser();
/** A page that turns PNG into WebP: the one encoder at hand. */
const encoder = await (await browser.newContext()).newPage();

/** Writes what a page shows. */
async function take(/** @type {import("playwright-core").Page} */ page, /** @type {string} */ name) {
  const png = (await page.screenshot()).toString("base64");
  for (const quality of QUALITIES) {
    const webp = await encoder.evaluate(
      async ([data, q]) => {
        const image = new Image();
        image.src = `data:image/png;base64,${data}`;
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        canvas.getContext("2d")?.drawImage(image, 0, 0);
        return canvas.toDataURL("image/webp", Number(q)).split(",")[1] ?? "";
      },
      [png, String(quality)],
    );
    const bytes = Buffer.from(webp, "base64");
    if (bytes.length > BYTES_MAX) continue;
    writeFileSync(`${out}${name}.webp`, bytes);
    console.log(`${name}.webp: ${Math.round(bytes.length / 1024)} KiB`);
    return;
  }
  throw new Error(`${name} is larger than ${BYTES_MAX} bytes at any quality`);
}

/** Where the page of a server is. */
async function pageOf(/** @type {string} */ url) {
  const own = await fetch(`${url}/`).then((answer) => answer.headers.get("content-type") ?? "");
  if (own.startsWith("text/html") && !process.argv.includes("--dist"))
    return { root: `${url}/`, close: () => {} };
  const server = await serve({ node: url });
  return { root: server.url, close: () => server.close() };
}

async function live() {
  const cluster = await startCluster(3, UNMERGED);
  const [base = ""] = cluster.urls;
  const { root, close } = await pageOf(base);
  let isOver = false;
  try {
    await fill(cluster.urls);
    // Requests and transactions go on, so that there is something to see.
    const load = (async () => {
      for (let i = 0; !isOver; i++) {
        await put(base, "0", `user:${(i * 37) % 400}`, `user ${i}`).catch(() => undefined);
        await fetch(
          `${base}/v1/kv/orders/order%2F00${String((i * 7) % 120).padStart(3, "0")}?lookup=chord`,
        ).catch(() => undefined);
        const then = [1, 2, 3, 4].map((k) => ({ increment: { key: `bell:${(i + k) % 9}` } }));
        await call("POST", `${base}/v1/txn`, { then }).catch(() => undefined);
        await sleep(30);
      }
    })();
    const { page } = await openPage(browser, { colorScheme: "dark" });
    // So many that each transaction of the load is sampled from its beginning to its end.
    await page.addInitScript(() =>
      localStorage.setItem("carillon-console", JSON.stringify({ samples: 1000 })),
    );
    const shot = async (
      /** @type {string} */ name,
      /** @type {string} */ view,
      /** @type {() => Promise<unknown>} */ until,
      wait = 1500,
    ) => {
      await page.goto(`${root}#/${view}`);
      await page.evaluate(() => scrollTo(0, 0));
      await until();
      await page.waitForTimeout(wait);
      await take(page, name);
    };
    const seen = (/** @type {string} */ selector) => () => page.locator(selector).first().waitFor();
    await shot("console-cluster", "cluster", seen("article h2"), 12_000);
    await shot("console-ring", "ring?keyspace=0", seen("[data-keys]"), 4000);
    await shot("console-ring-nodes", "ring?keyspace=0&view=physical", seen("circle.bubble"), 4000);
    await shot(
      "console-lookup",
      "ring?keyspace=catalog&view=&key=bell-7&lookup=chord&hide=requests",
      seen("svg path.owner"),
      3000,
    );
    await shot(
      "console-lookups",
      "lookups?keyspace=catalog&key=bell-7&motion=off",
      seen("svg path.owner"),
      2000,
    );
    await shot("console-shards", "shards?keyspace=orders", seen("table tbody tr"), 3000);
    await shot("console-transactions", "transactions", seen("svg .mark"), 5000);
    await shot("console-keys", "keys?keyspace=orders&key=order/00042", seen("pre"), 1000);
    await shot("console-timeline", "timeline?minutes=1", seen("svg"), 3000);
    await shot("console-events", "events", seen("td"), 1000);
    isOver = true;
    await load;
  } finally {
    isOver = true;
    await close();
    await cluster.stop();
  }
}

async function simulated() {
  if (!hasSimulator()) {
    console.log("left out: this binary has no `carillon console`");
    return;
  }
  const simulator = await startSimulator(["--nodes", "5", "--seed", "7"]);
  const { root, close } = await pageOf(simulator.url);
  try {
    const { page } = await openPage(browser, { colorScheme: "dark" });
    await page.goto(`${root}#/simulator`);
    await page.getByRole("button", { name: "Faults… n3" }).click();
    await page.waitForTimeout(5000);
    await page.getByRole("button", { name: "Crash n3" }).click();
    await page.waitForTimeout(1500);
    await take(page, "console-simulator");
    await page.goto(`${root}#/tour?step=4`);
    await page.getByRole("button", { name: /^Begin it/ }).click();
    await page.getByRole("button", { name: "Look up" }).waitFor({ timeout: 20_000 });
    await page.getByRole("group", { name: /^Ring of 256/ }).waitFor({ timeout: 20_000 });
    await page.getByRole("button", { name: "Look up" }).click();
    await page.waitForTimeout(6000);
    await page.evaluate(() => scrollTo(0, 0));
    await take(page, "console-tour");
  } finally {
    await close();
    await simulator.stop();
  }
}

try {
  await live();
  await simulated();
} finally {
  await browser.close();
}
