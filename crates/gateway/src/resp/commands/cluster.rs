//! `CLUSTER …`, READONLY, READWRITE, ASKING: which node holds which slots.
//!
//! A node alone in mode `any` is no cluster, and answers as Redis does then. All others answer from
//! their [`Topology`], in either mode. Node ids have 40 hexadecimal digits, as in Redis; the first
//! 24 are zeros.

use std::fmt::Write as _;

use command::Sink;
use keyspace::{SLOTS, Slot, slot_of};

use super::{Call, Outcome, integer};
use crate::resp::args::Args;
use crate::resp::error::CommandError;
use crate::resp::request::{KeyspaceRequest, Request};
use crate::resp::session::FIRST_KEYSPACE;
use crate::resp::topology::{Health, Mode, Node, Shard, Topology, id_text};
use crate::resp::writer::RespWriter;

/// What Redis says without its cluster.
pub(crate) const DISABLED: CommandError =
    CommandError::Fixed("ERR This instance has cluster support disabled");

/// `CLUSTER KEYSLOT key`
pub fn keyslot<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.int(i64::from(slot_of(args.at(2)))))
}

/// `CLUSTER MYID`
pub fn myid<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let id = own_id(call);
    call.answer(|writer| writer.bulk(id.as_bytes()))
}

/// `CLUSTER SLOTS`: ranges of slots, each with its leader first, then its other replicas.
///
/// Replicas on failed nodes are left out, as Redis does: clients that ask all replicas would fail.
///
/// Some clients take a node's role from the first range that names it, though it may follow in one
/// shard and lead another. So the first slot of each leader comes first, alone and without
/// replicas.
pub fn slots<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let topology = topology(call)?;
    let mut entries: Vec<((u16, u16), usize, Vec<usize>)> = Vec::new();
    let mut rest = Vec::new();
    for shard in &topology.shards {
        let Some(leader) = shard.leader else { continue };
        let (first, last) = shard.slots;
        let is_there = |at: &usize| topology.nodes[*at].health != Health::Failed;
        let replicas: Vec<usize> = shard.replicas.iter().copied().filter(is_there).collect();
        let is_new = entries.iter().all(|(_, known, _)| *known != leader);
        // Listeners for replicas lead nothing.
        let may_lead = replicas.iter().any(|at| topology.nodes[*at].listener.is_none());
        match is_new && first < last && may_lead {
            true => {
                entries.push(((first, first), leader, Vec::new()));
                rest.push(((first + 1, last), leader, replicas));
            }
            false => rest.push(((first, last), leader, replicas)),
        }
    }
    entries.append(&mut rest);
    call.answer(|writer| {
        writer.array(entries.len());
        for ((first, last), leader, replicas) in entries {
            writer.array(3 + replicas.len());
            writer.int(i64::from(first));
            writer.int(i64::from(last));
            for node in std::iter::once(leader).chain(replicas.iter().copied()) {
                let node = &topology.nodes[node];
                writer.array(4);
                writer.bulk(node.host.as_bytes());
                writer.int(i64::from(node.port));
                writer.bulk(node.id_text().as_bytes());
                writer.map(0);
            }
        }
    })
}

/// `CLUSTER SHARDS`: each shard with its slots, and the nodes of its replicas with their role and
/// health there. The offset is the index of the shard's log, known only of this node: 0 for others.
pub fn shards<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let topology = topology(call)?;
    call.answer(|writer| {
        writer.array(topology.shards.len());
        for shard in &topology.shards {
            writer.map(2);
            writer.bulk(b"slots");
            writer.array(2);
            writer.int(i64::from(shard.slots.0));
            writer.int(i64::from(shard.slots.1));
            writer.bulk(b"nodes");
            let holders: Vec<usize> = shard.holders().collect();
            writer.array(holders.len());
            holders.into_iter().for_each(|holder| holder_of(writer, &topology, shard, holder));
        }
    })
}

fn holder_of(writer: &mut RespWriter<'_>, topology: &Topology, shard: &Shard, holder: usize) {
    let node = &topology.nodes[holder];
    // A listener for replicas is of this node, too.
    let is_me = holder == topology.me || node.listener.is_some_and(|of| of.of == topology.me);
    let texts = [
        ("ip", node.host.as_str()),
        ("endpoint", node.host.as_str()),
        ("role", if shard.leader == Some(holder) { "master" } else { "replica" }),
    ];
    let health = match node.health {
        Health::Failed => "failed",
        _ if is_me && shard.index == 0 => "loading",
        _ => "online",
    };
    writer.map(7);
    writer.bulk(b"id");
    writer.bulk(node.id_text().as_bytes());
    writer.bulk(if topology.is_tls { b"tls-port" } else { b"port" });
    writer.int(i64::from(node.port));
    for (name, value) in texts {
        writer.bulk(name.as_bytes());
        writer.bulk(value.as_bytes());
    }
    writer.bulk(b"replication-offset");
    writer.int(if is_me { shard.index as i64 } else { 0 });
    writer.bulk(b"health");
    writer.bulk(health.as_bytes());
}

/// `CLUSTER NODES`: a line for each node.
pub fn nodes<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let topology = topology(call)?;
    let now_millis = call.ctx.now_millis();
    let lines = (0..topology.nodes.len()).map(|node| {
        let master = topology.master_of(node);
        line(&topology, node, master, now_millis) + "\n"
    });
    let text: String = lines.collect();
    call.answer(|writer| writer.verbatim(text.as_bytes()))
}

/// `CLUSTER REPLICAS node`, `CLUSTER SLAVES node`: a line for each node that holds something which
/// that node leads, as its replica, though it may lead something else.
pub fn replicas<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let topology = topology(call)?;
    let unknown = || CommandError::Formatted([b"ERR Unknown node ", args.at(2)].concat());
    let master = topology.by_id(args.at(2)).ok_or_else(unknown)?;
    if topology.master_of(master).is_some() {
        return Err(CommandError::Fixed("ERR The specified node is not a master"));
    }
    let now_millis = call.ctx.now_millis();
    let holds = |node: &usize| match topology.nodes[*node].listener {
        Some(listener) => listener.master == master,
        None => topology.led_by(master).any(|shard| shard.replicas.contains(node)),
    };
    let nodes = (0..topology.nodes.len()).filter(holds);
    let lines = nodes.map(|node| line(&topology, node, Some(master), now_millis));
    let lines: Vec<String> = lines.collect();
    call.answer(|writer| {
        writer.array(lines.len());
        lines.iter().for_each(|line| writer.bulk(line.as_bytes()));
    })
}

/// A node as a line of CLUSTER NODES, as the replica of a master or as one.
fn line(topology: &Topology, at: usize, master: Option<usize>, now_millis: u64) -> String {
    let node = &topology.nodes[at];
    let Node { host, port, peer_port, .. } = node;
    let mut line = format!("{} {host}:{port}@{peer_port} ", node.id_text());
    let mut flags = Vec::new();
    if at == topology.me {
        flags.push("myself");
    }
    flags.push(if master.is_some() { "slave" } else { "master" });
    match node.health {
        Health::Online => {}
        Health::Suspected => flags.push("fail?"),
        Health::Failed => flags.push("fail"),
    }
    let master_id =
        master.map_or_else(|| "-".to_owned(), |master| topology.nodes[master].id_text());
    // A link is given up when nothing is heard over it: it was heard of just now.
    let heard_millis = match (at == topology.me, node.is_linked) {
        (true, _) => 0,
        (false, true) => now_millis,
        (false, false) => node.since_millis,
    };
    let link = if node.is_linked { "connected" } else { "disconnected" };
    let epoch = topology.epoch;
    // Writing to a String cannot fail.
    let _ = write!(line, "{} {master_id} 0 {heard_millis} {epoch} {link}", flags.join(","));
    if master.is_none() {
        for (first, last) in topology.slots_of(at) {
            let _ = match first == last {
                true => write!(line, " {first}"),
                false => write!(line, " {first}-{last}"),
            };
        }
    }
    line
}

/// `CLUSTER INFO`: the state is `ok` while every shard has a leader that this node knows. The epoch
/// is the newest term of any shard. Messages between nodes are counted under `/metrics`.
pub fn info<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let topology = topology(call)?;
    let slots = |which: &dyn Fn(&Shard) -> bool| -> u64 {
        topology.shards.iter().filter(|shard| which(shard)).map(Shard::slots_count).sum()
    };
    let ok = slots(&|shard| shard.is_led);
    let is_health = |shard: &Shard, health: Health| {
        shard.leader.is_some_and(|leader| topology.nodes[leader].health == health)
    };
    let state = if ok == u64::from(SLOTS) { "ok" } else { "fail" };
    let numbers = [
        ("cluster_slots_assigned", slots(&|_| true)),
        ("cluster_slots_ok", ok),
        ("cluster_slots_pfail", slots(&|shard| is_health(shard, Health::Suspected))),
        ("cluster_slots_fail", slots(&|shard| is_health(shard, Health::Failed))),
        ("cluster_known_nodes", topology.nodes.len() as u64),
        ("cluster_size", topology.leaders_count() as u64),
        ("cluster_current_epoch", topology.epoch),
        ("cluster_my_epoch", topology.epoch),
    ];
    let mut text = format!("cluster_state:{state}\r\n");
    for (name, number) in numbers {
        let _ = write!(text, "{name}:{number}\r\n");
    }
    call.answer(|writer| writer.verbatim(text.as_bytes()))
}

/// `CLUSTER LINKS`: one for each node that this one is linked with; a link goes both ways.
pub fn links<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    let topology = topology(call)?;
    let others = topology.nodes.iter().enumerate().filter(|(at, _)| *at != topology.me);
    let has_link = |node: &&Node| node.is_linked && node.listener.is_none();
    let linked: Vec<&Node> = others.map(|(_, node)| node).filter(has_link).collect();
    call.answer(|writer| {
        writer.array(linked.len());
        for node in linked {
            let unsent_bytes = node.unsent_bytes as i64;
            writer.map(6);
            for (name, value) in [("direction", "to"), ("node", &node.id_text())] {
                writer.bulk(name.as_bytes());
                writer.bulk(value.as_bytes());
            }
            writer.bulk(b"create-time");
            writer.int(node.since_millis as i64);
            writer.bulk(b"events");
            writer.bulk(b"rw");
            for name in ["send-buffer-allocated", "send-buffer-used"] {
                writer.bulk(name.as_bytes());
                writer.int(unsent_bytes);
            }
        }
    })
}

/// `CLUSTER COUNTKEYSINSLOT slot`: by whichever node, since each can see to it that it is current.
pub fn countkeysinslot<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    let slot = slot(integer(args.at(2))?).ok_or(CommandError::Fixed("ERR Invalid slot"))?;
    Ok(Request::Keyspace(KeyspaceRequest::CountInSlot { slot }))
}

/// `CLUSTER GETKEYSINSLOT slot count`
pub fn getkeysinslot<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    let (slot_number, count) = (integer(args.at(2))?, integer(args.at(3))?);
    match (slot(slot_number), usize::try_from(count)) {
        (Some(slot), Ok(count)) => {
            Ok(Request::Keyspace(KeyspaceRequest::KeysInSlot { slot, count }))
        }
        _ => Err(CommandError::Fixed("ERR Invalid slot or number of keys")),
    }
}

fn slot(number: i64) -> Option<Slot> {
    Slot::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// `READONLY`: reads of this connection are answered here even of shards that others lead. They are
/// linearizable all the same: this node asks the leader how far it must be.
pub fn readonly<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    call.session.readonly = true;
    call.ok()
}

/// `READWRITE`: the end of READONLY.
pub fn readwrite<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    call.session.readonly = false;
    call.ok()
}

/// `ASKING`: nothing to do, for no slot is ever on its way between two nodes.
pub fn asking<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    call.ok()
}

/// `CLUSTER HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    call.help(
        "CLUSTER",
        &[
            "COUNTKEYSINSLOT <slot>",
            "    Return the number of keys in <slot>.",
            "GETKEYSINSLOT <slot> <count>",
            "    Return up to <count> keys in <slot>.",
            "INFO",
            "    Return information about the cluster.",
            "KEYSLOT <key>",
            "    Return the hash slot for <key>.",
            "LINKS",
            "    Return the links between this node and others.",
            "MYID",
            "    Return the node id.",
            "NODES",
            "    Return the nodes as this one sees them. Output format:",
            "    <id> <ip:port@peer-port> <flags> <master> <ping> <pong> <epoch> <link> <slot> ...",
            "REPLICAS <node-id>",
            "    Return the nodes with replicas of what <node-id> leads.",
            "SHARDS",
            "    Return slot ranges and the nodes that hold them.",
            "SLOTS",
            "    Return slot ranges, their leaders, and their other replicas.",
        ],
    )
}

/// What a cluster does by itself, or with `carillon`: MEET, FORGET, ADDSLOTS, FAILOVER …
pub fn refuse_managed<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    enabled(call)?;
    let name = String::from_utf8_lossy(args.at(1)).to_ascii_uppercase();
    Err(CommandError::formatted(format!(
        "ERR CLUSTER {name} is not supported: nodes join with --join, and shards elect their \
         leaders"
    )))
}

fn enabled(call: &Call<'_>) -> Result<(), CommandError> {
    let is_cluster = call.ctx.mode() == Mode::Cluster || call.ctx.has_peers();
    if is_cluster { Ok(()) } else { Err(DISABLED) }
}

fn topology(call: &Call<'_>) -> Result<Topology, CommandError> {
    enabled(call)?;
    let keyspace = match call.session.routes {
        true => &call.session.keyspace,
        false => FIRST_KEYSPACE,
    };
    let mut topology = call.ctx.topology(keyspace);
    if call.session.is_replica {
        topology.me = topology.listener_of(topology.me).unwrap_or(topology.me);
    }
    Ok(topology)
}

/// The id that clients of this listener know it by.
fn own_id(call: &Call<'_>) -> String {
    let facts = call.ctx.facts();
    match (call.session.is_replica, u64::from_str_radix(facts.node_id, 16)) {
        (true, Ok(node)) => id_text(node, true),
        _ => facts.node_id.to_owned(),
    }
}

/// Host and port of the master that the listener for replicas is shown as a replica of.
pub(super) fn master_of_listener(call: &Call<'_>) -> (String, u16) {
    let topology = topology(call).unwrap_or_default();
    let master =
        topology.nodes.get(topology.me).and_then(|me| topology.nodes.get(me.listener?.master));
    master.map_or_else(Default::default, |master| (master.host.clone(), master.port))
}
