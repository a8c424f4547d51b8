// The console on the recorded cluster: every view, both themes, sizes, faults of the network.
import { readFileSync } from "node:fs";
import { readRecording, serve } from "../../scripts/serve.mjs";
import { checkCharts } from "./charts.mjs";
import { equal, holds, quiet } from "./checks.mjs";
import { checkCrowded } from "./crowded.mjs";
import { noteLabels, openPage } from "./page.mjs";
import { checkRecordings } from "./recordings.mjs";

const VIEWS = [
  "cluster",
  "shards",
  "keys",
  "ring",
  "lookups",
  "transactions",
  "timeline",
  "events",
  "simulator",
  "tour",
];
const moments = readRecording();
/** @returns {any} */
const body = (/** @type {number} */ moment, /** @type {string} */ path) =>
  moments[moment]?.answers[path]?.body;
const nodes = body(0, "/v1/nodes").nodes;
/** @returns {any[]} */
const shardsAt = (/** @type {number} */ moment) => body(moment, "/v1/shards").shards;

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {import("playwright-core").Browser} browser
 */
export async function checkRecorded(checks, browser) {
  const server = await serve({ moments });
  server.emit({ type: "hello", version: 1, node: nodes[0].id, name: "node-1", scope: "cluster" });
  const opened = await openPage(browser, { acceptDownloads: true });
  const { page, complaints, axe } = opened;
  const open = async (/** @type {string} */ view) => {
    await page.goto(`${server.url}#/${view}`);
    await page.getByText("All is well").first().waitFor();
  };

  for (const view of VIEWS) {
    await checks.check(`${view} opens and is accessible`, async () => {
      await open(view);
      await page.locator("h1").waitFor({ state: "attached" });
      equal(await page.locator("nav a[aria-current=page]").getAttribute("href"), `#/${view}`);
      quiet(complaints());
      quiet(await axe());
    });
  }

  await checks.check("cluster names all nodes, and why leaders moved", async () => {
    await open("cluster");
    for (const node of nodes) await page.getByRole("heading", { name: node.name }).first().waitFor();
    await page.getByText("because node-1 leads").first().waitFor();
  });

  await checks.check("what would be refused is not offered, and says why", async () => {
    // Three nodes, and keyspaces that want three replicas.
    for (const name of ["Drain node-2", "Cordon node-2"]) {
      const button = page.getByRole("button", { name });
      holds(await button.isDisabled(), `“${name}” is offered`);
    }
    await page.getByText("Without node-2, 2 nodes are left that may take replicas").waitFor();
    equal(await page.locator("article h2").first().textContent(), "node-1 this one");
  });

  await checks.check("an action says what it will do before it does it", async () => {
    const small = shardsAt(0).find((shard) => shard.keyspace === "0" && shard.here);
    await open(`shards?keyspace=0&shard=${small.id}`);
    await page.getByRole("button", { name: "Split…" }).click();
    await page.getByText("A merge undoes it").waitFor();
    await page.getByText("become one again by themselves").waitFor();
    quiet(await axe());
    await page.getByRole("button", { name: "Split", exact: true }).click();
    // The recording has no answer to it: the page says so, and goes on.
    await page.getByRole("alert").getByText("was not recorded").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    complaints();
  });

  await checks.check("the details of a shard come into sight wherever it is chosen", async () => {
    await open("shards?keyspace=*");
    const last = page.getByRole("region", { name: "Table of shards" }).locator("tbody tr").last();
    const button = last.getByRole("button");
    await button.scrollIntoViewIfNeeded();
    const id = (await button.innerText()).trim();
    await button.click();
    await page.waitForFunction((title) => {
      const heading = [...document.querySelectorAll("h2")].find((each) => each.textContent === title);
      const box = heading?.getBoundingClientRect();
      return box && box.top >= 0 && box.bottom < innerHeight - 40;
    }, `Shard ${id}`);
    quiet(complaints());
  });

  await checks.check("an address that names no view says so, and leads home", async () => {
    await page.goto(`${server.url}#/nosuch?x=1`);
    await page.getByRole("heading", { name: "There is no view “nosuch”" }).waitFor();
    equal(new URL(page.url()).hash, "#/nosuch?x=1", "the address");
    quiet(await axe());
    await page.getByRole("link", { name: "To the cluster" }).click();
    await page.getByRole("heading", { name: "node-1" }).first().waitFor();
    quiet(complaints());
  });

  await checks.check("one stream is kept while views change", async () => {
    await open("lookups");
    await page.getByText("Events live").waitFor();
    const before = server.streams();
    for (const view of ["transactions", "ring", "cluster", "lookups", "events"]) {
      await page.getByRole("link", { name: new RegExp(`^${view}$`, "i") }).click();
      await page.locator("h1").waitFor({ state: "attached" });
    }
    equal(server.streams(), before, "streams that were begun");
    quiet(complaints((text) => text.includes("/v1/")));
  });

  await checks.check("shards are filtered, sorted, and chosen by keyboard", async () => {
    await open("shards?keyspace=0");
    const arcs = page.getByRole("group", { name: /^Shards of 0/ }).getByRole("button");
    equal(await arcs.count(), shardsAt(0).filter((shard) => shard.keyspace === "0").length, "number of arcs");
    await arcs.first().focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: /^Shard \d+$/ }).waitFor();
    holds(page.url().includes("shard="), "the address does not name the shard");
    await page.getByRole("button", { name: "Keys", exact: true }).click();
    equal(await page.locator("th[aria-sort=descending]").count(), 1);
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("a value is shown with its version and its owner", async () => {
    await open("keys?keyspace=0");
    await page.getByLabel(/^Key; /).fill("greeting");
    await page.keyboard.press("Enter");
    await page.locator("pre", { hasText: "hello" }).waitFor();
    const full = body(0, "/v1/route/0/greeting").find((/** @type {any} */ route) => route.lookup === "full");
    await page.getByRole("link", { name: `shard ${full.shard}` }).waitFor();
    quiet(await axe());
    complaints(); // the recording has no older versions
  });

  await checks.check("a key without a value, and a keyspace that is not there, are told apart", async () => {
    await open("keys?keyspace=0&key=nothing-here");
    await page.getByText("This key has no value").waitFor();
    await open("keys?keyspace=nowhere&key=k");
    await page.getByText("there is no keyspace").waitFor();
    complaints();
  });

  await checks.check("a lookup is drawn with the hops that the node answers", async () => {
    await open("ring?keyspace=catalog&key=bell-7&lookup=linear");
    const path = "/v1/route/catalog/bell-7?lookup=iterative+noimages";
    const route = body(0, path).find((/** @type {any} */ each) => each.lookup === "linear");
    const row = page.locator("tr", { has: page.getByRole("button", { name: "linear", exact: true }) });
    await row.waitFor();
    equal((await row.locator("td").allInnerTexts()).slice(1, 3), [
      String(route.hops),
      String(route.messages),
    ]);
    equal(await page.locator("ol li").count(), route.steps.length + 1, "steps in the list");
    for (let i = 0; i < 12; i++) await page.getByRole("button", { name: "One hop on" }).click();
    equal(await page.locator("svg .path > path").count(), route.steps.length, "hops drawn");
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("the ring zooms by wheel and keys, and shows all again", async () => {
    await open("ring?keyspace=0");
    const ring = page.locator("svg[role=group]").first();
    const whole = await ring.getAttribute("viewBox");
    const box = await ring.boundingBox();
    await page.mouse.move((box?.x ?? 0) + 200, (box?.y ?? 0) + 200);
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(
      (before) => document.querySelector("svg[role=group]")?.getAttribute("viewBox") !== before,
      whole,
    );
    await ring.focus();
    await page.keyboard.press("0");
    equal(await ring.getAttribute("viewBox"), whole);
    await page.keyboard.press("+");
    holds((await ring.getAttribute("viewBox")) !== whole, "plus does not zoom");
    await page.getByRole("button", { name: "Show all" }).click();
    equal(await ring.getAttribute("viewBox"), whole);
  });

  await checks.check("a node shows what it holds, by keyboard", async () => {
    await open("ring?keyspace=0");
    const node = page.getByRole("button", { name: "Show what node-2 holds" });
    await node.focus();
    await page.keyboard.press("Enter");
    equal(await node.getAttribute("aria-pressed"), "true");
    await page.getByRole("heading", { name: "node-2", exact: true }).waitFor();
    equal(await page.locator("path.link.links").count(), 8, "lines to shards");
    await page.keyboard.press("Enter");
    quiet(complaints());
  });

  await checks.check("keys are drawn, and one is looked up by a click", async () => {
    await open("ring?keyspace=orders");
    await page.getByText("120 keys", { exact: true }).waitFor();
    // They are painted some frames after they were read.
    await page.waitForFunction((least) => {
      const canvas = document.querySelector(".keys canvas");
      if (!(canvas instanceof HTMLCanvasElement)) return false;
      const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
      return pixels.filter((_, i) => i % 4 === 3).filter((alpha) => alpha > 0).length > least;
    }, 400);
    await page.getByLabel("keys", { exact: true }).uncheck();
    await page.locator(".keys canvas").first().waitFor({ state: "detached" });
    holds(page.url().includes("hide=keys"), "the address does not say that keys are off");
    await page.getByLabel("keys", { exact: true }).check();
    quiet(complaints());
  });

  await checks.check("choices are in the address, and an address brings them", async () => {
    await open("ring?keyspace=0&theme=safe&lines=2");
    await page.waitForFunction(() => document.documentElement.classList.contains("safe"));
    await page.getByRole("link", { name: "Cluster" }).first().click();
    await page.waitForURL(/theme=safe/);
    holds(page.url().includes("lines=2"), "the address has lost the thickness of lines");
    await page.getByRole("button", { name: "Settings and recordings" }).click();
    await page.getByText("As the system").first().click();
    await page.getByRole("slider", { name: "Lines of pictures" }).fill("1");
    await page.waitForFunction(() => !location.hash.includes("theme=") && !location.hash.includes("lines="));
    quiet(complaints());
  });

  await checks.check("shards gather round their nodes", async () => {
    await open("ring?keyspace=0");
    await page.getByText("By node", { exact: true }).click();
    await page.locator("circle.bubble").first().waitFor();
    equal(await page.locator("circle.bubble").count(), 8);
    quiet(complaints());
  });

  await checks.check("the ring is exported as SVG and as PNG", async () => {
    await open("ring?keyspace=0");
    for (const kind of ["SVG", "PNG"]) {
      const waits = page.waitForEvent("download");
      await page.getByRole("button", { name: kind }).click();
      const path = await (await waits).path();
      const bytes = readFileSync(path);
      if (kind === "SVG") {
        const text = bytes.toString();
        holds(text.startsWith("<svg") && !text.includes("var(--"), "the SVG does not stand alone");
        holds((text.match(/<path/g) ?? []).length >= 8, "the SVG lacks arcs");
      } else {
        equal([...bytes.subarray(1, 4)], [0x50, 0x4e, 0x47]);
        holds(bytes.length > 20_000, `the PNG has only ${bytes.length} bytes`);
      }
    }
    quiet(complaints());
  });

  await checks.check("the tour is walked from its first page to its last", async () => {
    await open("tour");
    for (let n = 2; ; n++) {
      const next = page.getByRole("button", { name: /^Next: / });
      if ((await next.count()) === 0) break;
      const title = (await next.innerText()).replace("Next: ", "");
      await next.click();
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      quiet((await axe()).map((/** @type {string} */ each) => `page ${n}: ${each}`));
    }
    await page.getByRole("heading", { level: 1, name: "Go back in time" }).waitFor();
    complaints(); // the keys of the tour were not recorded
  });

  await checks.check("events come in live, are filtered and paused", async () => {
    await open("events");
    const at = (/** @type {number} */ n) => String((BigInt(Date.now()) << 16n) + BigInt(n));
    server.emit({
      type: "checkpointed",
      node: nodes[0].id,
      text: "all shards are in checkpoints",
      at: at(1),
    });
    await page.getByText("all shards are in checkpoints").waitFor();
    await page.getByLabel("Words").fill("nothing like this");
    await page.getByText("No events yet that match").waitFor();
    await page.getByLabel("Words").fill("");
    await page.getByRole("button", { name: "Pause" }).click();
    server.emit({ type: "checkpointed", node: nodes[1].id, text: "a second round", at: at(2) });
    await page.getByRole("button", { name: "Go on (1 new)" }).click();
    await page.getByText("a second round").waitFor();
    server.emit({
      type: "gap",
      node: nodes[0].id,
      of: nodes[1].id,
      reason: "kept",
      events: 7,
      text: "7 events of node-2 are missing",
    });
    await page.getByText("7 events of node-2 are missing").waitFor();
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("a stream that is cut resumes without repeating an event", async () => {
    const broken = page.getByText("Events: trying again").waitFor();
    server.cut();
    await broken;
    await page.getByText("Events live").waitFor();
    equal(await page.getByText("a second round").count(), 1, "times that the event is shown");
    complaints();
  });

  await checks.check("a leader moves on the ring as its event says", async () => {
    await open("ring?keyspace=0");
    const shard = shardsAt(0).find((each) => each.slots?.[0] === 0);
    const other = nodes.find((/** @type {any} */ node) => node.id !== shard.leader);
    await page.getByRole("button", { name: new RegExp(`^Shard ${shard.id},.*led by`) }).waitFor();
    // The next answer of the recorded cluster takes it back, so every label is noted, however short it was there.
    await noteLabels(page, `Shard ${shard.id},`);
    server.emit({
      type: "leader-elected",
      node: other.id,
      shard: shard.id,
      keyspace: "0",
      replica: 2,
      term: shard.term + 9,
      text: "elected",
    });
    await page.waitForFunction(
      (words) => document.body.dataset["noted"]?.includes(words),
      `led by ${other.name}`,
    );
  });

  await checks.check("a sampled transaction is drawn from prepare to its end", async () => {
    await open("transactions");
    const phases = ["prepare", "voted", "committed", "resolve", "finished"];
    phases.forEach((phase, i) =>
      server.emit({
        type: "transaction",
        node: nodes[0].id,
        txn: "87215d2899dc8a06-1",
        attempt: 0,
        phase,
        shards: ["prepare", "resolve", "voted"].includes(phase) ? [1, 5] : [],
        keys: 2,
        text: phase,
        at: String((BigInt(Date.now() + i) << 16n) + 5n),
      }),
    );
    await page
      .getByRole("img", { name: "committed: prepare, voted, committed, resolve, finished" })
      .waitFor();
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("a sampled request is listed with its route", async () => {
    await open("lookups");
    const [, route] = body(0, "/v1/route/0/greeting");
    server.emit({
      type: "request",
      node: nodes[1].id,
      op: "read",
      key: "greeting",
      keys: 1,
      keyspace: "0",
      shard: route.shard,
      leader: route.leader,
      route,
      text: "read greeting",
    });
    await page.getByRole("link", { name: "greeting" }).first().waitFor();
    quiet(await axe());
  });

  await checks.check("a split is seen", async () => {
    await open("shards?keyspace=0");
    server.show("a shard was split");
    const count = shardsAt(1).filter((shard) => shard.keyspace === "0").length;
    await page.waitForFunction(
      (wanted) => document.querySelectorAll("svg[aria-label^='Shards of 0'] .shard").length === wanted,
      count,
    );
  });
  await checkCharts(checks, opened, open);

  await checks.check("a dead node is seen, with what is amiss", async () => {
    await page.goto(`${server.url}#/cluster`);
    server.show("node-3 is down");
    await page.getByText("Degraded").first().waitFor();
    await page.getByText("What is amiss").waitFor();
    await page.locator("article.down h2", { hasText: "node-3" }).waitFor();
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("an earlier moment is shown in every view", async () => {
    await page.getByLabel("Moment that is shown").press("Home");
    await page.getByText("All is well").first().waitFor();
    equal(await page.locator("article.down").count(), 0, "nodes down then");
    await page.getByRole("button", { name: "Live" }).click();
    await page.getByText("Degraded").first().waitFor();
  });

  await checkRecordings(checks, opened);

  await checks.check("the page shows that a node does not answer, and finds it again", async () => {
    server.setDown(true);
    await page.getByRole("alert").getByText("The node cannot be reached").waitFor();
    await page.getByRole("heading", { name: "node-1" }).first().waitFor();
    server.setDown(false);
    await page.getByRole("alert").waitFor({ state: "detached", timeout: 20_000 });
    complaints();
  });

  await checks.check("a node without an event stream is said to be older", async () => {
    server.setStream(false);
    await page.goto("about:blank");
    server.show("all is well");
    await open("events");
    await page.getByText("This node's software has no event stream").waitFor();
    server.setStream(true);
    complaints();
  });
  await opened.close();

  for (const [name, options] of /** @type {const} */ ([
    ["in light colours", { colorScheme: "light" }],
    ["without motion", { colorScheme: "dark", reducedMotion: "reduce" }],
    ["on a phone", { colorScheme: "light", viewport: { width: 390, height: 844 } }],
  ])) {
    const other = await openPage(browser, options);
    await checks.check(`every view is accessible ${name}`, async () => {
      for (const view of VIEWS) {
        await other.page.goto(`${server.url}#/${view}?keyspace=catalog&key=bell-7`);
        await other.page.getByText("All is well").first().waitFor();
        quiet((await other.axe()).map((/** @type {string} */ each) => `${view}: ${each}`));
        const wide = await other.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        holds(wide <= 1, `${view} is ${wide} pixels too wide`);
        if (["shards", "events"].includes(view)) {
          const cut = await other.page.evaluate(() =>
            [...document.querySelectorAll("[aria-label='Table of shards'], [aria-label='Newest events']")]
              .filter((each) => each.scrollWidth > each.clientWidth + 1)
              .map(
                (each) => `${each.getAttribute("aria-label")}: ${each.scrollWidth} of ${each.clientWidth}`,
              ),
          );
          equal(cut, [], `tables of ${view} that are cut`);
        }
      }
      quiet(other.complaints((text) => text.includes("/v1/kv/") || text.includes("404")));
    });
    if (name === "without motion") {
      await checks.check("nothing moves where motion is not wanted", async () => {
        await other.page.goto(`${server.url}#/ring?keyspace=catalog&key=bell-7&lookup=linear`);
        await other.page.locator("svg .path > path").first().waitFor();
        equal(await other.page.locator(".token").count(), 0, "moving tokens");
      });
    }
    await other.close();
  }

  await checkCrowded(checks, browser);

  const forced = await openPage(browser, {});
  await checks.check("high contrast is accessible", async () => {
    for (const view of VIEWS) {
      await forced.page.goto(`${server.url}#/${view}?theme=contrast`);
      await forced.page.getByText("All is well").first().waitFor();
      quiet((await forced.axe()).map((/** @type {string} */ each) => `${view}: ${each}`));
    }
  });
  await forced.close();
  await server.close();
}
