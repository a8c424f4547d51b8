// Volumes on a real cluster: all that the page does with them.

import { until } from "../../scripts/cluster.mjs";
import { equal, holds, quiet } from "./checks.mjs";

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {any} real The page of a real cluster, as real.mjs has opened it.
 */
export async function checkVolumes(checks, { page, open, get, axe, complaints, base }) {
  await checks.check("real: a volume is made, resized, cloned, flattened and deleted", async () => {
    await open("keys");
    const button = (/** @type {string} */ name) => page.getByRole("button", { name, exact: true });
    const told = (/** @type {string} */ text) => page.getByText(text).first().waitFor();
    await button("New volume").click();
    await page.getByLabel("Name").fill("bells");
    await page.getByLabel("Size").fill("5000");
    holds(await button("Create").isDisabled(), "half a block is offered");
    await page.getByLabel("Size").fill("64MiB");
    await button("Create").click();
    await told("bells is there");
    await button("Resize… bells").click();
    await page.getByLabel("Size").fill("1GiB");
    await button("Resize").click();
    await told("bells has 1.0 GiB");
    equal((await get("/v1/keyspaces/bells")).volume.bytes, 2 ** 30);
    await button("Snapshot bells").click();
    await told("bells@snap-");
    await button("Clone… bells").click();
    await page.getByLabel("Name").fill("trial");
    await button("Clone").click();
    await told("trial is bells as it is now");
    equal((await get("/v1/keyspaces/trial")).clone_of.volume, "bells");
    // A source stays as long as it has clones: the page says why.
    await button("Delete… bells").click();
    await button("Delete").click();
    await page.getByRole("alert").getByText("trial").waitFor();
    await button("Cancel").click();
    quiet(await axe());
    await button("Flatten trial").click();
    await told("trial needs its source no more");
    for (const name of ["bells", "trial"]) {
      await button(`Delete… ${name}`).click();
      await button("Delete").click();
      await until(
        `${name} is gone`,
        async () => (await fetch(`${base}/v1/keyspaces/${name}`)).status === 404,
      );
    }
    await page.getByText("No volumes.").waitFor();
    complaints();
  });
}
