/**
 * Follows `GET /v1/events`: resumes behind the last event that came, waits longer after each
 * failure, and says in which state it is.
 */

import { backoff } from "../api/poll";
import { asProblem, isMissingPath, readProblem, unreachable, type Problem } from "../api/problem";
import { BadEvent, parseEvent } from "./parse";
import { FrameParser } from "./sse";
import type { ClusterEvent } from "./types";

/** The first wait after a stream has broken. */
export const RETRY_MS = 1000;
/** A node without the path is asked again so seldom: it may have been upgraded. */
export const RETRY_MISSING_MS = 60_000;
/** A stream that is silent for so long is taken for broken. Nodes send a comment each 10 s. */
export const SILENCE_MAX_MS = 30_000;

/** How a stream is. */
export type StreamState =
  | { kind: "off" }
  | { kind: "connecting" }
  | { kind: "open"; sinceMs: number }
  | { kind: "waiting"; problem: Problem; untilMs: number }
  /** The node has no such path. */
  | { kind: "missing"; problem: Problem };

export interface StreamFilter {
  scope: "node" | "cluster";
  types?: readonly string[];
  keyspace?: string;
  /** So many requests a second are sampled at most. */
  samples?: number;
  /** Where a new stream begins; the default is now, `0` the oldest event that is kept. */
  from?: string;
}

export interface StreamOptions {
  base?: string;
  filter: StreamFilter;
  /** The cursor of the last event that came, if another stream goes on here. */
  cursor?: string;
  onEvents: (events: ClusterEvent[]) => void;
  onState: (state: StreamState) => void;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  now?: () => number;
  random?: () => number;
}

/** The address of a filtered stream. */
export function streamPath(filter: StreamFilter): string {
  const query = new URLSearchParams({ scope: filter.scope });
  if (filter.types && filter.types.length > 0) query.set("types", filter.types.join(","));
  if (filter.keyspace !== undefined) query.set("keyspace", filter.keyspace);
  if (filter.samples) query.set("samples", String(filter.samples));
  if (filter.from !== undefined) query.set("from", filter.from);
  return `/v1/events?${query}`;
}

export class EventStream {
  readonly #options: StreamOptions;
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #cursor = "";
  /** Events that could not be read, and were left out. */
  unreadable = 0;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#cursor = options.cursor ?? "";
  }

  /** The last cursor that came, or that it began with. */
  get cursor(): string {
    return this.#cursor;
  }

  start(): void {
    if (this.#abort) return;
    this.#abort = new AbortController();
    void this.#follow(this.#abort);
  }

  stop(): void {
    this.#abort?.abort();
    this.#abort = undefined;
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#options.onState({ kind: "off" });
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  async #follow(abort: AbortController): Promise<void> {
    const connection = new AbortController();
    const cut = () => connection.abort();
    abort.signal.addEventListener("abort", cut);
    this.#options.onState({ kind: "connecting" });
    let failure: unknown;
    try {
      await this.#read(connection);
      failure = unreachable(false, false, "the node ended the stream");
    } catch (error) {
      failure = connection.signal.aborted
        ? unreachable(false, true, `nothing came for ${SILENCE_MAX_MS / 1000} s`)
        : error;
    } finally {
      clearTimeout(this.#silence);
      abort.signal.removeEventListener("abort", cut);
      connection.abort();
    }
    if (abort.signal.aborted) return;
    this.#failures += 1;
    const problem = asProblem(failure);
    let wait = backoff(RETRY_MS, this.#failures, (this.#options.random ?? Math.random)());
    if (isMissingPath(problem)) {
      wait = RETRY_MISSING_MS;
      this.#options.onState({ kind: "missing", problem });
    } else {
      // A cursor that the node refuses would be refused for ever.
      if (problem.status === 400) this.#cursor = "";
      this.#options.onState({ kind: "waiting", problem, untilMs: this.#now() + wait });
    }
    this.#timer = setTimeout(() => void this.#follow(abort), wait);
  }

  async #read(connection: AbortController): Promise<void> {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.#cursor !== "") headers["Last-Event-ID"] = this.#cursor;
    const fetcher = this.#options.fetch ?? ((url, init) => fetch(url, init));
    const url = (this.#options.base ?? "") + streamPath(this.#options.filter);
    this.#listen(connection);
    const response = await fetcher(url, { headers, cache: "no-store", signal: connection.signal }).catch(
      (error: unknown) => {
        throw unreachable(false, false, error instanceof Error ? error.message : String(error));
      },
    );
    if (!response.ok || !response.body) {
      throw readProblem(response.status, response.statusText, await response.text().catch(() => ""));
    }
    this.#options.onState({ kind: "open", sinceMs: this.#now() });
    const parser = new FrameParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#listen(connection);
      this.#deliver(parser.push(decoder.decode(value, { stream: true })));
    }
  }

  #deliver(frames: ReturnType<FrameParser["push"]>): void {
    const events: ClusterEvent[] = [];
    for (const frame of frames) {
      if (frame.id !== "") this.#cursor = frame.id;
      try {
        events.push(parseEvent(frame.data, frame.id, this.#now()));
      } catch (error) {
        if (!(error instanceof BadEvent)) throw error;
        this.unreadable += 1;
      }
    }
    if (events.length === 0) return;
    this.#failures = 0;
    this.#options.onEvents(events);
  }

  #listen(connection: AbortController): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => connection.abort(), SILENCE_MAX_MS);
  }
}
