import { describe, expect, test } from "vitest";
import { backoff } from "../../src/api/poll";
import { plainly, readProblem, unreachable } from "../../src/api/problem";
import type { NodeStatus, Route } from "../../src/api/types";
import { parseEvent } from "../../src/events/parse";
import { decodeEvents, encodeEvents, isEventFile } from "../../src/model/eventfile";
import { EMPTY, isHealthKnown, nodeIndex, wholeModels } from "../../src/model/model";
import { othersOf } from "../../src/shell/others";
import { isRemoved } from "../../src/views/cluster/dev";
import { byReason, isRepeated } from "../../src/views/cluster/drain";
import { lesson } from "../../src/views/lookups/compare";
import { withCodes } from "../../src/views/simulator/rules";
import { modelOf, WELL } from "./recording";

const problem = (status: number, kind: string, detail: string) =>
  readProblem(status, "", JSON.stringify({ type: `urn:carillon:problem:${kind}`, title: "T", detail }));

describe("a node that is gone", () => {
  test("is asked often enough that its return is seen", () => {
    expect(backoff(1000, 10, 1, 2000)).toBe(2000);
  });

  test("is one that cannot be reached, hangs, or is behind a server that says so", () => {
    expect(unreachable(false, true, "").isUnreachable).toBe(true);
    expect(problem(502, "x", "").isUnreachable).toBe(true);
    expect(problem(503, "no-leader", "").isUnreachable).toBe(false);
    // The node itself told of a time that ran out.
    expect(problem(500, "timeout", "").isUnreachable).toBe(false);
  });

  test("leaves links to the others that were up", () => {
    const model = modelOf(WELL);
    const others = othersOf(model);
    const there = model.nodes.filter((node) => !node.this && node.state === "up" && node.addresses.http);
    expect(others.map((each) => each.name)).toEqual(there.map((node) => node.name).slice(0, 8));
    expect(others.every((each) => /^http:\/\/.+\/$/.test(each.url))).toBe(true);
  });
});

describe("what a refusal says on the page", () => {
  test("is for people", () => {
    expect(plainly(problem(412, "condition-failed", "If-Match does not hold"))?.title).toBe(
      "Somebody changed it meanwhile",
    );
    const large = plainly(problem(400, "bad-request", "by_ms is 99999999999: it is at most 3600000 away"));
    expect(large?.detail).toContain("99999999999. At most 3600000");
    expect(large?.detail).not.toContain("by_ms");
    const below = plainly(problem(400, "bad-request", "invalid value: integer `-7`, expected u64"));
    expect(below?.detail).toMatch(/^-7 is/);
    expect(plainly(problem(400, "bad-request", "there is no such node"))).toBeNull();
  });
});

describe("states", () => {
  test("of which not all is known are no beginning of a recording", () => {
    const whole = modelOf(WELL);
    expect([isHealthKnown(EMPTY), isHealthKnown(whole)]).toEqual([false, true]);
    expect(wholeModels([EMPTY, EMPTY, whole])).toEqual([whole]);
    expect(wholeModels([EMPTY])).toEqual([EMPTY]);
  });

  test("keep the colours of nodes though others go", () => {
    const nodes = ["p", "q", "r"].map((id) => ({
      ...(modelOf(WELL).nodes[0] as NodeStatus),
      id: `colour-${id}`,
    }));
    const at = (some: typeof nodes) => some.map(({ id }) => nodeIndex({ nodes: some }, id));
    const before = at(nodes);
    const without = at(nodes.toSpliced(1, 1));
    expect(without).toEqual([before[0], before[2]]);
    expect(nodeIndex({ nodes }, "colour-unknown")).toBe(-1);
    // A newcomer takes no colour of one that is there.
    const later = [...nodes.toSpliced(1, 1), { ...(nodes[0] as NodeStatus), id: "colour-s" }];
    expect(new Set(at(later)).size).toBe(3);
  });
});

describe("events that were saved", () => {
  test("are opened again", () => {
    const model = modelOf(WELL);
    const line = {
      type: "leader-elected",
      at_ms: 5000,
      node: model.nodes[0]?.id,
      shard: 1,
      text: "it leads",
    };
    const text = encodeEvents([parseEvent(JSON.stringify(line), "", 0)], model);
    expect(isEventFile(text)).toBe(true);
    const { recording, notes } = decodeEvents(text);
    expect(notes).toEqual([]);
    expect(recording.events.map((event) => event.text)).toEqual(["it leads"]);
    expect(recording.models[0]?.nodes.map((node) => node.name)).toContain(model.nodes[0]?.name);
  });
});

describe("a lesson of two lookups", () => {
  const route = (lookup: Route["lookup"], hops: number, begins_at: number | null) =>
    ({ lookup, hops, begins_at, steps: [] }) as unknown as Route;
  test("needs one beginning for both", () => {
    const worth = (a: Route, b: Route) => lesson([a, b], "linear", "chord");
    expect(worth(route("linear", 5, 1), route("chord", 2, 1))).toBe(2);
    expect(worth(route("linear", 2, 1), route("chord", 2, 1))).toBe(1);
    expect(worth(route("linear", 1, 1), route("chord", 2, 1))).toBe(0);
    expect(worth(route("linear", 5, 1), route("chord", 2, 3))).toBe(0);
  });
});

describe("small things", () => {
  test("a reason is said once", () => {
    const waits = [
      { state: "due", why: "a", shard: 1 },
      { state: "due", why: "a", shard: 2 },
      { state: "due", why: "b", shard: 3 },
    ];
    expect(waits.map((_, i) => isRepeated(waits, i))).toEqual([false, true, false]);
    expect(byReason(waits).map((group) => group.shards.map((each) => each.shard))).toEqual([[1, 2], [3]]);
  });

  test("codes of rules are told apart", () => {
    expect(withCodes("It forgets (G8, R12).").map((part) => part.rule?.slice(0, 4) ?? part.text)).toEqual([
      "It forgets (",
      "G8: ",
      ", ",
      "R12:",
      ").",
    ]);
  });

  test("a removed node of carillon dev is known", () => {
    const nodes = modelOf(WELL).nodes;
    const ended = { name: "never-there", state: "ended" as const };
    expect(isRemoved(ended, { nodes, removed: ["x"] })).toBe(true);
    expect(isRemoved(ended, { nodes, removed: [] })).toBe(false);
    expect(isRemoved({ ...ended, name: nodes[0]?.name ?? "" }, { nodes, removed: ["x"] })).toBe(false);
  });
});
