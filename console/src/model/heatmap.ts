/**
 * Load of the key space over time: for each moment of the history, how many requests each shard had
 * a second, and how the shard's place was. Splits and merges show as edges.
 */

import { loadOf } from "./load";
import type { Model } from "./model";
import { isKnown, shardsOf } from "./model";
import { layout, type Weight } from "./ring";

export interface HeatCell {
  shard: number;
  from: number;
  to: number;
  /** A second; `null`: unknown, as the entries of a shard's first moment, or where nobody has told. */
  rate: number | null;
}

export interface HeatColumn {
  atMs: number;
  seconds: number;
  cells: HeatCell[];
}

/** At most so many columns: moments are joined. */
export const COLUMNS_MAX = 240;

/**
 * What is counted; `bytes`: those that are written; `entries`: those that the log has committed. All but
 * these are the leaders' estimates.
 */
export const HEATS = ["requests", "reads", "writes", "bytes", "entries"] as const;
export type Heat = (typeof HEATS)[number];

/** The columns of a keyspace between successive models. */
export function heatColumns(
  history: readonly Model[],
  keyspace: string | null,
  weight: Weight,
  heat: Heat = "entries",
): HeatColumn[] {
  const stride = Math.max(1, Math.ceil(history.length / COLUMNS_MAX));
  const moments = history.filter((_, i) => i % stride === 0 || i === history.length - 1);
  const columns: HeatColumn[] = [];
  let before = new Map<number, { committed: number; atMs: number }>();
  let previous: Model | undefined;
  for (const model of moments) {
    if (model.shards === previous?.shards) continue; // nothing new was heard of shards
    const arcs = layout(shardsOf(model, keyspace), weight);
    const now = new Map<number, { committed: number; atMs: number }>();
    const cells = arcs.map(({ shard, from, to }): HeatCell => {
      const old = before.get(shard.id);
      now.set(shard.id, { committed: shard.committed, atMs: model.atMs });
      const seconds = old ? (model.atMs - old.atMs) / 1000 : 0;
      // Where nobody has told, the log's figures are those that the shard began with.
      const isCounted =
        isKnown(shard) && old !== undefined && seconds > 0 && shard.committed >= old.committed;
      const entries = isCounted ? (shard.committed - old.committed) / seconds : null;
      const load = loadOf(shard);
      return { shard: shard.id, from, to, rate: heat === "entries" ? entries : (load?.[heat] ?? null) };
    });
    columns.push({ atMs: model.atMs, seconds: previous ? (model.atMs - previous.atMs) / 1000 : 0, cells });
    before = now;
    previous = model;
  }
  return columns;
}

/** Where a shard came, by a split, or went, by a merge. */
export interface ShapeMark {
  /** The first column that shows it. */
  column: number;
  atMs: number;
  what: "split" | "merge";
  shard: number;
  from: number;
  to: number;
}

/** So many marks are drawn: the newest. */
export const MARKS_MAX = 200;

/** Splits and merges between columns. A keyspace that is new, or is dropped, is neither. */
export function shapeMarks(columns: readonly HeatColumn[]): ShapeMark[] {
  const marks: ShapeMark[] = [];
  columns.forEach((column, i) => {
    const before = columns[i - 1]?.cells ?? [];
    if (before.length === 0 || column.cells.length === 0) return;
    const [were, are] = [before, column.cells].map((cells) => new Set(cells.map((cell) => cell.shard)));
    const mark = (what: ShapeMark["what"]) => (cell: HeatCell) =>
      marks.push({ column: i, atMs: column.atMs, what, shard: cell.shard, from: cell.from, to: cell.to });
    column.cells.filter((cell) => !were?.has(cell.shard)).forEach(mark("split"));
    before.filter((cell) => !are?.has(cell.shard)).forEach(mark("merge"));
  });
  return marks.slice(-MARKS_MAX);
}

/** What stands at a place of the picture: `x` in columns, `y` from 0 to 1. */
export function cellAt(columns: readonly HeatColumn[], x: number, y: number): HeatCell | null {
  return columns[Math.floor(x)]?.cells.find((cell) => cell.from <= y && y < cell.to) ?? null;
}
