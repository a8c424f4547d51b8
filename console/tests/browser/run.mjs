// npm run browser: the built console in a real browser, on the recorded cluster and on a real one.
// `npm run browser -- --recorded` leaves the real one out.
import { existsSync } from "node:fs";
import { Checks } from "./checks.mjs";
import { openBrowser } from "./page.mjs";
import { checkReal } from "./real.mjs";
import { checkRecorded } from "./recorded.mjs";

if (!existsSync(new URL("../../dist/index.html", import.meta.url))) {
  console.error("there is no dist: npm run build");
  process.exit(2);
}
const checks = new Checks();
const browser = await openBrowser();
try {
  await checkRecorded(checks, browser);
  if (!process.argv.includes("--recorded")) await checkReal(checks, browser);
} finally {
  await browser.close();
}
console.log(`console browser: ${checks.passed} passed, ${checks.failed} failed`);
process.exitCode = checks.failed === 0 ? 0 : 1;
