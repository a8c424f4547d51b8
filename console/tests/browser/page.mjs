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
    /**
     * What axe finds that is serious. The page's policy forbids its script, so it comes from outside.
     * A colour in the middle of a transition has no contrast to judge, so what it finds must be found again
     * when transitions have ended.
     */
    async axe() {
      await page.evaluate(axeSource);
      await transitionsEnd(page);
      const first = await violations(page);
      if (first.length === 0) return first;
      await page.waitForTimeout(300);
      await transitionsEnd(page);
      return violations(page);
    },
    close: () => context.close(),
  };
}

/** Waits until no colour or place is on its way to another. */
async function transitionsEnd(/** @type {import("playwright-core").Page} */ page) {
  await page.evaluate(async () => {
    const transitions = document.getAnimations().filter((each) => each instanceof CSSTransition);
    await Promise.allSettled(transitions.map((each) => each.finished));
  });
}

/** What axe finds on the page now. */
async function violations(/** @type {import("playwright-core").Page} */ page) {
  const found = await page.evaluate(
    // @ts-expect-error axe is what was evaluated before
    () => globalThis.axe.run(document, { resultTypes: ["violations"] }),
  );
  return found.violations
    .filter((/** @type {{ impact: string }} */ each) =>
      ["serious", "critical", "moderate"].includes(each.impact),
    )
    .map(
      (/** @type {{ id: string, help: string, nodes: { html: string, failureSummary: string }[] }} */ each) =>
        `${each.id}: ${each.help}: ${each.nodes[0]?.html.slice(0, 200)} ${each.nodes[0]?.failureSummary}`,
    );
}
