import { describe, expect, it } from "vitest";
import { fromText } from "../../src/model/bytes";
import { PAGE_KEYS, rangeOf } from "../../src/views/keys/browse";

describe("browsing an ordered keyspace", () => {
  it("asks for the part of a range that has the prefix", () => {
    const stretch = (low: string, high: string) => ({ low: fromText(low), high: fromText(high) });
    const limit = PAGE_KEYS + 1;
    expect(rangeOf(new Uint8Array(), null, stretch("b", "d"))).toEqual({
      range: { from: "b", to: "d", limit },
    });
    expect(rangeOf(fromText("c"), null, stretch("b", "cx"))).toEqual({
      range: { from: "c", to: "cx", limit },
    });
    expect(rangeOf(fromText("c"), fromText("cm"), { low: fromText("ca"), high: null })).toEqual({
      range: { from: "cm", to: "d", limit },
    });
  });
});
