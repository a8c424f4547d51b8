/** Where the consoles of other nodes are. Pure. */

import type { Model } from "../model/model";

export interface Other {
  name: string;
  url: string;
}

/** So many are named at most. */
export const OTHERS_MAX = 8;

/** Nodes beside the one that answers which were up when it last told, and have an address for browsers. */
export function othersOf(model: Pick<Model, "nodes">): Other[] {
  return model.nodes
    .filter((node) => !node.this && node.state === "up")
    .flatMap(({ name, addresses: { http } }) => (http === null ? [] : [{ name, url: `http://${http}/` }]))
    .slice(0, OTHERS_MAX);
}
