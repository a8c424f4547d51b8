// A browser for checks: Debian's chromium by playwright-core, with every console message, failed
// request and policy violation collected, and axe beside.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Waits end as soon as what is waited for is there: this is for slow machines. */
const TIMEOUT_MS = 30_000;
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
  page.setDefaultTimeout(TIMEOUT_MS);
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

/** From now on labels that begin with these words are noted in `document.body.dataset.noted`, however short they last. */
export async function noteLabels(
  /** @type {import("playwright-core").Page} */ page,
  /** @type {string} */ words,
) {
  await page.evaluate((wanted) => {
    const note = () => {
      for (const each of document.querySelectorAll("[aria-label]")) {
        const label = each.getAttribute("aria-label") ?? "";
        const noted = document.body.dataset["noted"] ?? "";
        if (label.startsWith(wanted) && !noted.includes(label))
          document.body.dataset["noted"] = `${noted}\n${label}`;
      }
    };
    const options = { subtree: true, childList: true, attributes: true, attributeFilter: ["aria-label"] };
    new MutationObserver(note).observe(document.querySelector("main") ?? document.body, options);
  }, words);
}

/** Frames a second: the most in any of some windows, the first that has enough ends it. */
export async function framesReach(
  /** @type {import("playwright-core").Page} */ page,
  /** @type {number} */ wanted,
) {
  const WINDOWS_MAX = 6;
  let most = 0;
  for (let i = 0; i < WINDOWS_MAX && most < wanted; i++) {
    const frames = await page.evaluate(
      () =>
        new Promise((done) => {
          let count = 0;
          const end = performance.now() + 2000;
          const frame = () => (
            ++count,
            performance.now() < end ? requestAnimationFrame(frame) : done(count / 2)
          );
          requestAnimationFrame(frame);
        }),
    );
    most = Math.max(most, Number(frames));
  }
  return most;
}
