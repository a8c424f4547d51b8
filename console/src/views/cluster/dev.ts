/** What can be done to a process of `carillon dev`, and what the console says before. Pure but for the asking. */

import type { DevAction, DevNode, DevParameter } from "../../api/dev";
import type { Model } from "../../model/model";
import type { Live } from "../../state/live.svelte";
import type { Question } from "../../ui/Confirm.svelte";

export const DEV_VERBS: Record<DevAction, string> = {
  start: "Start",
  stop: "Stop",
  kill: "Kill",
  pause: "Pause",
  resume: "Resume",
};

export function devActionsFor(node: Pick<DevNode, "state">): DevAction[] {
  switch (node.state) {
    case "starting":
    case "running":
      return ["stop", "kill", "pause"];
    case "paused":
      return ["resume", "stop", "kill"];
    case "stopping":
      return ["kill"];
    case "ended":
      return ["start"];
  }
}

/** Whether its node was removed for good, so that a start of its process would be refused. */
export function isRemoved(
  node: Pick<DevNode, "name" | "state">,
  model: Pick<Model, "nodes" | "removed">,
): boolean {
  return (
    node.state === "ended" && model.removed.length > 0 && !model.nodes.some((each) => each.name === node.name)
  );
}

export function explainDev(action: DevAction, node: Pick<DevNode, "name" | "this">): string {
  const words: Record<DevAction, string> = {
    start: `${node.name} starts from its data.`,
    resume: `${node.name} goes on.`,
    stop: `${node.name} is asked to end (SIGTERM): it finishes its requests first. “Start” undoes it.`,
    kill: `${node.name} is killed at once (SIGKILL), as by a crash. “Start” brings it back from its log.`,
    pause: `${node.name} stands still (SIGSTOP): the others take it for dead. “Resume” undoes it.`,
  };
  const own = node.this
    ? ` This page comes from ${node.name}: it will hear nothing more. Open the page of another node to go on.`
    : "";
  return words[action] + (action === "start" || action === "resume" ? "" : own);
}

export function devQuestion(live: Live, node: DevNode, action: DevAction): Question {
  return {
    title: `${DEV_VERBS[action]} ${node.name}?`,
    text: explainDev(action, node),
    verb: DEV_VERBS[action],
    isDangerous: action === "kill",
    act: () => live.dev.act(node.name, action),
    done: () => live.refresh("nodes", "shards"),
  };
}

/** Settings that were filled in. */
export function readParameters(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values)
      .map(([name, value]) => [name, value.trim()] as const)
      .filter(([, value]) => value !== ""),
  );
}

/** Settings whose name or help has all words, in any case, and those that were filled in. */
export function findParameters(
  parameters: readonly DevParameter[],
  words: string,
  values: Readonly<Record<string, string>>,
): DevParameter[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return parameters.filter(({ name, help }) => {
    if ((values[name] ?? "").trim() !== "") return true;
    const heap = `${name} ${help}`.toLowerCase();
    return wanted.every((word) => heap.includes(word));
  });
}
