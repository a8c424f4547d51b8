import { describe, expect, it } from "vitest";
import type { Shards, ShardStatus } from "../../src/api/types";
import { modelAt, remember } from "../../src/model/history";
import {
  applyAnswer,
  EMPTY,
  healthOf,
  isMoving,
  nodeIndex,
  nodeName,
  shardsOf,
  totals,
  worst,
  type Model,
} from "../../src/model/model";
import { equals } from "../../src/model/reuse";
import { answer, DOWN, modelOf, SPLIT, WELL } from "./recording";

describe("the model", () => {
  it("counts what there is", () => {
    expect(totals(modelOf(WELL))).toMatchObject({ nodesUp: 3, nodesTroubled: 0, shardsTroubled: 0 });
    expect(totals(modelOf(DOWN))).toMatchObject({ nodesUp: 2, nodesTroubled: 1 });
    expect(totals(EMPTY)).toMatchObject({ shards: 0, keys: 0 });
  });

  it("is as well as the worst that it hears", () => {
    expect(healthOf(modelOf(WELL)).verdict).toBe("ok");
    const down = healthOf(modelOf(DOWN));
    expect(down.verdict).toBe("degraded");
    expect(down.reasons.length).toBeGreaterThan(0);
    expect(new Set(down.reasons).size).toBe(down.reasons.length);
    expect(worst([]).verdict).toBe("ok");
  });

  it("has the shards of a keyspace in the order of the circle", () => {
    const slots = shardsOf(modelOf(SPLIT), "0").map((shard) => shard.slots?.[0] ?? -1);
    expect(slots).toEqual([...slots].sort((a, b) => a - b));
    expect(slots[0]).toBe(0);
    const starts = shardsOf(modelOf(WELL), "orders").map((shard) => shard.arc?.[0]);
    expect(starts).toEqual([...starts].sort());
    expect(shardsOf(modelOf(WELL), null).map((shard) => shard.id)).toEqual([0]);
  });

  it("names nodes, and those that it does not know by id", () => {
    const model = modelOf(WELL);
    expect(nodeName(model, model.nodes[1]?.id ?? "")).toBe("node-2");
    expect(nodeName(model, "abc")).toBe("abc");
    expect(nodeName(model, null)).toBe("nobody");
    expect(nodeIndex(model, null)).toBe(-1);
  });

  it("sees replicas that come or go", () => {
    const [shard] = modelOf(WELL).shards;
    if (!shard) throw new Error("no shard");
    expect(isMoving(shard)).toBe(false);
    const replicas = shard.replicas.map((replica) => ({ ...replica, role: "learner" as const }));
    expect(isMoving({ ...shard, replicas })).toBe(true);
  });
});

describe("answers that say what was known", () => {
  const answered = (model: Model, shards: ShardStatus[]) =>
    applyAnswer(
      model,
      { kind: "shards", value: { ...answer<Shards>(WELL, "/v1/shards"), shards, isWhole: true } },
      9,
    );
  const copy = () => structuredClone(answer<Shards>(WELL, "/v1/shards").shards);

  it("leave the very same objects", () => {
    const model = modelOf(WELL);
    expect(answered(model, copy()).shards).toBe(model.shards);
  });

  it("but for those that differ", () => {
    const model = modelOf(WELL);
    const changed = copy().map((shard, i) => (i === 3 ? { ...shard, keys: 99 } : shard));
    const { shards } = answered(model, changed);
    expect(shards).not.toBe(model.shards);
    expect(shards.filter((shard, i) => shard !== model.shards[i]).map((shard) => shard.keys)).toEqual([99]);
    expect(answered(model, copy().slice(1)).shards).toHaveLength(model.shards.length - 1);
    expect(answered(model, copy().reverse()).shards.map((each) => each.id)).toEqual(
      copy()
        .reverse()
        .map((each) => each.id),
    );
  });

  it("are compared in depth", () => {
    expect(equals({ a: [1, { b: null }] }, { a: [1, { b: null }] })).toBe(true);
    for (const [a, b] of [
      [{ a: 1 }, { a: 1, b: undefined }],
      [[], {}],
      [null, {}],
      [{ a: 1 }, { b: 1 }],
      [[1], [1, 2]],
    ]) {
      expect(equals(a, b)).toBe(false);
    }
  });
});

describe("the history", () => {
  const at = (atMs: number) => ({ ...EMPTY, atMs });

  it("keeps a model a second, and the newest in any case", () => {
    let history: ReturnType<typeof remember> = [];
    for (let ms = 0; ms <= 5000; ms += 100) history = remember(history, at(ms));
    expect(history.length).toBeLessThan(9);
    expect(history.at(-1)?.atMs).toBe(5000);
  });

  it("has a bound", () => {
    let history: ReturnType<typeof remember> = [];
    for (let i = 0; i < 50; i++) history = remember(history, at(i * 1000), 10);
    expect(history).toHaveLength(10);
  });

  it("finds the model of a moment", () => {
    const history = [at(1000), at(2000), at(3000)];
    expect(modelAt(history, 2500)?.atMs).toBe(2000);
    expect(modelAt(history, 5)?.atMs).toBe(1000);
    expect(modelAt([], 5)).toBeNull();
  });
});
