// Runs checks one after the other, each by name, and goes on after a failure. What failed is told again at the end.

/** @typedef {{ name: string, run: () => Promise<void> }} Check */

export class Checks {
  passed = 0;
  failed = 0;
  /** @type {{ name: string, why: string }[]} */
  failures = [];

  /** Runs one check and prints how it went. */
  async check(/** @type {string} */ name, /** @type {() => Promise<void>} */ run) {
    const began = Date.now();
    try {
      await run();
      this.passed += 1;
      console.log(`  ok      ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      this.fail(name, error, Date.now() - began);
    }
  }

  /** Counts a failure, also of what is no check, as of a cluster that does not start. */
  fail(/** @type {string} */ name, /** @type {unknown} */ error, tookMs = 0) {
    const why = error instanceof Error ? error.message : String(error);
    this.failed += 1;
    this.failures.push({ name, why });
    console.log(`  FAILED  ${name} (${tookMs} ms): ${why}`);
  }

  /** The last lines: every failed check with its reason, then the sum. */
  summary() {
    const lines = this.failures.map(({ name, why }) => `  FAILED  ${name}: ${shortened(why)}`);
    return [...lines, `console browser: ${this.passed} passed, ${this.failed} failed`].join("\n");
  }
}

/** So many lines of a reason stand in the summary. */
const WHY_LINES_MAX = 6;

function shortened(/** @type {string} */ why) {
  const lines = why.split("\n");
  const rest = lines.length - WHY_LINES_MAX;
  return lines
    .slice(0, WHY_LINES_MAX)
    .concat(rest > 0 ? [`          … and ${rest} more lines above`] : [])
    .join("\n");
}

export function equal(/** @type {unknown} */ found, /** @type {unknown} */ wanted, what = "") {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what} is ${a}, and should be ${b}`.trim());
}

export function holds(/** @type {unknown} */ condition, /** @type {string} */ what) {
  if (!condition) throw new Error(what);
}

/** Nothing was complained of. */
export function quiet(/** @type {string[]} */ complaints) {
  if (complaints.length > 0) throw new Error(complaints.join("\n          "));
}
