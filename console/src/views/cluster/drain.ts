/** A drain in words and figures. Pure. */

import type { Drain } from "../../api/types";

/** Why a replica is still there. */
export const WAITS: Record<string, string> = {
  "no-leader": "have no leader",
  silent: "have a leader that does not answer",
  stuck: "find no node to go to",
  waiting: "go later",
  due: "go next",
  moving: "are on their way",
};

/** How long it takes if it goes on so, in milliseconds; `null`: nobody can say. */
export function remaining(drain: Pick<Drain, "replicas" | "rate">): number | null {
  const { rate, replicas } = drain;
  if (!rate || rate.replicas === 0 || rate.over_ms === 0 || replicas === 0) return null;
  return (replicas * rate.over_ms) / rate.replicas;
}
