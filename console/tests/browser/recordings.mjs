// Recordings in the page of the recorded cluster, one of whose nodes is down by then: what is saved is shown again, and a
// file of events shows what these tell.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startSimulator } from "../../scripts/cluster.mjs";
import { equal, holds, quiet } from "./checks.mjs";
import { openPage } from "./page.mjs";

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {Awaited<ReturnType<typeof import("./page.mjs").openPage>>} opened
 */
export async function checkRecordings(checks, { page, complaints, axe }) {
  let saved = "";
  await checks.check("a recording is saved", async () => {
    await page.getByRole("button", { name: "Settings and recordings" }).click();
    quiet(await axe());
    const waits = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    saved = await (await waits).path();
    holds(readFileSync(saved).length > 10_000, "the recording is empty");
  });

  await checks.check("what is no recording is refused with a reason", async () => {
    await page
      .getByLabel("A recording")
      .setInputFiles({ name: "x.json", mimeType: "application/json", buffer: Buffer.from("{}") });
    const alert = page.getByRole("alert");
    await alert.getByText("This is no recording").waitFor();
    equal((await alert.innerText()).split("\n").filter(Boolean), [
      "This file cannot be opened",
      "This is no recording: it has no format.",
    ]);
    const menu = await page.locator(".menu .box").boundingBox();
    holds(menu && menu.y + menu.height <= 720, "the menu is higher than the page");
  });

  await checks.check("a recording is opened and scrubbed", async () => {
    await page.getByLabel("A recording").setInputFiles(saved);
    await page.getByText("This is a recording").waitFor();
    await page.getByText("All is well").first().waitFor();
    await page.getByText("Events of the recording").waitFor();
    await page.getByLabel("Moment that is shown").press("End");
    await page.getByText("Degraded").first().waitFor();
    await page.getByRole("link", { name: "Keys", exact: true }).click();
    await page.getByText("Keys and their values are not recorded").waitFor();
    quiet(await axe());
    await page.getByRole("button", { name: "Leave recording" }).click();
    await page.getByText("This is a recording").waitFor({ state: "detached" });
    complaints(); // the keys of the node that is down are asked for again
  });

  await checks.check("a recording of events shows what events tell, and no more", async () => {
    const at = (/** @type {number} */ ms) => String((BigInt(1_795_821_157_000 + ms) << 16n) + 1n);
    const event = (/** @type {string} */ type, /** @type {number} */ ms, /** @type {object} */ fields) =>
      JSON.stringify({ type, node: "a", at: at(ms), severity: "info", text: `${type} ${ms}`, ...fields });
    const lines = [
      event("hello", 9000, {
        version: 1,
        name: "first",
        scope: "cluster",
        nodes: [
          { node: "a", name: "first" },
          { node: "b", name: "second" },
        ],
      }),
      event("leader-elected", 0, { shard: 1, keyspace: "0", replica: 1, term: 3 }),
      event("member", 4000, { member: "b", state: "up" }),
      event("leader-elected", 5000, { node: "b", shard: 1, keyspace: "0", replica: 2, term: 4 }),
      event("end", 9000, { reason: "until" }),
    ];
    await page.getByRole("button", { name: "Settings and recordings" }).click();
    await page.getByLabel("A recording").setInputFiles({
      name: "events.jsonl",
      mimeType: "application/jsonl",
      buffer: Buffer.from(lines.join("\n")),
    });
    await page.getByText("It has events alone").waitFor();
    await page.getByRole("link", { name: "Cluster", exact: true }).click();
    await page.getByRole("heading", { name: "first" }).waitFor();
    equal(await page.locator("article").count(), 1, "nodes at the beginning");
    for (const [view, slider] of /** @type {const} */ ([
      ["Shards", "Home"],
      ["Ring", "End"],
      ["Lookups", "End"],
      ["Transactions", "End"],
      ["Timeline", "End"],
      ["Events", "End"],
      ["Simulator", "End"],
      ["Cluster", "End"],
    ])) {
      await page.getByRole("link", { name: view, exact: true }).click();
      await page.getByLabel("Moment that is shown").press(slider);
      await page.getByText("health not recorded").first().waitFor();
      equal(await page.getByText(/All is well|Events live|Degraded/).count(), 0, `${view}: words on health`);
      quiet((await axe()).map((/** @type {string} */ each) => `${view}: ${each}`));
    }
    equal(await page.locator("article").count(), 2, "nodes at the end");
    const second = page.locator("article", { hasText: "second" });
    await second.getByText("Leads 1 shard, as far as events tell").waitFor();
    equal(await page.getByText("Processes of carillon dev").count(), 0, "panels of processes");
    equal(await second.getByRole("button").count(), 0, "buttons of a node");
    await page.getByRole("button", { name: "Back to the cluster" }).click();
    await page.getByText("Degraded").first().waitFor();
    quiet(complaints());
  });
}

/**
 * A recording that is served: the page shows it as soon as it is opened.
 * @param {import("./checks.mjs").Checks} checks
 * @param {import("playwright-core").Browser} browser
 */
export async function checkServedRecording(checks, browser) {
  const dir = mkdtempSync(join(tmpdir(), "carillon-recording-"));
  const file = join(dir, "yesterday.jsonl");
  const line = (/** @type {string} */ type, /** @type {number} */ ms, /** @type {object} */ fields) =>
    `${JSON.stringify({ type, node: "a", at: String((BigInt(ms) << 16n) + 1n), at_ms: ms, ...fields })}\n`;
  const names = [{ node: "a", name: "first" }];
  const began = 1_795_821_157_000;
  writeFileSync(
    file,
    line("hello", began + 2000, { version: 1, name: "first", scope: "cluster", nodes: names }) +
      line("node-started", began, { severity: "info", text: "it serves" }) +
      line("leader-elected", began + 1000, {
        severity: "info",
        text: "it leads",
        shard: 4,
        keyspace: "0",
        replica: 1,
        term: 2,
      }) +
      line("end", began + 2000, { reason: "until" }),
  );
  const simulator = await startSimulator(["--recording", file]);
  const { page, complaints, close } = await openPage(browser, {});
  try {
    await checks.check("carillon console: a recording that it was given is shown at once", async () => {
      await page.goto(`${simulator.url}/`);
      await page.getByText("This is a recording: yesterday.jsonl").waitFor();
      await page.getByRole("link", { name: "Shards", exact: true }).click();
      // From its beginning, when nothing was told of the leader yet.
      await page.getByRole("region", { name: "Table of shards" }).getByText("not told").first().waitFor();
      await page.getByRole("button", { name: "Back to the cluster" }).click();
      await page.getByText("This is a recording").waitFor({ state: "detached" });
      quiet(complaints());
    });
  } finally {
    await close();
    await simulator.stop();
    rmSync(dir, { recursive: true });
  }
}
