/** Locks that transactions hold and wait for, as their sampled steps tell. Pure. */

import type { TransactionSample, TransactionStep } from "../../events/samples";
import { compareAt } from "../../events/log";

export interface Span {
  shard: number;
  /** Numbers of columns of the drawing; `null`: it lasts still. */
  from: number;
  to: number | null;
  kind: "lock" | "wait";
}

export interface Holder {
  shard: number;
  transaction: string;
  coordinator: string;
  sinceMs: number;
  untilMs: number | null;
  kind: "lock" | "wait";
}

const sorted = (steps: readonly TransactionStep[]) => [...steps].sort((a, b) => compareAt(a.at, b.at));

/** Phases after which a shard has given up its locks. */
const FREES: readonly string[] = ["resolve", "finished"];

interface Change {
  shard: number;
  kind: "lock" | "wait";
  fromStep: TransactionStep;
  toStep: TransactionStep | null;
}

/** When shards begin and end to hold locks for a transaction, or it to wait for those of others. */
function changes(transaction: TransactionSample): Change[] {
  const open = new Map<string, Change>();
  const found: Change[] = [];
  const begin = (shard: number, kind: Change["kind"], step: TransactionStep) => {
    const name = `${kind}/${shard}`;
    if (open.has(name)) return;
    const change = { shard, kind, fromStep: step, toStep: null };
    open.set(name, change);
    found.push(change);
  };
  const end = (shard: number, kind: Change["kind"], step: TransactionStep) => {
    const change = open.get(`${kind}/${shard}`);
    if (!change) return;
    change.toStep = step;
    open.delete(`${kind}/${shard}`);
  };
  for (const step of sorted(transaction.steps)) {
    if (step.phase === "voted") {
      for (const shard of step.shards) {
        end(shard, "wait", step);
        begin(shard, "lock", step);
      }
    }
    if (step.phase === "refused" && step.reason === "locked") {
      for (const shard of step.shards) begin(shard, "wait", step);
    }
    if (FREES.includes(step.phase)) {
      const all = step.phase === "finished" || step.shards.length === 0;
      const shards = all ? [...open.values()].map((change) => change.shard) : step.shards;
      for (const shard of shards) {
        end(shard, "lock", step);
        if (step.phase === "finished") end(shard, "wait", step);
      }
    }
  }
  return found;
}

/** Spans of a drawing whose columns are phases of attempts. */
export function spansOf(
  transaction: TransactionSample,
  columns: readonly { phase: string; attempt: number }[],
): Span[] {
  const column = (step: TransactionStep) =>
    columns.findIndex((each) => each.phase === step.phase && each.attempt === step.attempt);
  return changes(transaction).map(({ shard, kind, fromStep, toStep }) => ({
    shard,
    kind,
    from: column(fromStep),
    to: toStep === null ? null : column(toStep),
  }));
}

/** Locks and waits of all transactions, those that last still first, then the newest. */
export function holders(transactions: readonly TransactionSample[], max: number): Holder[] {
  return transactions
    .flatMap((transaction) =>
      changes(transaction).map(({ shard, kind, fromStep, toStep }) => ({
        shard,
        kind,
        transaction: transaction.id,
        coordinator: transaction.node,
        sinceMs: fromStep.atMs,
        untilMs: toStep?.atMs ?? null,
      })),
    )
    .sort((a, b) => Number(a.untilMs !== null) - Number(b.untilMs !== null) || b.sinceMs - a.sinceMs)
    .slice(0, max);
}

/** What became of a transaction whose coordinator died, in words; `null`: nothing of the kind. */
export function recovery(
  transaction: TransactionSample,
  isDown: (node: string) => boolean,
  name: (node: string) => string,
): string | null {
  const steps = sorted(transaction.steps);
  const recover = steps.find((step) => step.phase === "recover");
  const first = steps[0]?.node ?? transaction.node;
  if (!recover) {
    if (transaction.outcome !== "running" || !isDown(first)) return null;
    const held = changes(transaction).filter((each) => each.kind === "lock" && each.toStep === null);
    return `Its coordinator, ${name(first)}, is down. ${held.length} shards still hold its locks; the next transaction that meets one of them will finish it.`;
  }
  const asked = steps.some((step) => step.phase === "prevent");
  const end = steps.findLast((step) => step.phase === "finished");
  const how = asked ? " It asked the shards whether they hold its locks, and decided by that." : "";
  const when =
    end && end.atMs >= recover.atMs ? ` No lock was left ${end.atMs - recover.atMs} ms later.` : "";
  const died = recover.node === first ? "" : ` instead of ${name(first)}, which seemed to be dead`;
  return `${name(recover.node)} has finished it${died}: ${transaction.outcome}.${how}${when}`;
}
