// npm run browser: the built console in a real browser, on the recorded cluster and on a real one.
// `npm run browser -- --recorded` leaves the real one out; `--only=recorded`, `simulated` or `real` is one part.
import { existsSync } from "node:fs";
import { Checks } from "./checks.mjs";
import { openBrowser } from "./page.mjs";
import { checkReal } from "./real.mjs";
import { checkRecorded } from "./recorded.mjs";
import { checkSim } from "./sim.mjs";
import { checkSimulated } from "./simulated.mjs";

if (!existsSync(new URL("../../dist/index.html", import.meta.url))) {
  console.error("there is no dist: npm run build");
  process.exit(2);
}
const checks = new Checks();
const browser = await openBrowser();
try {
  const only = process.argv.find((word) => word.startsWith("--only="))?.slice("--only=".length);
  if (!only || only === "recorded") await checkRecorded(checks, browser);
  if (!only || only === "simulated") await checkSimulated(checks, browser);
  if (!process.argv.includes("--recorded") && (!only || only === "sim")) await checkSim(checks, browser);
  if (!process.argv.includes("--recorded") && (!only || only === "real")) await checkReal(checks, browser);
} finally {
  await browser.close();
}
for (const failure of checks.failures) console.log(failure);
console.log(`console browser: ${checks.passed} passed, ${checks.failed} failed`);
process.exitCode = checks.failed === 0 ? 0 : 1;
