import { describe, expect, test } from "vitest";
import { DEFAULTS, readChoices, toParams, withParams } from "../../src/state/settings.svelte";

describe("choices in an address", () => {
  test("are those that differ from the usual", () => {
    expect(toParams(DEFAULTS)).toEqual({ theme: "", motion: "", lines: "", labels: "" });
    expect(toParams({ ...DEFAULTS, theme: "safe", lines: 1.5 })).toMatchObject({
      theme: "safe",
      lines: "1.5",
    });
  });

  test("are taken over, but for what makes no sense", () => {
    const params = { theme: "contrast", lines: "99", labels: "2", motion: "sideways", keyspace: "0" };
    expect(withParams(DEFAULTS, params)).toEqual({ ...DEFAULTS, theme: "contrast", labels: 2 });
    expect(withParams(DEFAULTS, {})).toEqual(DEFAULTS);
  });

  test("come back as they were", () => {
    const choices = { ...DEFAULTS, theme: "safe" as const, motion: "off" as const, lines: 0.5, labels: 3 };
    expect(withParams(DEFAULTS, toParams(choices))).toEqual(choices);
  });

  test("of the ring are remembered, and nonsense is not", () => {
    expect(readChoices('{"hide":"keys,peers","view":"physical"}')).toMatchObject({
      hide: "keys,peers",
      view: "physical",
    });
    expect(readChoices('{"hide":"<b>","view":"sideways"}')).toMatchObject({ hide: "", view: "" });
  });
});
