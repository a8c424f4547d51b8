// The wiki of examples/wiki in the browser: two wikis on a cluster of three, each at a node of its own
// first; one of these nodes is killed, and both go on.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { binary, call, startCluster, until } from "../../scripts/cluster.mjs";
import { equal, holds, quiet } from "./checks.mjs";
import { openPage } from "./page.mjs";

/** A node's port for Redis clients is so far below the one for HTTP (`carillon dev`). */
const HTTP_ABOVE_RESP = 1101;
/** An edit that the death of a node interrupts is done within this time. */
const EDITED_MS = 30_000;

/** Starts a wiki on nodes, the first of them first; it says its address when it serves. */
async function startWiki(/** @type {string[]} */ urls, /** @type {string[]} */ flags = []) {
  const path = resolve(process.env["WIKI"] ?? join(dirname(binary()), "wiki"));
  if (!existsSync(path)) throw new Error(`${path} is not there: run make build, or set WIKI`);
  const http = urls.map((url) => new URL(url).host);
  const resp = urls.map((url) => `127.0.0.1:${Number(new URL(url).port) - HTTP_ABOVE_RESP}`);
  const args = ["serve", "--listen", "127.0.0.1:0", "--resp", resp.join(), "--http", http.join(), ...flags];
  const child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((done) => child.once("exit", done));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  try {
    const url = await until("the wiki serves", () => {
      if (child.exitCode !== null) throw new Error(`the wiki has ended:\n${output}`);
      return /wiki on (http:\S+?)\/?$/m.exec(output)?.[1];
    });
    return { url: String(url), stop };
  } catch (error) {
    await stop();
    throw new Error(`${error}\n${output}`, { cause: error });
  }
}

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {import("playwright-core").Browser} browser
 */
export async function checkWiki(checks, browser) {
  const cluster = await startCluster(3);
  /** @type {{ url: string, stop: () => Promise<void> }[]} */
  const wikis = [];
  const [ann, bob] = [await openPage(browser), await openPage(browser)];
  try {
    const [first = "", second = "", third = ""] = cluster.urls;
    const example = resolve("../examples/wiki/example.xml");
    wikis.push(await startWiki([first, third], ["--import", example]));
    wikis.push(await startWiki([second, third]));
    const [one = "", two = ""] = wikis.map((wiki) => wiki.url);
    const edit = async (/** @type {typeof ann} */ { page }, /** @type {string} */ text, who = "ann") => {
      await page.getByLabel("Text").fill(text);
      await page.getByLabel("What you have changed").fill(`by ${who}`);
      await page.getByLabel("Your name").fill(who);
      await page.getByRole("button", { name: "Save" }).click();
    };

    await checks.check("wiki: pages, links, search and categories of the example", async () => {
      const { page, axe } = ann;
      await page.goto(`${one}/`);
      await page.getByRole("heading", { level: 1, name: "Main Page" }).waitFor();
      await page.getByLabel("Titles that begin with").fill("bell");
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByRole("link", { name: "Bell tower" }).click();
      await page.getByRole("heading", { level: 1, name: "Bell tower" }).waitFor();
      await page.goto(`${one}/category/Instruments`);
      await page.getByRole("main").getByRole("link", { name: "Carillon", exact: true }).click();
      await page.getByRole("link", { name: "What links here" }).click();
      await page.getByRole("heading", { name: "What links to Carillon" }).waitFor();
      for (const path of ["/wiki/Carillon", "/edit/Carillon", "/history/Carillon", "/recent", "/search"]) {
        await page.goto(one + path);
        quiet((await axe()).map((/** @type {string} */ each) => `${path}: ${each}`));
      }
      quiet(ann.complaints());
    });

    await checks.check(
      "wiki: an edit at one node is seen at the other, live among recent changes",
      async () => {
        await bob.page.goto(`${two}/recent`);
        await ann.page.goto(`${one}/edit/Rung`);
        // The feed of the second wiki may still be opening: edits go on until one is seen live.
        let number = 0;
        await until("the change is shown live", async () => {
          await ann.page.goto(`${one}/edit/Rung`);
          await edit(ann, `Rung ${++number} times in the [[Bell tower]]`);
          await ann.page.waitForURL(`${one}/wiki/Rung`);
          await bob.page.waitForTimeout(300);
          return (await bob.page.locator("#recent li", { hasText: "by ann" }).count()) > 0;
        });
        await bob.page.goto(`${two}/links/Bell_tower`);
        await bob.page.getByRole("link", { name: "Rung" }).waitFor();
        // The 404 of the page that was not there yet is no complaint.
        quiet([...ann.complaints(), ...bob.complaints()].filter((text) => !text.includes("404")));
      },
    );

    await checks.check(
      "wiki: of two edits of one revision the second is told, and loses nothing",
      async () => {
        await ann.page.goto(`${one}/edit/Rung`);
        await bob.page.goto(`${two}/edit/Rung`);
        await edit(ann, "What ann wrote");
        await ann.page.waitForURL(`${one}/wiki/Rung`);
        await edit(bob, "What bob wrote", "bob");
        await bob.page.getByText("ann has changed the page meanwhile").waitFor();
        equal(await bob.page.getByLabel("Text").inputValue(), "What bob wrote");
        await bob.page.getByText("What ann wrote").waitFor();
        await bob.page.getByRole("button", { name: "Save" }).click();
        await bob.page.waitForURL(`${two}/wiki/Rung`);
        await ann.page.reload();
        await ann.page.getByText("What bob wrote").waitFor();
        await ann.page.getByRole("link", { name: "History" }).click();
        const rows = ann.page.locator("table tr", { has: ann.page.locator("td") });
        holds((await rows.count()) >= 3, "the history has all revisions");
        const before = rows.filter({ hasText: "by ann" }).first().getByRole("link");
        await before.click();
        await ann.page.getByText("What ann wrote").waitFor();
        quiet([...ann.complaints(), ...bob.complaints()].filter((text) => !text.includes("409")));
      },
    );

    await checks.check("wiki: a node is killed, and both wikis go on, with all that was saved", async () => {
      await until("every shard has replicas enough", async () => {
        const { shards } = await call("GET", `${first}/v1/shards`, undefined);
        return shards.every((/** @type {any} */ shard) => shard.replicas.length === 3);
      });
      await ann.page.goto(`${one}/edit/Rung`);
      process.kill(cluster.pid("node-1"), "SIGKILL");
      await edit(ann, "What ann wrote after the death of node-1");
      // The wiki says 503 while nobody leads the page's shard: the form is sent again, as a person would.
      await until(
        "the edit is done",
        async () => {
          await ann.page.goto(`${one}/wiki/Rung`);
          if ((await ann.page.getByText("after the death of node-1").count()) > 0) return true;
          await ann.page.goto(`${one}/edit/Rung`);
          await edit(ann, "What ann wrote after the death of node-1");
          return false;
        },
        EDITED_MS,
      );
      await bob.page.goto(`${two}/wiki/Rung`);
      await bob.page.getByText("after the death of node-1").waitFor();
      await bob.page.goto(`${two}/history/Rung`);
      const rows = bob.page.locator("table tr", { has: bob.page.locator("td") });
      holds((await rows.filter({ hasText: "by bob" }).count()) === 1, "what bob saved is kept");
      await bob.page.goto(`${two}/wiki/Carillon`);
      await bob.page.getByRole("link", { name: "What links here" }).waitFor();
    });
  } finally {
    await Promise.all([ann.close(), bob.close(), ...wikis.map((wiki) => wiki.stop())]);
    await cluster.stop();
  }
}
