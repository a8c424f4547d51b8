/**
 * Older versions of a key, found by stepping back: the value just before a version's time is the
 * version before it. The API has no list of versions.
 */

import type { Api, Value } from "../../api/client";
import { asProblem, Problem } from "../../api/problem";

export const VERSIONS_MAX = 25;

export interface VersionList {
  /** The newest first. */
  versions: Value[];
  /** Why there are no older ones here. */
  end: "first" | "deleted" | "collected" | "limit";
}

/** The time just before a version. */
export function before(version: string): string {
  return String(BigInt(version) - 1n);
}

export async function listVersions(
  api: Api,
  keyspace: string,
  key: Uint8Array,
  newest: Value,
  signal?: AbortSignal,
): Promise<VersionList> {
  const versions = [newest];
  while (versions.length < VERSIONS_MAX) {
    const last = versions.at(-1);
    if (!last || !/^[1-9]\d*$/.test(last.version)) return { versions, end: "first" };
    try {
      const value = await api.get(keyspace, key, before(last.version), signal);
      // It should never be: but a node that answers the same again must not hold us for ever.
      if (value.version === last.version) return { versions, end: "first" };
      versions.push(value);
    } catch (error) {
      if (!(error instanceof Problem)) throw asProblem(error);
      if (error.kind === "nil-yet") return { versions, end: "first" };
      if (error.kind === "nil") return { versions, end: "deleted" };
      if (error.kind === "below-safe-point") return { versions, end: "collected" };
      throw error;
    }
  }
  return { versions, end: "limit" };
}
