/** Volumes as people write and read them. */

import { describe, expect, it } from "vitest";
import type { Keyspace } from "../../src/api/types";
import { parseSize, sizeProblem, volumesOf } from "../../src/views/keys/volumes";

describe("sizes of volumes", () => {
  it("are numbers with units", () => {
    expect(parseSize("4096")).toBe(4096);
    expect(parseSize(" 64GiB ")).toBe(64 * 2 ** 30);
    expect(parseSize("1.5 m")).toBe(1.5 * 2 ** 20);
    expect(parseSize("1PiB")).toBe(2 ** 50);
    for (const text of ["", "GiB", "-1", "1.0001", "2PiB", "0", "1e9", "64 GiBs"])
      expect(parseSize(text)).toBe(null);
  });

  it("are whole numbers of blocks", () => {
    expect(sizeProblem("1GiB", 4096)).toBe("");
    expect(sizeProblem("5000", 4096)).toContain("blocks of 4 KiB");
    expect(sizeProblem("much", 4096)).toContain("64GiB");
  });
});

describe("volumes", () => {
  it("are some of the keyspaces", () => {
    const keyspace: Keyspace = {
      id: 1,
      name: "0",
      placement: "hashed",
      durability: "sync",
      retention_ms: 0,
      replicas: 1,
      shards: 8,
      keys: 0,
    };
    const volume = { bytes: 4096, block_bytes: 4096, shared: false };
    expect(volumesOf([keyspace, { ...keyspace, name: "disk", volume }]).map((each) => each.name)).toEqual([
      "disk",
    ]);
  });
});
