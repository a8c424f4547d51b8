/** Decisions of leaders in words. */

import type { Decision } from "../../api/types";

/** What is to happen: `shard 3 splits at slot 5163: shard 17 is its right half`. */
export function sentence(decision: Decision): string {
  const { shard } = decision;
  if (decision.split) {
    const { at, right } = decision.split;
    const place = typeof at === "number" ? `slot ${at}` : `“${at}”`;
    return `Shard ${shard} splits at ${place}; its right half is shard ${right}`;
  }
  if (decision.merge) {
    const moves = decision.merge.moves ? ", after its replicas have moved" : "";
    return `Shard ${shard} merges with shard ${decision.merge.right}${moves}`;
  }
  if (decision.leader) return `${decision.leader.name} is to lead shard ${shard}`;
  const parts = [
    decision.add.length > 0 ? `gets a replica on ${decision.add.map((node) => node.name).join(", ")}` : "",
    decision.remove.length > 0 ? `loses replica ${decision.remove.join(", ")}` : "",
  ].filter((part) => part !== "");
  return `Shard ${shard} ${parts.join(" and ") || "changes"}`;
}

export type DecisionKind = "leader" | "replicas" | "split" | "merge";

export function kindOf(decision: Decision): DecisionKind {
  if (decision.split) return "split";
  if (decision.merge) return "merge";
  return decision.leader ? "leader" : "replicas";
}

export const OUTCOMES: Record<Decision["came"], { words: string; verdict: string }> = {
  dry: { words: "would happen", verdict: "" },
  "under-way": { words: "under way", verdict: "degraded" },
  done: { words: "done", verdict: "ok" },
  "not-done": { words: "called off", verdict: "" },
  "handed-on": { words: "handed to the next leader", verdict: "" },
};
