/** Nodes of `carillon dev`, if the page came from one of them. */

import type { Api } from "../api/client";
import { DevApi, type Dev, type DevAction } from "../api/dev";
import { Poll } from "../api/poll";
import { asProblem, type Problem } from "../api/problem";

const INTERVAL_MS = 1500;

export class DevCluster {
  readonly api: DevApi;
  /** `null` if the node was not started by `carillon dev`. */
  dev = $state.raw<Dev | null>(null);
  problem = $state.raw<Problem | null>(null);
  #poll: Poll<Dev> | undefined;

  constructor(api: Api) {
    this.api = new DevApi(api);
  }

  /** Finds out once whether there is one. */
  start(): () => void {
    let isEnded = false;
    this.api.get().then(
      (dev) => {
        if (isEnded) return;
        this.dev = dev;
        this.#poll = new Poll<Dev>({
          intervalMs: INTERVAL_MS,
          ask: (signal) => this.api.get(signal),
          onAnswer: (answer) => {
            this.dev = answer;
            this.problem = null;
          },
          // What the page itself has ended does not answer: the banner of the page says so.
          onFailure: (error) => {
            const problem = asProblem(error);
            this.problem = problem.isUnreachable ? null : problem;
          },
        });
        this.#poll.start();
      },
      () => undefined,
    );
    return () => {
      isEnded = true;
      this.#poll?.stop();
    };
  }

  refresh(): void {
    this.#poll?.refresh();
  }

  act(name: string, action: DevAction, parameters?: Record<string, string>): Promise<unknown> {
    return this.api.act(name, action, parameters).finally(() => this.refresh());
  }

  add(parameters: Record<string, string>): Promise<unknown> {
    return this.api.add(parameters).finally(() => this.refresh());
  }
}
