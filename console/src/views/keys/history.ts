/** What has become of a key: its changes, and what it had at a moment. */

import type { Api, Value } from "../../api/client";
import type { KeyChange, KeyHistory } from "../../api/types";
import { fromJson } from "../../model/bytes";
import { dateTime, versionMs } from "../../model/format";
import type { VersionList } from "./versions";

/** Changes that one request asks for. */
export const PAGE_CHANGES = 100;
/** So many pages are read to find a moment. */
export const PAGES_MAX = 10;

export interface Change {
  what: KeyChange["what"];
  atMs: number;
  /** `null`: it expired; nobody wrote that. */
  version: string | null;
  /** Of a put. */
  bytes: Uint8Array | null;
  expiresAtMs: number | null;
}

export interface ChangeList {
  /** The newest first. */
  changes: readonly Change[];
  /** There are more, before this version. */
  next: string | null;
  /** What was before this is known only as far as it is listed. */
  safePointMs: number;
  /** What is to be said of the time before the oldest change; empty while there are more. */
  end: string;
}

function changeOf(change: KeyChange): Change {
  return {
    what: change.what,
    atMs: change.at_ms,
    version: change.version ?? null,
    bytes: change.what === "put" ? fromJson(change.value ?? "") : null,
    expiresAtMs: change.expires_at_ms ?? null,
  };
}

/** A page behind those that were read before. */
export function withPage(list: ChangeList | null, page: KeyHistory): ChangeList {
  const changes = [...(list?.changes ?? []), ...page.changes.map(changeOf)];
  const { next, safe_point_ms: safePointMs } = page;
  const oldest = changes.at(-1);
  const since = safePointMs > 0 ? dateTime(safePointMs) : null;
  let end = "";
  if (next === null && oldest && since !== null) {
    end =
      oldest.atMs <= safePointMs
        ? `What was before is forgotten: the keyspace keeps changes since ${since}.`
        : `It had no value before, since ${since}; what was earlier is forgotten.`;
  } else if (next === null && oldest) end = "It had no value before.";
  return { changes, next, safePointMs, end };
}

const ENDS: Record<VersionList["end"], string> = {
  first: "It had no value before.",
  deleted: "Before that it had no value: it was deleted, or had expired. This node lists no more.",
  collected: "Older versions were collected.",
  limit: "There are older ones.",
};

/** What an older node tells: values alone, back to the first deletion. */
export function fromVersions({ versions, end }: VersionList): ChangeList {
  const changes = versions.map((value): Change => ({
    what: "put",
    atMs: versionMs(value.version) ?? 0,
    version: value.version,
    bytes: value.bytes,
    expiresAtMs: value.expiresAtMs,
  }));
  return { changes, next: null, safePointMs: end === "first" ? 0 : Infinity, end: ENDS[end] };
}

/**
 * What a key had at a moment: the change that was the last then (`index`), nothing yet, a time of
 * which nothing is known any more, or one before what was read.
 */
export type Then =
  { kind: "value" | "none"; index: number } | { kind: "nothing-yet" | "forgotten" | "not-read" };

export function stateAt(list: ChangeList, atMs: number): Then {
  const index = list.changes.findIndex((change) => change.atMs <= atMs);
  const change = list.changes[index];
  if (!change) {
    if (list.next !== null) return { kind: "not-read" };
    return { kind: atMs < list.safePointMs ? "forgotten" : "nothing-yet" };
  }
  // A list that was read before a value came to its end does not have that yet.
  const isOver = change.expiresAtMs !== null && change.expiresAtMs <= atMs;
  return { kind: change.what === "put" && !isOver ? "value" : "none", index };
}

/** The value that a key has by its newest change; `null`: none. */
export function valueNow(list: ChangeList, nowMs: number): Value | null {
  const [newest] = list.changes;
  if (!newest || newest.bytes === null || newest.version === null) return null;
  if (newest.expiresAtMs !== null && newest.expiresAtMs <= nowMs) return null;
  const { bytes, version, expiresAtMs } = newest;
  return { bytes, version, expiresAtMs, etag: `"${version}"`, route: null };
}

/** Reads changes, the newest first, back to a moment if one is named. */
export async function readHistory(
  api: Api,
  keyspace: string,
  key: Uint8Array,
  { untilMs = Infinity, list = null }: { untilMs?: number; list?: ChangeList | null } = {},
  signal?: AbortSignal,
): Promise<ChangeList> {
  let read = list;
  for (let page = 1; ; page++) {
    const before = read?.next ?? null;
    read = withPage(read, await api.history(keyspace, key, { limit: PAGE_CHANGES, before }, signal));
    const oldest = read.changes.at(-1);
    if (read.next === null || page === PAGES_MAX || (oldest?.atMs ?? -Infinity) <= untilMs) return read;
  }
}
