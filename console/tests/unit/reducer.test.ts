import { describe, expect, it } from "vitest";
import { applyEvent } from "../../src/events/reducer";
import { applyAnswer, type Model } from "../../src/model/model";
import { answer, event, modelOf, SPLIT, WELL } from "./recording";
import type { Shards } from "../../src/api/types";

const model = modelOf(WELL);
const idOf = (name: string) => model.nodes.find((node) => node.name === name)?.id ?? "";
const shardOf = (from: Model, id: number) => from.shards.find((shard) => shard.id === id);
const hashed = model.shards.find((shard) => shard.slots?.[0] === 0) ?? model.shards[0];
const id = hashed?.id ?? 0;

function freeze(value: unknown): void {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return;
  Object.freeze(value);
  Object.values(value).forEach(freeze);
}
freeze(model);

describe("events in the model", () => {
  it("move leaders", () => {
    const other = model.nodes.find((node) => node.id !== hashed?.leader)?.id ?? "";
    const after = applyEvent(
      model,
      event("leader-elected", { shard: id, node: other, term: (hashed?.term ?? 0) + 1 }),
    );
    expect(shardOf(after, id)?.leader).toBe(other);
    expect(
      shardOf(after, id)
        ?.replicas.filter((replica) => replica.leader)
        .map((each) => each.node),
    ).toEqual([other]);
    expect(after.shards.filter((shard) => shard.id !== id)).toEqual(
      model.shards.filter((shard) => shard.id !== id),
    );
  });

  it("of an older term change nothing", () => {
    const late = event("leader-elected", { shard: id, node: "x", term: (hashed?.term ?? 1) - 1 });
    expect(applyEvent(model, late)).toBe(model);
  });

  it("bring and take replicas", () => {
    const [first] = hashed?.replicas ?? [];
    const after = applyEvent(
      model,
      event("replicas-changed", {
        shard: id,
        added: [{ replica: 9, node: idOf("node-2") }],
        removed: [{ replica: first?.replica, node: first?.node }],
      }),
    );
    expect(shardOf(after, id)?.replicas.map((replica) => replica.replica)).toEqual([2, 3, 9]);
    expect(shardOf(after, id)?.replicas.at(-1)).toMatchObject({ name: "node-2", live: true, role: "voter" });
  });

  it("split a shard where the decision said", () => {
    const slot = (hashed?.slots?.[1] ?? 0) - 10;
    const decided = applyEvent(
      model,
      event("decision", { shard: id, decision: "split", right: 999, cut: slot }),
    );
    const after = applyEvent(decided, event("split", { shard: id, right: 999 }));
    expect(shardOf(after, id)?.slots).toEqual([hashed?.slots?.[0], slot - 1]);
    expect(shardOf(after, 999)?.slots).toEqual([slot, hashed?.slots?.[1]]);
    expect(after.shards).toHaveLength(model.shards.length + 1);
    expect(after.cuts).toEqual({});
    // Each replica tells of the split once.
    expect(applyEvent(after, event("split", { shard: id, right: 999 }))).toBe(after);
  });

  it("split an ordered shard at a key, and a linear-hash one at a position", () => {
    const cut = (keyspace: string, at: string) => {
      const shard = model.shards.find((each) => each.keyspace === keyspace && each.arc?.[1] === "");
      const decided = applyEvent(
        model,
        event("decision", { shard: shard?.id, decision: "split", right: 999, cut: at }),
      );
      return shardOf(applyEvent(decided, event("split", { shard: shard?.id, right: 999 })), 999)?.arc;
    };
    expect(cut("orders", "zz")).toEqual(["7a7a", ""]);
    expect(cut("catalog", "f000000000000000")).toEqual(["f000000000000000", ""]);
  });

  it("do not guess where a shard was split", () => {
    expect(applyEvent(model, event("split", { shard: id, right: 999 }))).toBe(model);
    const decided = applyEvent(
      model,
      event("decision", { shard: id, decision: "split", right: 999, cut: 16_383 }),
    );
    expect(applyEvent(decided, event("split", { shard: id, right: 999 }))).toBe(decided);
  });

  it("merge neighbours", () => {
    const right = model.shards.find((shard) => shard.slots?.[0] === (hashed?.slots?.[1] ?? 0) + 1);
    const after = applyEvent(model, event("merged", { shard: id, right: right?.id }));
    expect(shardOf(after, id)?.slots).toEqual([hashed?.slots?.[0], right?.slots?.[1]]);
    expect(shardOf(after, right?.id ?? 0)).toBeUndefined();
    expect(applyEvent(after, event("merged", { shard: id, right: right?.id }))).toBe(after);
  });

  it("take a node down with its replicas, and bring it back", () => {
    const down = applyEvent(model, event("member", { member: idOf("node-3"), state: "down" }));
    expect(down.nodes.find((node) => node.name === "node-3")?.state).toBe("down");
    expect(shardOf(down, id)?.replicas_live).toBe(2);
    const up = applyEvent(down, event("member", { member: idOf("node-3"), state: "up" }));
    expect(shardOf(up, id)?.replicas_live).toBe(3);
    const gone = applyEvent(model, event("member", { member: idOf("node-3"), state: "gone" }));
    expect(gone.nodes.find((node) => node.name === "node-3")?.state).toBe("left");
  });

  it("change admin states", () => {
    const after = applyEvent(
      model,
      event("admin-state", { member: idOf("node-2"), before: "active", now: "draining" }),
    );
    expect(after.nodes.find((node) => node.name === "node-2")?.standing).toBe("draining");
    const back = applyEvent(
      after,
      event("admin-state", { member: idOf("node-2"), before: "draining", now: "active" }),
    );
    expect(back.nodes.find((node) => node.name === "node-2")?.standing).toBe("member");
  });

  it("change the links of the node that answers only", () => {
    const lost = { peer: idOf("node-2"), state: "down" };
    const after = applyEvent(model, event("link", { ...lost, node: model.status?.node_id }));
    expect(after.nodes.find((node) => node.name === "node-2")?.linked).toBe(false);
    expect(applyEvent(model, event("link", { ...lost, node: idOf("node-3") }))).toBe(model);
  });

  it("that name what nobody knows change nothing", () => {
    for (const [type, fields] of [
      ["leader-elected", { shard: 12345, node: "x", term: 99 }],
      ["replicas-changed", { shard: 12345, added: "all" }],
      ["replicas-changed", { added: [null, 5, { replica: "x" }] }],
      ["merged", { shard: id, right: 12345 }],
      ["split", { shard: 12345, right: 99_999 }],
      ["member", { member: "x", state: "down" }],
      ["member", { member: idOf("node-2"), state: "dancing" }],
      ["admin-state", { member: idOf("node-2"), now: 5 }],
      ["something-new", { shard: id }],
      ["hello", {}],
      ["constructor", {}],
    ] as const) {
      expect(applyEvent(model, event(type, fields))).toBe(model);
    }
  });

  it("are settled by the next answer", () => {
    const early = applyEvent(
      model,
      event("merged", { shard: id, right: model.shards.find((s) => s.slots?.[0] === 2048)?.id }),
    );
    const value = { ...answer<Shards>(SPLIT, "/v1/shards"), isWhole: true };
    expect(applyAnswer(early, { kind: "shards", value }, 1).shards).toEqual(value.shards);
  });
});
