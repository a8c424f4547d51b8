/** What an operator can do with a node, and what the console says before. */

import type { AdminState, NodeStatus } from "../../api/types";
import type { NodeAction } from "../../api/client";
import type { Live } from "../../state/live.svelte";
import type { Question } from "../../ui/Confirm.svelte";
import { plural } from "../../model/format";

/** Actions that a node's admin state allows. */
export function actionsFor(node: Pick<NodeStatus, "standing" | "replicas">): NodeAction[] {
  const allowed: Record<AdminState, NodeAction[]> = {
    member: ["cordon", "drain"],
    cordoned: ["uncordon", "drain"],
    draining: ["uncordon", "cordon"],
    removed: [],
  };
  const actions = allowed[node.standing];
  return node.standing !== "removed" && node.replicas === 0 ? [...actions, "remove"] : actions;
}

export function explain(action: NodeAction, node: Pick<NodeStatus, "name" | "replicas" | "leads">): string {
  switch (action) {
    case "cordon":
      return `${node.name} keeps its ${plural(node.replicas, "replica")} and gets no more. “Uncordon” undoes it.`;
    case "uncordon":
      return `${node.name} may get replicas and lead shards again.`;
    case "drain":
      return `All ${plural(node.replicas, "replica")} of ${node.name} move to other nodes, and so do the ${plural(node.leads, "shard")} that it leads. “Uncordon” stops that; what has moved stays moved.`;
    case "remove":
      return `${node.name} leaves the cluster for good: this cannot be undone. Its process is refused from then on.`;
  }
}

export const VERBS: Record<NodeAction, string> = {
  cordon: "Cordon",
  uncordon: "Uncordon",
  drain: "Drain",
  remove: "Remove",
};

export function questionFor(live: Live, action: NodeAction, node: NodeStatus): Question {
  return {
    title: `${VERBS[action]} ${node.name}?`,
    text: explain(action, node),
    verb: VERBS[action],
    isDangerous: action === "remove",
    act: () => live.api.nodeAction(node.id, action),
    done: () => live.refresh("nodes", "shards", "decisions"),
  };
}
