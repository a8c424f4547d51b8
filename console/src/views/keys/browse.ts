/** Pages of keys of an ordered keyspace, by the range operation of `/v1/txn`. */

import type { Api } from "../../api/client";
import type { JsonBytes, TxnOperation } from "../../api/types";
import { endOfPrefix, fromJson, toJson } from "../../model/bytes";

export const PAGE_KEYS = 50;

export interface Entry {
  key: Uint8Array;
  value: Uint8Array;
  version: string;
}

export interface Page {
  entries: Entry[];
  /** Where the next page begins; `null`: this is the last one. */
  next: Uint8Array | null;
}

/** The operation for a page of keys that begin with `prefix`, from `from` on. */
export function rangeOf(prefix: Uint8Array, from: Uint8Array | null): TxnOperation {
  const end = prefix.length > 0 ? endOfPrefix(prefix) : null;
  const start = from ?? (prefix.length > 0 ? prefix : null);
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
): Promise<Page> {
  const answer = await api.txn({ keyspace, then: [rangeOf(prefix, from)] }, signal);
  const [result] = answer.results;
  const found = result && "keys" in result ? result.keys : [];
  const entries = found.map((entry) => ({
    key: fromJson(entry.key),
    value: fromJson(entry.value),
    version: entry.version ?? "",
  }));
  return { entries: entries.slice(0, PAGE_KEYS), next: entries[PAGE_KEYS]?.key ?? null };
}
