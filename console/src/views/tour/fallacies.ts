/** The eight fallacies of distributed computing: what each is here, measured, and a fault against it. Pure. */

import type { SimAction, SimState } from "../../api/sim";
import { bytes, count, duration, plural, shortCount } from "../../model/format";
import type { Model } from "../../model/model";
import type { ClusterEvent } from "../../events/types";
import { attackWords } from "../../model/simulation";
import type { TimePoint } from "../../model/timeline";
import { victim } from "./scenes";

export interface Seen {
  model: Model;
  events: readonly ClusterEvent[];
  points: readonly TimePoint[];
  sim: SimState | null;
}

export interface Fallacy {
  name: string;
  /** What Carillon does since it is none. */
  answer: string;
  measured: (seen: Seen) => string;
  fault: { label: string; action: (state: SimState) => SimAction | null };
}

/** So rarely that clients are still served well. */
const TAMPER_ONE_IN = 200;

const last = (seen: Seen) => seen.points.at(-1);
const onVictim = (label: string, make: (node: string) => SimAction) => ({
  label,
  action: (state: SimState) => {
    const node = victim(state);
    return node === null ? null : make(node);
  },
});

function losses({ events, sim }: Seen): string {
  const lost = events.filter((event) => event.type === "link" && event.fields["state"] === "down").length;
  const cut = sim?.nodes.reduce((sum, node) => sum + (node.cut_to?.length ?? 0), 0) ?? 0;
  return `${plural(lost, "link")} lost lately${cut > 0 ? `, ${count(cut)} ways cut now` : ""}`;
}

function latency(seen: Seen): string {
  const network = seen.sim?.network;
  if (seen.sim)
    return network ? `a message takes up to ${duration(network.delay_ms_max)}` : "not measured here";
  const trips = (last(seen)?.peers ?? []).flatMap((peer) => peer.roundTripSeconds ?? []);
  const slowest = Math.max(0, ...trips);
  const fsync = last(seen)?.fsyncP99 ?? null;
  const parts = [
    ...(trips.length > 0 ? [`slowest ping ${duration(slowest * 1000)}`] : []),
    ...(fsync !== null ? [`fsync p99 ${duration(fsync * 1000)}`] : []),
  ];
  return parts.join(", ") || "no measurement yet";
}

function traffic(seen: Seen): string {
  const network = seen.sim?.network;
  if (seen.sim)
    return network ? `${shortCount(network.sent)} messages between nodes so far` : "not measured here";
  const peers = last(seen)?.peers ?? [];
  if (peers.length === 0) return "no measurement yet";
  const sum = peers.reduce((all, peer) => all + peer.inBytes + peer.outBytes, 0);
  return `${bytes(sum)}/s between this node and ${plural(peers.length, "peer")}`;
}

function security({ model, sim }: Seen): string {
  if (sim) return sim.tampering ? attackWords(sim.tampering) : "no measurement yet";
  const all = model.status?.listeners ?? [];
  const open = all.filter((each) => !/^(127\.|\[::1\]|localhost)/.test(each.address));
  if (all.length === 0) return "no measurement yet";
  return open.length === 0
    ? `all ${all.length} listeners of this node are on loopback`
    : `${open.length} of ${all.length} listeners can be reached from other machines`;
}

function topology({ model, events }: Seen): string {
  const changes = events.filter((event) => event.type === "member" || event.type === "replicas-changed");
  return `${plural(model.nodes.filter((node) => node.state === "up").length, "node")} up, ${plural(changes.length, "change")} lately`;
}

function administrators({ model, events }: Seen): string {
  const deciders = new Set(events.filter((event) => event.type === "decision").map((event) => event.node));
  const moved = model.nodes.filter((node) => node.standing !== "member").length;
  return `${plural(deciders.size, "node")} decided something lately, ${count(moved)} cordoned or draining`;
}

function cost(seen: Seen): string {
  const point = last(seen);
  const peers = point?.peers ?? [];
  const sum = peers.reduce((all, peer) => all + peer.inBytes + peer.outBytes, 0);
  if (seen.sim) {
    const { network, answered } = seen.sim;
    if (!network || answered === 0) return `${shortCount(answered)} requests answered`;
    return `${(network.sent / answered).toFixed(1)} messages between nodes for each request`;
  }
  if (!point || point.commands < 1) return "no requests now";
  return `${bytes(sum / point.commands)} between nodes for each request`;
}

function sorts({ model, sim }: Seen): string {
  const versions = new Set(model.nodes.map((node) => node.version)).size;
  const slow = model.nodes.filter((node) => node.slow_disk).length;
  const skewed = sim?.nodes.filter((node) => (node.skew_ms ?? 0) !== 0).length ?? 0;
  return [
    plural(Math.max(1, versions), "version"),
    `${count(slow)} slow disks`,
    ...(sim ? [`${count(skewed)} wrong clocks`] : []),
  ].join(", ");
}

export const FALLACIES: readonly Fallacy[] = [
  {
    name: "The network is reliable",
    answer: "Each write is agreed by a majority; a cut link costs an election at most.",
    measured: losses,
    fault: {
      label: "Cut a link",
      action: (state) => {
        const up = state.nodes.filter((node) => node.state === "up");
        const [from, to] = [up.at(0), up.at(1)];
        return from && to ? { do: "cut", from: from.name, to: to.name, both: true } : null;
      },
    },
  },
  {
    name: "Latency is zero",
    answer: "Lookups are counted in hops, and a reply can say how many there were.",
    measured: latency,
    fault: onVictim("Pause a node for 2 s", (node) => ({ do: "pause", node, for_ms: 2000 })),
  },
  {
    name: "Bandwidth is infinite",
    answer: "Every queue, frame and snapshot has a bound; beyond it something is refused, not lost.",
    measured: traffic,
    fault: { label: "Write 1 000 keys", action: () => ({ do: "fill", count: 1000, prefix: "bulk-" }) },
  },
  {
    name: "The network is secure",
    answer:
      "Nodes prove a secret to each other, and each frame has a checksum: what is altered ends the link. Without TLS, who can change packets can still make a new checksum; listeners are on loopback unless told otherwise.",
    measured: security,
    fault: {
      label: "Alter messages",
      action: (state) => (state.tampering?.one_in === 0 ? { do: "tamper", one_in: TAMPER_ONE_IN } : null),
    },
  },
  {
    name: "Topology does not change",
    answer: "Nodes come and go at any time; shards follow them by themselves.",
    measured: topology,
    fault: { label: "A node joins", action: () => ({ do: "add-nodes", count: 1 }) },
  },
  {
    name: "There is one administrator",
    answer: "Nobody is in charge: each leader decides for its own shards, and says why.",
    measured: administrators,
    fault: onVictim("Kill who decides", (node) => ({ do: "crash", node })),
  },
  {
    name: "Transport cost is zero",
    answer: "Messages are batched, and the full table spares hops; this is what is left.",
    measured: cost,
    fault: { label: "32 clients", action: () => ({ do: "clients", count: 32 }) },
  },
  {
    name: "The network is homogeneous",
    answer: "Nodes of several versions, slow disks and wrong clocks are named, and worked around.",
    measured: sorts,
    fault: onVictim("A slow disk", (node) => ({ do: "slow-disk", node, sync_ms: 300 })),
  },
];
