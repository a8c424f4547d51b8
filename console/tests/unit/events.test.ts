import { readFileSync, existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { describe as sentence } from "../../src/events/describe";
import { appendEvents, compareAt, matches, NO_FILTER } from "../../src/events/log";
import {
  addSample,
  NO_SAMPLES,
  REQUESTS_MAX,
  samplesUntil,
  STEPS_MAX,
  TRANSACTIONS_MAX,
} from "../../src/events/samples";
import { groupOf, GROUPS } from "../../src/events/types";
import { draw, PHASES } from "../../src/views/transactions/phases";
import { event, routes, WELL } from "./recording";

describe("the log", () => {
  const at = (ms: number) => event("split", { shard: ms }, ms);

  it("is sorted by hybrid time, late events too", () => {
    const log = appendEvents([at(1000), at(3000)], [at(4000), at(2000)]);
    expect(log.map((each) => each.atMs)).toEqual([1000, 2000, 3000, 4000]);
    expect(compareAt("9", "10")).toBeLessThan(0);
    expect(compareAt("10", "10")).toBe(0);
  });

  it("has each event once, also if a stream repeats it", () => {
    const log = appendEvents([at(1), at(2)], [at(2), at(1), at(3)]);
    expect(log.map((each) => each.atMs)).toEqual([1, 2, 3]);
    const gap = { ...event("gap", {}, 2), cursor: "" };
    expect(appendEvents([at(3), gap], [gap])).toHaveLength(3);
  });

  it("drops the oldest", () => {
    expect(appendEvents([at(1), at(2)], [at(3)], 2).map((each) => each.atMs)).toEqual([2, 3]);
  });

  it("is filtered by kind, severity, shard and words", () => {
    const warn = event("split", {
      shard: 3,
      severity: "warn",
      keyspace: "orders",
      text: "Shard 3 was split",
    });
    expect(matches(warn, NO_FILTER)).toBe(true);
    expect(matches(warn, { ...NO_FILTER, hidden: new Set(["shapes"]) })).toBe(false);
    expect(matches(warn, { ...NO_FILTER, severity: "error" })).toBe(false);
    expect(matches(warn, { ...NO_FILTER, shard: 4 })).toBe(false);
    expect(matches(warn, { ...NO_FILTER, text: "ORDERS split" })).toBe(true);
    expect(matches(warn, { ...NO_FILTER, text: "orders merged" })).toBe(false);
    expect(matches(warn, { ...NO_FILTER, text: "node-7" }, "node-7 shard 3 was split")).toBe(true);
  });

  it("shows gaps whatever is looked for", () => {
    expect(matches(event("gap"), { ...NO_FILTER, text: "split", severity: "error" })).toBe(true);
  });
});

describe("types", () => {
  it("have a group each, and new ones the last", () => {
    expect(groupOf("leader-elected")).toBe("leaders");
    expect(groupOf("brand-new")).toBe("other");
    expect(Object.keys(GROUPS)).toContain(groupOf("transaction"));
  });

  const page = new URL("../../../docs/events.md", import.meta.url);
  it.skipIf(!existsSync(page))("are those of the documents", () => {
    const text = readFileSync(page, "utf8").split("## Limits")[0] ?? "";
    const types = [...text.matchAll(/^### ([a-z-]+)$/gm)].map((match) => match[1] ?? "");
    expect(types.length).toBeGreaterThan(20);
    expect(types.filter((type) => groupOf(type) === "other")).toEqual([]);
  });
});

describe("sentences", () => {
  const names = (id: string) => ({ a78c15c3c4e62b46: "node-2" })[id] ?? id;
  const say = (type: string, fields: Record<string, unknown>) => sentence(event(type, fields), names);

  it("name nodes instead of ids", () => {
    expect(say("member", { text: "node a78c15c3c4e62b46 is up" })).toBe("node node-2 is up");
    expect(say("member", { text: "node 0123456789abcdef is up" })).toBe("node 0123456789abcdef is up");
  });

  it("tell of gaps and of nodes in the stream", () => {
    const of = "a78c15c3c4e62b46";
    expect(say("gap", { of, reason: "kept", events: 1, exact: false })).toBe(
      "Here at least 1 event of node-2 are missing: more happened than nodes keep.",
    );
    expect(say("gap", { of, reason: "restart", events: null })).toContain("Here events of node-2");
    expect(say("gap", { of, reason: "slow", events: 0, samples: 7 })).toContain("7 samples");
    expect(say("node", { of, state: "silent" })).toBe("node-2 has been silent for a second");
    expect(say("node", { of, state: "dancing" })).toBe("node-2 dancing");
    expect(say("new-thing", {})).toBe("new-thing");
  });
});

describe("samples", () => {
  it("of requests have their route", () => {
    const [route] = routes(WELL, "0", "greeting");
    const fields = { op: "read", key: "greeting", keys: 1, keyspace: "0", shard: 7, leader: "a", route };
    const { requests } = addSample(NO_SAMPLES, event("request", fields));
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ op: "read", key: "greeting", shard: 7, route });
  });

  it("of requests survive what they do not know", () => {
    for (const fields of [{}, { key: 5, route: [] }, { key: { base64: "%%" } }, { route: { steps: 5 } }]) {
      const { requests } = addSample(NO_SAMPLES, event("request", fields));
      expect(requests[0]).toMatchObject({ key: "", route: null });
    }
  });

  it("have bounds", () => {
    let samples = NO_SAMPLES;
    for (let i = 0; i < REQUESTS_MAX + 5; i++)
      samples = addSample(samples, event("request", { key: `${i}` }));
    expect(samples.requests).toHaveLength(REQUESTS_MAX);
    for (let i = 0; i < TRANSACTIONS_MAX + 5; i++) {
      samples = addSample(samples, event("transaction", { txn: `${i}`, phase: "prepare" }));
    }
    expect(samples.transactions).toHaveLength(TRANSACTIONS_MAX);
    for (let i = 0; i < STEPS_MAX + 5; i++) {
      samples = addSample(samples, event("transaction", { txn: "x", phase: "voted", shards: [i] }));
    }
    expect(samples.transactions.at(-1)?.steps).toHaveLength(STEPS_MAX);
  });

  const phase = (name: string, ms: number, fields: Record<string, unknown> = {}) =>
    event("transaction", { txn: "t", phase: name, node: "a", attempt: 0, shards: [], ...fields }, ms);

  const committed = [
    phase("prepare", 1, { shards: [3, 5], shard: 3 }),
    phase("voted", 3, { shards: [5] }),
    phase("voted", 2, { shards: [3] }),
    phase("committed", 4, {}),
    phase("resolve", 5, { shards: [3, 5] }),
    phase("finished", 6, {}),
  ];

  it("of a transaction are its steps, in the order of time", () => {
    const { transactions } = committed.reduce(addSample, NO_SAMPLES);
    const [transaction] = transactions;
    expect(transaction).toMatchObject({
      id: "t",
      node: "a",
      record: 3,
      outcome: "committed",
      isRecovered: false,
    });
    expect(transaction?.steps.map((step) => step.phase)).toEqual([
      "prepare",
      "voted",
      "voted",
      "committed",
      "resolve",
      "finished",
    ]);
    expect(transaction?.steps[1]?.shards).toEqual([3]);
  });

  it("tell what came of it", () => {
    const outcome = (...events: ReturnType<typeof event>[]) =>
      events.reduce(addSample, NO_SAMPLES).transactions[0]?.outcome;
    expect(outcome(phase("prepare", 1))).toBe("running");
    expect(outcome(phase("prepare", 1), phase("refused", 2))).toBe("refused");
    expect(outcome(phase("prepare", 1), phase("refused", 2), phase("aborted", 3))).toBe("aborted");
    expect(
      outcome(
        phase("aborted", 3),
        phase("prepare", 4, { attempt: 1 }),
        phase("committed", 5, { attempt: 1 }),
      ),
    ).toBe("committed");
  });

  it("are those of a moment that is picked", () => {
    const samples = addSample(committed.reduce(addSample, NO_SAMPLES), event("request", { key: "k" }, 9));
    const at = (ms: number) => samplesUntil(samples, ms);
    expect(at(0).transactions).toEqual([]);
    expect(at(3).transactions[0]?.steps).toHaveLength(3);
    expect(at(3).transactions[0]?.outcome).toBe("running");
    expect(at(4).transactions[0]?.outcome).toBe("committed");
    expect(at(6).transactions[0]).toBe(samples.transactions[0]);
    expect([at(8), at(9)].map(({ requests }) => requests.length)).toEqual([0, 1]);
  });

  it("are drawn with a row for each shard and a column for each phase", () => {
    const [transaction] = committed.reduce(addSample, NO_SAMPLES).transactions;
    if (!transaction) throw new Error("no transaction");
    const drawing = draw(transaction);
    expect(drawing.shards).toEqual([3, 5]);
    expect(drawing.columns.map((column) => column.phase)).toEqual([
      "prepare",
      "voted",
      "committed",
      "resolve",
      "finished",
    ]);
    expect(drawing.arrows.filter((arrow) => arrow.kind === "ask").map((arrow) => arrow.toRow)).toEqual([
      1, 2,
    ]);
    expect(drawing.arrows.filter((arrow) => arrow.kind === "yes").map((arrow) => arrow.fromRow)).toEqual([
      1, 2,
    ]);
    expect(drawing.marks.every((mark) => mark.phase in PHASES)).toBe(true);
  });

  it("draw a second attempt behind the first", () => {
    const steps = [
      phase("prepare", 1, { shards: [3] }),
      phase("refused", 2, { shards: [3], reason: "locked" }),
      phase("aborted", 3),
      phase("prepare", 4, { shards: [3], attempt: 1 }),
      phase("voted", 5, { shards: [3], attempt: 1 }),
    ];
    const [transaction] = steps.reduce(addSample, NO_SAMPLES).transactions;
    if (!transaction) throw new Error("no transaction");
    expect(draw(transaction).columns.map((column) => column.attempt)).toEqual([0, 0, 0, 1, 1]);
    expect(draw(transaction).arrows.map((arrow) => arrow.kind)).toEqual(["ask", "no", "ask", "yes"]);
  });
});
