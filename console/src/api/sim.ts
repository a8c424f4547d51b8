/** `/v1/sim`: the controls of a simulation, as `docs/console.md` describes them. */

import type { Api } from "./client";
import type { JsonBytes, LookupName, Placement, Route } from "./types";
import { encodeKey } from "../model/bytes";

export type SimKind = "cluster" | "overlay";
export type SimNodeState = "up" | "paused" | "down" | "gone";

export interface SimNode {
  name: string;
  id: string;
  state: SimNodeState;
  domain?: string;
  skew_ms?: number;
  slow_disk_ms?: number;
  cut_to?: string[];
  /** Of an overlay: where the member's arc begins, in hexadecimal. */
  start?: string;
}

/** What somebody on the network has altered and forged, and what nodes have refused of it. */
export interface SimAttack {
  /** One of so many messages is altered at the moment; 0: nobody attacks. */
  one_in: number;
  altered: number;
  altered_refused: number;
  forged: number;
  forged_refused: number;
}

export interface SimState {
  version: number;
  kind: SimKind;
  seed: number;
  now_ms: number;
  wall_ms: number;
  running: boolean;
  speed: number;
  behind: boolean;
  phase: "forming" | "running" | "broken" | "over";
  scenario: string | null;
  /** Of a cluster. Older ones do not say. */
  tampering?: SimAttack | null;
  /** Of a cluster: messages that nodes have sent, and how long one takes at most unless it is late. */
  network?: { sent: number; delay_ms_max: number } | null;
  clients: number;
  answered: number;
  refused: number;
  unknown: number;
  plants: string[];
  broken: { rule: string; text: string; at_ms: number } | null;
  checked_ms: number | null;
  nodes: SimNode[];
  actions: number;
  to_come: number;
  next_action: SimAction | null;
  digest: string;
  /** The name of a recording that is served beside it, to be shown at once. */
  recording?: string | null;
}

export interface SimNames {
  scenarios: { name: string; kind: SimKind; about: string }[];
  plants: { name: string; about: string }[];
  lookups: LookupName[];
  actions: Partial<Record<SimKind, string[]>>;
  limits: {
    nodes_max: number;
    members_max: number;
    clients_max: number;
    speed_min: number;
    speed_max: number;
    step_ms_max: number;
    file_bytes_max: number;
    /** Keys that one action fills at most. Older ones do not say. */
    fill_max?: number;
  };
}

export interface SimBegin {
  kind?: SimKind;
  seed?: number;
  nodes?: number;
  clients?: number;
  domains?: number;
  placement?: Placement;
  /** Whether clients also run transactions over several shards. */
  transactions?: boolean;
  scenario?: string | null;
  plants?: string[];
}

export type SimAction =
  | { do: "add-nodes"; count: number }
  | { do: "remove-node" | "crash" | "power-cut" | "restart" | "resume" | "isolate"; node: string }
  | { do: "pause"; node: string; for_ms?: number }
  | { do: "cut"; from: string; to: string; both?: boolean }
  | { do: "partition"; nodes: string[] }
  | { do: "slow-disk"; node: string; sync_ms: number }
  | { do: "skew"; node: string; by_ms: number }
  | { do: "tamper"; one_in: number }
  | { do: "heal" }
  | { do: "clients"; count: number }
  | { do: "put"; key: JsonBytes; value: JsonBytes; keyspace?: string; ttl_ms?: number }
  | { do: "delete"; key: JsonBytes; keyspace?: string }
  | { do: "fill"; count: number; prefix?: string; keyspace?: string }
  | { do: "clear"; prefix?: string; keyspace?: string }
  | { do: "plant"; bug: string; on?: boolean }
  | { do: "lookup"; key: JsonBytes; from?: string; lookup?: LookupName; keyspace?: string };

export interface MemberTables {
  name: string;
  id: string;
  start: string;
  successors: string[];
  tables: Partial<Record<string, { entry: string; member: string }[]>>;
}

export class SimApi {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  state(signal?: AbortSignal): Promise<SimState> {
    return this.#api.json("GET", "/v1/sim", undefined, signal);
  }

  names(): Promise<SimNames> {
    return this.#api.json("GET", "/v1/sim/names");
  }

  set(change: { running?: boolean; speed?: number }): Promise<SimState> {
    return this.#api.json("PATCH", "/v1/sim", change);
  }

  step(ms: number): Promise<SimState> {
    return this.#api.json("POST", "/v1/sim/step", { ms });
  }

  reset(begin: SimBegin): Promise<SimState> {
    return this.#api.json("POST", "/v1/sim/reset", begin);
  }

  act(action: SimAction): Promise<{ ms: number; do: string }> {
    return this.#api.json("POST", "/v1/sim/act", action);
  }

  check(): Promise<SimState> {
    return this.#api.json("POST", "/v1/sim/check", {});
  }

  file(): Promise<unknown> {
    return this.#api.json("GET", "/v1/sim/file");
  }

  open(file: unknown): Promise<SimState> {
    return this.#api.json("PUT", "/v1/sim/file", file);
  }

  member(name: string, signal?: AbortSignal): Promise<MemberTables> {
    return this.#api.json("GET", `/v1/sim/members/${encodeURIComponent(name)}`, undefined, signal);
  }

  lookup(
    keyspace: string,
    key: Uint8Array,
    from?: string,
    lookup?: LookupName,
    signal?: AbortSignal,
  ): Promise<Route[]> {
    const query = new URLSearchParams({ ...(from ? { from } : {}), ...(lookup ? { lookup } : {}) });
    const tail = query.size === 0 ? "" : `?${query}`;
    const path = `/v1/sim/lookup/${encodeURIComponent(keyspace)}/${encodeKey(key)}${tail}`;
    return this.#api.json("GET", path, undefined, signal);
  }
}
