/**
 * One event as the console uses it. `GET /v1/events` sends JSON objects with common fields and, by
 * type, further ones: the page "Events" of the documents lists them. Unknown types and fields are
 * kept, since later versions of nodes may send more.
 */

export type Severity = "debug" | "info" | "warn" | "error";

export interface ClusterEvent {
  /** The cursor to resume from behind this event; empty: none, as of samples and late events. */
  cursor: string;
  /** What happened, in kebab case: `leader-elected`. */
  type: string;
  /** On which node, by id. */
  node: string;
  /** When, by that node's clock, in milliseconds since 1970. */
  atMs: number;
  /** The full hybrid time as digits, to order events of several nodes. */
  at: string;
  severity: Severity;
  shard: number | null;
  keyspace: string | null;
  /** The sentence that the node's log has. */
  text: string;
  /** Later events came before it. */
  isLate: boolean;
  /** All that was sent. */
  fields: Readonly<Record<string, unknown>>;
}

/** The version of the stream's format that this code was written for. */
export const FORMAT_VERSION = 1;

/** Events about the stream itself: they are no news of the cluster. */
export const STREAM_TYPES: readonly string[] = ["hello", "gap", "node", "end"];
/** Something was dropped between two events. */
export const GAP = "gap";
/** Samples of what clients ask for. They are many and are not kept in the log of events. */
export const SAMPLE_TYPES: readonly string[] = ["request", "transaction"];

/** How types are grouped for filters. */
export const GROUPS = {
  nodes: "Nodes",
  leaders: "Leaders",
  shards: "Replicas",
  shapes: "Splits, merges",
  decisions: "Decisions",
  snapshots: "Snapshots",
  samples: "Requests",
  stream: "The stream",
  other: "Other",
} as const;

export type Group = keyof typeof GROUPS;

const MEMBERS: Readonly<Record<Exclude<Group, "other">, readonly string[]>> = {
  nodes: [
    "node-started",
    "node-stopping",
    "member",
    "link",
    "admin-state",
    "version-raising",
    "version-blocked",
    "catalogue-unreadable",
  ],
  leaders: ["leader-elected"],
  shards: [
    "replica-started",
    "replica-ended",
    "leftover-replica-ended",
    "replicas-changed",
    "replicas-compared",
    "bootstrap-unreadable",
  ],
  shapes: [
    "split",
    "merged",
    "merge-relocating",
    "merge-leader-moved",
    "merge-given-up",
    "table-growing",
    "table-shrinking",
  ],
  decisions: ["decision", "decision-ended"],
  snapshots: [
    "snapshot-started",
    "snapshot-sent",
    "snapshot-not-sent",
    "snapshot-installed",
    "snapshot-given-up",
    "checkpointed",
    "no-space-for-checkpoint",
  ],
  samples: SAMPLE_TYPES,
  stream: STREAM_TYPES,
};

const GROUP_OF = new Map(
  Object.entries(MEMBERS).flatMap(([group, types]) => types.map((type) => [type, group as Group] as const)),
);

export function groupOf(type: string): Group {
  return GROUP_OF.get(type) ?? "other";
}
