// npm run browser: the built console in a real browser, on the recorded cluster and on a real one.
// `npm run browser -- --recorded` leaves the real one out; `--only=recorded`, `simulated`, `sim`, `real` or `wiki` is one
// part.
import { existsSync } from "node:fs";
import { Checks } from "./checks.mjs";
import { openBrowser } from "./page.mjs";
import { checkReal } from "./real.mjs";
import { checkRecorded } from "./recorded.mjs";
import { checkSim } from "./sim.mjs";
import { checkSimulated } from "./simulated.mjs";
import { checkWiki } from "./wiki.mjs";

if (!existsSync(new URL("../../dist/index.html", import.meta.url))) {
  console.error("there is no dist: npm run build");
  process.exit(2);
}
const checks = new Checks();
const browser = await openBrowser();
const only = process.argv.find((word) => word.startsWith("--only="))?.slice("--only=".length);
const hasReal = !process.argv.includes("--recorded");
/** @type {[string, boolean, (checks: Checks, browser: import("playwright-core").Browser) => Promise<void>][]} */
const parts = [
  ["recorded", true, checkRecorded],
  ["simulated", true, checkSimulated],
  ["sim", hasReal, checkSim],
  ["real", hasReal, checkReal],
  ["wiki", hasReal, checkWiki],
];
try {
  for (const [name, isHere, run] of parts) {
    if (!isHere || (only && only !== name)) continue;
    // A part that cannot begin is a failure among others: the rest is checked all the same.
    await run(checks, browser).catch((error) => checks.fail(`the part ${name}`, error));
  }
} finally {
  await browser.close();
}
console.log(checks.summary());
process.exitCode = checks.failed === 0 ? 0 : 1;
