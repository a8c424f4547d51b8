import { describe, expect, it } from "vitest";
import { fromText } from "../../src/model/bytes";
import { keyspaceByName, shardsOf } from "../../src/model/model";
import {
  alongChord,
  band,
  chord,
  fraction,
  inset,
  layout,
  nodeRadius,
  partOf,
  pointAt,
  turnOfKey,
  weightsFor,
  widthOf,
} from "../../src/model/ring";
import { ownerOf } from "../../src/model/position";
import { arcsOf, bubbles, explainBy, gather, placeNodes, waypoints } from "../../src/views/ring/scene";
import { modelOf, routes, SPLIT, WELL } from "./recording";

const model = modelOf(WELL);

describe("the ring", () => {
  it("begins at the top and goes clockwise", () => {
    expect(pointAt(0, 10).y).toBeCloseTo(-10);
    expect(pointAt(0.25, 10).x).toBeCloseTo(10);
  });

  it.each(["0", "orders", "catalog"])("of keyspace %s is tiled without gaps, by any weight", (name) => {
    for (const weight of ["width", "equal", "keys", "bytes"] as const) {
      const arcs = layout(shardsOf(model, name), weight);
      expect(arcs[0]?.from).toBe(0);
      expect(arcs.at(-1)?.to).toBe(1);
      arcs.forEach((arc, i) => {
        expect(arc.to).toBeGreaterThan(arc.from);
        if (i > 0) expect(arc.from).toBe(arcs[i - 1]?.to);
      });
    }
  });

  it("shows how much shards own", () => {
    const widths = shardsOf(model, "catalog").map(widthOf);
    expect(widths.reduce((sum: number, width) => sum + (width ?? 0), 0)).toBeCloseTo(1);
    const [first] = layout(shardsOf(model, "0"), "width");
    expect(first?.to).toBeCloseTo(1 / 8);
  });

  it("draws shards without keys large enough to be hit", () => {
    const shards = shardsOf(model, "0").map((shard, i) => ({ ...shard, keys: i === 0 ? 1_000_000 : 0 }));
    const arcs = layout(shards, "keys");
    expect(Math.min(...arcs.map((arc) => arc.to - arc.from))).toBeGreaterThan(0.02);
  });

  it("takes shards of unknown size for average", () => {
    const shards = shardsOf(model, "0").map((shard, i) => ({
      ...shard,
      keys: i === 0 ? 0 : 10,
      here: i !== 0,
    }));
    const arcs = layout(shards, "keys");
    expect((arcs[0]?.to ?? 0) - (arcs[0]?.from ?? 0)).toBeCloseTo(1 / shards.length);
    const unknown = layout(
      shards.map((shard) => ({ ...shard, here: false })),
      "bytes",
    );
    expect(unknown[0]?.to).toBeCloseTo(1 / shards.length);
  });

  it("has no picture of no shards", () => {
    expect(layout([], "equal")).toEqual([]);
  });

  it("reads positions as parts of the circle", () => {
    expect(fraction("")).toBe(0);
    expect(fraction("80")).toBe(0.5);
    expect(fraction("c000000000000000")).toBe(0.75);
  });

  it("puts keys into the arcs of their owners, in order", () => {
    for (const name of ["0", "orders", "catalog"]) {
      const keyspace = keyspaceByName(model, name);
      if (!keyspace) throw new Error("no keyspace");
      const arcs = arcsOf(model, name, "equal");
      for (const key of ["order/00001", "order/00031", "order/00119", "a", "zzz", "bell-7"].map(fromText)) {
        const turn = turnOfKey(arcs, keyspace, key) ?? -1;
        const owner = ownerOf(model.shards, keyspace, key);
        const arc = arcs.find(({ shard }) => shard.id === owner?.id);
        expect(turn).toBeGreaterThanOrEqual(arc?.from ?? 2);
        expect(turn).toBeLessThanOrEqual(arc?.to ?? -2);
      }
    }
    const [, second] = shardsOf(model, "orders");
    if (!second) throw new Error("no shard");
    const parts = ["order/00031", "order/00040", "order/00055"].map((key) =>
      partOf(second, "ordered", fromText(key)),
    );
    expect(parts).toEqual([...parts].sort((a, b) => a - b));
    expect(new Set(parts).size).toBe(3);
  });

  it("offers the weights that say something", () => {
    expect(weightsFor("ordered")).not.toContain("width");
    expect(weightsFor("hashed")[0]).toBe("width");
  });

  it("draws a whole circle as two halves", () => {
    expect(band(0, 1, 10, 20).match(/A/g)).toHaveLength(4);
    expect(band(0, 0.25, 10, 20)).toMatch(/^M0 -20A20 20 0 0 1 20 /);
    expect(band(0, 0.75, 10, 20)).toContain("A20 20 0 1 1");
  });

  it("leaves gaps, but never more than a part of an arc", () => {
    const arc = inset({ from: 0, to: 0.001 }, 50, 100);
    expect(arc.to - arc.from).toBeGreaterThan(0.0006);
    expect(inset({ from: 0, to: 1 }, 5, 100)).toEqual({ from: 0, to: 1 });
  });

  it("bends hops towards the middle, from end to end", () => {
    const [from, to] = [pointAt(0, 100), pointAt(0.25, 100)];
    expect(alongChord(from, to, 0)).toEqual(from);
    expect(alongChord(from, to, 1).x).toBeCloseTo(to.x);
    const half = alongChord(from, to, 0.5);
    expect(Math.hypot(half.x, half.y)).toBeLessThan(71);
    expect(chord(from, from)).toBe("");
  });

  it("draws a hundred nodes apart", () => {
    const radius = nodeRadius(100, 218, 34);
    expect(2 * radius).toBeLessThan((2 * Math.PI * 218) / 100);
    expect(nodeRadius(3, 218, 34)).toBe(34);
  });
});

describe("lookups on the ring", () => {
  const arcs = arcsOf(model, "catalog", "equal");
  const nodes = placeNodes(model);
  const asked = model.status?.node_id ?? "";

  it("begin at the asked node and end at the owner", () => {
    for (const route of routes(WELL, "catalog", "bell-7", "iterative+noimages")) {
      if (route.failure) continue;
      const path = waypoints(route, asked, arcs, nodes);
      expect(path[0]).toMatchObject({ node: asked, by: "asked" });
      expect(path).toHaveLength(route.steps.length + 1);
      const last = path.at(-1);
      if (last?.shard !== null) expect(last?.shard).toBe(route.shard);
    }
  });

  it("begin at the shard whose table is gone by, if the node says which", () => {
    const [route] = routes(WELL, "catalog", "bell-7");
    if (!route) throw new Error("no route");
    const last = arcs.at(-1);
    const begins_at = last?.shard.id ?? -1;
    const path = waypoints({ ...route, begins_at }, asked, arcs, nodes);
    expect(path[0]).toMatchObject({ shard: begins_at, node: asked, by: "begins" });
    expect(path).toHaveLength(route.steps.length + 1);
    for (const missing of [null, 9999]) {
      expect(waypoints({ ...route, begins_at: missing }, asked, arcs, nodes)[0]?.by).toBe("asked");
    }
  });

  it("leave out what is not drawn", () => {
    const [route] = routes(WELL, "catalog", "bell-7");
    if (!route) throw new Error("no route");
    const steps = [{ shard: 9999, node: "nobody", name: "", by: "finger 3" }];
    expect(waypoints({ ...route, steps }, "nobody", arcs, nodes)).toEqual([]);
  });

  it("say what led on", () => {
    for (const by of [
      "finger 61",
      "successor 0",
      "successor 2",
      "image",
      "bucket",
      "any node",
      "full table",
    ]) {
      expect(explainBy(by).length).toBeGreaterThan(by.length);
    }
    expect(explainBy("something new")).toBe("something new");
  });
});

describe("shards round their nodes", () => {
  it("stand beside the node that leads them, and apart", () => {
    const arcs = arcsOf(modelOf(SPLIT), "0", "equal");
    const nodes = placeNodes(model);
    const found = bubbles(arcs, nodes, () => 1);
    expect(found).toHaveLength(arcs.length);
    for (const a of found) {
      for (const b of found) {
        if (a === b) continue;
        const distance = Math.hypot(a.point.x - b.point.x, a.point.y - b.point.y);
        expect(distance).toBeGreaterThan(Math.max(a.radius, b.radius));
      }
    }
  });

  it.each([1, 3, 12, 13, 100, 300])("leave room for %d nodes, within the picture", (count) => {
    const { points, room } = gather(count);
    expect(points).toHaveLength(count);
    for (const [i, a] of points.entries()) {
      expect(Math.hypot(a.x, a.y)).toBeLessThan(460);
      for (const b of points.slice(0, i)) expect(Math.hypot(a.x - b.x, a.y - b.y)).toBeGreaterThan(room);
    }
  });

  it("without a leader stand in the middle", () => {
    const arcs = arcsOf(model, "0", "equal").map((arc) => ({
      ...arc,
      shard: { ...arc.shard, leader: null },
    }));
    const [first] = bubbles(arcs, placeNodes(model), () => 1);
    expect(Math.hypot(first?.point.x ?? 999, first?.point.y ?? 999)).toBeLessThan(80);
  });
});
