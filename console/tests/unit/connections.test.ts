import { describe, expect, test } from "vitest";
import { layout } from "../../src/model/ring";
import { shardsOf } from "../../src/model/model";
import { connectionsOf, fingersOf, successorsOf } from "../../src/views/ring/connections";
import { modelOf, WELL } from "./recording";

const model = modelOf(WELL);
const arcs = layout(shardsOf(model, "0"), "equal");
const none = new Set<string>();
const [first] = shardsOf(model, "0");
if (!first) throw new Error("the recording has no shards");

/** So many shards of equal length. */
const evenArcs = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    shard: {
      ...first,
      id: i,
      slots: [(i * 16384) / count, ((i + 1) * 16384) / count - 1] as [number, number],
    },
    from: i / count,
    to: (i + 1) / count,
  }));

describe("tables", () => {
  test("of Chord halve the circle: 64 even shards have fingers at 32, 16 and 8 beyond the successors", () => {
    expect(fingersOf(evenArcs(64), 0, true)).toEqual([32, 16, 8]);
    expect(fingersOf(evenArcs(64), 60, true)).toEqual([28, 12, 4]);
  });

  test("of Chord# count shards", () => {
    expect(fingersOf(evenArcs(64), 0, false).sort((a, b) => a - b)).toEqual([8, 16, 32]);
  });

  test("have the next four, or all others of a small ring", () => {
    expect(successorsOf(64, 62)).toEqual([63, 0, 1, 2]);
    expect(successorsOf(3, 1)).toEqual([2, 0]);
    expect(successorsOf(1, 0)).toEqual([]);
  });
});

describe("connections of a node", () => {
  const here = model.status?.node_id ?? "";
  const peers = model.nodes
    .filter((node) => node.id !== here)
    .map((node, i) => ({
      from: here,
      id: node.id,
      name: node.name,
      isConnected: i === 0,
      inBytes: 10,
      outBytes: 5,
      roundTripSeconds: null,
    }));

  test("are all replicas that it holds, and the links that are up", () => {
    const all = connectionsOf(here, arcs, none, peers, true);
    const held = arcs.filter(({ shard }) => shard.replicas.some((replica) => replica.node === here));
    expect(all.filter((each) => each.layer === "links")).toHaveLength(held.length);
    expect(all.filter((each) => each.layer === "peers")).toMatchObject([{ to: { node: peers[0]?.id } }]);
    const led = arcs.filter(({ shard }) => shard.leader === here).length;
    expect(all.filter((each) => each.layer === "successors")).toHaveLength(led * 4);
  });

  test("leave out layers that are off", () => {
    const hidden = new Set(["links", "fingers", "successors"]);
    const all = connectionsOf(here, arcs, hidden, peers, true);
    expect(new Set(all.map((each) => each.layer))).toEqual(new Set(["peers"]));
  });

  test("are, of another node, its links as well, each once", () => {
    const [two = "", three = ""] = model.nodes.filter((node) => node.id !== here).map((node) => node.id);
    const link = (from: string, id: string, isConnected = true) => ({
      from,
      id,
      name: id,
      isConnected,
      inBytes: 10,
      outBytes: 5,
      roundTripSeconds: null,
    });
    const hidden = new Set(["links", "fingers", "successors"]);
    const links = [link(here, two), link(two, here), link(two, three), link(three, two), link(three, here)];
    const found = connectionsOf(two, arcs, hidden, links, true);
    expect(found.map(({ from, to }) => [from, to])).toEqual([
      [{ node: here }, { node: two }],
      [{ node: two }, { node: three }],
    ]);
    expect(connectionsOf(two, arcs, hidden, [link(two, three, false)], true)).toEqual([]);
  });
});
