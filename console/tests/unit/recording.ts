/** The recorded cluster, for tests. */

import { readFileSync } from "node:fs";
import type { Decisions, Keyspace, Nodes, Route, Shards, Status } from "../../src/api/types";
import { applyAnswer, EMPTY, type Model } from "../../src/model/model";
import type { ClusterEvent } from "../../src/events/types";

interface Answer {
  status: number;
  type: string;
  headers: Record<string, string>;
  body: unknown;
}

interface Moment {
  name: string;
  at_ms: number;
  answers: Record<string, Answer>;
}

const { moments } = JSON.parse(
  readFileSync(new URL("../data/three-nodes.json", import.meta.url), "utf8"),
) as { moments: Moment[] };

export const WELL = "all is well";
export const SPLIT = "a shard was split";
export const DOWN = "node-3 is down";

export function moment(name: string): Moment {
  const found = moments.find((each) => each.name === name);
  if (!found) throw new Error(`the recording has no moment "${name}"`);
  return found;
}

export function answer<T>(name: string, path: string): T {
  const found = moment(name).answers[path];
  if (!found) throw new Error(`the recording has no ${path}`);
  return found.body as T;
}

export function routes(name: string, keyspace: string, key: string, lookup = ""): Route[] {
  const path = `/v1/route/${keyspace}/${encodeURIComponent(key)}`;
  return answer(name, lookup === "" ? path : `${path}?lookup=${lookup}`);
}

/** A fetch that answers from a moment. */
export function fetchFrom(name: string): (url: string, init: RequestInit) => Promise<Response> {
  return (url, init) => {
    const found = init.method === "GET" ? moment(name).answers[url] : undefined;
    if (!found) return Promise.reject(new TypeError(`not recorded: ${init.method} ${url}`));
    const body = typeof found.body === "string" ? found.body : JSON.stringify(found.body);
    return Promise.resolve(
      new Response(body, { status: found.status, headers: { ...found.headers, "Content-Type": found.type } }),
    );
  };
}

/** The model that all answers of a moment make. */
export function modelOf(name: string, atMs = moment(name).at_ms): Model {
  let model = EMPTY;
  model = applyAnswer(model, { kind: "status", value: answer<Status>(name, "/v1/status") }, atMs);
  model = applyAnswer(model, { kind: "nodes", value: answer<Nodes>(name, "/v1/nodes") }, atMs);
  const shards = answer<Shards>(name, "/v1/shards");
  model = applyAnswer(model, { kind: "shards", value: { ...shards, isWhole: true } }, atMs);
  const { keyspaces } = answer<{ keyspaces: Keyspace[] }>(name, "/v1/keyspaces");
  model = applyAnswer(model, { kind: "keyspaces", value: keyspaces }, atMs);
  return applyAnswer(model, { kind: "decisions", value: answer<Decisions>(name, "/v1/decisions") }, atMs);
}

/** An event as the stream sends it. */
export function event(
  type: string,
  fields: Record<string, unknown> = {},
  atMs = 2_000_000_000_000,
): ClusterEvent {
  const at = String(fields["at"] ?? BigInt(atMs) << 16n);
  const node = String(fields["node"] ?? "");
  return {
    cursor: `${at}@${node}`,
    type,
    node,
    atMs,
    at,
    severity: (fields["severity"] as ClusterEvent["severity"] | undefined) ?? "info",
    shard: typeof fields["shard"] === "number" ? fields["shard"] : null,
    keyspace: typeof fields["keyspace"] === "string" ? fields["keyspace"] : null,
    text: typeof fields["text"] === "string" ? fields["text"] : "",
    isLate: false,
    fields: { type, ...fields },
  };
}
