import { describe, expect, it } from "vitest";
import * as format from "../../src/model/format";

describe("format", () => {
  it("writes sizes", () => {
    expect([0, 1023, 1024, 150 * 1024, 3 * 1024 ** 3].map(format.bytes)).toEqual([
      "0 B",
      "1023 B",
      "1.0 KiB",
      "150 KiB",
      "3.0 GiB",
    ]);
  });

  it("writes durations by their two largest units", () => {
    expect([0.25, 12, 1500, 61_000, 3_600_000, 90_061_000].map(format.duration)).toEqual([
      "250 µs",
      "12 ms",
      "1.5 s",
      "1 min 1 s",
      "1 h",
      "1 d 1 h",
    ]);
  });

  it("writes counts", () => {
    expect(format.count(1_234_567)).toBe("1\u2009234\u2009567");
    expect([0.25, 12, 1250, 125_000, 3e9].map(format.shortCount)).toEqual([
      "0.3",
      "12",
      "1.3k",
      "125k",
      "3.0G",
    ]);
    expect(format.plural(1, "shard")).toBe("1 shard");
    expect(format.plural(2, "shard")).toBe("2 shards");
  });

  it("reads the milliseconds of a version", () => {
    expect(format.versionMs("117688256331382785")).toBe(Number(117688256331382785n >> 16n));
    expect(format.versionMs("")).toBeNull();
  });

  it("says how long ago", () => {
    expect(format.ago(1000, 2000)).toBe("now");
    expect(format.ago(1000, 66_000)).toBe("1 min 5 s ago");
  });

  it("divides by nothing without a fuss", () => {
    expect(format.percent(1, 0)).toBe("–");
    expect(format.percent(1, 4)).toBe("25 %");
  });
});
