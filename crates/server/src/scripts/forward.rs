//! Scripts that run at the leader of their shard, on another node than their client's.
//!
//! ```text
//!   client ──EVAL──► this node ── call ──► the leader: its queue ── reply ──► this node ──► client
//!                                 └─ it does not lead ──► looks for who does (runs_at)
//! ```
//!
//! A call whose link is lost before the reply has come may have been done: its client is answered
//! `UNKNOWN`. It is never sent twice. The bytes: [`super::call_frames`].
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of replies that a link has no room for | [`UNSENT_BYTES_MAX`] | lost: their clients get `UNKNOWN` |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gateway::resp::{Mode, ScriptCall, ScriptName, Version};
use keyspace::{DecodeError, NodeId};
use parking_lot::Mutex;

use super::cache::Program;
use super::call_frames::{CalledProgram, ScriptCallFrame, ScriptFrame, ScriptReplyFrame};
use super::counts::Outcome;
use super::job::{Caller, Job, JobReply, ReplyTo};
use super::runs_at::find_queue_later;
use crate::event_loop::not_done_text;
use crate::peer::SendError;
use crate::runtime::peers::KIND_SCRIPT;
use crate::runtime::{NodeRuntime, boot_nanos};

/// Bytes of replies that wait for room in links.
const UNSENT_BYTES_MAX: usize = 32 << 20;
/// How much longer than it may take a call waits for its reply.
const SLACK_NANOS: u64 = 1_000_000_000;

/// Calls under way at other nodes.
#[derive(Default)]
pub struct Forwarded {
    waiting: Mutex<Waiting>,
    unsent: Mutex<Unsent>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    calls: BTreeMap<u64, (NodeId, Job)>,
}

/// Replies that links had no room for, in order.
#[derive(Default)]
struct Unsent {
    frames: VecDeque<(NodeId, Vec<u8>)>,
    bytes: usize,
}

impl Unsent {
    /// Keeps a reply until there is room. Of one too many only the news that it was lost.
    fn push(&mut self, node: NodeId, number: u64, mut frame: Vec<u8>) {
        if self.bytes + frame.len() > UNSENT_BYTES_MAX {
            frame = lost(number);
        }
        self.bytes += frame.len();
        self.frames.push_back((node, frame));
    }

    /// Sends those that there is room for, each link's in order.
    fn send(&mut self, mut send: impl FnMut(NodeId, &[u8]) -> Result<(), SendError>) {
        let mut full = BTreeSet::new();
        let mut bytes = 0;
        self.frames.retain(|(node, frame)| {
            let is_full = full.contains(node) || send(*node, frame) == Err(SendError::Full);
            if is_full {
                full.insert(*node);
                bytes += frame.len();
            }
            // A lost link answers the call there.
            is_full
        });
        self.bytes = bytes;
    }
}

/// The reply to a call whose reply was lost.
fn lost(number: u64) -> Vec<u8> {
    ScriptFrame::Reply(number, ScriptReplyFrame::Lost).encode()
}

/// What the leader says to a call.
pub enum ForwardedReply {
    /// It does not lead, or knows no such keyspace: nothing was done.
    NotLeader,
    /// It has ended.
    Ended(JobReply),
}

/// Has the leader of a script's shard run it.
pub fn forward(runtime: &Arc<NodeRuntime>, node: NodeId, job: Job) {
    let program = match &job.program {
        Program::Script(script) => CalledProgram::Script(&script.source),
        Program::Function(function) => {
            CalledProgram::Function(function.name().as_bytes(), function.library_sha().as_bytes())
        }
        Program::Load(_) | Program::Exec(_) => return runtime.scripts.push(job),
    };
    let (keys, args) = job.arguments();
    let mut waiting = runtime.scripts.forwarded.waiting.lock();
    // A reply to a call of this node's life before must not be taken for one to another call.
    waiting.next = waiting.next.max(boot_nanos()) + 1;
    let number = waiting.next;
    let call = ScriptCallFrame {
        keyspace: job.keyspace,
        client: job.client,
        is_resp3: job.version == Version::V3,
        read_only: job.read_only,
        tracks: job.tracks,
        is_cluster: job.mode == Mode::Cluster,
        program,
        keys,
        args,
    };
    let frame = ScriptFrame::Call(number, call).encode();
    waiting.calls.insert(number, (node, job));
    drop(waiting);
    let peers = runtime.peers.as_ref().expect("a node without peers leads all its shards");
    if peers.cluster.send(node, KIND_SCRIPT, &[&frame]).is_err() {
        // It was not sent, so nothing was done.
        let call = runtime.scripts.forwarded.waiting.lock().calls.remove(&number);
        call.into_iter().for_each(|(_, job)| find_queue_later(runtime, job));
        return;
    }
    peers.cluster.flush();
}

/// Answers another node's call.
pub fn reply(runtime: &NodeRuntime, node: NodeId, number: u64, reply: ForwardedReply) {
    let bytes;
    let reply = match reply {
        ForwardedReply::NotLeader => ScriptReplyFrame::NotLeader,
        ForwardedReply::Ended(reply) => {
            bytes = reply.bytes;
            ScriptReplyFrame::Ended {
                is_error: reply.is_error,
                written: reply.written,
                touched: reply.touched,
                bytes: &bytes,
            }
        }
    };
    let frame = ScriptFrame::Reply(number, reply).encode();
    let Some(peers) = &runtime.peers else { return };
    match peers.cluster.send(node, KIND_SCRIPT, &[&frame]) {
        // A lost link answers the call there.
        Ok(()) | Err(SendError::NotConnected) => {}
        Err(SendError::Full) => runtime.scripts.forwarded.unsent.lock().push(node, number, frame),
        Err(SendError::TooLong { .. }) => {
            runtime.scripts.forwarded.unsent.lock().push(node, number, lost(number));
        }
    }
    peers.cluster.flush();
}

/// Sends replies that there was no room for, and answers calls that have had no reply for too long.
pub fn tick_forwarded(runtime: &NodeRuntime) {
    let mut unsent = runtime.scripts.forwarded.unsent.lock();
    if let Some(peers) = &runtime.peers
        && !unsent.frames.is_empty()
    {
        unsent.send(|node, frame| peers.cluster.send(node, KIND_SCRIPT, &[frame]));
        peers.cluster.flush();
    }
    drop(unsent);
    end_late_calls(runtime);
}

/// Takes a frame of another node.
pub fn take_frame(runtime: &Arc<NodeRuntime>, from: NodeId, frame: &[u8]) {
    if let Err(error) = read_frame(runtime, from, frame) {
        tracing::warn!("cannot read a script's frame of node {:016x}: {error}", from.0);
    }
}

/// Answers calls that have had no reply for too long: they may have been done.
fn end_late_calls(runtime: &NodeRuntime) {
    let script_nanos = runtime.scripts.script_time.as_nanos() as u64;
    let longest = runtime.request_timeout_nanos + script_nanos + SLACK_NANOS;
    let now = boot_nanos();
    let mut waiting = runtime.scripts.forwarded.waiting.lock();
    let is_late =
        |(_, (_, job)): &(&u64, &(NodeId, Job))| now.saturating_sub(job.came.boot) > 2 * longest;
    let late: Vec<u64> = waiting.calls.iter().filter(is_late).map(|(number, _)| *number).collect();
    let late: Vec<Job> =
        late.iter().filter_map(|n| waiting.calls.remove(n)).map(|(_, job)| job).collect();
    drop(waiting);
    for job in late {
        job.refuse(runtime, not_done_text(command::NotDone::OutcomeUnknown));
    }
}

/// Calls at a node whose link is lost may have been done.
pub fn link_lost(runtime: &NodeRuntime, node: NodeId) {
    let mut waiting = runtime.scripts.forwarded.waiting.lock();
    let lost: Vec<u64> =
        waiting.calls.iter().filter(|(_, (at, _))| *at == node).map(|(n, _)| *n).collect();
    let lost: Vec<Job> =
        lost.iter().filter_map(|n| waiting.calls.remove(n)).map(|(_, job)| job).collect();
    drop(waiting);
    for job in lost {
        job.refuse(runtime, not_done_text(command::NotDone::OutcomeUnknown));
    }
}

fn read_frame(runtime: &Arc<NodeRuntime>, from: NodeId, frame: &[u8]) -> Result<(), DecodeError> {
    match ScriptFrame::decode(frame)? {
        ScriptFrame::Reply(number, reply) => take_reply(runtime, from, number, reply),
        ScriptFrame::Call(number, call) => take_call(runtime, from, number, call),
    }
    Ok(())
}

fn take_reply(runtime: &Arc<NodeRuntime>, from: NodeId, number: u64, reply: ScriptReplyFrame<'_>) {
    let mut waiting = runtime.scripts.forwarded.waiting.lock();
    let is_its = waiting.calls.get(&number).is_some_and(|(node, _)| *node == from);
    let call = if is_its { waiting.calls.remove(&number) } else { None };
    drop(waiting);
    let Some((_, job)) = call else { return };
    match reply {
        ScriptReplyFrame::NotLeader => find_queue_later(runtime, job),
        ScriptReplyFrame::Lost => {
            job.refuse(runtime, not_done_text(command::NotDone::OutcomeUnknown));
        }
        ScriptReplyFrame::Ended { is_error, written, touched, bytes } => {
            let reply = JobReply::new(bytes.to_vec(), is_error);
            job.answer(runtime, JobReply { written, touched, ..reply }, Outcome::Forwarded);
        }
    }
}

/// Runs another node's call in the queue of its shard, if that is led here.
fn take_call(runtime: &Arc<NodeRuntime>, from: NodeId, number: u64, call: ScriptCallFrame<'_>) {
    let ScriptCallFrame { keyspace, keys, args, .. } = call;
    let program = match call.program {
        CalledProgram::Script(source) => {
            runtime.scripts.cache.find(ScriptName::Source(source)).ok()
        }
        // Another library of this name is older or newer than what the client calls.
        CalledProgram::Function(name, sha) => runtime.scripts.libraries.find(name).filter(
            |program| matches!(program, Program::Function(f) if f.library_sha().as_bytes() == sha),
        ),
    };
    let queue = runtime.routing.routes().by_id(keyspace).and_then(|route| {
        let mut places = keys.iter().map(|key| route.place_of_key(key));
        let place = places.next().filter(|first| places.all(|other| other == *first))?;
        let leader = route.views[place].read().serving.leader();
        (leader == Some(runtime.identity.node)).then(|| route.shard(place))
    });
    let (Some(shard), Some(program)) = (queue, program) else {
        return reply(runtime, from, number, ForwardedReply::NotLeader);
    };
    let caller = Caller {
        keyspace,
        version: if call.is_resp3 { Version::V3 } else { Version::V2 },
        client: call.client ^ from.0.rotate_left(17),
        gone: Arc::default(),
        tracks: call.tracks,
        mode: if call.is_cluster { Mode::Cluster } else { Mode::Any },
        came: runtime.clock.moment(),
        reply_to: ReplyTo::Node { node: from, number },
    };
    let read_only = call.read_only;
    let call = ScriptCall { name: ScriptName::Source(b""), keys, args, read_only };
    runtime.scripts.push_in_queue(shard, Job::new(program, &call, caller));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_without_room_are_sent_later_in_order_and_beyond_the_bound_as_lost() {
        let (mut unsent, a, b) = (Unsent::default(), NodeId(1), NodeId(2));
        unsent.push(a, 7, vec![7; UNSENT_BYTES_MAX - 100]);
        unsent.push(b, 8, vec![8; 10]);
        unsent.push(a, 9, vec![9; 200]);
        let mut sent = Vec::new();
        unsent.send(|node, frame| {
            if node == a {
                return Err(SendError::Full);
            }
            sent.push(frame.to_vec());
            Ok(())
        });
        assert_eq!(sent, [vec![8; 10]]);
        assert_eq!(unsent.bytes, UNSENT_BYTES_MAX - 100 + lost(9).len());
        unsent.send(|_, frame| {
            sent.push(frame.to_vec());
            Ok(())
        });
        assert_eq!((sent.len(), sent[1][0], &sent[2]), (3, 7, &lost(9)));
        assert!(unsent.frames.is_empty() && unsent.bytes == 0);
        // One that is lost with its link is answered there.
        unsent.push(a, 1, vec![1; 10]);
        unsent.send(|_, _| Err(SendError::NotConnected));
        assert!(unsent.frames.is_empty() && unsent.bytes == 0);
    }
}
