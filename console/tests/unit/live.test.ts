import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { asProblem } from "../../src/api/problem";
import { Live, SAMPLING_LINGER_MS } from "../../src/state/live.svelte";
import { BadRecording } from "../../src/model/recording";
import { event } from "./recording";

describe("the stream of events", () => {
  const asked: string[] = [];
  beforeEach(() => {
    vi.useFakeTimers();
    asked.length = 0;
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      asked.push(url);
      // It stays open until it is ended.
      return new Promise((_, fail) => init.signal?.addEventListener("abort", () => fail(new Error("ended"))));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  test("is one, and changes only when what is asked for changes", () => {
    const live = new Live();
    const first = live.sample(20);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain("samples=20");
    // The next view asks for the same, before or after the last one ends.
    first();
    const second = live.sample(20);
    const third = live.sample(20);
    second();
    expect(asked).toHaveLength(1);
    third();
    vi.advanceTimersByTime(SAMPLING_LINGER_MS - 1);
    expect(asked).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(asked).toHaveLength(2);
    expect(asked[1]).not.toContain("samples");
    const fourth = live.sample(50);
    expect(asked[2]).toContain("samples=50");
    fourth();
  });

  test("logs how streams of nodes are once, though it begins anew", () => {
    const live = new Live();
    let number = 2_000_000_000_000;
    const node = (of: string, state: string) => event("node", { of, state }, (number += 1));
    live.take([node("a", "streaming"), node("b", "streaming")]);
    live.take([node("a", "streaming"), node("b", "down")]);
    live.take([node("b", "down"), node("b", "streaming")]);
    expect(live.events.map((each) => [each.fields["of"], each.fields["state"]])).toEqual([
      ["a", "streaming"],
      ["b", "streaming"],
      ["b", "down"],
      ["b", "streaming"],
    ]);
  });
});

describe("a file that cannot be shown", () => {
  test("stands in one line", () => {
    const problem = asProblem(new BadRecording("This is no recording: it is no JSON."));
    expect([problem.title, problem.detail, problem.outcome, problem.remedy]).toEqual([
      "This file cannot be opened",
      "This is no recording: it is no JSON.",
      "",
      "",
    ]);
  });
});
