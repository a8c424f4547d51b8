/** The typed client of the HTTP API. Every method throws a {@link Problem} and nothing else. */

import { encodeKey } from "../model/bytes";
import { readProblem, unreachable } from "./problem";
import type {
  ClusterVersion,
  Decisions,
  Drain,
  KeyHistory,
  KeyPage,
  Keyspace,
  KeyspaceChange,
  LookupForm,
  LookupName,
  Metrics,
  NewKeyspace,
  NodeAdminState,
  Nodes,
  Route,
  Scope,
  Shards,
  ShardStatus,
  Status,
  Survivability,
  Survive,
  TxnAnswer,
  TxnRequest,
} from "./types";

/** A request without an answer is given up after this time: longer than `request_timeout_ms`. */
export const REQUEST_TIMEOUT_MS = 15_000;
/** A node tells its own state from memory: one that takes longer hangs. */
export const STATE_TIMEOUT_MS = 3000;
/** Pages of `/v1/shards` that one poll reads: 20 000 shards. */
export const SHARD_PAGES_MAX = 20;

export interface RouteOptions {
  lookup?: LookupName;
  form?: LookupForm;
  /** Whether nodes go by owners that they remember. */
  images?: boolean;
}

/** A value with what its headers say. */
export interface Value {
  bytes: Uint8Array;
  /** Its version: when it was written. */
  version: string;
  expiresAtMs: number | null;
  etag: string | null;
  /** How the owner was found, if a lookup was named. */
  route: string | null;
}

export interface PutOptions {
  ttlMs?: number | undefined;
  /** Only if the value has this tag: compare-and-set. */
  ifMatch?: string | undefined;
  ifAbsent?: boolean | undefined;
}

export type NodeAction = "cordon" | "uncordon" | "drain" | "remove";

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export class Api {
  readonly #base: string;
  readonly #fetch: Fetch;

  /** `base` is where the API is, without `/v1`; empty: where the page came from. */
  constructor(base = "", fetcher: Fetch = (url, init) => fetch(url, init)) {
    this.#base = base;
    this.#fetch = fetcher;
  }

  status(signal?: AbortSignal): Promise<Status> {
    return this.json("GET", "/v1/status", undefined, signal, STATE_TIMEOUT_MS);
  }

  nodes(signal?: AbortSignal): Promise<Nodes> {
    return this.json("GET", "/v1/nodes", undefined, signal, STATE_TIMEOUT_MS);
  }

  /** All shards, page by page; `isWhole` is false if there are more than the limit of pages. */
  async shards(signal?: AbortSignal, scope: Scope = "node"): Promise<Shards & { isWhole: boolean }> {
    const shards: ShardStatus[] = [];
    let after: number | null = null;
    for (let page = 1; ; page++) {
      const query = scoped(scope, after === null ? "" : `after=${after}`);
      const found: Shards = await this.json("GET", `/v1/shards${query}`, undefined, signal);
      shards.push(...found.shards);
      after = found.next;
      if (after === null || page === SHARD_PAGES_MAX) {
        return { ...found, shards, isWhole: after === null };
      }
    }
  }

  async keyspaces(signal?: AbortSignal): Promise<Keyspace[]> {
    const found: { keyspaces: Keyspace[] } = await this.json("GET", "/v1/keyspaces", undefined, signal);
    return found.keyspaces;
  }

  createKeyspace(keyspace: NewKeyspace): Promise<Keyspace> {
    return this.json("POST", "/v1/keyspaces", keyspace);
  }

  alterKeyspace(name: string, change: KeyspaceChange): Promise<Keyspace> {
    return this.json("PATCH", `/v1/keyspaces/${encodeURIComponent(name)}`, change);
  }

  cloneVolume(volume: string, clone: { name: string }): Promise<Keyspace> {
    return this.json("POST", `/v1/volumes/${encodeURIComponent(volume)}/clone`, clone);
  }

  /** Copies a part of what a clone shares. */
  flattenVolume(clone: string): Promise<{ copied_blocks: number; is_done: boolean }> {
    return this.json("POST", `/v1/volumes/${encodeURIComponent(clone)}/flatten`, {});
  }

  takeSnapshot(keyspace: string): Promise<{ token: string }> {
    return this.json("POST", "/v1/snapshots", { keyspaces: [keyspace] });
  }

  async dropKeyspace(name: string): Promise<void> {
    await this.#send("DELETE", `/v1/keyspaces/${encodeURIComponent(name)}`);
  }

  decisions(dry: boolean, signal?: AbortSignal, scope: Scope = "node"): Promise<Decisions> {
    const query = scoped(scope, dry ? "dry=true" : "");
    return this.json("GET", `/v1/decisions${query}`, undefined, signal);
  }

  prove(survive: Survive, signal?: AbortSignal): Promise<Survivability> {
    return this.json("GET", `/v1/prove?survive=${survive}`, undefined, signal);
  }

  nodeAction(node: string, action: NodeAction): Promise<NodeAdminState> {
    return this.json("POST", `/v1/nodes/${encodeURIComponent(node)}/${action}`, {});
  }

  /** Why a drain takes so long. */
  drain(node: string, signal?: AbortSignal): Promise<Drain> {
    return this.json("GET", `/v1/nodes/${encodeURIComponent(node)}/drain`, undefined, signal);
  }

  raiseClusterVersion(): Promise<ClusterVersion> {
    return this.json("POST", "/v1/level", {});
  }

  split(shard: number, at?: number | string): Promise<{ shard: number; right: number; at: number | string }> {
    return this.json("POST", `/v1/shards/${shard}/split`, at === undefined ? {} : { at });
  }

  merge(shard: number): Promise<{ shard: number; right: number; moves: boolean }> {
    return this.json("POST", `/v1/shards/${shard}/merge`, {});
  }

  /** How the owner of a key is found: by one lookup, or by each. */
  route(
    keyspace: string,
    key: Uint8Array,
    options: RouteOptions = {},
    signal?: AbortSignal,
  ): Promise<Route[]> {
    const words = [options.lookup ?? "", options.form ?? "", options.images === false ? "noimages" : ""];
    const lookup = words.filter((word) => word !== "").join("+");
    const query = lookup === "" ? "" : `lookup=${lookup}`;
    return this.json("GET", `/v1/route/${place(keyspace, key, query)}`, undefined, signal);
  }

  /** The value of a key, now or as of a time in milliseconds or a version. */
  async get(keyspace: string, key: Uint8Array, at?: string, signal?: AbortSignal): Promise<Value> {
    const query = at === undefined ? "" : `at=${encodeURIComponent(at)}`;
    const response = await this.#send("GET", `/v1/kv/${place(keyspace, key, query)}`, null, {}, signal);
    const expires = response.headers.get("carillon-expires-at-ms");
    return {
      bytes: new Uint8Array(await response.arrayBuffer()),
      version: response.headers.get("carillon-timestamp") ?? "",
      expiresAtMs: expires === null ? null : Number(expires),
      etag: response.headers.get("etag"),
      route: response.headers.get("carillon-route"),
    };
  }

  /** A page of the changes of a key, the newest first. */
  history(
    keyspace: string,
    key: Uint8Array,
    { limit, before }: { limit?: number; before?: string | null } = {},
    signal?: AbortSignal,
  ): Promise<KeyHistory> {
    const words = [
      ...(limit === undefined ? [] : [`limit=${limit}`]),
      ...(before === null || before === undefined ? [] : [`before=${encodeURIComponent(before)}`]),
    ];
    return this.json("GET", `/v1/history/${place(keyspace, key, words.join("&"))}`, undefined, signal);
  }

  /** A page of keys, of a keyspace of any placement. */
  keys(
    keyspace: string,
    { prefix, limit, cursor }: { prefix?: Uint8Array; limit?: number; cursor?: string | null } = {},
    signal?: AbortSignal,
  ): Promise<KeyPage> {
    const words = [
      ...(prefix && prefix.length > 0 ? [`prefix=${encodeKey(prefix)}`] : []),
      ...(limit === undefined ? [] : [`limit=${limit}`]),
      ...(cursor === null || cursor === undefined ? [] : [`cursor=${encodeURIComponent(cursor)}`]),
    ];
    const query = words.length === 0 ? "" : `?${words.join("&")}`;
    return this.json("GET", `/v1/keys/${encodeURIComponent(keyspace)}${query}`, undefined, signal);
  }

  async put(keyspace: string, key: Uint8Array, value: Uint8Array, options: PutOptions = {}): Promise<void> {
    const query = new URLSearchParams();
    if (options.ttlMs !== undefined) query.set("ttl_ms", String(options.ttlMs));
    if (options.ifAbsent) query.set("if", "absent");
    await this.#send(
      "PUT",
      `/v1/kv/${place(keyspace, key, String(query))}`,
      value as BodyInit,
      ifMatch(options.ifMatch),
    );
  }

  async delete(keyspace: string, key: Uint8Array, tag?: string): Promise<void> {
    await this.#send("DELETE", `/v1/kv/${place(keyspace, key)}`, null, ifMatch(tag));
  }

  txn(request: TxnRequest, signal?: AbortSignal): Promise<TxnAnswer> {
    return this.json("POST", "/v1/txn", request, signal);
  }

  /** The text of `/metrics`. */
  async metrics(signal?: AbortSignal): Promise<string> {
    return (await this.#send("GET", "/metrics", null, {}, signal)).text();
  }

  /** The numbers of all nodes, and their links if these are wanted. */
  metricsOfAll(withLinks: boolean, signal?: AbortSignal): Promise<Metrics> {
    const links = withLinks ? "&links=true" : "";
    return this.json("GET", `/v1/metrics?scope=cluster${links}`, undefined, signal);
  }

  /** Any request with JSON both ways. */
  async json<T>(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
    timeoutMs = REQUEST_TIMEOUT_MS,
  ): Promise<T> {
    const response =
      body === undefined
        ? await this.#send(method, path, null, {}, signal, timeoutMs)
        : await this.#send(
            method,
            path,
            JSON.stringify(body),
            { "Content-Type": "application/json" },
            signal,
            timeoutMs,
          );
    // The head of an answer may come though its body does not.
    const text = await response.text().catch((error: unknown) => {
      if (signal?.aborted) throw error;
      const cause = error instanceof Error ? error.message : String(error);
      throw unreachable(method !== "GET", cause.includes("time"), `${method} ${path}: ${cause}`);
    });
    try {
      return JSON.parse(text) as T;
    } catch {
      throw readProblem(response.status, `The answer to ${path} is no JSON`, text);
    }
  }

  /** The recording that `carillon replay --console` serves. */
  async recording(): Promise<string> {
    const response = await this.#send("GET", "/v1/sim/recording");
    return response.text();
  }

  async #send(
    method: string,
    path: string,
    body: BodyInit | null = null,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
    timeoutMs = REQUEST_TIMEOUT_MS,
  ): Promise<Response> {
    const timeout = AbortSignal.timeout(timeoutMs);
    const either = signal ? AbortSignal.any([signal, timeout]) : timeout;
    let response: Response;
    try {
      response = await this.#fetch(this.#base + path, {
        method,
        body,
        headers,
        signal: either,
        cache: "no-store",
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      const cause = error instanceof Error ? error.message : String(error);
      throw unreachable(method !== "GET", timeout.aborted, `${method} ${path}: ${cause}`);
    }
    if (response.ok) return response;
    throw readProblem(response.status, response.statusText, await response.text().catch(() => ""));
  }
}

/** A query; the scope is left out where it is what nodes take it for, since older ones know none. */
function scoped(scope: Scope, query: string): string {
  const words = [query, scope === "cluster" ? "scope=cluster" : ""].filter((word) => word !== "");
  return words.length === 0 ? "" : `?${words.join("&")}`;
}

/**
 * A key's path and query. Browsers take the segments `.` and `..` out of a path, also where they are
 * percent-encoded: another key would be asked for. So these keys stand in the query.
 */
function place(keyspace: string, key: Uint8Array, query = ""): string {
  const encoded = encodeKey(key);
  const isTaken = encoded === "." || encoded === "..";
  const words = [isTaken ? `key=${encoded}` : "", query].filter((word) => word !== "");
  const path = `${encodeURIComponent(keyspace)}/${isTaken ? "" : encoded}`;
  return words.length === 0 ? path : `${path}?${words.join("&")}`;
}

function ifMatch(tag: string | undefined): Record<string, string> {
  return tag === undefined ? {} : { "If-Match": tag };
}
