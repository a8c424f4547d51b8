import { describe, expect, it } from "vitest";
import type { FailingSet, Survivability } from "../../src/api/types";
import { answerOf, setWords, smallestWords } from "../../src/views/cluster/prove";

const set: FailingSet = { shard: 3, keyspace: "orders", lost: ["n1", "n2"], left: 1, voters: 3, needed: 2 };
const proof: Survivability = {
  survive: "node",
  holds: true,
  shards: 9,
  failing_count: 0,
  failing: [],
  smallest: set,
  unproven: [],
  obstacles: [],
  silent: [],
  down: [],
};

describe("what the cluster can lose", () => {
  it("is said with the smallest loss that is too much", () => {
    const text = "Yes: each of 9 shards keeps a majority without any one node.";
    expect(answerOf(proof)).toEqual({ verdict: "ok", text });
    expect(smallestWords(proof)).toContain("n1 and n2. Then shard 3 of keyspace orders has 1 of 3 voters");
    expect(answerOf({ ...proof, shards: 1 }).text).toContain("the only shard keeps");
  });

  it("names the first loss that takes a majority", () => {
    const two = { ...proof, survive: "2-nodes" as const, holds: false, failing_count: 4, failing: [set] };
    expect(answerOf(two)).toMatchObject({ verdict: "degraded" });
    expect(answerOf(two).text).toContain(
      "4 shards of 9 may have no majority without any two nodes; the first",
    );
    expect(smallestWords(two)).toBeNull();
    expect(setWords(set)).toBe("shard 3 of keyspace orders has 1 of 3 voters without n1 and n2, and needs 2");
  });

  it("is a failure if a shard has no majority now", () => {
    const lost = { ...set, keyspace: null, shard: 0, lost: [] };
    const now = { ...proof, holds: false, failing_count: 1, failing: [lost] };
    const text = "No: shard 0 (the catalogue) has no majority now.";
    expect(answerOf(now)).toEqual({ verdict: "failing", text });
  });

  it("is not proven if leaders did not answer", () => {
    const unknown = {
      ...proof,
      holds: false,
      smallest: null,
      unproven: [4],
      obstacles: ["did not answer: n2"],
    };
    expect(answerOf(unknown).text).toContain("Not proven");
    expect(smallestWords(unknown)).toBeNull();
  });
});
