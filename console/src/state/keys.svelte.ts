/** The keys of a keyspace for the ring, read page by page, and again now and then. */

import type { Api } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Keyspace } from "../api/types";
import { fromJson } from "../model/bytes";
import { keyDot, KEYS_DRAWN_MAX, type KeyDot } from "../model/keydots";

/** Keys of one page. */
const PAGE_KEYS = 1000;
/** How long until all are read again. */
export const REREAD_MS = 6000;

export class KeyFeed {
  dots = $state.raw<readonly KeyDot[]>([]);
  /** Whether there are more keys than are read. */
  isCut = $state(false);
  isReading = $state(false);
  problem = $state.raw<Problem | null>(null);

  /** Reads keys until the returned function is called. */
  follow(api: Api, keyspace: Pick<Keyspace, "name" | "placement">): () => void {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    this.dots = [];
    this.isCut = false;
    const round = async () => {
      if (!document.hidden) await this.#read(api, keyspace, abort.signal);
      if (!abort.signal.aborted && !this.isCut) timer = setTimeout(() => void round(), REREAD_MS);
    };
    void round();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }

  async #read(api: Api, keyspace: Pick<Keyspace, "name" | "placement">, signal: AbortSignal): Promise<void> {
    this.isReading = true;
    const known = new Map(this.dots.map((dot) => [dot.name, dot]));
    const found = new Map<string, KeyDot>();
    try {
      let cursor: string | null = null;
      // Pages of shards with few keys are short: the bound is on keys, and on pages.
      for (let page = 0; page < KEYS_DRAWN_MAX && found.size <= KEYS_DRAWN_MAX; page++) {
        const answer = await api.keys(keyspace.name, { limit: PAGE_KEYS, cursor }, signal);
        for (const key of answer.keys) {
          const dot = keyDot(keyspace.placement, fromJson(key));
          found.set(dot.name, known.get(dot.name) ?? dot);
        }
        cursor = answer.next;
        if (cursor === null) break;
      }
      this.isCut = cursor !== null || found.size > KEYS_DRAWN_MAX;
      const isSame = found.size === known.size && [...found.keys()].every((name) => known.has(name));
      if (!isSame) this.dots = [...found.values()].slice(0, KEYS_DRAWN_MAX);
      this.problem = null;
    } catch (error) {
      if (!signal.aborted) this.problem = asProblem(error);
    } finally {
      this.isReading = false;
    }
  }
}
