/** What can be done to a simulation and in words what it does. Pure. */

import { BadFile } from "../api/problem";
import { count, plural } from "./format";
import type { SimAction, SimAttack, SimNames, SimNode, SimState } from "../api/sim";

/** Faults of one node, as buttons and menus have them. */
export const FAULTS = ["crash", "power-cut", "pause", "isolate", "restart", "resume", "remove-node"] as const;
export type Fault = (typeof FAULTS)[number];

export const FAULT_NAMES: Record<Fault, string> = {
  crash: "Crash",
  "power-cut": "Power cut",
  pause: "Pause",
  isolate: "Isolate",
  restart: "Restart",
  resume: "Resume",
  "remove-node": "Remove",
};

export const FAULT_WORDS: Record<Fault, string> = {
  crash: "Its process is killed; what was written survives.",
  "power-cut": "Its power goes: what was not yet on disk may be lost.",
  pause: "It stands still until it is resumed; the others take it for dead.",
  isolate: "Nothing goes from it or to it, until all is healed.",
  restart: "It starts again, with what its disk has.",
  resume: "It goes on.",
  "remove-node": "It is gone for good, without a farewell.",
};

/** What makes sense for a node as it is. */
export function faultsFor(node: Pick<SimNode, "state">, kind: SimState["kind"]): Fault[] {
  if (node.state === "gone") return [];
  if (kind === "overlay") return node.state === "up" ? ["crash", "remove-node"] : [];
  switch (node.state) {
    case "up":
      return ["crash", "power-cut", "pause", "isolate", "remove-node"];
    case "paused":
      return ["resume", "crash", "power-cut", "remove-node"];
    case "down":
      return ["restart", "remove-node"];
  }
}

export function faultAction(fault: Fault, node: string): SimAction {
  return { do: fault, node };
}

/** An action in a few words. */
export function describeAction(action: SimAction): string {
  const { do: what, ...rest } = action;
  const words = Object.entries(rest).map(([name, value]) => `${name} ${words_(value)}`);
  return [what, ...words].join(" ");
}

function words_(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : JSON.stringify(value);
}

/** What is wrong with a node, in words; empty: nothing. */
export function ailments(node: SimNode): string[] {
  return [
    ...(node.skew_ms
      ? [`clock ${node.skew_ms > 0 ? "ahead" : "behind"} by ${Math.abs(node.skew_ms)} ms`]
      : []),
    ...(node.slow_disk_ms ? [`fsync takes ${node.slow_disk_ms} ms`] : []),
    ...(node.cut_to && node.cut_to.length > 0 ? [`nothing goes to ${node.cut_to.join(", ")}`] : []),
  ];
}

/** What came of altered messages and forged handshakes. */
export function attackWords(attack: SimAttack): string {
  const { one_in, altered, altered_refused, forged, forged_refused } = attack;
  if (one_in === 0 && altered + forged === 0) return "Nobody alters messages or forges handshakes.";
  const taken = altered - altered_refused + (forged - forged_refused);
  return [
    one_in === 0 ? "Nobody attacks now" : `One of ${plural(one_in, "message")} is altered`,
    `${count(altered_refused)} of ${count(altered)} altered messages refused`,
    `${count(forged_refused)} of ${count(forged)} forged handshakes refused`,
    `${count(taken)} taken for genuine`,
  ].join(", ");
}

/** Virtual time as minutes, seconds and tenths. */
export function virtualTime(ms: number): string {
  const tenths = Math.floor(ms / 100);
  const minutes = Math.floor(tenths / 600);
  const seconds = Math.floor((tenths % 600) / 10);
  return `${minutes}:${String(seconds).padStart(2, "0")}.${tenths % 10}`;
}

/** Who began a simulation: the server as it started, the viewer, the tour, or a file. */
export type Begun = "server" | "user" | "tour" | "file";

/** A simulation that can be put back. */
export interface Kept {
  file: unknown;
  now_ms: number;
  running: boolean;
  kind: SimState["kind"];
  seed: number;
}

/** Whether somebody has made a simulation what it is, so that it is not to be lost. */
export function isPrecious(
  state: Pick<SimState, "actions" | "to_come" | "scenario" | "broken">,
  begun: Begun,
  done: number,
): boolean {
  if (begun === "file" || begun === "user") return true;
  if (begun === "tour") return false;
  return (
    state.actions > 0 || state.to_come > 0 || done > 0 || state.scenario !== null || state.broken !== null
  );
}

/** How many more nodes or members a simulation takes. */
export function roomFor(
  state: Pick<SimState, "kind" | "nodes"> | null,
  limits: Pick<SimNames["limits"], "nodes_max" | "members_max"> | undefined,
): number {
  const most = state?.kind === "overlay" ? (limits?.members_max ?? 1000) : (limits?.nodes_max ?? 50);
  return Math.max(0, most - (state?.nodes.length ?? 0));
}

/** Whether a state is of another simulation than the one before: it was begun anew. */
export function isAnew(before: SimState | null, now: SimState): boolean {
  if (before === null) return false;
  return now.now_ms < before.now_ms || now.seed !== before.seed || now.kind !== before.kind;
}

/** A simulation file that somebody opened; throws with what is wrong. The server judges the rest. */
export function readSimulationFile(text: string): unknown {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch {
    throw new BadFile("This is no simulation: it is no JSON.");
  }
  if (typeof file !== "object" || file === null || !("carillon_simulation" in file)) {
    throw new BadFile('This is no simulation: it has no field "carillon_simulation".');
  }
  return file;
}
