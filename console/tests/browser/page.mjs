// A browser for checks: Debian's chromium by playwright-core, with every console message, failed
// request and policy violation collected, and axe beside.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

export async function openBrowser() {
  const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox"] });
  return browser;
}

/**
 * @param {import("playwright-core").Browser} browser
 * @param {import("playwright-core").BrowserContextOptions} options
 */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  const page = await context.newPage();
  /** @type {string[]} */
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()))
      complaints.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => complaints.push(`page: ${error.stack ?? error.message}`));
  page.on("request", (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (protocol !== "blob:" && hostname !== "127.0.0.1")
      complaints.push(`foreign request: ${request.url()}`);
  });
  page.setDefaultTimeout(10_000);
  return {
    page,
    /** Complaints since the last call; those that `isExpected` names are left out. */
    complaints: (/** @type {(text: string) => boolean} */ isExpected = () => false) =>
      complaints.splice(0).filter((text) => !isExpected(text)),
    /** What axe finds that is serious. The page's policy forbids its script, so it comes from outside. */
    async axe() {
      await page.evaluate(axeSource);
      const found = await page.evaluate(
        // @ts-expect-error axe is what the line above has brought
        () => globalThis.axe.run(document, { resultTypes: ["violations"] }),
      );
      return found.violations
        .filter((/** @type {{ impact: string }} */ each) =>
          ["serious", "critical", "moderate"].includes(each.impact),
        )
        .map(
          (
            /** @type {{ id: string, help: string, nodes: { html: string, failureSummary: string }[] }} */ each,
          ) =>
            `${each.id}: ${each.help}: ${each.nodes[0]?.html.slice(0, 200)} ${each.nodes[0]?.failureSummary}`,
        );
    },
    close: () => context.close(),
  };
}
