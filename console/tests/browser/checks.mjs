// Runs checks one after the other, each by name, and goes on after a failure.

/** @typedef {{ name: string, run: () => Promise<void> }} Check */

export class Checks {
  passed = 0;
  failed = 0;
  /** @type {string[]} */
  failures = [];

  /** Runs one check and prints how it went. */
  async check(/** @type {string} */ name, /** @type {() => Promise<void>} */ run) {
    const began = Date.now();
    try {
      await run();
      this.passed += 1;
      console.log(`  ok      ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      this.failed += 1;
      const failure = `  FAILED  ${name}: ${error instanceof Error ? error.message : error}`;
      this.failures.push(failure);
      console.log(failure);
    }
  }
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
