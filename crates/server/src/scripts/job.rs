//! A script that a client has called: what it is to run on, and where its reply goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gateway::resp::{Mode, ScriptCall, Version};
use keyspace::{BootNanos, KeyspaceId, NodeId, ShardId};
use node::replica::entry::Waiter;
use node::replica::read::ReadTime;

use super::cache::{Program, Script};
use super::counts::Outcome;
use super::exec_reply::Gaps;
use super::forward::{self, ForwardedReply};
use crate::runtime::NodeRuntime;
use crate::runtime::mailbox::Mail;
use crate::runtime::pubsub::Message;

/// Where a reply goes.
#[derive(Clone, Copy, Debug)]
pub enum ReplyTo {
    /// To a connection.
    Connection {
        /// Its loop.
        event_loop: usize,
        /// The reply owed.
        waiter: Waiter,
    },
    /// To another node, whose client has called the script.
    Node {
        /// That one.
        node: NodeId,
        /// Its number for the call.
        number: u64,
    },
}

impl ReplyTo {
    /// The loop that coordinates what the script does over shards.
    pub fn coordinator(self, loops: usize) -> usize {
        match self {
            ReplyTo::Connection { event_loop, .. } => event_loop,
            ReplyTo::Node { number, .. } => number as usize % loops,
        }
    }
}

/// A call of a script.
#[derive(Debug)]
pub struct Job {
    /// What runs.
    pub program: Program,
    /// Keys and other arguments, one behind the other.
    bytes: Box<[u8]>,
    /// Where each ends in `bytes`, keys first.
    ends: Box<[u32]>,
    keys: usize,
    /// Whose keys it names.
    pub keyspace: KeyspaceId,
    /// The protocol of its reply.
    pub version: Version,
    /// Whether its commands may only read.
    pub read_only: bool,
    /// The connection.
    pub client: u64,
    /// Whether that is gone.
    gone: Arc<AtomicBool>,
    /// Whether that tracks: then the reply says which keys were touched.
    pub tracks: bool,
    /// The mode of the connection's node.
    pub mode: Mode,
    /// When it had come.
    pub came: ReadTime,
    /// Where its reply goes.
    pub reply_to: ReplyTo,
    /// How often what it had read in its queue had changed.
    pub conflicts: u32,
    /// The queue that it has left: its client's later scripts wait there until it has ended.
    pub left: Option<ShardId>,
    /// Since when it looks for its shard's queue, if it does.
    pub looks_since: Option<BootNanos>,
}

/// The keys that a script has touched, for a client that caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedKeys {
    /// Commands that only read have read these.
    pub read: BTreeSet<Box<[u8]>>,
    /// Other commands have these keys.
    pub written: BTreeSet<Box<[u8]>>,
    /// Keys of other keyspaces than its own that it has read or written.
    pub elsewhere: BTreeSet<Box<[u8]>>,
    /// Whether it has flushed a keyspace: all keys have changed.
    pub all: bool,
}

impl TouchedKeys {
    /// All that either has touched.
    pub fn append(&mut self, more: &mut Self) {
        self.read.append(&mut more.read);
        self.written.append(&mut more.written);
        self.elsewhere.append(&mut more.elsewhere);
        self.all |= more.all;
    }

    /// It flushes keyspaces, its own among them or not. As Redis: its own change ends what its look
    /// has begun.
    pub fn flush(&mut self, own: bool) {
        if own {
            self.written.append(&mut self.read);
        }
        self.all = true;
    }
}

/// The reply of a script, as bytes in its client's protocol.
#[derive(Debug)]
pub struct JobReply {
    /// The reply.
    pub bytes: Vec<u8>,
    /// Whether it is an error.
    pub is_error: bool,
    /// Messages that the script sends, if what it has written is done.
    pub messages: Vec<Arc<Message>>,
    /// The shards that it has written to, for WAIT.
    pub written: Vec<ShardId>,
    /// The keys that it has touched, if its client caches.
    pub touched: Option<Box<TouchedKeys>>,
    /// The keyspace that the connection has selected then, if that is another.
    pub selected: Option<Box<str>>,
    /// Where replies are still missing, of an EXEC.
    pub gaps: Option<Box<Gaps>>,
    /// Scripts that this node remembers, if what it has written is done.
    pub scripts: Vec<Arc<Script>>,
}

impl JobReply {
    /// A reply without messages.
    pub fn new(bytes: Vec<u8>, is_error: bool) -> Self {
        let (messages, written, scripts) = Default::default();
        let (touched, selected, gaps) = (None, None, None);
        Self { bytes, is_error, messages, written, touched, selected, gaps, scripts }
    }

    /// Sends its messages.
    pub fn send_messages(&mut self, runtime: &NodeRuntime) {
        for message in self.messages.drain(..) {
            runtime.pubsub.post(runtime, &message, None);
            runtime.pubsub.send(runtime, &message, None);
        }
    }
}

/// Who calls a script.
pub struct Caller {
    /// Whose keys it names.
    pub keyspace: KeyspaceId,
    /// The protocol of its reply.
    pub version: Version,
    /// The connection.
    pub client: u64,
    /// Whether that is gone.
    pub gone: Arc<AtomicBool>,
    /// Whether that tracks.
    pub tracks: bool,
    /// The mode of its node.
    pub mode: Mode,
    /// When the call had come.
    pub came: ReadTime,
    /// Where its reply goes.
    pub reply_to: ReplyTo,
}

impl Job {
    /// A call.
    pub fn new(program: Program, call: &ScriptCall<'_>, caller: Caller) -> Self {
        let all = || call.keys.iter().chain(&call.args);
        let mut bytes = Vec::with_capacity(all().map(|arg| arg.len()).sum());
        let mut ends = Vec::with_capacity(call.keys.len() + call.args.len());
        for arg in all() {
            bytes.extend_from_slice(arg);
            ends.push(bytes.len() as u32);
        }
        let Caller { keyspace, version, client, gone, tracks, mode, came, reply_to } = caller;
        let read_only = call.read_only || program.flags().no_writes;
        Self {
            program,
            bytes: bytes.into(),
            ends: ends.into(),
            keys: call.keys.len(),
            keyspace,
            version,
            read_only,
            client,
            gone,
            tracks,
            mode,
            came,
            reply_to,
            conflicts: 0,
            left: None,
            looks_since: None,
        }
    }

    /// EXEC, whose commands have their arguments with them.
    pub fn without_arguments(program: Program, caller: Caller) -> Self {
        let name = gateway::resp::ScriptName::Source(b"");
        let call = ScriptCall { name, keys: Vec::new(), args: Vec::new(), read_only: false };
        Self::new(program, &call, caller)
    }

    /// Whether its client has closed its connection, or was killed.
    pub fn client_is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Its keys and its other arguments.
    pub fn arguments(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        let mut start = 0;
        let mut all: Vec<&[u8]> = Vec::with_capacity(self.ends.len());
        for end in &self.ends {
            all.push(&self.bytes[start..*end as usize]);
            start = *end as usize;
        }
        let args = all.split_off(self.keys);
        (all, args)
    }

    /// Its reply, an error.
    pub fn error(&self, text: &str) -> JobReply {
        let mut bytes = Vec::new();
        gateway::resp::RespWriter::new(&mut bytes, self.version).error(text);
        JobReply::new(bytes, true)
    }

    /// Answers it with an error.
    pub fn refuse(self, runtime: &NodeRuntime, text: &str) {
        let reply = self.error(text);
        self.answer(runtime, reply, Outcome::Refused);
    }

    /// Answers it.
    pub fn answer(self, runtime: &NodeRuntime, mut reply: JobReply, outcome: Outcome) {
        runtime.scripts.counts.ended(&self, outcome);
        reply.send_messages(runtime);
        reply.scripts.drain(..).for_each(|script| runtime.scripts.cache.put(&script));
        match self.reply_to {
            ReplyTo::Connection { event_loop, waiter } => {
                // A loop that has ended has no clients left, or has given them up.
                let mailbox = &runtime.delivery.mailboxes[event_loop];
                let _is_read = mailbox.post(Mail::Scripted(vec![(waiter, reply)]));
            }
            ReplyTo::Node { node, number } => {
                forward::reply(runtime, node, number, ForwardedReply::Ended(reply));
            }
        }
        has_ended(runtime, self.left, self.client);
    }

    /// It runs at another node, or is asked for again: nothing of it is owed here any more.
    pub fn has_gone(self, runtime: &NodeRuntime) {
        has_ended(runtime, self.left, self.client);
    }
}

fn has_ended(runtime: &NodeRuntime, left: Option<ShardId>, client: u64) {
    if let Some(shard) = left {
        runtime.scripts.has_ended(shard, client);
    }
}
