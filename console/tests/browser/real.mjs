// The console as nodes serve it, on a real cluster of three: what is done in the page is done in the
// cluster.
import { call, fill, put, startCluster, until } from "../../scripts/cluster.mjs";
import { equal, holds, quiet } from "./checks.mjs";
import { openPage } from "./page.mjs";

/** A node may have no event stream yet: the page says so, and the browser logs the 404. */
const isKnown = (/** @type {string} */ text) => text.includes("/v1/events") && text.includes("404");

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {import("playwright-core").Browser} browser
 */
export async function checkReal(checks, browser) {
  const cluster = await startCluster(3);
  const [base = ""] = cluster.urls;
  const { page, complaints, axe, close } = await openPage(browser, {});
  try {
    await fill(cluster.urls);
    const open = (/** @type {string} */ view) => page.goto(`${base}/#/${view}`);
    const get = (/** @type {string} */ path) => call("GET", base + path, undefined);

    await checks.check("real: all views work, and nothing is complained of", async () => {
      for (const view of [
        "cluster",
        "shards",
        "ring",
        "lookups",
        "transactions",
        "timeline",
        "events",
        "keys",
      ]) {
        await open(view);
        await page.getByText("All is well").first().waitFor();
        await page.waitForTimeout(300);
        quiet((await axe()).map((/** @type {string} */ each) => `${view}: ${each}`));
      }
      quiet(complaints(isKnown));
    });

    await checks.check("real: an ordered keyspace is browsed by prefix, page by page", async () => {
      await open("keys?keyspace=orders&prefix=order/000");
      const keys = page.locator("ul.keys li");
      await page.getByRole("button", { name: "More keys" }).click();
      await page.waitForFunction(() => document.querySelectorAll("ul.keys li").length === 99);
      equal((await keys.first().innerText()).split(/\s/)[0], "order/00001");
      await keys.nth(41).getByRole("button").click();
      await page.locator("pre", { hasText: '"order": 42' }).waitFor();
    });

    await checks.check("real: a value is put, its old version is seen, and it is deleted", async () => {
      await open("keys?keyspace=orders&key=order/00007");
      await page.getByRole("button", { name: "Change" }).click();
      await page.getByRole("group", { name: "Written as" }).getByText("Text").click();
      await page.getByLabel("New value").fill("rung");
      await page.getByRole("button", { name: "Put", exact: true }).click();
      await page.locator("pre", { hasText: "rung" }).waitFor();
      const now = await fetch(`${base}/v1/kv/orders/order%2F00007`).then((response) => response.text());
      equal(now, "rung", "the value in the cluster");
      await page.getByLabel("Version", { exact: true }).press("Home");
      await page.locator("pre", { hasText: '"order": 7' }).waitFor();
      await page.getByText("It had no value before").waitFor();
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByText("This key has no value").waitFor();
      equal((await fetch(`${base}/v1/kv/orders/order%2F00007`)).status, 404);
      complaints();
    });

    await checks.check("real: a value that somebody else has changed is not overwritten", async () => {
      await open("keys?keyspace=orders&key=order/00008");
      await page.getByRole("button", { name: "Change" }).click();
      await page.getByLabel("New value").fill('{"mine":true}');
      await put(base, "orders", "order/00008", "theirs");
      await page.getByRole("button", { name: "Put", exact: true }).click();
      await page.getByRole("alert").getByText("condition-failed").waitFor();
      await page.getByText("Nothing was changed").waitFor();
      equal(await fetch(`${base}/v1/kv/orders/order%2F00008`).then((response) => response.text()), "theirs");
      complaints();
    });

    await checks.check("real: the hops that are drawn are those of the cluster", async () => {
      await open("ring?keyspace=catalog&key=bell-9&lookup=linear");
      const row = page.locator("tr", { has: page.getByRole("button", { name: "linear", exact: true }) });
      const hops = Number(await row.locator("td").nth(1).innerText());
      const steps = await page.locator("ol li").count();
      holds(steps - 1 >= hops, `${steps - 1} steps are listed for ${hops} hops`);
      const owner = (await row.locator("td").last().innerText()).trim();
      const [full] = await get("/v1/route/catalog/bell-9?lookup=full");
      equal(owner, `shard ${full.shard}`);
    });

    await checks.check("real: five lookups are compared", async () => {
      await open("lookups?keyspace=catalog");
      await page.getByLabel("Keys", { exact: true }).fill("5");
      await page.getByRole("button", { name: "Compare" }).click();
      for (const name of ["full", "chord", "chord-sharp", "linear", "lh"]) {
        await page.getByRole("img", { name: `Hops of ${name}:` }).waitFor();
      }
      await page.getByRole("button", { name: "Compare" }).waitFor();
      quiet(await axe());
    });

    await checks.check("real: a transaction runs", async () => {
      await open("transactions");
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText("the conditions held: then").waitFor();
      await page.getByRole("button", { name: "Run", exact: true }).click();
      await page.getByText("they did not hold: else").waitFor();
    });

    await checks.check("real: the tour draws linear and Chord side by side", async () => {
      await open("tour?step=3");
      await page.locator("svg path.owner").waitFor({ timeout: 20_000 });
      await page.getByRole("button", { name: "Another key" }).click();
      await page.getByRole("button", { name: /^Next: Chord/ }).click();
      await page.waitForFunction(() => document.querySelectorAll("svg path.owner").length === 2, null, {
        timeout: 20_000,
      });
      quiet(await axe());
      quiet(complaints(isKnown));
    });

    const probe = await fetch(`${base}/v1/events`, { headers: { Accept: "text/event-stream" } });
    const hasStream = probe.ok;
    await probe.body?.cancel();
    if (hasStream) {
      await checks.check("real: events of all nodes come in", async () => {
        await open("events");
        for (const { name } of (await get("/v1/nodes")).nodes) {
          await page.locator("td", { hasText: name }).first().waitFor();
        }
        await page.getByLabel("Words").fill("leader-elected");
        await page.getByText("is elected leader in term").first().waitFor();
        quiet(await axe());
      });

      await checks.check("real: a sampled transaction is drawn, and a sampled request listed", async () => {
        await open("transactions");
        await page.getByText("Events live").waitFor();
        const ops = [1, 2, 3, 4, 5].map((i) => ({ put: { key: `bell:${i}`, value: "rings" } }));
        await until("a transaction is drawn", async () => {
          await call("POST", `${base}/v1/txn`, { then: ops });
          return (await page.getByRole("img", { name: /prepare, voted/ }).count()) > 0;
        });
        await open("lookups");
        await page.getByText("Events live").waitFor();
        await until("a request is listed", async () => {
          await fetch(`${base}/v1/kv/0/user:7`);
          return (await page.getByRole("link", { name: "user:7" }).count()) > 0;
        });
        quiet(await axe());
        quiet(complaints(isKnown));
      });
    } else console.log("  left out: this binary has no /v1/events");

    await checks.check("real: a keyspace is created and dropped", async () => {
      await open("keys");
      await page.getByRole("button", { name: "New keyspace" }).click();
      await page.getByLabel("Name").fill("towers");
      await page.getByRole("button", { name: "Create" }).click();
      await until("the keyspace is there", async () => (await get("/v1/keyspaces/towers")).name === "towers");
      await page.getByRole("button", { name: "Drop… towers" }).click();
      await page.getByRole("button", { name: "Drop", exact: true }).click();
      await until(
        "the keyspace is gone",
        async () => (await fetch(`${base}/v1/keyspaces/towers`)).status === 404,
      );
      complaints();
    });

    await checks.check("real: a shard is split, and seen to be", async () => {
      const { node_id } = await get("/v1/status");
      const { shards } = await get("/v1/shards?keyspace=0");
      const led = shards.find((/** @type {any} */ shard) => shard.leader === node_id);
      await open(`shards?keyspace=0&shard=${led.id}`);
      await page.getByRole("button", { name: "Split…" }).click();
      await page.getByRole("button", { name: "Split", exact: true }).click();
      await page.waitForFunction(
        (wanted) => document.querySelectorAll("svg[aria-label^='Shards of 0'] .shard").length === wanted,
        shards.length + 1,
      );
    });

    await checks.check("real: an action that the cluster refuses is told of in its words", async () => {
      await open("cluster");
      await page.getByRole("button", { name: "Cordon node-2" }).click();
      await page.getByRole("button", { name: "Cordon", exact: true }).click();
      await page.getByRole("alert").getByText("too-few-nodes").waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      complaints();
    });

    await checks.check("real: a node that is killed is seen down, and why it matters", async () => {
      process.kill(cluster.pid("node-3"), "SIGKILL");
      await page.locator("article.down", { hasText: "node-3" }).waitFor({ timeout: 15_000 });
      await page.getByText("What is amiss").waitFor();
      await page.getByText("node-3").first().waitFor();
      quiet(complaints(isKnown));
    });
  } finally {
    await close();
    await cluster.stop();
  }
}
