// The console with a simulation behind it, and with `carillon dev`: stand-ins answer, as their contracts say.
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readRecording, serve } from "../../scripts/serve.mjs";
import { devCluster, simulation } from "../../scripts/simulated.mjs";
import { equal, holds, quiet } from "./checks.mjs";
import { openPage } from "./page.mjs";

const moments = readRecording();
/** @type {any} */
const recorded = moments[0]?.answers["/v1/nodes"]?.body;
/** @type {{ name: string, id: string, addresses: any }[]} */
const nodes = recorded.nodes;
const isRefused = (/** @type {string} */ text) => text.includes("409") || text.includes("404");

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {import("playwright-core").Browser} browser
 */
export async function checkSimulated(checks, browser) {
  const server = await serve({ moments, sim: simulation({ names: nodes }), dev: devCluster(nodes) });
  const { page, complaints, axe, close } = await openPage(browser, { acceptDownloads: true });
  const open = (/** @type {string} */ view) => page.goto(`${server.url}#/${view}`);
  const time = () => page.locator("section[aria-label=Simulation] .time").innerText();

  await checks.check("sim: time runs, is paused, and goes on step by step", async () => {
    await open("simulator");
    await page.getByRole("button", { name: "Pause time" }).click();
    await page.getByRole("button", { name: "Run time" }).waitFor();
    const before = await time();
    await page.waitForTimeout(700);
    equal(await time(), before, "the time while it is paused");
    await page.getByLabel("Step by").selectOption({ label: "10 s" });
    await page.getByRole("button", { name: "Step", exact: true }).click();
    await page.waitForFunction(
      (then) => document.querySelector("section[aria-label=Simulation] .time")?.textContent !== then,
      before,
    );
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("sim: a node crashes and starts again, from the table", async () => {
    await page.getByRole("button", { name: "Faults… node-2" }).click();
    await page.getByRole("button", { name: "Crash node-2" }).click();
    await page.locator("tr", { hasText: "node-2" }).getByText("down", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Restart node-2" }).click();
    await page.locator("tr", { hasText: "node-2" }).getByText("up", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Cut the link of node-2" }).click();
    await page
      .getByText(/^nothing goes to/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Slow disk of node-2" }).click();
    await page.getByText("fsync takes 200 ms").first().waitFor();
    await page.getByRole("button", { name: "Heal all" }).click();
    await page.getByText("fsync takes 200 ms").first().waitFor({ state: "detached" });
    await page.getByRole("list", { name: "What was done" }).getByText("slow-disk").waitFor();
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("sim: the page shows what is refused, and goes on", async () => {
    equal(await page.getByRole("button", { name: "A hundred join" }).count(), 0, "offers that cannot work");
    await page.getByText("Up to 47 more can join").waitFor();
    await page.getByRole("spinbutton", { name: "Nodes" }).first().fill("60");
    await page.getByRole("button", { name: "Join at once" }).click();
    await page.getByRole("alert").getByText("there are 50 at most").waitFor();
    await page.getByRole("button", { name: "Close this message" }).click();
    complaints(isRefused);
  });

  await checks.check("sim: a fault is switched on from the ring's menu of a node", async () => {
    await open("ring?keyspace=0");
    await page.getByRole("button", { name: "Show what node-3 holds" }).click();
    await page.getByRole("heading", { name: "Do something to node-3" }).waitFor();
    await page.getByRole("button", { name: "Pause node-3" }).click();
    await page.getByRole("button", { name: "Resume node-3" }).waitFor();
    quiet(await axe());
    quiet(complaints((text) => text.includes("/v1/keys/") || text.includes("404")));
  });

  await checks.check("sim: a simulation is saved, and opened again", async () => {
    await open("simulator");
    const waits = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save" }).click();
    const path = await (await waits).path();
    const file = JSON.parse(readFileSync(path, "utf8"));
    equal(file.carillon_simulation, 1);
    holds(file.actions.length >= 5, `the file has ${file.actions.length} actions`);
    const chooser = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: "Open…" }).click();
    await (await chooser).setFiles(path);
    await page.waitForFunction(() =>
      document.querySelector("section[aria-label=Simulation] .time")?.textContent?.startsWith("0:00"),
    );
    const broken = join(tmpdir(), `no-simulation-${process.pid}.json`);
    writeFileSync(broken, '{"seed": 1}');
    const second = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: "Open…" }).click();
    await (await second).setFiles(broken);
    await page.getByRole("alert").getByText("carillon_simulation").waitFor();
    equal(await page.getByText("The console failed").count(), 0, "failures of the console");
    complaints();
  });

  await checks.check("sim: the tour keeps a simulation that was opened, and puts it back", async () => {
    await open("tour?step=3");
    await page.getByText("It was opened from a file").waitFor();
    await page.getByRole("button", { name: /^Begin it/ }).click();
    await page.getByRole("group", { name: /^Ring of 64 members/ }).waitFor();
    await page.getByRole("button", { name: "Put it back" }).click();
    await page.getByText("Simulated cluster").waitFor();
    await page.getByRole("button", { name: "Put it back" }).waitFor({ state: "detached" });
    quiet(await axe());
    complaints(); // the keys of the tour were not recorded
  });

  await checks.check("sim: a hundred members join a ring, and a lookup finds its way", async () => {
    await open("simulator");
    await page.getByText("A ring of members", { exact: true }).click();
    await page.getByLabel("Members", { exact: true }).last().fill("200");
    await page.getByRole("button", { name: "Begin anew" }).click();
    await page.getByRole("group", { name: /^Ring of 200 members/ }).waitFor();
    await page.getByRole("button", { name: "A hundred join" }).click();
    await page.getByRole("group", { name: /^Ring of 300 members/ }).waitFor();
    await page.getByRole("button", { name: "Look up" }).click();
    const row = (/** @type {string} */ name) =>
      page
        .locator("tr", { has: page.getByRole("cell", { name, exact: true }) })
        .locator("td")
        .nth(1);
    await row("chord").waitFor();
    const [chord, linear] = [Number(await row("chord").innerText()), Number(await row("linear").innerText())];
    holds(chord <= 9, `chord took ${chord} hops in a ring of 300`);
    holds(linear >= chord, `linear took ${linear} hops, chord ${chord}`);
    quiet(await axe());
    quiet(complaints());
  });

  await checks.check("sim: the tour plays its scenes, and each can be touched", async () => {
    await open("tour?step=3");
    await page.getByRole("heading", { name: "Another simulation runs" }).waitFor();
    await page.getByRole("button", { name: /^Begin it/ }).click();
    await page.getByRole("group", { name: /^Ring of 64 members/ }).waitFor();
    await page.getByRole("button", { name: "A hundred more join" }).click();
    await page.getByRole("group", { name: /^Ring of 164 members/ }).waitFor();
    for (let n = 4; ; n++) {
      const next = page.getByRole("button", { name: /^Next: / });
      if ((await next.count()) === 0) break;
      const title = (await next.innerText()).replace("Next: ", "");
      await next.click();
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      const begin = page.getByRole("button", { name: /^Begin it/ });
      if ((await begin.count()) > 0) await begin.click();
      if (title.startsWith("Eight things")) {
        await page.getByRole("button", { name: "Cut a link" }).click();
        await page.getByText(/1 ways cut now/).waitFor();
        await page.getByRole("button", { name: "Alter messages" }).click();
        await page.getByText(/3 of 3 altered messages refused/).waitFor();
        holds(await page.getByRole("button", { name: "Alter messages" }).isDisabled(), "it is on already");
      }
      quiet((await axe()).map((/** @type {string} */ each) => `page ${n}: ${each}`));
    }
    complaints(); // the keys of the tour were not recorded
  });

  await checks.check("dev: a node is killed and started again, and another one added", async () => {
    await open("cluster");
    await page.getByRole("heading", { name: "Processes of carillon dev" }).waitFor();
    await page.getByRole("button", { name: "Kill node-2" }).click();
    await page.getByText("“Start” brings it back").waitFor();
    quiet(await axe());
    await page.getByRole("button", { name: "Kill", exact: true }).click();
    await page.getByText("by SIGKILL (9)").waitFor();
    await page.getByRole("button", { name: "its last words of node-2" }).click();
    await page.getByText("the last line").waitFor();
    await page.getByRole("button", { name: "Start node-2" }).click();
    await page.getByRole("button", { name: "Kill node-2" }).waitFor();
    await page.getByRole("button", { name: "Add a node…" }).click();
    await page.getByLabel("Find a setting").fill("MEMORY");
    equal(await page.getByRole("region", { name: "Settings of the new node" }).locator("input").count(), 1);
    await page.getByLabel("memory_max").fill("2GiB");
    await page.getByRole("button", { name: "Start it" }).click();
    await page.getByText("memory_max=2GiB").waitFor();
    quiet(await axe());
    quiet(complaints());
  });
  await close();

  const phone = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await checks.check("sim: the controls fit a phone", async () => {
    for (const view of ["simulator", "cluster"]) {
      await phone.page.goto(`${server.url}#/${view}`);
      await phone.page.locator("section[aria-label=Simulation] .time").waitFor();
      const wide = await phone.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      holds(wide <= 1, `${view} is ${wide} pixels too wide`);
      quiet(await phone.axe());
    }
    quiet(phone.complaints());
  });
  await phone.close();
  await server.close();
}
