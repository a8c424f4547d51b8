/** What the simulator plays on a page of the tour: how it begins, and what can be done to it. Pure. */

import type { SimAction, SimBegin, SimState } from "../../api/sim";
import type { LookupName } from "../../api/types";
import { roomFor } from "../../model/simulation";

export interface Switch {
  label: string;
  /** Time goes no faster from then on, so that what follows is seen. */
  speed?: number;
  /** What is done, given the state as it is; `null`: nothing makes sense now. */
  action: (state: SimState) => SimAction | null;
}

export interface Scene {
  begin: SimBegin;
  /** Done at once when it has begun. */
  then: readonly SimAction[];
  /** The lookup that a ring of members shows first. */
  lookup?: LookupName;
  switches: readonly Switch[];
  /** What to look for. */
  watch: string;
}

/** A node that is up and not the first one, which draws the page. */
export function victim(state: SimState): string | null {
  const up = state.nodes.filter((node) => node.state === "up");
  return up.at(1)?.name ?? up.at(0)?.name ?? null;
}

const on = (label: string, make: (node: string) => SimAction): Switch => ({
  label,
  action: (state) => {
    const node = victim(state);
    return node === null ? null : make(node);
  },
});
const always = (label: string, action: SimAction): Switch => ({ label, action: () => action });
/** So many members join, if there is room for them. */
const joins = (label: string, count: number): Switch => ({
  label,
  action: (state) => (roomFor(state, undefined) < count ? null : { do: "add-nodes", count }),
});
const restart: Switch = {
  label: "Start it again",
  action: (state) => {
    const down = state.nodes.find((node) => node.state === "down");
    return down ? { do: "restart", node: down.name } : null;
  },
};
const heal = always("Heal all", { do: "heal" });

const overlay = (nodes: number): SimBegin => ({ kind: "overlay", seed: 7, nodes, scenario: null });
const cluster = (nodes: number, clients: number, more: SimBegin = {}): SimBegin => ({
  kind: "cluster",
  seed: 7,
  nodes,
  clients,
  domains: 0,
  placement: "hashed",
  scenario: null,
  plants: [],
  ...more,
});

/** A transaction lasts some 30 ms: at this speed it is seen to stand. */
const SLOW = 0.5;

export const SCENES = {
  linear: {
    begin: overlay(64),
    then: [],
    lookup: "linear",
    switches: [joins("A hundred more join", 100)],
    watch:
      "With 64 members a lookup passes 32 of them on average. Let a hundred join: the way grows with them.",
  },
  chord: {
    begin: overlay(256),
    then: [],
    lookup: "chord",
    switches: [joins("A hundred more join", 100), on("One fails", (node) => ({ do: "crash", node }))],
    watch: "256 members, and about four hops; at most eight. Choose a member in the ring to see its fingers.",
  },
  joins: {
    begin: overlay(100),
    then: [],
    lookup: "chord",
    switches: [
      joins("A hundred join at once", 100),
      joins("Three hundred join at once", 300),
      on("One leaves", (node) => ({ do: "remove-node", node })),
    ],
    watch:
      "Members fly to their places in one moment; their successors are right within some rounds. Look a key up meanwhile.",
  },
  dies: {
    begin: cluster(5, 4),
    then: [],
    switches: [
      on("Kill a node", (node) => ({ do: "crash", node })),
      on("Cut its power", (node) => ({ do: "power-cut", node })),
      restart,
      heal,
    ],
    watch: "Kill a node, and watch its shards: each elects another leader. Clients go on asking meanwhile.",
  },
  commits: {
    begin: cluster(3, 4, { transactions: true }),
    then: [],
    switches: [
      { ...always("A coordinator dies", { do: "crash", node: "leader:bell" }), speed: SLOW },
      restart,
      heal,
    ],
    watch:
      "Watch the phases. Let a leader die in the middle: time slows down then, and what it has begun stays in the picture until somebody else has finished it. If it had begun nothing, start it again and try once more.",
  },
  grows: {
    begin: cluster(3, 2, { placement: "linear-hash" }),
    then: [{ do: "fill", count: 60 }],
    switches: [
      {
        label: "1 000 more keys",
        // Others each time: the same ones would be written once more.
        action: (state) => ({ do: "fill", count: 1000, prefix: `more-${state.actions}-` }),
      },
      always("Take them away", { do: "clear", prefix: "more-" }),
    ],
    watch:
      "The table grows by one bucket at a time: the one whose turn it is splits, however full the others are.",
  },
  fallacies: {
    begin: cluster(5, 8),
    then: [],
    switches: [heal],
    watch: "Switch a fault on, and see what changes.",
  },
} as const satisfies Record<string, Scene>;
export type SceneName = keyof typeof SCENES;

/** Whether the simulation that runs is of the scene's kind and size. */
export function fits(state: SimState, scene: Scene): boolean {
  return state.kind === scene.begin.kind && state.nodes.length >= (scene.begin.nodes ?? 1);
}
