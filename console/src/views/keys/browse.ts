/**
 * Pages of keys: of an ordered keyspace by the range operation of `/v1/txn`, which has the values, of
 * others by `/v1/keys`.
 */

import type { Api } from "../../api/client";
import type { JsonBytes, TxnOperation } from "../../api/types";
import { compareBytes, endOfPrefix, fromJson, toJson } from "../../model/bytes";

export const PAGE_KEYS = 50;

export interface Entry {
  key: Uint8Array;
  /** Lists of keyspaces that are not ordered have no values. */
  value: Uint8Array | null;
  version: string;
}

export interface Page {
  entries: Entry[];
  /** Where the next page begins: a key, or a cursor. `null`: this is the last one. */
  next: Uint8Array | string | null;
}

/** A page of a keyspace that is not ordered may have no keys and yet a next one: so many are read at once. */
const EMPTY_PAGES_MAX = 50;

/** A page of keys of a keyspace of any placement, in no order. */
export async function list(
  api: Api,
  keyspace: string,
  prefix: Uint8Array,
  from: string | null,
  signal?: AbortSignal,
): Promise<Page> {
  const entries: Entry[] = [];
  let cursor = from;
  for (let page = 0; page < EMPTY_PAGES_MAX; page++) {
    const found = await api.keys(keyspace, { prefix, limit: PAGE_KEYS, cursor }, signal);
    entries.push(...found.keys.map((key) => ({ key: fromJson(key), value: null, version: "" })));
    cursor = found.next;
    if (cursor === null || entries.length >= PAGE_KEYS) break;
  }
  return { entries, next: cursor };
}

/** Keys in order that are wanted: from one on, up to but without another. */
export interface Stretch {
  low: Uint8Array | null;
  high: Uint8Array | null;
}

const ALL: Stretch = { low: null, high: null };

function last(keys: readonly (Uint8Array | null)[]): Uint8Array | null {
  return (
    keys
      .filter((key) => key !== null)
      .sort(compareBytes)
      .at(-1) ?? null
  );
}

/** The operation for a page of keys of a stretch that begin with `prefix`, from `from` on. */
export function rangeOf(prefix: Uint8Array, from: Uint8Array | null, stretch = ALL): TxnOperation {
  const ends = [prefix.length > 0 ? endOfPrefix(prefix) : null, stretch.high];
  const end =
    ends
      .filter((key) => key !== null)
      .sort(compareBytes)
      .at(0) ?? null;
  const start = from ?? last([prefix.length > 0 ? prefix : null, stretch.low]);
  const range: { from?: JsonBytes; to?: JsonBytes; limit: number } = { limit: PAGE_KEYS + 1 };
  if (start) range.from = toJson(start);
  if (end) range.to = toJson(end);
  return { range };
}

export async function browse(
  api: Api,
  keyspace: string,
  prefix: Uint8Array,
  from: Uint8Array | null,
  signal?: AbortSignal,
  stretch = ALL,
): Promise<Page> {
  const answer = await api.txn({ keyspace, then: [rangeOf(prefix, from, stretch)] }, signal);
  const [result] = answer.results;
  const found = result && "keys" in result ? result.keys : [];
  const entries = found.map((entry) => ({
    key: fromJson(entry.key),
    value: fromJson(entry.value),
    version: entry.version ?? "",
  }));
  return { entries: entries.slice(0, PAGE_KEYS), next: entries[PAGE_KEYS]?.key ?? null };
}
