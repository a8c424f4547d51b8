//! The state that a shard's entries have made, which readers see under the read guard.

use std::sync::Arc;

use hlc::UnsettledFloor;
use keyspace::codec::{DecodeError, Reader};
use keyspace::linear_hash::bit_reversed_hash;
use keyspace::{Arc as RingArc, Cut, Descriptor, HashedKey, KeyspaceId, Slot, Timestamp, slot_of};
use replication::Members;
use smallvec::SmallVec;
use storage::engine::{Layout, MemoryEngine, Settings};

use crate::replica::SafePoint;
use crate::replica::catalogue::{self, System};
use crate::replica::entry::{self, Header, Kind, UnknownEntry};
use crate::replica::members::{ChangeStep, Roster};
use crate::replica::reply_budget::ReplyBudget;
use crate::replica::serving::Serving;
use crate::reshape::merge::{self, MergeStatus};
use crate::reshape::split::{Half, Split};
use crate::routing::session::{BatchId, BatchVerdict, Sessions};
use crate::tracking::changed::ChangedKeys;
use command::flush;
use command::{self, Fence, Refusal, Reply, Write, codec};
use txn::locks::apply::Owns;
use txn::locks::{self, Locks, Step as TxnStep, StepReply};

/// One shard's applied state. Executors change it entry by entry under the write guard; connections
/// read it under the read guard (SAFETY G1).
pub struct ShardState {
    /// Id, arc and replicas of the shard.
    pub descriptor: Descriptor,
    /// What it holds.
    pub content: Content,
    /// The replicas that decide, as the log has made them; `descriptor` says where they are.
    pub members: Members,
    /// What else the log has made of the replicas.
    pub roster: Roster,
    /// Whether it is about to become one with a neighbour.
    pub merging: MergeStatus,
    /// How many snapshots have replaced the state.
    pub installed: u64,
    /// How often it was split here, or has taken a neighbour in.
    pub cuts: u64,
    /// Whether its left neighbour has taken over all it held: it owns nothing any more.
    pub merged_away: bool,
    /// Until when linearizable reads may be served here (G1 check 2).
    pub serving: Arc<Serving>,
    /// Index of the newest entry applied.
    pub applied_index: u64,
    /// Its term.
    pub applied_term: u64,
    /// Up to where readers may be promised that the past is closed (G2).
    pub horizon: Timestamp,
    /// The newest timestamp applied.
    pub last: Timestamp,
    /// Which batches of other nodes were applied, and with which replies (G10).
    pub sessions: Sessions,
    /// What is known of transactions over several shards (G8).
    pub locks: Locks,
    /// Whom it lets write blocks, of a volume (G28).
    pub fence: Fence,
    /// From which time on entries in flight may still change the state.
    pub unsettled: Arc<UnsettledFloor>,
}

impl std::fmt::Debug for ShardState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardState({} at {})", self.descriptor.shard, self.applied_index)
    }
}

/// What a shard holds.
pub enum Content {
    /// Keys and their versions.
    Keys(Box<MemoryEngine>),
    /// The catalogue of keyspaces: the system shard.
    System(System),
}

/// Index and term of the entry before a shard's first.
pub const BEFORE_FIRST_ENTRY: (u64, u64) = (1, 1);

/// What applying an entry led to, beside the replies.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// Nothing that anyone outside the shard must know.
    Quiet,
    /// The catalogue was asked to change; what it said.
    Catalogue(Result<catalogue::Change, keyspace::CatalogueError>),
    /// A keyspace's safe point has risen: its shards must follow.
    SafePoint(KeyspaceId, SafePoint),
    /// A step of a change of replicas: the group must take it too.
    Members(ChangeStep),
    /// A change of replicas has ended for good.
    Settled,
    /// What became of a batch that is applied once.
    SessionBatch(BatchVerdict),
    /// The shard's replies to steps of transactions, in their order.
    Steps(Vec<StepReply>),
    /// The state as of this entry is to be digested.
    Check,
    /// The shard was split: what the right half begins with.
    Split(Half),
    /// It has taken a step towards becoming one with a neighbour, or back.
    Merge,
}

impl ShardState {
    /// A new shard's state. Its log begins behind index 1. So a later replica begins with a
    /// snapshot, and never applies entries whose members it cannot know.
    pub fn new(descriptor: Descriptor, content: Content) -> Self {
        let voters: Vec<_> = descriptor.replicas.iter().map(|(id, _)| *id).collect();
        Self {
            roster: Roster::of(&descriptor),
            descriptor,
            content,
            members: Members::of_voters(&voters),
            merging: MergeStatus::None,
            installed: 0,
            cuts: 0,
            merged_away: false,
            serving: Arc::default(),
            applied_index: BEFORE_FIRST_ENTRY.0,
            applied_term: BEFORE_FIRST_ENTRY.1,
            horizon: Timestamp::ZERO,
            last: Timestamp::ZERO,
            sessions: Sessions::default(),
            locks: Locks::default(),
            fence: Fence::default(),
            unsettled: Arc::default(),
        }
    }

    /// The first state of a shard, from its bootstrap record.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not those of such a record.
    pub fn created(record: &[u8], settings: impl Into<Settings>) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(record);
        let placement = reader.u8()?;
        let descriptor = Descriptor::decode(&mut reader)?;
        reader.end()?;
        let content = match placement {
            HASHED => {
                Content::Keys(Box::new(MemoryEngine::new(hashed_layout(&descriptor)?, settings)))
            }
            ORDERED => Content::Keys(Box::new(MemoryEngine::new(Layout::Ordered, settings))),
            LINEAR_HASH => Content::Keys(Box::new(MemoryEngine::new(Layout::LinearHash, settings))),
            SYSTEM => Content::System(System::default()),
            _ => return Err(DecodeError::Field { what: "placement of a shard" }),
        };
        Ok(Self::new(descriptor, content))
    }

    /// The state of a replica that waits for a snapshot of its group: nothing, of the right kind.
    ///
    /// # Errors
    /// As [`Self::created`].
    pub fn awaiting(record: &[u8], settings: impl Into<Settings>) -> Result<Self, DecodeError> {
        let born = Self::created(record, settings)?;
        Ok(Self { members: Members::default(), applied_index: 0, applied_term: 0, ..born })
    }

    /// The bootstrap record of a shard with this state's descriptor and kind of content.
    pub fn bootstrap_record(&self) -> Vec<u8> {
        let placement = match &self.content {
            Content::System(_) => SYSTEM,
            Content::Keys(engine) => match engine.layout() {
                Layout::Hashed { .. } => HASHED,
                Layout::Ordered => ORDERED,
                Layout::LinearHash => LINEAR_HASH,
            },
        };
        let mut out = vec![placement];
        self.descriptor.encode(&mut out);
        out
    }

    /// Counts replacements and splits of this state. A reader in several pieces starts again when
    /// it changes.
    pub fn replacements(&self) -> u64 {
        self.installed + self.cuts
    }

    /// The engine of a shard that holds keys.
    pub fn engine(&self) -> Option<&MemoryEngine> {
        match &self.content {
            Content::Keys(engine) => Some(engine),
            Content::System(_) => None,
        }
    }

    /// As [`Self::engine`], to change it.
    pub fn engine_mut(&mut self) -> Option<&mut MemoryEngine> {
        match &mut self.content {
            Content::Keys(engine) => Some(engine),
            Content::System(_) => None,
        }
    }

    /// Applies one entry: a pure function of state and entry (SAFETY G3). Replies to its commands
    /// are appended to `replies`, one each.
    ///
    /// # Panics
    /// If the entry cannot be read: it was checked when it was proposed, and its bytes are
    /// checksummed in the log, so this is a broken invariant and the node must stop. Or a newer
    /// version has written it ([`UnknownEntry`]), and passing over it is no way either.
    pub fn apply(&mut self, entry: &replication::Entry, replies: &mut Vec<Reply>) -> Outcome {
        self.apply_observed(entry, replies, &mut None)
    }

    /// As [`Self::apply`], and names the keys that it changes.
    pub(crate) fn apply_observed(
        &mut self,
        entry: &replication::Entry,
        replies: &mut Vec<Reply>,
        changed: &mut Option<ChangedKeys>,
    ) -> Outcome {
        assert_eq!(entry.index(), self.applied_index + 1, "entries are applied without gaps");
        self.applied_index = entry.index();
        self.applied_term = entry.term();
        if entry.data().is_empty() {
            return Outcome::Quiet;
        }
        let known = Header::decode(entry.data()).filter(|(header, _)| {
            header.kind != Kind::Catalogue || entry::since(entry.data()).is_some()
        });
        let Some((header, body)) = known else {
            let shard = self.descriptor.shard;
            let unknown = UnknownEntry::of(shard, entry.index(), entry.data());
            panic!("{}", unknown.expect("an entry that cannot be read is unknown"));
        };
        if header.term != entry.term() {
            // Forwarded by a leader that had lost its term: nobody waits for it (G3).
            return Outcome::Quiet;
        }
        assert!(header.timestamp > self.last, "timestamps rise with the log index (G2)");
        self.last = header.timestamp;
        self.apply_body(header, body, replies, changed)
    }

    fn apply_body(
        &mut self,
        header: Header,
        body: &[u8],
        replies: &mut Vec<Reply>,
        changed: &mut Option<ChangedKeys>,
    ) -> Outcome {
        if self.merging.is_frozen() && !matches!(header.kind, Kind::Merge | Kind::Members) {
            return self.apply_frozen(header, body, replies);
        }
        if let Content::Keys(engine) = &mut self.content {
            engine.skip_equal_writes(header.skips_equal);
        }
        match (header.kind, &mut self.content) {
            (Kind::Commands, Content::Keys(engine)) => {
                let shard = (&self.descriptor.arc, &self.locks, &mut self.fence);
                apply_commands((engine, changed), shard, header, body, replies);
                Outcome::Quiet
            }
            (Kind::SessionBatch, Content::Keys(engine)) => {
                let (id, commands) = BatchId::split(body).expect("entries in the log are readable");
                let verdict = self.sessions.judge(id, header.timestamp.millis());
                Outcome::SessionBatch(verdict.unwrap_or_else(|| {
                    let mut replies = Vec::new();
                    let shard = (&self.descriptor.arc, &self.locks, &mut self.fence);
                    apply_commands((engine, changed), shard, header, commands, &mut replies);
                    self.sessions.applied(id, &replies)
                }))
            }
            (Kind::Steps, Content::Keys(engine)) => {
                let arc = &self.descriptor.arc;
                Outcome::Steps(apply_steps(&mut self.locks, (engine, changed), arc, header, body))
            }
            (Kind::Horizon, _) => {
                self.horizon = self.horizon.max(read_timestamp(body));
                Outcome::Quiet
            }
            (Kind::Members, _) => {
                Outcome::Members(ChangeStep::decode(body).expect("entries in the log are readable"))
            }
            (Kind::Settle, _) => {
                self.roster.settle(&mut self.descriptor, &self.members);
                Outcome::Settled
            }
            (Kind::Check, _) => Outcome::Check,
            (Kind::Split, _) => {
                let split = Split::decode(body).expect("entries in the log are readable");
                self.split(&split).map_or(Outcome::Quiet, Outcome::Split)
            }
            (Kind::Merge, _) => {
                self.merge(
                    &merge::MergeStep::decode(body).expect("entries in the log are readable"),
                );
                Outcome::Merge
            }
            (Kind::SafePoint, Content::Keys(engine)) => {
                // SAFETY G14.
                let to = SafePoint::decode(body).expect("entries in the log are readable");
                engine.raise(to.at.min(self.locks.below()), &to.pins);
                Outcome::Quiet
            }
            (Kind::Catalogue, Content::System(system)) => {
                let voters = self.members.voters.iter();
                let places = voters.filter_map(|replica| self.descriptor.node_of(*replica));
                let places = places.collect::<Vec<_>>();
                Outcome::Catalogue(system.apply(body, &places, header.timestamp))
            }
            (Kind::KeyspaceSafePoint, Content::System(system)) => {
                let (id, to) = body.split_at(4);
                let id = KeyspaceId(u32::from_le_bytes(id.try_into().expect("split at 4")));
                let point = system.raise_safe_point(id, read_timestamp(to), header.timestamp);
                Outcome::SafePoint(id, point)
            }
            (kind, _) => {
                panic!("an entry of kind {kind:?} in the log of a shard that has no use for it")
            }
        }
    }

    /// Nothing that its left neighbour would take over changes any more: commands are turned away,
    /// as what is not its own.
    fn apply_frozen(&self, header: Header, body: &[u8], replies: &mut Vec<Reply>) -> Outcome {
        match header.kind {
            Kind::Commands => {
                let from = self.descriptor.arc.ends().0;
                replies.extend((0..header.count).map(|_| Reply::Moved { from: from.clone() }));
                Outcome::Quiet
            }
            Kind::SessionBatch => {
                let (id, _) = BatchId::split(body).expect("entries in the log are readable");
                let known = self.sessions.look_up(id);
                Outcome::SessionBatch(known.unwrap_or(BatchVerdict::Gap { next: id.sequence }))
            }
            Kind::Steps => Outcome::Steps(vec![StepReply::Moved; header.count as usize]),
            Kind::Check => Outcome::Check,
            _ => Outcome::Quiet,
        }
    }

    /// A step of a change of replicas is applied, which has made these the members.
    pub(crate) fn change_members(&mut self, step: &ChangeStep, members: Members) {
        self.members = members;
        step.apply(&mut self.descriptor, &mut self.roster);
    }

    /// Whether this shard owns the key, at its current generation (G1 check 1).
    pub fn owns(&self, key: &HashedKey<'_>) -> bool {
        match self.engine().map(MemoryEngine::layout) {
            Some(Layout::Hashed { first_slot, end_slot }) => {
                (first_slot..end_slot).contains(&key.slot)
            }
            Some(Layout::Ordered) => !self.merged_away && self.descriptor.arc.holds(key.bytes),
            Some(Layout::LinearHash) => {
                !self.merged_away && has_number(&self.descriptor.arc, key.bytes)
            }
            None => false,
        }
    }
}

/// What an entry changes, and the observer, if anyone is interested.
type Observed<'a> = (&'a mut MemoryEngine, &'a mut Option<ChangedKeys>);

/// Applies the commands of an entry, in order. Their keys are looked up a few at a time ahead of
/// their use: most of a write's time is waiting for memory.
fn apply_commands(
    (engine, changed): Observed<'_>,
    (arc, locks, fence): (&RingArc, &Locks, &mut Fence),
    header: Header,
    body: &[u8],
    replies: &mut Vec<Reply>,
) {
    let (hasher, layout) = (engine.hasher(), engine.layout());
    let mut rest = body;
    let mut left = header.count as usize;
    replies.reserve(left);
    let mut ahead = SmallVec::<[_; AHEAD]>::new();
    let any_locked = !locks.is_free();
    let mut budget = ReplyBudget::default();
    while left > 0 {
        for _ in 0..left.min(AHEAD) {
            let write = codec::decode(&mut rest).expect("commands in the log are readable");
            let key = hasher.key(write.first_key());
            // A piece names no key, and what is not the shard's must not be looked up.
            if !write.is_piece() {
                engine.prefetch(&key);
            }
            ahead.push((write, key));
        }
        for (_, key) in ahead.iter().filter(|(write, _)| !write.is_piece()) {
            engine.prefetch_record(key);
        }
        left -= ahead.len();
        for (write, key) in &ahead {
            let at = header.timestamp;
            replies.push(match write {
                // The lock has come with a shard that was taken in: its transaction may write here
                // at an earlier time than this.
                Write::Flush { from: Some(from), .. } if any_locked => {
                    Reply::Moved { from: from.clone() }
                }
                Write::Flush { from, end } => {
                    let (here, rest) = flush::part(arc, from.as_ref(), end);
                    let done = here.map_or(Reply::Ok, |write| {
                        command::apply_observed(engine, &write, key, at, changed)
                    });
                    rest.map_or(done, |from| Reply::Moved { from })
                }
                Write::Fence { writer, from, end } => fence.apply(*writer, arc, (from, end)),
                _ if any_locked && is_locked(locks, write) => Reply::Moved { from: Cut::Slot(0) },
                _ if !is_owned(layout, arc, write, key) => Reply::Moved { from: Cut::Slot(0) },
                Write::Block { writer, .. } if !fence.admits(*writer) => {
                    Reply::Fenced { epoch: fence.epoch() }
                }
                Write::Transaction(read) if budget.refuses(read, engine, at) => {
                    Reply::Array(vec![Reply::Refused(Refusal::TooMuch)])
                }
                _ => command::apply_observed(engine, write, key, at, changed),
            });
        }
        ahead.clear();
    }
    // Each write collects at twice the pace at which old versions arise: the new ones can use that
    // memory at once.
    engine.collect(COLLECT_PER_COMMAND * header.count as usize);
}

/// Whether a transaction has locked a key of a command. A leader proposes no such command, unless
/// the lock has come with a shard that was taken in meanwhile.
#[cold]
#[inline(never)]
fn is_locked(locks: &Locks, write: &Write<'_>) -> bool {
    let mut any = false;
    write.each_key(&mut |key| any |= locks.blocking_lock(key).is_some());
    any
}

/// Applies the steps of an entry, in order.
fn apply_steps(
    locks: &mut Locks,
    (engine, changed): Observed<'_>,
    arc: &RingArc,
    header: Header,
    body: &[u8],
) -> Vec<StepReply> {
    let (at, layout) = (header.timestamp, engine.layout());
    locks.forget(at);
    let owns = |key: &[u8]| match layout {
        Layout::Hashed { first_slot, end_slot } => (first_slot..end_slot).contains(&slot_of(key)),
        Layout::Ordered => arc.holds(key),
        Layout::LinearHash => has_number(arc, key),
    };
    let end = arc.end();
    let owns = Owns {
        arc,
        key: &owns,
        // What begins here.
        up_to: &|high| end.is_origin() || high.is_some_and(|high| high <= end.tail()),
    };
    let reader = &mut Reader::new(body);
    let decode = |_| TxnStep::decode(reader).expect("steps in the log are readable");
    let steps: Vec<TxnStep<'_>> = (0..header.count).map(decode).collect();
    look_ahead(engine, &steps, owns.key);
    let apply = |step| locks::apply::apply(locks, engine, step, at, &owns, changed);
    let replies = steps.iter().map(apply).collect();
    engine.collect(COLLECT_PER_COMMAND * header.count as usize);
    replies
}

/// Looks up the first keys that steps read or write ahead of their use, those of the shard.
fn look_ahead(engine: &MemoryEngine, steps: &[TxnStep<'_>], owns: impl Fn(&[u8]) -> bool) {
    let hasher = engine.hasher();
    let mut ahead = SmallVec::<[_; AHEAD]>::new();
    for step in steps {
        // Nothing else comes to the engine.
        if matches!(step, TxnStep::Prepare(_) | TxnStep::Decide { .. } | TxnStep::Resolve { .. }) {
            step.each_key(&mut |key| {
                if ahead.len() < AHEAD && owns(key) {
                    ahead.push(hasher.key(key));
                }
            });
        }
    }
    ahead.iter().for_each(|key| engine.prefetch(key));
    ahead.iter().for_each(|key| engine.prefetch_record(key));
}

/// Whether all keys of a command are the shard's: it may have been proposed before the shard was
/// split.
#[inline]
fn is_owned(layout: Layout, arc: &RingArc, write: &Write<'_>, first: &HashedKey<'_>) -> bool {
    let each = |is_here: &dyn Fn(&[u8]) -> bool| {
        let mut are_here = true;
        write.each_key(&mut |key| are_here &= is_here(key));
        are_here
    };
    let (first_slot, end_slot) = match layout {
        Layout::Hashed { first_slot, end_slot } => (first_slot, end_slot),
        Layout::Ordered => return each(&|key| arc.holds(key)),
        Layout::LinearHash => return each(&|key| has_number(arc, key)),
    };
    let is_here = |slot: Slot| (first_slot..end_slot).contains(&slot);
    match write {
        Write::SetAllIfAbsent { .. }
        | Write::Rename { .. }
        | Write::Copy { .. }
        | Write::Transaction(_) => each(&|key| is_here(slot_of(key))),
        _ => is_here(first.slot),
    }
}

/// Whether an arc of linear hashing holds a key: its number decides.
#[inline]
fn has_number(arc: &RingArc, key: &[u8]) -> bool {
    arc.holds(&bit_reversed_hash(key).to_be_bytes())
}

/// Old versions collected for each command applied, if they are below the safe point.
const COLLECT_PER_COMMAND: usize = 2;

/// Commands looked up ahead.
const AHEAD: usize = 16;

fn read_timestamp(bytes: &[u8]) -> Timestamp {
    Timestamp(u64::from_le_bytes(bytes.try_into().expect("a timestamp of eight bytes")))
}

const HASHED: u8 = 0;
const ORDERED: u8 = 1;
const SYSTEM: u8 = 2;
const LINEAR_HASH: u8 = 3;

/// The layout of a hashed shard: the slots of its arc.
fn hashed_layout(descriptor: &Descriptor) -> Result<Layout, DecodeError> {
    let slots = descriptor.arc.slots();
    let (first_slot, end_slot) =
        slots.ok_or(DecodeError::Field { what: "arc of a hashed shard" })?;
    Ok(Layout::Hashed { first_slot, end_slot })
}
