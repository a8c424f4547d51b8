//! State of a connection: lifecycle, socket, output, next command, watched keys.

use command::ObservedVersion;
use keyspace::{ShardId, Timestamp};
use node::replica::read::ReadTime;
use node::routing::fetch::FetchedData;
use txn::interactive::InteractiveTxn;

use super::late::Executed;
use crate::runtime::lookups::Trace;

/// A connection's lifecycle. It only moves down this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionState {
    /// The client sends commands.
    Open,
    /// The client has sent its last command; some replies are still owed.
    Ended,
    /// Nothing more is read; the socket is closed when all replies are sent.
    Closing,
    /// The socket failed; the connection is dropped when no request is under way any more.
    Broken,
}

/// What poll and reads have shown of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// There may be more to read.
    pub readable: bool,
    /// The client has closed its side: read until the end is seen.
    pub hung_up: bool,
    /// It takes more.
    pub writable: bool,
}

/// Bytes on their way to the client.
#[derive(Debug, Default)]
pub struct Output {
    /// Those that were sent, and those to be sent.
    pub bytes: Vec<u8>,
    /// How many of them were sent.
    pub sent: usize,
    /// How many bytes of it count towards the bound on unread output (`event_loop::unread`).
    pub unread_bytes: usize,
    /// Bytes of pushes that wait for replies owed before them.
    pub pushes_bytes: usize,
    /// Since when a subscriber's have been many.
    pub long_since_millis: Option<u64>,
    /// Whether commands waited for them to be sent.
    pub paused: bool,
}

/// What the next command waits for, besides replies owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsFor {
    /// Nothing.
    #[default]
    Nothing,
    /// Its shard ([`node::executor::Answer::Retry`]), its keyspace, other replicas.
    Permission,
    /// So many answers about shards on other nodes.
    Fetches(u32),
}

impl WaitsFor {
    /// What it waits for after one answer has come.
    #[must_use]
    pub fn one_came(self) -> Self {
        match self {
            WaitsFor::Fetches(left) if left > 1 => WaitsFor::Fetches(left - 1),
            _ => WaitsFor::Nothing,
        }
    }
}

/// The next command: what it waits for, and what it has gathered meanwhile.
#[derive(Default)]
pub struct Next {
    /// It must not start before all replies owed are there.
    pub barrier: bool,
    /// What else it waits for.
    pub waits_for: WaitsFor,
    /// What was fetched for it.
    pub fetched: FetchedData,
    /// It is answered with this error instead of being run.
    pub refused: Option<Box<str>>,
    /// How it was to be answered when it was put off: muted or not.
    pub muted: Option<bool>,
    /// The read time of a keyspace scan that waits: it is tried again with the same.
    pub at: Option<ReadTime>,
    /// What a command that moves values from shard to shard has read by now.
    pub copy: Option<Box<InteractiveTxn>>,
    /// Of a command that reads keys of several shards: how often it has looked, and the versions
    /// that it saw last.
    pub looked: Option<(u32, Vec<ObservedVersion>)>,
    /// Whether its keys were looked up, and the lookups that ended so far.
    pub lookups: Option<Vec<Trace>>,
    /// Of an EXEC: that what shards do of it is done.
    pub executed: Option<Box<Executed>>,
    /// Scripts that are owed replies, all in the queue of this shard, and how many: other commands
    /// wait for them.
    pub scripts: Option<(ShardId, usize)>,
    /// Whether others were asked for the script or function that it names.
    pub has_asked_others: bool,
    /// Whether it has waited for a reservation, and now goes on as any other.
    pub has_waited_for_reservation: bool,
}

/// An EXEC with watched keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchedExec {
    /// There is none.
    #[default]
    None,
    /// It is handed over now.
    HandedOver,
    /// It is under way over several shards.
    OverShards,
}

/// What a connection watches, and how (`event_loop::reserve`).
#[derive(Debug, Default)]
pub struct Watching {
    /// WATCH has just been answered with all that is to be sent, nothing was watched before, and
    /// nothing but reads has been done since: see
    /// [`may_watch_later`](super::connection::Connection::may_watch_later).
    pub is_new: bool,
    /// The name under which it reserves what it watches, after a conflict.
    pub reservation_name: Option<Timestamp>,
    /// Whether it reads what it watches in several shards at once, so that it looks twice.
    pub looks_twice: bool,
    /// Its EXEC.
    pub exec: WatchedExec,
}

/// In which of its loop's lists a connection stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopLists {
    /// In the queue of those to be served.
    pub queued: bool,
    /// Among those whose output is sent at the end of the turn.
    pub touched: bool,
    /// It has stopped in the middle of long work, so that others are served; it goes on by itself.
    pub has_yielded: bool,
}
