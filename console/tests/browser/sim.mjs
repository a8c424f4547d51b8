// The console in front of `carillon console`: the simulated cluster itself.
import { hasSimulator, startSimulator, until } from "../../scripts/cluster.mjs";
import { serve } from "../../scripts/serve.mjs";
import { equal, holds, quiet } from "./checks.mjs";
import { openPage } from "./page.mjs";
import { checkServedRecording } from "./recordings.mjs";

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {import("playwright-core").Browser} browser
 */
export async function checkSim(checks, browser) {
  if (!hasSimulator()) {
    console.log("  left out: this binary has no `carillon console`");
    return;
  }
  await checkServedRecording(checks, browser);
  const simulator = await startSimulator(["--nodes", "4", "--seed", "7"]);
  const server = process.argv.includes("--dist") ? await serve({ node: simulator.url }) : null;
  const root = server?.url ?? `${simulator.url}/`;
  const { page, complaints, axe, close } = await openPage(browser, {});
  const open = (/** @type {string} */ view) => page.goto(`${root}#/${view}`);
  const isRefused = (/** @type {string} */ text) => /40[49]|410|503/.test(text);
  try {
    await checks.check("carillon console: all views work, and nothing is complained of", async () => {
      for (const view of [
        "cluster",
        "shards",
        "keys",
        "ring",
        "lookups",
        "timeline",
        "events",
        "simulator",
      ]) {
        await open(view);
        await page.locator("section[aria-label=Simulation] .time").waitFor();
        await page.locator("h1").waitFor({ state: "attached" });
        await page.waitForTimeout(400);
        quiet((await axe()).map((/** @type {string} */ each) => `${view}: ${each}`));
        const words = await page.locator("main").innerText();
        holds(
          !/NaN|undefined|Infinity/.test(words),
          `${view} shows ${/NaN|undefined|Infinity/.exec(words)?.[0]}`,
        );
      }
      quiet(complaints());
    });

    await checks.check("carillon console: a node crashes, is seen down, and comes back", async () => {
      await open("simulator");
      await page.getByRole("button", { name: "Faults… n3" }).click();
      await page.getByRole("button", { name: "Crash n3" }).click();
      await page.locator("tr", { hasText: "n3" }).getByText("down", { exact: true }).first().waitFor();
      await open("cluster");
      await page.locator("article.down", { hasText: "n3" }).waitFor();
      await open("ring?keyspace=0");
      await page.getByRole("button", { name: "Show what n3 holds" }).click();
      await page.getByRole("button", { name: "Restart n3" }).click();
      await page.getByRole("button", { name: "Crash n3" }).waitFor();
      quiet(await axe());
      // While a shard has no leader its keys cannot be listed.
      quiet(complaints((text) => text.includes("/v1/keys/") && text.includes("503")));
    });

    await checks.check("carillon console: time stands, and goes on by a step", async () => {
      await page.getByRole("button", { name: "Pause time" }).click();
      await page.getByRole("button", { name: "Run time" }).waitFor();
      const time = page.locator("section[aria-label=Simulation] .time");
      const before = await time.innerText();
      await page.waitForTimeout(800);
      equal(await time.innerText(), before);
      await page.getByRole("button", { name: "Step", exact: true }).click();
      await page.waitForFunction(
        (then) => document.querySelector("section[aria-label=Simulation] .time")?.textContent !== then,
        before,
      );
      await page.getByRole("button", { name: "Run time" }).click();
      await page.getByRole("button", { name: "Pause time" }).waitFor();
      quiet(complaints());
    });

    await checks.check(
      "carillon console: a hundred members join at once, and a lookup finds its way",
      async () => {
        await open("tour?step=6");
        await page.getByRole("heading", { level: 1, name: "A hundred join at once" }).waitFor();
        await page.getByRole("button", { name: /^Begin it/ }).click();
        await page.getByRole("group", { name: /^Ring of 100 members/ }).waitFor({ timeout: 20_000 });
        await page.getByRole("button", { name: "A hundred join at once", exact: true }).click();
        await page.getByRole("group", { name: /^Ring of 200 members/ }).waitFor({ timeout: 20_000 });
        const row = page.locator("tr", { has: page.getByRole("cell", { name: "chord", exact: true }) });
        // While a hundred join, a lookup may find nobody yet: the page says so, and it is asked again.
        const hops = await until("a lookup finds its way", async () => {
          await page.getByRole("button", { name: "Look up" }).click();
          await row.waitFor();
          return Number(await row.locator("td").nth(1).innerText()) || undefined;
        });
        holds(hops <= 24, `chord took ${hops} hops in a ring of 200`);
        quiet(await axe());
        quiet(complaints(isRefused));
      },
    );

    await checks.check("carillon console: every page of the tour plays", async () => {
      await open("tour?step=1");
      for (let n = 2; ; n++) {
        const next = page.getByRole("button", { name: /^Next: / });
        if ((await next.count()) === 0) break;
        const title = (await next.innerText()).replace("Next: ", "");
        await next.click();
        await page.getByRole("heading", { level: 1, name: title }).waitFor();
        // Where nothing is lost by it, a page begins its simulation by itself.
        if (
          (await page
            .getByRole("heading", { name: /^(The simulation of this page|Another simulation runs)$/ })
            .count()) > 0
        ) {
          const begun = page.getByRole("button", { name: "Begin it anew" });
          const begin = page.getByRole("button", { name: "Begin it", exact: true });
          await begin.or(begun).waitFor();
          if ((await begin.count()) > 0 && (await begin.isEnabled({ timeout: 500 }).catch(() => false)))
            await begin.click({ timeout: 2000 }).catch(() => undefined);
          await begun.waitFor();
        }
        // What was asked of the simulation before may fail while another one begins.
        await until(
          `page ${n}, ${title}, has no alert`,
          async () => (await page.getByRole("alert").count()) === 0,
        );
      }
      complaints(isRefused);
    });

    await checks.check("carillon console: the tour keeps what runs, and puts it back as it was", async () => {
      const sim = async () => (await fetch(`${simulator.url}/v1/sim`)).json();
      await open("simulator");
      await page.getByText("Whole nodes", { exact: true }).click();
      await page.getByRole("spinbutton", { name: "Nodes" }).last().fill("3");
      await page.getByRole("button", { name: "Begin anew" }).click();
      await until("the simulation is another one", async () => {
        const { kind, actions } = await sim();
        return kind === "cluster" && actions === 0;
      });
      await page.getByText("3 there", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Faults… n2", exact: true }).click();
      await page.getByRole("button", { name: "Crash n2", exact: true }).click();
      await page.getByRole("button", { name: "Restart n2", exact: true }).waitFor();
      await page.getByRole("button", { name: "Pause time" }).click();
      await page.getByRole("button", { name: "Run time" }).waitFor();
      const before = await sim();
      await open("tour?step=3");
      await page.getByRole("button", { name: /^Begin it/ }).click();
      await page.getByRole("group", { name: /^Ring of 64 members/ }).waitFor();
      await page.getByRole("button", { name: "Put it back" }).click();
      await page.getByText("Simulated cluster").waitFor();
      await page.getByRole("button", { name: "Put it back" }).waitFor({ state: "detached" });
      const after = await sim();
      equal([after.now_ms, after.digest], [before.now_ms, before.digest], "its time and its digest");
      equal(after.nodes.find((/** @type {any} */ each) => each.name === "n2").state, "down");
      await page.getByRole("button", { name: "Run time" }).click();
      complaints(isRefused);
    });
  } finally {
    await close();
    await server?.close();
    await simulator.stop();
  }
}
