/** Where the map of shards draws what. Pure. */

import type { ReplicaStatus, ShardStatus } from "../../api/types";

/** The map is so wide where its room is not known, and no narrower. */
const WIDTH_MIN = 320;
const STEP_MIN = 9;
const STEP_MAX = 96;
/** All rows together are at most so high, if nodes are many. */
const ROWS_HEIGHT = 420;
const ROW_MAX = 20;
export const ARC_HEIGHT = 28;
/** Room on the left for names. */
export const NAMES = 96;

export interface Dot {
  replica: ReplicaStatus;
  row: number;
}

export interface Column {
  shard: ShardStatus;
  x: number;
  dots: Dot[];
}

export interface ShardMapScene {
  step: number;
  row: number;
  width: number;
  height: number;
  columns: Column[];
}

/** Shards are in the order of the circle, nodes in that of joining. Replicas on nodes that left have no row. */
export function mapScene(
  shards: readonly ShardStatus[],
  nodes: readonly { id: string }[],
  room = WIDTH_MIN,
): ShardMapScene {
  const width = Math.max(WIDTH_MIN, room) - 2;
  const step = Math.max(STEP_MIN, Math.min(STEP_MAX, (width - NAMES) / Math.max(1, shards.length)));
  const row = Math.max(4, Math.min(ROW_MAX, ROWS_HEIGHT / Math.max(1, nodes.length)));
  const rows = new Map(nodes.map((node, i) => [node.id, i]));
  const columns = shards.map((shard, i) => ({
    shard,
    x: NAMES + i * step,
    dots: shard.replicas.flatMap((replica): Dot[] => {
      const at = rows.get(replica.node);
      return at === undefined ? [] : [{ replica, row: at }];
    }),
  }));
  return {
    step,
    row,
    width: NAMES + step * shards.length + 2,
    height: ARC_HEIGHT + 10 + row * nodes.length + 4,
    columns,
  };
}

/** The middle of a row. */
export function rowY(scene: ShardMapScene, row: number): number {
  return ARC_HEIGHT + 10 + scene.row * (row + 0.5);
}
