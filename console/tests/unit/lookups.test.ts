/** The same keys, looked up by each lookup: the figures of a comparison. */

import { describe, expect, it } from "vitest";
import type { Route } from "../../src/api/types";
import { isUneven, keysToTry, summarise } from "../../src/views/lookups/compare";
import { routes, SPLIT, WELL } from "./recording";

describe("lookups compared", () => {
  it("are told by hops, messages and time", () => {
    const all = [
      ...routes(WELL, "catalog", "bell-7", "iterative+noimages"),
      ...routes(SPLIT, "catalog", "bell-7", "iterative+noimages"),
    ];
    const summaries = summarise(all);
    expect(summaries.map((each) => each.lookup)).toEqual(["full", "chord", "chord-sharp", "linear", "lh"]);
    for (const each of summaries) {
      expect(each.found + each.failed).toBe(2);
      expect(each.histogram.reduce((sum, n) => sum + n, 0)).toBe(each.found);
      expect(each.histogram).toHaveLength(each.hopsMax + 1);
    }
    expect(summaries[0]?.hopsMean).toBe(0);
  });

  it("say why one finds nothing", () => {
    const [lh] = summarise(routes(WELL, "0", "greeting").filter((route: Route) => route.lookup === "lh"));
    expect(lh).toMatchObject({ found: 0, failed: 1, histogram: [] });
    expect(lh?.failure).toContain("linear-hash");
  });

  it("say that lookups of one key began at different shards", () => {
    const [route] = routes(WELL, "0", "greeting");
    if (!route) throw new Error("no route was recorded");
    const from = (begins_at: number | null, failure?: string): Route => ({
      ...route,
      begins_at,
      ...(failure === undefined ? {} : { failure }),
    });
    expect(isUneven([from(1), from(1), from(null)])).toBe(false);
    expect(isUneven([from(1), from(2, "it was lost")])).toBe(false);
    expect(isUneven([from(1), from(2)])).toBe(true);
  });

  it("try a bounded number of keys", () => {
    expect(keysToTry("k", 3)).toEqual(["k1", "k2", "k3"]);
    expect(keysToTry("k", 1e9)).toHaveLength(100);
    expect(keysToTry("k", NaN)).toHaveLength(0);
  });
});
