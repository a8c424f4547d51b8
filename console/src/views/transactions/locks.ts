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
  /** `null`: it lasts still, or nobody has told its end. */
  untilMs: number | null;
  lasts: boolean;
  kind: "lock" | "wait";
}

/** What is decided is resolved soon: if no end was told by then, it was not sampled. */
export const DECIDED_MAX_MS = 5_000;
/**
 * Who has told nothing for so long has ended, and its last steps were lost. That a coordinator died does not
 * keep locks for longer: the nodes that lead the locked shards find them within seconds, and say so.
 */
export const UNDECIDED_MAX_MS = 15_000;

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
  // Each attempt has locks of its own: those of one that failed are given up while the next one goes on.
  const nameOf = (shard: number, kind: Change["kind"], step: TransactionStep) =>
    kind === "lock" ? `lock/${shard}/${step.attempt}` : `wait/${shard}`;
  const begin = (shard: number, kind: Change["kind"], step: TransactionStep) => {
    const name = nameOf(shard, kind, step);
    if (open.has(name)) return;
    const change = { shard, kind, fromStep: step, toStep: null };
    open.set(name, change);
    found.push(change);
  };
  const end = (shard: number, kind: Change["kind"], step: TransactionStep) => {
    const name = nameOf(shard, kind, step);
    const change = open.get(name);
    if (!change) return;
    change.toStep = step;
    open.delete(name);
  };
  // Asked in order, the last shard commits as it votes, and locks nothing.
  const commits = new Map<number, number | undefined>();
  for (const step of sorted(transaction.steps)) {
    if (step.phase === "prepare" && step.inOrder) commits.set(step.attempt, step.shards.at(-1));
    if (step.phase === "voted") {
      for (const shard of step.shards) {
        end(shard, "wait", step);
        if (commits.get(step.attempt) !== shard) begin(shard, "lock", step);
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

/** Whether what was not told to have ended may last still at a time. */
function mayLast(transaction: TransactionSample, nowMs: number): boolean {
  const silentMs = nowMs - Math.max(...transaction.steps.map((step) => step.atMs));
  return silentMs < (transaction.outcome === "running" ? UNDECIDED_MAX_MS : DECIDED_MAX_MS);
}

/** Locks and waits of all transactions, those that last still first, then the newest. */
export function holders(transactions: readonly TransactionSample[], max: number, nowMs: number): Holder[] {
  return transactions
    .flatMap((transaction) => {
      const stillOpen = mayLast(transaction, nowMs);
      return changes(transaction).map(({ shard, kind, fromStep, toStep }) => ({
        shard,
        kind,
        transaction: transaction.id,
        coordinator: transaction.node,
        sinceMs: fromStep.atMs,
        untilMs: toStep?.atMs ?? null,
        lasts: toStep === null && stillOpen,
      }));
    })
    .sort((a, b) => Number(b.lasts) - Number(a.lasts) || b.sinceMs - a.sinceMs)
    .slice(0, max);
}

/** What became of a transaction whose coordinator died, in words; `null`: nothing of the kind. */
export function recovery(
  transaction: TransactionSample,
  nowMs: number,
  isDown: (node: string) => boolean,
  name: (node: string) => string,
): string | null {
  const steps = sorted(transaction.steps);
  const recover = steps.find((step) => step.phase === "recover");
  const first = steps[0]?.node ?? transaction.node;
  if (!recover) {
    if (transaction.outcome !== "running" || !isDown(first)) return null;
    const down = `Its coordinator, ${name(first)}, is down`;
    if (!mayLast(transaction, nowMs))
      return `${down}, and no node has found anything of it to finish. So it had ended, and its last steps were lost with the coordinator.`;
    const held = changes(transaction).filter((each) => each.kind === "lock" && each.toStep === null);
    const shards = held.length === 1 ? "1 shard may hold" : `${held.length} shards may hold`;
    return `${down}. ${shards} its locks; the nodes that lead them find these within seconds, and finish it.`;
  }
  const asked = steps.some((step) => step.phase === "prevent");
  const end = steps.findLast((step) => step.phase === "finished");
  const how = asked ? " It asked the shards whether they hold its locks, and decided by that." : "";
  const when =
    end && end.atMs >= recover.atMs ? ` No lock was left ${end.atMs - recover.atMs} ms later.` : "";
  const died = recover.node === first ? "" : ` instead of ${name(first)}, which seemed to be dead`;
  return `${name(recover.node)} has finished it${died}: ${transaction.outcome}.${how}${when}`;
}
