import { describe, expect, test } from "vitest";
import type { TransactionSample, TransactionStep } from "../../src/events/samples";
import { holders, recovery, spansOf } from "../../src/views/transactions/locks";
import { draw } from "../../src/views/transactions/phases";

let clock = 0;
function step(phase: string, shards: number[] = [], more: Partial<TransactionStep> = {}): TransactionStep {
  clock += 1;
  const at = String(1_000_000_000 + clock);
  return { at, atMs: clock * 10, node: "A", attempt: 0, phase, shards, keys: 1, reason: null, ...more };
}
function transaction(steps: TransactionStep[], outcome: TransactionSample["outcome"]): TransactionSample {
  const isRecovered = steps.some((each) => each.phase === "recover");
  return { id: "t", keyspace: "0", node: "A", record: 1, steps, outcome, isRecovered };
}

describe("locks", () => {
  test("last from a shard's vote until it is resolved", () => {
    const done = transaction(
      [
        step("prepare", [1, 2]),
        step("voted", [1]),
        step("voted", [2]),
        step("committed"),
        step("resolve", [1, 2]),
      ],
      "committed",
    );
    expect(spansOf(done, draw(done).columns)).toEqual([
      { shard: 1, kind: "lock", from: 1, to: 3 },
      { shard: 2, kind: "lock", from: 1, to: 3 },
    ]);
  });

  test("of others are waited for until the shard votes", () => {
    const waited = transaction(
      [
        step("prepare", [1]),
        step("refused", [1], { reason: "locked" }),
        step("prepare", [1], { attempt: 1 }),
        step("voted", [1], { attempt: 1 }),
      ],
      "running",
    );
    const spans = spansOf(waited, draw(waited).columns);
    expect(spans).toEqual([
      { shard: 1, kind: "wait", from: 1, to: 3 },
      { shard: 1, kind: "lock", from: 3, to: null },
    ]);
    expect(holders([waited], 10).map((each) => [each.kind, each.untilMs === null])).toEqual([
      ["lock", true],
      ["wait", false],
    ]);
  });

  test("that were not given for another reason are no wait", () => {
    const changed = transaction(
      [step("prepare", [1]), step("refused", [1], { reason: "changed" })],
      "refused",
    );
    expect(holders([changed], 10)).toEqual([]);
  });
});

describe("a coordinator that dies", () => {
  const name = (id: string) => `node ${id}`;
  const begun = () => [step("prepare", [1, 2]), step("voted", [1]), step("voted", [2])];

  test("leaves locks, and the page says that somebody will finish it", () => {
    const left = transaction(begun(), "running");
    expect(recovery(left, () => true, name)).toContain("node A, is down. 2 shards still hold its locks");
    expect(recovery(left, () => false, name)).toBeNull();
  });

  test("is succeeded by another one, which is named", () => {
    const steps = [
      ...begun(),
      step("recover", [1], { node: "B" }),
      step("prevent", [1, 2], { node: "B" }),
      step("resolve", [1, 2], { node: "B" }),
      step("finished", [], { node: "B" }),
    ];
    const told = recovery(transaction(steps, "committed"), () => true, name);
    expect(told).toContain("node B has finished it instead of node A");
    expect(told).toContain("committed");
    expect(told).toContain("No lock was left 30 ms later");
  });
});
