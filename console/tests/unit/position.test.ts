import { describe, expect, it } from "vitest";
import { fromText } from "../../src/model/bytes";
import { keyspaceByName } from "../../src/model/model";
import { crc16, hash64, hashTag, ownerOf, positionOf, reverseBits, slotOf } from "../../src/model/position";
import { modelOf, routes, WELL } from "./recording";

describe("positions", () => {
  it("has the slots of Redis Cluster", () => {
    expect(crc16(fromText("123456789"))).toBe(0x31c3);
    expect(slotOf(fromText("foo"))).toBe(12182);
    expect(slotOf(fromText("{user1000}.following"))).toBe(slotOf(fromText("user1000")));
  });

  it("takes the first hash tag that is not empty", () => {
    expect(hashTag(fromText("a{b}c{d}"))).toEqual(fromText("b"));
    expect(hashTag(fromText("a{}b"))).toEqual(fromText("a{}b"));
    expect(hashTag(fromText("a{b"))).toEqual(fromText("a{b"));
  });

  it("has the hashes that the crate keyspace writes down", () => {
    const hashes = ["", "foo", "key:000000001234"].map((key) => hash64(fromText(key)));
    expect(hashes).toEqual([0xd1fb_a762_150c_532cn, 0x6a5c_dcad_01c9_73fan, 0x2323_7138_c3bc_1afcn]);
  });

  it("reverses bits", () => {
    expect(reverseBits(1n)).toBe(1n << 63n);
    expect(reverseBits(reverseBits(0x1234_5678_9abcn))).toBe(0x1234_5678_9abcn);
  });

  it("writes positions as the arcs of shards are written", () => {
    expect(positionOf("ordered", fromText("order/1"))).toBe("6f726465722f31");
    expect(positionOf("hashed", fromText("foo"))).toBe("2f96");
    expect(positionOf("linear-hash", fromText("foo"))).toMatch(/^[0-9a-f]{16}666f6f$/);
  });

  it.each([
    ["0", "greeting"],
    ["0", "user:42"],
    ["orders", "order/00042"],
    ["orders", "order/00099"],
    ["catalog", "bell-7"],
  ])("finds the owner of %s %s that the cluster finds", (keyspace, key) => {
    const model = modelOf(WELL);
    const found = keyspaceByName(model, keyspace);
    const full = routes(WELL, keyspace, key).find((route) => route.lookup === "full");
    expect(found && ownerOf(model.shards, found, fromText(key))?.id).toBe(full?.shard);
    expect(full?.shard).toBeGreaterThan(0);
  });
});
