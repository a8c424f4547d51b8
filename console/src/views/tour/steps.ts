/**
 * The tour's pages: what is told, with figures of the cluster that is looked at, and which live
 * picture stands beside it.
 */

import type { LookupName } from "../../api/types";
import { plural } from "../../model/format";
import { shardsOf, type Model } from "../../model/model";
import type { SceneName } from "./scenes";

export type Picture =
  | { kind: "ring"; lookup: LookupName | null }
  | { kind: "pair"; left: LookupName; right: LookupName }
  | { kind: "compare" }
  | { kind: "transaction" }
  | { kind: "failure" }
  | { kind: "balance" }
  | { kind: "members" }
  | { kind: "growth" }
  | { kind: "fallacies" }
  | { kind: "time" };

export interface Step {
  title: string;
  text: (facts: Facts) => string[];
  /** The picture on a live cluster. */
  picture: Picture;
  /** What the simulator plays, where it is there. */
  scene?: SceneName;
}

/** What the texts tell of this cluster. */
export interface Facts {
  nodes: number;
  shards: number;
  keyspace: string;
  replicas: number;
  /** Shards of the keyspace that the answering node leads. */
  ledHere: number;
  here: string;
  /** Whether a simulation plays the pages. */
  isPlayed: boolean;
}

/** Keys that the page of Chord tries until one shows the difference. */
export const CHORD_EXAMPLES: readonly string[] = [
  ...["bell", "tower", "ring", "carillon", "clapper", "belfry", "chime", "peal"],
  ...Array.from({ length: 24 }, (_, i) => `bell-${i + 1}`),
];

/** The keyspace that shows most: the one with the most shards. */
export function keyspaceToShow(model: Model): string {
  const best = [...model.keyspaces].sort((a, b) => b.shards - a.shards || a.id - b.id)[0];
  return best?.name ?? "0";
}

export function factsOf(model: Model, keyspace: string, isPlayed = false): Facts {
  const shards = shardsOf(model, keyspace);
  return {
    nodes: model.nodes.filter((node) => node.state !== "left").length,
    shards: shards.length,
    keyspace,
    replicas: model.keyspaces.find((each) => each.name === keyspace)?.replicas ?? 0,
    ledHere: shards.filter((shard) => shard.leader === model.status?.node_id).length,
    isPlayed,
    here: model.status?.name ?? "the node that answers",
  };
}

/** The largest number of jumps that each halve the way: what Chord needs in the worst case. */
export function halvings(shards: number): number {
  return Math.ceil(Math.log2(Math.max(1, shards)));
}

export const STEPS: readonly Step[] = [
  {
    title: "One circle, cut into shards",
    picture: { kind: "ring", lookup: null },
    text: ({ shards, keyspace, nodes, replicas }) => [
      `Every key has a place on a circle. The circle of keyspace ${keyspace} is cut into ${plural(shards, "arc")}; each arc belongs to one shard.`,
      `A shard is kept by ${plural(replicas, "node")} of ${nodes}. They agree by consensus on the order of all writes. One of them leads: the arc has its colour. The thin bands are the others.`,
      "No node is special. You can ask any node for any key; it finds the shard that owns it. How it does that is what this tour is about.",
    ],
  },
  {
    title: "The full table: everybody knows everything",
    picture: { kind: "ring", lookup: "full" },
    text: ({ shards, nodes }) => [
      `The default is simple: each node keeps a table of all ${plural(shards, "shard")} and who leads them. A lookup is one look into memory: no hop, and no message to find the way. (A simulated client is on no node: its two messages are the question to the owner and the answer.)`,
      `The price is paid elsewhere. Each change of any shard has to reach all ${plural(nodes, "node")}. With thousands of nodes that come and go, that is a lot of gossip.`,
    ],
  },
  {
    title: "Around the ring: only the next one",
    picture: { kind: "ring", lookup: "linear" },
    scene: "linear",
    text: ({ shards }) => [
      "The other extreme: each shard knows only who comes next on the ring. A lookup asks one shard after the other until it comes to the owner.",
      `The table has one entry, and a newcomer has to tell one neighbour only. But the way is long: with ${plural(shards, "shard")} about ${Math.max(1, Math.round(shards / 2))} hops, with a thousand shards about five hundred.`,
      "Watch the hops. Each is a question to the node that leads the next shard.",
    ],
  },
  {
    title: "Chord: jump half of the way",
    picture: { kind: "pair", left: "linear", right: "chord" },
    scene: "chord",
    text: ({ shards, isPlayed }) => [
      "Chord keeps a few long jumps besides: fingers. They point half the circle ahead, a quarter, an eighth, and so on.",
      `Each hop takes the longest jump that does not pass the key. So each hop at least halves what is left: with ${plural(shards, "shard")} at most about ${halvings(shards)} hops, with a thousand about ten, with a million about twenty.`,
      isPlayed
        ? "Look keys up in the ring, and compare the lines of linear and chord in the table below it."
        : "Left and right look up the same key, each hop in the same time. Try other keys.",
    ],
  },
  {
    title: "Measure it yourself",
    picture: { kind: "compare" },
    text: () => [
      "Here all five lookups look up the same keys on this very cluster. Two more take part.",
      "chord-sharp (Chord# in papers) places its fingers by counting shards, not by distance: it stays short even if shards crowd in one part of the circle. lh (LH*) computes the bucket from the size of the table; it is for keyspaces of placement linear-hash, and fails elsewhere.",
      "Compare hops, messages and microseconds. Then let nodes remember owners that they have found: most lookups need one question then.",
    ],
  },
  {
    title: "A hundred join at once",
    picture: { kind: "members" },
    scene: "joins",
    text: () => [
      "Rings of old let one member join after the other, and had to wait each time. Two that joined at the same place and moment could break the ring.",
      "Here any number may join together. A newcomer asks for its successor, and then again and again, each round, who stands between them. Wrong pointers are found and mended the same way, so the ring closes by itself.",
      "Lookups go on meanwhile: a member that is asked for what it does not own says which one is nearer.",
    ],
  },
  {
    title: "LH*: a table that grows bucket by bucket",
    picture: { kind: "growth" },
    scene: "grows",
    text: () => [
      "A keyspace of placement linear-hash is a hash table over nodes. It does not double at once: bucket after bucket is split in two, in a fixed order, while all others stay.",
      "So a client that knows only how large the table once was still computes nearly the right bucket. If it is wrong, the bucket that is asked passes the question on, and the client learns. Two hops are the most.",
      "Fill the table, and watch the shards split in their order.",
    ],
  },
  {
    title: "Several keys at one moment",
    picture: { kind: "transaction" },
    scene: "commits",
    text: ({ isPlayed }) => [
      "A transaction may touch keys of any shards. The coordinator asks each shard to lock its keys and to vote. If all agree, it commits: all of it, at one moment.",
      "Each vote is an entry in that shard's log, so it survives the death of a node. If the coordinator dies, any other node can finish what it began, from what the logs say.",
      isPlayed
        ? "Simulated clients run them all the time: watch the phases of the newest."
        : "Run one, and watch its phases.",
    ],
  },
  {
    title: "When a node dies",
    picture: { kind: "failure" },
    scene: "dies",
    text: ({ here }) => [
      `Kill a node: with its button in a simulation or under carillon dev, else with kill -9 and its process id (not ${here}, which draws this page). The others notice its silence within a few seconds.`,
      "Each shard that it led elects another leader among the replicas that live. Nothing that was acknowledged is lost, since a majority has it. Clients wait for the election, and go on.",
      "Start the node again, and it catches up. If it stays away, its replicas are made anew on other nodes, where there are any.",
    ],
  },
  {
    title: "Eight things that are not so",
    picture: { kind: "fallacies" },
    scene: "fallacies",
    text: () => [
      "In the nineties Peter Deutsch and others at Sun wrote down what newcomers to distributed systems believe. All eight are wrong.",
      "Beside each is what this cluster measures of it at the moment, and what Carillon does about it. In the simulator each has a switch: turn it on, and look at the other views.",
    ],
  },
  {
    title: "It keeps itself even",
    picture: { kind: "balance" },
    text: () => [
      "Leaders look at the load that nodes report. If one has more than its share, a shard moves, or only its leadership. Shards that grow are split; small neighbours merge.",
      "Nobody is in charge of that: each leader decides for its own shards. Every decision says why, and what came of it.",
    ],
  },
  {
    title: "Go back in time",
    picture: { kind: "time" },
    text: () => [
      "The line at the bottom holds the last ten minutes. Pick a moment, and every view shows the cluster as it was. Save it to a file, and show it to somebody else.",
      "Keys have a past as well: Keys shows the older versions of a value, for as long as its keyspace keeps them.",
      "That was the tour. The views on the left are the same pictures, with everything that you can do.",
    ],
  },
];
