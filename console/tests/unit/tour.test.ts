import { describe, expect, test } from "vitest";
import type { SimNode, SimState } from "../../src/api/sim";
import {
  ailments,
  attackWords,
  describeAction,
  faultsFor,
  isAnew,
  isPrecious,
  readSimulationFile,
  roomFor,
  virtualTime,
} from "../../src/model/simulation";
import { findPlants, groupPlants } from "../../src/views/simulator/plants";
import { hopsOf, memberRadius, membersOf } from "../../src/views/simulator/overlay";
import { devActionsFor, explainDev, readParameters } from "../../src/views/cluster/dev";
import { lostTargets, remaining, waitWords } from "../../src/views/cluster/drain";
import { FALLACIES } from "../../src/views/tour/fallacies";
import { fits, SCENES, victim } from "../../src/views/tour/scenes";
import { STEPS } from "../../src/views/tour/steps";
import { modelOf, routes, WELL } from "./recording";

const node = (name: string, more: Partial<SimNode> = {}): SimNode => ({
  name,
  id: name,
  state: "up",
  ...more,
});
const state = (more: Partial<SimState> = {}): SimState => ({
  version: 1,
  kind: "cluster",
  seed: 7,
  now_ms: 1000,
  wall_ms: 1_800_000_001_000,
  running: true,
  speed: 1,
  behind: false,
  phase: "running",
  scenario: null,
  clients: 4,
  answered: 10,
  refused: 0,
  unknown: 0,
  plants: [],
  broken: null,
  checked_ms: null,
  nodes: [node("n1"), node("n2"), node("n3")],
  actions: 0,
  to_come: 0,
  next_action: null,
  digest: "0",
  ...more,
});

describe("the tour", () => {
  test("has a scene for each page that the simulator plays", () => {
    const played = STEPS.flatMap((step) => step.scene ?? []);
    expect(new Set(played)).toEqual(new Set(Object.keys(SCENES)));
  });

  test("is lost for nothing only if nobody has made it", () => {
    expect(isPrecious(state(), "server", 0)).toBe(false);
    expect(isPrecious(state({ actions: 1 }), "server", 0)).toBe(true);
    expect(isPrecious(state({ to_come: 1 }), "server", 0)).toBe(true);
    expect(isPrecious(state({ scenario: "domain-lost" }), "server", 0)).toBe(true);
    expect(isPrecious(state(), "server", 2)).toBe(true);
    // One that was opened from a file begins at time 0, and looks as if nothing had been done.
    expect(isPrecious(state(), "file", 0)).toBe(true);
    expect(isPrecious(state(), "user", 0)).toBe(true);
    expect(isPrecious(state({ actions: 9 }), "tour", 3)).toBe(false);
  });

  test("harms a node that does not draw the page, if there is another", () => {
    expect(victim(state())).toBe("n2");
    expect(victim(state({ nodes: [node("n1"), node("n2", { state: "down" })] }))).toBe("n1");
    expect(victim(state({ nodes: [] }))).toBeNull();
  });

  test("knows whether what runs is the page's simulation", () => {
    expect(fits(state(), SCENES.commits)).toBe(true);
    expect(fits(state(), SCENES.dies)).toBe(false);
    expect(fits(state(), SCENES.chord)).toBe(false);
  });

  test("measures each of the eight fallacies, with and without a simulation", () => {
    expect(FALLACIES).toHaveLength(8);
    for (const sim of [null, state()]) {
      for (const each of FALLACIES) {
        const told = each.measured({ model: modelOf(WELL), events: [], points: [], sim });
        expect(told, each.name).not.toBe("");
        expect(told, each.name).not.toMatch(/undefined|NaN/);
      }
    }
  });

  test("has a fault against each of them", () => {
    const calm = { one_in: 0, altered: 0, altered_refused: 0, forged: 0, forged_refused: 0 };
    for (const each of FALLACIES) {
      expect(each.fault.action(state({ tampering: calm })), each.name).not.toBeNull();
    }
  });

  test("says what came of altered messages, and does not alter them twice", () => {
    const secure = FALLACIES.find((each) => each.name === "The network is secure");
    const tampering = { one_in: 200, altered: 12, altered_refused: 12, forged: 3, forged_refused: 3 };
    const sim = state({ tampering });
    expect(secure?.measured({ model: modelOf(WELL), events: [], points: [], sim })).toBe(
      "One of 200 messages is altered, 12 of 12 altered messages refused, 3 of 3 forged handshakes refused, 0 taken for genuine",
    );
    expect(secure?.fault.action(sim)).toBeNull();
    // Of a server that does not know of it.
    expect(secure?.fault.action(state())).toBeNull();
    expect(attackWords({ ...tampering, one_in: 0 })).toMatch(/^Nobody attacks now/);
    expect(attackWords({ ...tampering, altered_refused: 11 })).toMatch(/1 taken for genuine$/);
  });
});

describe("a simulation", () => {
  test("offers what makes sense for a node as it is", () => {
    expect(faultsFor(node("a"), "cluster")).toContain("power-cut");
    expect(faultsFor(node("a", { state: "down" }), "cluster")).toEqual(["restart", "remove-node"]);
    expect(faultsFor(node("a", { state: "paused" }), "cluster")).toContain("resume");
    expect(faultsFor(node("a", { state: "gone" }), "cluster")).toEqual([]);
    expect(faultsFor(node("a"), "overlay")).toEqual(["crash", "remove-node"]);
  });

  test("takes so many more as there is room for", () => {
    const limits = { nodes_max: 50, members_max: 1000 };
    expect(roomFor(state({ nodes: [node("a")] }), limits)).toBe(49);
    expect(roomFor(state({ kind: "overlay", nodes: [node("a")] }), limits)).toBe(999);
    expect(roomFor(null, undefined)).toBe(50);
  });

  test("has its planted bugs in groups, and finds them by words", () => {
    const plants = [
      { name: "own-clock", about: "Scans are judged by the clock of the asked node (G13)." },
      { name: "unvalidated", about: "It does not look whether what it watches has changed (G8, G15)." },
      { name: "unranged", about: "… nor whether a key has come into a range of it." },
      { name: "new", about: "Of a rule without a group here (G2)." },
    ];
    const groups = groupPlants(plants).map(({ title, plants: found }) => [
      title,
      ...found.map((each) => each.name),
    ]);
    expect(groups).toEqual([
      ["Transactions", "unvalidated", "unranged"],
      ["Replicas and nodes", "own-clock"],
      ["Others", "new"],
    ]);
    expect(findPlants(plants, "CLOCK asked").map((each) => each.name)).toEqual(["own-clock"]);
    expect(findPlants(plants, "")).toHaveLength(4);
  });

  test("says what is wrong with a node", () => {
    expect(ailments(node("a", { skew_ms: -20, slow_disk_ms: 300, cut_to: ["b"] }))).toEqual([
      "clock behind by 20 ms",
      "fsync takes 300 ms",
      "nothing goes to b",
    ]);
    expect(ailments(node("a", { cut_to: [] }))).toEqual([]);
  });

  test("is told from the one before when it has begun anew", () => {
    expect(isAnew(null, state())).toBe(false);
    expect(isAnew(state(), state({ now_ms: 2000 }))).toBe(false);
    expect(isAnew(state(), state({ now_ms: 0 }))).toBe(true);
    expect(isAnew(state(), state({ seed: 8 }))).toBe(true);
  });

  test("has times and actions in words", () => {
    expect(virtualTime(0)).toBe("0:00.0");
    expect(virtualTime(83_450)).toBe("1:23.4");
    expect(describeAction({ do: "partition", nodes: ["a", "b"] })).toBe('partition nodes ["a","b"]');
  });

  test.each([
    ["{", "no JSON"],
    ["[]", "carillon_simulation"],
    ['{"seed":1}', "carillon_simulation"],
  ])("is not read from %s", (text, words) => {
    expect(() => readSimulationFile(text)).toThrow(words);
  });

  test("draws members at their positions, else in order, and hops between those that are there", () => {
    const placed = membersOf([
      node("a", { start: "80" }),
      node("b", { state: "gone" }),
      node("c", { start: "00" }),
    ]);
    expect(placed.map(({ name, turn }) => [name, turn])).toEqual([
      ["a", 0.5],
      ["c", 0],
    ]);
    expect(membersOf([node("a"), node("c")]).map(({ turn }) => turn)).toEqual([0, 0.5]);
    const [route] = routes(WELL, "catalog", "bell-7").filter((each) => each.lookup === "linear");
    if (!route) throw new Error("the recording has no linear route");
    const steps = ["a", "gone", "c"].map((name) => ({ shard: 0, node: name, name, by: "successor 0" }));
    expect(hopsOf({ ...route, steps }, "a", placed)).toHaveLength(3);
    expect(memberRadius(1000)).toBeLessThan(memberRadius(10));
  });
});

describe("processes of carillon dev", () => {
  test("can be done to what their state allows", () => {
    expect(devActionsFor({ state: "running" })).toEqual(["stop", "kill", "pause"]);
    expect(devActionsFor({ state: "ended" })).toEqual(["start"]);
    expect(devActionsFor({ state: "paused" })).toContain("resume");
  });

  test("that draw the page are named before they are ended", () => {
    expect(explainDev("kill", { name: "node-1", this: true })).toContain("This page comes from node-1");
    expect(explainDev("kill", { name: "node-2", this: false })).not.toContain("This page comes");
  });

  test("get the settings that were filled in", () => {
    expect(readParameters({ memory_max: " 1GiB ", domain: " " })).toEqual({ memory_max: "1GiB" });
  });
});

describe("a drain", () => {
  const rate = { over_ms: 10_000, replicas: 5, bytes: 0 };

  test("takes as long as its rate says, if it has one", () => {
    const waits = [{ state: "moving", shards: 1, why: "" }];
    expect(remaining({ replicas: 10, rate, waits })).toBe(20_000);
    expect(remaining({ replicas: 10, rate: { ...rate, replicas: 0 }, waits })).toBeNull();
    expect(remaining({ replicas: 10, rate: null, waits })).toBeNull();
    expect(remaining({ replicas: 0, rate, waits })).toBeNull();
  });

  test("takes nobody knows how long while some shards cannot go", () => {
    for (const state of ["no-leader", "silent", "stuck"]) {
      expect(remaining({ replicas: 10, rate, waits: [{ state, shards: 1, why: "" }] })).toBeNull();
    }
  });

  test("names one shard or several", () => {
    expect(waitWords("moving", 1)).toBe("is on its way");
    expect(waitWords("moving", 2)).toBe("are on their way");
    expect(waitWords("of-a-later-version", 2)).toBe("of-a-later-version");
  });

  test("names new replicas whose node is down", () => {
    const model = modelOf(WELL);
    const [draining, target] = [model.nodes[0], model.nodes[2]];
    if (!draining || !target) throw new Error("the recording has three nodes");
    const shards = model.shards.slice(0, 2).map((shard, i) => ({
      ...shard,
      replicas: shard.replicas.map((replica) =>
        i === 0 && replica.node === target.id ? { ...replica, role: "learner" as const } : replica,
      ),
    }));
    const nodes = (state: "up" | "down") =>
      model.nodes.map((each) => (each.id === target.id ? { ...each, state } : each));
    expect(lostTargets(draining.id, { nodes: nodes("up"), shards })).toEqual([]);
    expect(lostTargets(draining.id, { nodes: nodes("down"), shards })).toEqual([
      { shard: shards[0]?.id, name: target.name },
    ]);
  });
});
