/** Sentences for events that have none, and names for the ids in those that have. */

import type { ClusterEvent } from "./types";

/** A node's name, or its id. */
export type Names = (id: string) => string;

const NODE_ID = /\b[0-9a-f]{16}\b/g;

function field(event: ClusterEvent, name: string): string {
  const value = event.fields[name];
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

const GAP_REASONS: Record<string, string> = {
  kept: "more happened than nodes keep",
  restart: "the node was started again since",
  slow: "samples came faster than they were read",
};

const NODE_STATES: Record<string, string> = {
  streaming: "streams its events",
  silent: "has been silent for a second",
  down: "is down: its events are missing",
  gone: "is no member any more",
  refused: "has too many viewers",
};

function gap(event: ClusterEvent, names: Names): string {
  const count = event.fields["events"];
  const samples = Number(event.fields["samples"] ?? 0);
  const atLeast = event.fields["exact"] === false ? "at least " : "";
  const what =
    typeof count !== "number"
      ? "events"
      : count > 0 || samples === 0
        ? `${atLeast}${count} ${count === 1 ? "event" : "events"}`
        : `${samples} ${samples === 1 ? "sample" : "samples"}`;
  const reason = GAP_REASONS[field(event, "reason")];
  return `Here ${what} of ${names(field(event, "of"))} are missing${reason ? `: ${reason}` : ""}.`;
}

/** A text with names for the ids of nodes that are known. */
export function named(text: string, names: Names): string {
  return text.replace(NODE_ID, (id) => names(id));
}

/** What an event says, with names for the ids of nodes that are known. */
export function describe(event: ClusterEvent, names: Names): string {
  if (event.text !== "") return named(event.text, names);
  switch (event.type) {
    case "gap":
      return gap(event, names);
    case "node":
      return `${names(field(event, "of"))} ${NODE_STATES[field(event, "state")] ?? field(event, "state")}`;
    case "end":
      return "The stream ends, since the node stops.";
    default:
      return event.type;
  }
}
