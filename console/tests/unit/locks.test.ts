import { describe, expect, test } from "vitest";
import type { TransactionSample, TransactionStep } from "../../src/events/samples";
import {
  DECIDED_MAX_MS,
  holders,
  recovery,
  spansOf,
  UNDECIDED_MAX_MS,
} from "../../src/views/transactions/locks";
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

const now = () => clock * 10;

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
    expect(holders([waited], 10, now()).map((each) => [each.kind, each.lasts])).toEqual([
      ["lock", true],
      ["wait", false],
    ]);
  });

  test("of a transaction that is decided do not last for ever, though no end was sampled", () => {
    const cut = transaction([step("prepare", [1]), step("voted", [1]), step("committed")], "committed");
    const at = (ms: number) => holders([cut], 10, now() + ms)[0];
    expect(at(DECIDED_MAX_MS - 1)).toMatchObject({ lasts: true, untilMs: null });
    expect(at(DECIDED_MAX_MS)).toMatchObject({ lasts: false, untilMs: null });
  });

  test("of a transaction that is not are shown for a while", () => {
    const cut = transaction([step("prepare", [1]), step("voted", [1])], "running");
    const lasts = (ms: number) => holders([cut], 10, now() + ms)[0]?.lasts;
    expect(lasts(UNDECIDED_MAX_MS - 1)).toBe(true);
    expect(lasts(UNDECIDED_MAX_MS)).toBe(false);
  });

  test("are not kept by the shard that commits as it votes", () => {
    const quick = transaction(
      [
        step("prepare", [2, 1], { inOrder: true }),
        step("voted", [2]),
        step("voted", [1]),
        step("committed"),
        step("resolve", [2]),
      ],
      "committed",
    );
    expect(holders([quick], 10, now()).map((each) => [each.shard, each.lasts])).toEqual([[2, false]]);
    const cut = { ...quick, steps: quick.steps.slice(0, 3), outcome: "running" as const };
    expect(holders([cut], 10, now()).map((each) => each.shard)).toEqual([2]);
  });

  test("of an attempt that failed are given up while the next one holds its own", () => {
    const again = transaction(
      [
        step("prepare", [1, 2]),
        step("voted", [1]),
        step("refused", [2], { reason: "changed" }),
        step("prepare", [1, 2], { attempt: 1 }),
        step("voted", [1], { attempt: 1 }),
        step("resolve", [1]),
        step("finished"),
      ],
      "running",
    );
    expect(holders([again], 10, now()).map((each) => each.lasts)).toEqual([true, false]);
  });

  test("that were not given for another reason are no wait", () => {
    const changed = transaction(
      [step("prepare", [1]), step("refused", [1], { reason: "changed" })],
      "refused",
    );
    expect(holders([changed], 10, now())).toEqual([]);
  });
});

describe("a coordinator that dies", () => {
  const name = (id: string) => `node ${id}`;
  const begun = () => [step("prepare", [1, 2]), step("voted", [1]), step("voted", [2])];

  test("leaves locks, and the page says that somebody will finish it", () => {
    const left = transaction(begun(), "running");
    const told = recovery(left, now(), () => true, name);
    expect(told).toContain("node A, is down. 2 shards may hold its locks");
    expect(recovery(left, now(), () => false, name)).toBeNull();
  });

  test("has left nothing if nobody has found anything after a while", () => {
    const told = recovery(transaction(begun(), "running"), now() + UNDECIDED_MAX_MS, () => true, name);
    expect(told).toContain("no node has found anything of it to finish");
  });

  test("is succeeded by another one, which is named", () => {
    const steps = [
      ...begun(),
      step("recover", [1], { node: "B" }),
      step("prevent", [1, 2], { node: "B" }),
      step("resolve", [1, 2], { node: "B" }),
      step("finished", [], { node: "B" }),
    ];
    const told = recovery(transaction(steps, "committed"), now(), () => true, name);
    expect(told).toContain("node B has finished it instead of node A");
    expect(told).toContain("committed");
    expect(told).toContain("No lock was left 30 ms later");
  });
});
