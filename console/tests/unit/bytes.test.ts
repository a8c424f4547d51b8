import { describe, expect, it } from "vitest";
import {
  compareBytes,
  encodeKey,
  endOfPrefix,
  fromHex,
  fromJson,
  fromText,
  parseTyped,
  printable,
  toHex,
  toJson,
  toText,
} from "../../src/model/bytes";

describe("bytes", () => {
  it("encodes keys byte by byte", () => {
    expect(encodeKey(fromText("a/b c?%ü"))).toBe("a%2Fb%20c%3F%25%C3%BC");
    expect(encodeKey(Uint8Array.of(0, 255))).toBe("%00%FF");
  });

  it("prints what is no text as escapes, and reads it back", () => {
    for (const bytes of [
      fromText("order/1"),
      Uint8Array.of(0xff, 0x41, 0x5c),
      fromText("ü"),
      fromText("a\nb"),
    ]) {
      expect(parseTyped(printable(bytes))).toEqual(bytes);
    }
    expect(printable(Uint8Array.of(0xff, 0x41))).toBe("\\xffA");
  });

  it("keeps a single backslash that escapes nothing", () => {
    expect(toText(parseTyped("a\\b"))).toBe("a\\b");
    expect(toText(parseTyped("a\\\\x41"))).toBe("a\\x41");
  });

  it("reads hexadecimal, and refuses what is none", () => {
    expect(fromHex("00 ff")).toEqual(Uint8Array.of(0, 255));
    expect(fromHex("0")).toBeNull();
    expect(fromHex("zz")).toBeNull();
    expect(toHex(Uint8Array.of(1, 171))).toBe("01ab");
  });

  it("goes through the JSON of transactions", () => {
    expect(toJson(fromText("ü"))).toBe("ü");
    expect(toJson(Uint8Array.of(255))).toEqual({ base64: "/w==" });
    expect(fromJson({ base64: "/w==" })).toEqual(Uint8Array.of(255));
  });

  it("finds where a prefix ends", () => {
    expect(endOfPrefix(fromText("ab"))).toEqual(fromText("ac"));
    expect(endOfPrefix(Uint8Array.of(1, 255))).toEqual(Uint8Array.of(2));
    expect(endOfPrefix(Uint8Array.of(255))).toBeNull();
  });

  it("orders as bytes, not as characters", () => {
    const words = ["b", "a", "ä", "aa", "Z"].map(fromText).sort(compareBytes).map(toText);
    expect(words).toEqual(["Z", "a", "aa", "b", "ä"]);
  });
});
