/** A transaction drawn: a line for the coordinator and one for each shard, phases from left to right. */

import type { TransactionSample, TransactionStep } from "../../events/samples";
import { compareAt } from "../../events/log";

export interface Mark {
  /** The row: 0 is the coordinator. */
  row: number;
  column: number;
  phase: string;
  step: TransactionStep;
}

export interface Arrow {
  fromRow: number;
  toRow: number;
  /** Between this column and the next. */
  column: number;
  kind: "ask" | "yes" | "no" | "write";
}

export interface Drawing {
  /** Shards, in the order of their first mention. */
  shards: number[];
  columns: { phase: string; atMs: number; attempt: number }[];
  marks: Mark[];
  arrows: Arrow[];
}

const ASKS: readonly string[] = ["prepare", "prevent"];

/** Votes and refusals of the same moment share a column, so that the picture stays narrow. */
function columnKey(step: TransactionStep): string {
  return `${step.attempt}/${step.phase}`;
}

export function draw(transaction: TransactionSample): Drawing {
  const steps = [...transaction.steps].sort((a, b) => compareAt(a.at, b.at));
  const shards = [...new Set(steps.flatMap((step) => step.shards))];
  const columns: Drawing["columns"] = [];
  const keys: string[] = [];
  const marks: Mark[] = [];
  const arrows: Arrow[] = [];
  const row = (shard: number) => shards.indexOf(shard) + 1;
  for (const step of steps) {
    const key = columnKey(step);
    let column = keys.lastIndexOf(key);
    if (column < 0) {
      column = columns.length;
      columns.push({ phase: step.phase, atMs: step.atMs, attempt: step.attempt });
      keys.push(key);
    }
    if (step.phase === "voted" || step.phase === "refused") {
      for (const shard of step.shards) {
        marks.push({ row: row(shard), column, phase: step.phase, step });
        arrows.push({ fromRow: row(shard), toRow: 0, column, kind: step.phase === "voted" ? "yes" : "no" });
      }
      continue;
    }
    marks.push({ row: 0, column, phase: step.phase, step });
    for (const shard of step.shards) {
      if (ASKS.includes(step.phase)) arrows.push({ fromRow: 0, toRow: row(shard), column, kind: "ask" });
      if (step.phase === "resolve") arrows.push({ fromRow: 0, toRow: row(shard), column, kind: "write" });
    }
  }
  return { shards, columns, marks, arrows };
}

export const PHASES: Record<string, string> = {
  prepare: "asks the shards to lock keys and to vote",
  voted: "has locked its keys: it votes for it",
  refused: "has not locked its keys",
  committed: "all have voted, or another has found it so: it is done",
  aborted: "nothing of this attempt is done",
  decide: "the outcome is written into the record",
  resolve: "values are written, or locks given up",
  finished: "no lock is left",
  "given-up": "steps have failed too often: the node that finds a lock that is left finishes it",
  recover: "another coordinator finishes it: the first seems to be dead",
  prevent: "asks whether shards hold its locks, to decide",
};
