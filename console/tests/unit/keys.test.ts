import { describe, expect, test } from "vitest";
import { fromText } from "../../src/model/bytes";
import {
  aggregate,
  dotPaths,
  keyDot,
  KEYS_DRAWN_MAX,
  locate,
  logicalTargets,
  physicalTargets,
} from "../../src/model/keydots";
import { layout, turnOfKey } from "../../src/model/ring";
import { Swarm, type Targets } from "../../src/model/swarm";
import { shardsOf } from "../../src/model/model";
import { modelOf } from "./recording";

const model = modelOf("all is well");
const keyspaces = model.keyspaces;

describe("dots of keys", () => {
  test.each(["0", "orders", "catalog"])("of %s lie where a key that is looked up is drawn", (name) => {
    const keyspace = keyspaces.find((each) => each.name === name);
    if (!keyspace) throw new Error(`no keyspace ${name}`);
    const arcs = layout(shardsOf(model, name), "equal");
    const keys = ["greeting", "user:42", "order/00042", "order/00099", "bell-7", ""].map(fromText);
    const dots = keys.map((key) => keyDot(keyspace.placement, key));
    const { arc, part } = locate(dots, arcs);
    keys.forEach((key, i) => {
      const owner = arcs[arc[i] ?? -1];
      expect(owner).toBeDefined();
      const turn = owner ? owner.from + (owner.to - owner.from) * (part[i] ?? 0) : -1;
      expect(turn).toBeCloseTo(turnOfKey(arcs, keyspace, key) ?? -2, 4);
    });
  });

  test("pile up where they share a place, and do not leave the picture", () => {
    const arcs = layout(shardsOf(model, "0"), "equal");
    const dots = Array.from({ length: 300 }, () => keyDot("hashed", fromText("same")));
    const names = dots.map((_, i) => String(i));
    const { x, y } = logicalTargets(names, locate(dots, arcs), arcs, [], 433);
    const radii = [...x].map((each, i) => Math.hypot(each, y[i] ?? 0));
    expect(Math.min(...radii)).toBeCloseTo(433, 0);
    expect(Math.max(...radii)).toBeLessThan(497);
    expect(new Set(radii.map((radius) => radius.toFixed(2))).size).toBe(300);
  });

  test("gather in their shard's bubble, in its leader's colour", () => {
    const arcs = layout(shardsOf(model, "0"), "equal");
    const dots = Array.from({ length: 200 }, (_, i) => keyDot("hashed", fromText(`k${i}`)));
    const located = locate(dots, arcs);
    const homes = arcs.map((_, i) => ({ x: i * 100, y: 0, radius: 20 }));
    const names = dots.map((dot) => dot.name);
    const targets = physicalTargets(
      names,
      located,
      arcs,
      homes,
      arcs.map((_, i) => i + 1),
    );
    names.forEach((_, i) => {
      const owner = located.arc[i] ?? -1;
      expect(Math.hypot((targets.x[i] ?? 0) - owner * 100, targets.y[i] ?? 0)).toBeLessThanOrEqual(20.01);
      expect(targets.color[i]).toBe(owner + 1);
    });
  });

  test("stand for several keys each where there are too many", () => {
    const shards = shardsOf(model, "0").map((shard) => ({ ...shard, here: true, keys: 12_500 }));
    const arcs = layout(shards, "equal");
    const { per, names, located } = aggregate(arcs, 100_000);
    expect(per).toBe(10);
    expect(names.length).toBe(KEYS_DRAWN_MAX);
    const counts = arcs.map((_, i) => located.arc.filter((each) => each === i).length);
    expect(new Set(counts)).toEqual(new Set([1250]));
  });

  test("are a path for each colour in a file", () => {
    const points = {
      x: Float32Array.of(1, 2, 3),
      y: Float32Array.of(4, 5, 6),
      color: Uint16Array.of(1, 0, 1),
      count: 3,
    };
    expect(dotPaths(points, ["#000000", "#ffffff"])).toEqual([
      { color: "#ffffff", d: "M1.0 4.0h0M3.0 6.0h0" },
      { color: "#000000", d: "M2.0 5.0h0" },
    ]);
  });
});

describe("a swarm", () => {
  const targets = (names: readonly string[], x: number, y = 0): Targets => ({
    names,
    x: new Float32Array(names.length).fill(x),
    y: new Float32Array(names.length).fill(y),
    color: new Uint16Array(names.length),
  });
  const run = (swarm: Swarm, seconds: number) => {
    for (let t = 0; t < seconds; t += 1 / 60) swarm.advance(1 / 60);
  };

  test("begins at its places, and comes to rest at new ones without overshooting", () => {
    const swarm = new Swarm();
    const names = ["a", "b"];
    swarm.aim(targets(names, 100), false);
    expect([...swarm.x]).toEqual([100, 100]);
    expect(swarm.moving).toBe(0);
    swarm.aim(targets(names, 200), false);
    expect(swarm.moving).toBe(2);
    for (let i = 0; i < 240 && swarm.moving > 0; i++) {
      swarm.advance(1 / 60);
      expect(swarm.x[0]).toBeLessThanOrEqual(200);
    }
    expect([...swarm.x]).toEqual([200, 200]);
    expect(swarm.moving).toBe(0);
  });

  test("moves only what has another place, and a new point from the middle", () => {
    const swarm = new Swarm();
    swarm.aim(targets(["a", "b"], 100), false);
    const next = targets(["b", "c", "a"], 100);
    next.x[2] = 150;
    swarm.aim(next, false);
    expect([...swarm.movers()].sort()).toEqual([1, 2]);
    expect([...swarm.x]).toEqual([100, 0, 100]);
    run(swarm, 2);
    expect([...swarm.x]).toEqual([100, 100, 150]);
  });

  test("jumps where motion is not wanted", () => {
    const swarm = new Swarm();
    const names = ["a"];
    swarm.aim(targets(names, 0), true);
    swarm.aim(targets(names, 300), true);
    expect([swarm.x[0], swarm.moving]).toEqual([300, 0]);
  });

  test("draws those of one colour together, and finds the nearest", () => {
    const swarm = new Swarm();
    const names = ["a", "b", "c"];
    swarm.aim(targets(names, 0), true);
    const next = targets(names, 50);
    next.color.set([2, 1, 2]);
    next.x.set([10, 20, 30]);
    swarm.aim(next, false);
    expect([...swarm.movers()].map((i) => next.color[i])).toEqual([1, 2, 2]);
    run(swarm, 2);
    expect(swarm.nearest(21, 1, 5)).toBe(1);
    expect(swarm.nearest(21, 40, 5)).toBe(-1);
  });
});
