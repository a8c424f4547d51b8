import { describe, expect, test } from "vitest";
import { decodeEvents, isEventFile } from "../../src/model/eventfile";
import { modelAt } from "../../src/model/history";
import { BadRecording } from "../../src/model/recording";

const [A, B] = ["8f6d2a3f4d1c5b0a", "1111222233334444"];
const T = 1_795_821_157_000;

function line(type: string, ms: number, fields: Record<string, unknown> = {}): string {
  const at = String((BigInt(T + ms) << 16n) + 1n);
  return JSON.stringify({ type, node: A, at, at_ms: T + ms, severity: "info", text: type, ...fields });
}
const HELLO = line("hello", 9000, {
  version: 1,
  name: "n1",
  scope: "cluster",
  nodes: [
    { node: A, name: "n1" },
    { node: B, name: "n2" },
  ],
});
const BODY = [
  line("leader-elected", 0, { shard: 1, keyspace: "0", replica: 1, term: 1 }),
  line("leader-elected", 100, { shard: 2, keyspace: "0", replica: 1, term: 1, node: B }),
  line("split", 2000, { shard: 2, keyspace: "0", right: 7, cut: 9000, node: B }),
  line("member", 4000, { member: B, state: "down" }),
  line("leader-elected", 5000, { shard: 2, keyspace: "0", replica: 2, term: 2 }),
];
const file = (...lines: string[]) => lines.join("\n") + "\n";

describe("a file of carillon record", () => {
  test("is told from a recording of the page", () => {
    expect(isEventFile(file(HELLO))).toBe(true);
    expect(isEventFile('{"format":1,"savedAtMs":0,"parts":[{"type":"x"}],"models":[]}')).toBe(false);
    expect(isEventFile("nonsense")).toBe(false);
  });

  test("shows the cluster as it was at each time", () => {
    const { recording, notes } = decodeEvents(file(HELLO, ...BODY, line("end", 9000, { reason: "until" })));
    expect(notes).toEqual([]);
    const at = (ms: number) => modelAt(recording.models, T + ms);
    expect(at(50)?.nodes.map((node) => node.name)).toEqual(["n1", "n2"]);
    expect(at(1000)?.shards.map((shard) => shard.id)).toEqual([1, 2]);
    expect(at(1000)?.shards.map((shard) => shard.leader)).toEqual([A, B]);
    expect(at(3000)?.shards.map((shard) => shard.id)).toEqual([1, 2, 7]);
    expect(at(3000)?.nodes[1]?.state).toBe("up");
    expect(at(4500)?.nodes[1]?.state).toBe("down");
    expect(at(5000)?.shards[1]?.leader).toBe(A);
    expect(at(5000)?.nodes[0]?.leads).toBe(2);
    expect(recording.events).toHaveLength(5);
  });

  test("tells of a node only what events tell", () => {
    const C = "9999888877776666";
    const hello = HELLO.replace(
      '"name":"n2"}',
      `"name":"n2"},{"node":"${C}","name":"n3"},{"node":"ffff","name":"n4"}`,
    );
    const body = [
      ...BODY,
      line("member", 6000, { member: C, state: "up" }),
      line("checkpointed", 6100, { node: C }),
      line("node-started", 8000, { node: B }),
    ];
    const { recording } = decodeEvents(file(hello, ...body, line("end", 9000)));
    expect(recording.source).toBe("events");
    const at = (ms: number) => modelAt(recording.models, T + ms);
    const states = (ms: number) =>
      Object.fromEntries(at(ms)?.nodes.map((each) => [each.name, each.state]) ?? []);
    // What is up says so itself; of n4 nobody tells anything, and n3 was not there before it came.
    expect(states(50)).toEqual({ n1: "up", n2: "unknown", n4: "unknown" });
    expect(states(200)).toEqual({ n1: "up", n2: "up", n4: "unknown" });
    expect(states(6050)).toEqual({ n1: "up", n2: "down", n3: "up", n4: "unknown" });
    expect(states(8500)).toMatchObject({ n2: "up" });
    expect(recording.models.every((model) => model.isFromEvents && model.nodesHealth === null)).toBe(true);
  });

  test("may have broken lines, gaps and no end: the page says so and shows the rest", () => {
    const gap = line("gap", 3000, { of: B, reason: "kept", events: 7 });
    const { recording, notes } = decodeEvents(file(HELLO, "{torn", ...BODY, gap, '{"no":"type"}'));
    expect(notes).toEqual([
      "2 lines are no events and were left out; the first is line 2.",
      "It does not end with “end”: it was cut off, or goes on.",
      "Events are missing in one place: see “gap”.",
    ]);
    expect(recording.events).toHaveLength(6);
  });

  test.each([
    ["has no hello", file(...BODY), "hello"],
    ["has a later format", file(HELLO.replace('"version":1', '"version":2'), ...BODY), "format 2"],
    ["is empty", file(HELLO), "no events"],
  ])("that %s is refused", (_, text, words) => {
    expect(() => decodeEvents(text)).toThrow(BadRecording);
    expect(() => decodeEvents(text)).toThrow(words);
  });

  test("has its sampled transactions", () => {
    const step = (phase: string, ms: number) =>
      line("transaction", ms, { txn: "x-1", phase, attempt: 0, shards: [1, 2], keys: 2, shard: 1 });
    const { recording } = decodeEvents(file(HELLO, ...BODY, step("prepare", 5100), step("committed", 5200)));
    expect(recording.samples.transactions).toMatchObject([{ id: "x-1", outcome: "committed" }]);
  });
});
