/** `/v1/dev`: nodes that `carillon dev` has started. */

import type { Api } from "./client";

export type DevNodeState = "starting" | "running" | "paused" | "stopping" | "ended";
export const DEV_ACTIONS = ["start", "stop", "kill", "pause", "resume"] as const;
export type DevAction = (typeof DEV_ACTIONS)[number];

export interface DevNode {
  name: string;
  state: DevNodeState;
  pid: number | null;
  this: boolean;
  since_at_ms: number;
  addresses: { resp: string | null; native: string | null; http: string | null; peer: string | null };
  dir: string;
  log: string;
  parameters: Record<string, string>;
  command: string;
  ended: { how: string; asked: boolean; log: string[] } | null;
}

export interface DevParameter {
  name: string;
  accepts: string;
  default: string;
  help: string;
}

export interface Dev {
  dir: string;
  nodes_max: number;
  flags: string[];
  parameters: DevParameter[];
  nodes: DevNode[];
}

export class DevApi {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  get(signal?: AbortSignal): Promise<Dev> {
    return this.#api.json("GET", "/v1/dev", undefined, signal);
  }

  add(parameters: Record<string, string>): Promise<DevNode> {
    return this.#api.json("POST", "/v1/dev/nodes", { parameters });
  }

  act(name: string, action: DevAction, parameters?: Record<string, string>): Promise<DevNode> {
    const body = parameters === undefined ? {} : { parameters };
    return this.#api.json("POST", `/v1/dev/nodes/${encodeURIComponent(name)}/${action}`, body);
  }
}
