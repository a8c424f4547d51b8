import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventStream, SILENCE_MAX_MS, streamPath, type StreamState } from "../../src/events/stream";
import type { ClusterEvent } from "../../src/events/types";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A node whose stream the test writes. */
class Node {
  requests: { url: string; headers: Record<string, string> }[] = [];
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  answer: (() => Response | Promise<Response>) | undefined;

  fetch = (url: string, init: RequestInit): Promise<Response> => {
    this.requests.push({ url, headers: init.headers as Record<string, string> });
    if (this.answer) return Promise.resolve(this.answer());
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
        init.signal?.addEventListener("abort", () => {
          try {
            controller.error(new Error("aborted"));
          } catch {
            // It had ended.
          }
        });
      },
    });
    return Promise.resolve(new Response(body));
  };

  async send(text: string) {
    this.#controller?.enqueue(new TextEncoder().encode(text));
    await vi.advanceTimersByTimeAsync(0);
  }

  async end() {
    this.#controller?.close();
    await vi.advanceTimersByTimeAsync(0);
  }
}

async function follow(node: Node) {
  const events: ClusterEvent[] = [];
  const states: StreamState[] = [];
  const stream = new EventStream({
    filter: { scope: "cluster" },
    fetch: node.fetch,
    onEvents: (more) => events.push(...more),
    onState: (state) => states.push(state),
    random: () => 1,
  });
  stream.start();
  await vi.advanceTimersByTimeAsync(0);
  return { stream, events, states, kinds: () => states.map((state) => state.kind) };
}

const split = (id: string) => `id: ${id}\ndata: {"type":"split","shard":1,"right":2}\n\n`;

describe("the stream of events", () => {
  it("has its filter in its address", () => {
    expect(streamPath({ scope: "node" })).toBe("/v1/events?scope=node");
    expect(
      streamPath({ scope: "cluster", types: ["split", "merged"], keyspace: "a b", samples: 5, from: "0" }),
    ).toBe("/v1/events?scope=cluster&types=split%2Cmerged&keyspace=a+b&samples=5&from=0");
  });

  it("gives events on as they come", async () => {
    const node = new Node();
    const { stream, events, kinds } = await follow(node);
    await node.send(split("5@a") + split("6@a"));
    expect(events.map((event) => event.cursor)).toEqual(["5@a", "6@a"]);
    expect(kinds()).toEqual(["connecting", "open"]);
    stream.stop();
  });

  it("resumes behind the last event after it was cut", async () => {
    const node = new Node();
    const { stream, states } = await follow(node);
    await node.send(split("5@a"));
    await node.end();
    expect(states.at(-1)?.kind).toBe("waiting");
    await vi.advanceTimersByTimeAsync(2100);
    expect(node.requests).toHaveLength(2);
    expect(node.requests[0]?.headers["Last-Event-ID"]).toBeUndefined();
    expect(node.requests[1]?.headers["Last-Event-ID"]).toBe("5@a");
    expect(states.at(-1)?.kind).toBe("open");
    stream.stop();
  });

  it("says what a node answers, and waits longer each time", async () => {
    const node = new Node();
    node.answer = () =>
      new Response(
        JSON.stringify({ type: "urn:carillon:problem:too-many-viewers", title: "T", detail: "32 watch" }),
        {
          status: 503,
        },
      );
    const { stream, states } = await follow(node);
    const last = states.at(-1);
    expect(last?.kind === "waiting" && last.problem.kind).toBe("too-many-viewers");
    await vi.advanceTimersByTimeAsync(2000 + 4000 + 8000 + 10);
    expect(node.requests).toHaveLength(4);
    stream.stop();
  });

  it("forgets a cursor that a node refuses", async () => {
    const node = new Node();
    const { stream } = await follow(node);
    await node.send(split("5@a"));
    node.answer = () => new Response("{}", { status: 400 });
    await node.end();
    await vi.advanceTimersByTimeAsync(2010);
    expect(node.requests[1]?.headers["Last-Event-ID"]).toBe("5@a");
    expect(stream.cursor).toBe("");
    stream.stop();
  });

  it("asks a node that has no stream seldom", async () => {
    const node = new Node();
    node.answer = () =>
      new Response(JSON.stringify({ type: "urn:carillon:problem:unknown-path" }), { status: 404 });
    const { stream, states } = await follow(node);
    expect(states.at(-1)?.kind).toBe("missing");
    await vi.advanceTimersByTimeAsync(59_000);
    expect(node.requests).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(2000);
    expect(node.requests).toHaveLength(2);
    stream.stop();
  });

  it("takes silence for a broken line, but comments for life", async () => {
    const node = new Node();
    const { stream, kinds } = await follow(node);
    await vi.advanceTimersByTimeAsync(SILENCE_MAX_MS - 1000);
    await node.send(": keep-alive\n\n");
    await vi.advanceTimersByTimeAsync(SILENCE_MAX_MS - 1000);
    expect(kinds().at(-1)).toBe("open");
    await vi.advanceTimersByTimeAsync(1500);
    expect(kinds().at(-1)).toBe("waiting");
    stream.stop();
  });

  it("leaves out what it cannot read, and goes on", async () => {
    const node = new Node();
    const { stream, events } = await follow(node);
    await node.send("data: nonsense\n\n" + split("9@a"));
    expect(events).toHaveLength(1);
    expect(stream.unreadable).toBe(1);
    stream.stop();
  });

  it("goes on where another one was, also if nothing came since", async () => {
    const node = new Node();
    const stream = new EventStream({
      filter: { scope: "cluster", from: "0" },
      cursor: "7@a",
      fetch: node.fetch,
      onEvents: () => undefined,
      onState: () => undefined,
    });
    stream.start();
    await vi.advanceTimersByTimeAsync(0);
    expect(node.requests[0]?.headers["Last-Event-ID"]).toBe("7@a");
    expect(stream.cursor).toBe("7@a");
    stream.stop();
  });

  it("asks for nothing after it was stopped", async () => {
    const node = new Node();
    const { stream, kinds } = await follow(node);
    stream.stop();
    await vi.advanceTimersByTimeAsync(100_000);
    expect(node.requests).toHaveLength(1);
    expect(kinds().at(-1)).toBe("off");
  });
});
