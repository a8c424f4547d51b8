/** What the cluster may lose, in words. Pure. */

import type { FailingSet, Survivability, Survive, Verdict } from "../../api/types";
import { plural } from "../../model/format";

export const SURVIVES: readonly Survive[] = ["node", "domain", "2-nodes"];

export const SURVIVE_NAMES: Record<Survive, string> = {
  node: "Any node",
  domain: "Any domain",
  "2-nodes": "Any two nodes",
};

const LOSSES: Record<Survive, string> = {
  node: "any one node",
  domain: "any one failure domain",
  "2-nodes": "any two nodes",
};

/** Shards of which a sentence each is shown. */
export const SETS_MAX = 8;

function nameOf(set: FailingSet): string {
  return set.keyspace === null
    ? `shard ${set.shard} (the catalogue)`
    : `shard ${set.shard} of keyspace ${set.keyspace}`;
}

/** A shard that would have no majority. */
export function setWords(set: FailingSet): string {
  const without = set.lost.length === 0 ? "now" : `without ${set.lost.join(" and ")}`;
  return `${nameOf(set)} has ${set.left} of ${set.voters} voters ${without}, and needs ${set.needed}`;
}

/** The answer, as `carillon prove` gives it. */
export function answerOf(proof: Survivability): { verdict: Verdict; text: string } {
  const loss = LOSSES[proof.survive];
  if (proof.holds) {
    const each = proof.shards === 1 ? "the only shard keeps" : `each of ${proof.shards} shards keeps`;
    return { verdict: "ok", text: `Yes: ${each} a majority without ${loss}.` };
  }
  const [worst] = proof.failing;
  if (!worst) return { verdict: "degraded", text: "Not proven: the answer is not known for all shards." };
  if (worst.lost.length === 0)
    return { verdict: "failing", text: `No: ${nameOf(worst)} has no majority now.` };
  const may = `${plural(proof.failing_count, "shard")} of ${proof.shards} may have no majority`;
  return {
    verdict: "degraded",
    text: `No: ${may} without ${loss}; the first without ${worst.lost.join(" and ")}.`,
  };
}

/** The smallest loss that is one too many, if the answer is yes. */
export function smallestWords(proof: Survivability): string | null {
  const { smallest } = proof;
  if (smallest === null || proof.failing.length > 0) return null;
  return `The smallest loss that is too much: ${smallest.lost.join(" and ")}. Then ${nameOf(smallest)} has ${smallest.left} of ${smallest.voters} voters.`;
}
