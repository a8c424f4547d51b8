/** What the codes of rules stand for that planted bugs break: those of `docs/safety.md` and `docs/algorithms.md`. */

const RULES: Readonly<Record<string, string>> = {
  G1: "A read outside the executor checks everything under one guard",
  G2: "A promise to readers and the next timestamp move together",
  G3: "The log holds commands, and apply is the only judge",
  G4: "A restarted follower keeps its promise",
  G5: "Leases and vote promises end by a clock, never by ticks",
  G6: "A leader that hands over has no lease",
  G7: "A read of several shards sees one moment",
  G8: "Logged locks and a record decide a transaction",
  G9: "What another replica counts on is on disk",
  G10: "A retried write is done once, and an error says which kind it is",
  G11: "Splits and merges happen at one entry, and no message creates half a shard",
  G12: "No promise depends on clocks that show the same time",
  G13: "Expiry is a time in the log",
  G14: "The safe point is logged before anything is collected",
  G15: "WATCH compares versions",
  G16: "Evidence tells a torn tail from rot",
  G17: "A stale read knows its age",
  G18: "SCAN returns every key that is there throughout",
  G19: "A flush is one entry in each shard",
  G20: "A group never rests at two voters",
  G21: "A snapshot lease pins history",
  G22: "A value found alive is alive at commit",
  G23: "A token covers what was acknowledged",
  G24: "Client-side caches have a bound",
  G25: "A script never runs at apply",
  G26: "A read waits for its connection's writes",
  G27: "A blocking pop claims one element",
  G28: "A volume has one writer",
  G29: "A collection is one unit",
  G30: "A deleted user is refused everywhere",
  R1: "One owner: the arcs of each keyspace tile its circle, and a group has at most one leader a term",
  R2: "All tables say the same once nothing breaks, and a replica is where they say",
  R3: "One history: replicas apply the same entry at an index, applied entries stay, and a start finds what was promised",
  R4: "The ring invariant I1, I2 of 1.3, while failures keep to the assumption",
  R5: "Nobody is elected while another's lease runs",
  R6: "Nothing acknowledged is lost, nothing is invented or reordered",
  R7: "What is committed is never aborted",
  R8: "Replicas at one applied index hold the same, and digest the same",
  R9: "Collection is never seen: the newest version at or below the safe point stays",
  R10: "Histories are linearizable per key and strictly serialisable per transaction",
  R11: "Arcs of a linear-hash keyspace are the buckets of its record",
  R12: "Soon after the last fault: full strength, nothing half done, no replica forgotten, no lock left, load even",
  R13: "The same seed gives the same bytes, in every process",
};

export interface Part {
  text: string;
  /** What the code is short for, if this is one. */
  rule: string | null;
}

/** A text in parts: codes of rules, as G8, and what is between them. */
export function withCodes(text: string): Part[] {
  return text
    .split(/\b([GR]\d+)\b/)
    .filter((part) => part !== "")
    .map((part) => ({ text: part, rule: RULES[part] === undefined ? null : `${part}: ${RULES[part]}` }));
}
