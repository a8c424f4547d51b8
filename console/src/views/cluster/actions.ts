/** What an operator can do with a node, and what the console says before. */

import type { AdminState, NodeStatus } from "../../api/types";
import type { NodeAction } from "../../api/client";
import type { Live } from "../../state/live.svelte";
import type { Question } from "../../ui/Confirm.svelte";
import { plural } from "../../model/format";
import type { Model } from "../../model/model";

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

/**
 * Why the cluster would refuse an action, by its own rule: the nodes that are left must be able to hold
 * every keyspace. `null`: nothing is known against it.
 */
export function refusalOf(
  action: NodeAction,
  node: Pick<NodeStatus, "id" | "name" | "state" | "standing">,
  model: Pick<Model, "nodes" | "keyspaces">,
): string | null {
  // What is removed is drained before.
  const isReducing = action !== "uncordon" && node.standing !== "draining";
  // What is not up holds nothing together; and who is seen to be down may be down for this node alone.
  if (!isReducing || node.state !== "up") return null;
  const left = model.nodes.filter(
    (each) =>
      each.id !== node.id &&
      each.standing === "member" &&
      (each.state === "up" || each.state === "suspected"),
  ).length;
  const most = [...model.keyspaces].sort((a, b) => b.replicas - a.replicas)[0];
  const words = `Without ${node.name}, ${left === 0 ? "no node is" : left === 1 ? "1 node is" : `${left} nodes are`} left that may take replicas`;
  if (most && most.replicas > left) {
    return `${words}, and keyspace ${most.name} wants ${most.replicas}: it can be neither cordoned nor drained.`;
  }
  return left === 0 ? `${words}: it can be neither cordoned nor drained.` : null;
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
