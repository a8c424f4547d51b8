import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backoff, BACKOFF_MAX_MS, Poll } from "../../src/api/poll";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("the wait between polls", () => {
  it("is the interval while all goes well", () => {
    expect(backoff(1000, 0, 0.5)).toBe(1000);
  });

  it("doubles with each failure, and has a bound", () => {
    expect(backoff(1000, 1, 1)).toBe(2000);
    expect(backoff(1000, 3, 1)).toBe(8000);
    expect(backoff(1000, 1000, 1)).toBe(BACKOFF_MAX_MS);
    expect(backoff(1000, 1000, 0)).toBe(BACKOFF_MAX_MS * 0.75);
  });
});

describe("a poll", () => {
  function start(ask: (signal: AbortSignal) => Promise<number>) {
    const seen: unknown[] = [];
    const poll = new Poll({
      intervalMs: 1000,
      ask,
      onAnswer: (answer) => seen.push(answer),
      onFailure: (error) => seen.push(`failed: ${String(error)}`),
      random: () => 1,
    });
    poll.start();
    return { poll, seen };
  }

  it("asks at once and then by the interval", async () => {
    let asked = 0;
    const { poll, seen } = start(() => Promise.resolve(++asked));
    await vi.advanceTimersByTimeAsync(2500);
    expect(seen).toEqual([1, 2, 3]);
    poll.stop();
    await vi.advanceTimersByTimeAsync(5000);
    expect(seen).toHaveLength(3);
  });

  it("never has two requests under way", async () => {
    let open = 0;
    let most = 0;
    const { poll } = start(async () => {
      most = Math.max(most, ++open);
      await new Promise((done) => setTimeout(done, 5000));
      return --open;
    });
    poll.refresh();
    await vi.advanceTimersByTimeAsync(20_000);
    poll.refresh();
    expect(most).toBe(1);
    poll.stop();
  });

  it("waits longer after failures, and recovers", async () => {
    const times: number[] = [];
    const { poll, seen } = start(() => {
      times.push(Date.now());
      return times.length < 4 ? Promise.reject(new Error("down")) : Promise.resolve(7);
    });
    await vi.advanceTimersByTimeAsync(15_000);
    expect(seen.slice(0, 4)).toEqual([
      "failed: Error: down",
      "failed: Error: down",
      "failed: Error: down",
      7,
    ]);
    expect(times.slice(1, 4).map((time, i) => time - (times[i] ?? 0))).toEqual([2000, 4000, 8000]);
    expect(poll.failures).toBe(0);
    poll.stop();
  });

  it("rests while the page is hidden, and asks at once afterwards", async () => {
    let asked = 0;
    const { poll } = start(() => Promise.resolve(++asked));
    await vi.advanceTimersByTimeAsync(100);
    poll.setHidden(true);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toBe(1);
    poll.setHidden(false);
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(2);
    poll.stop();
  });

  it("forgets the answer to a request that was under way when it was stopped", async () => {
    const { poll, seen } = start(() => new Promise((done) => setTimeout(() => done(1), 100)));
    poll.stop();
    await vi.advanceTimersByTimeAsync(1000);
    expect(seen).toEqual([]);
  });
});
