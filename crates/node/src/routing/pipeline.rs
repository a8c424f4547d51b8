//! When does a read take effect behind unanswered writes of its connection (SAFETY G26)?
//!
//! ```text
//!   it can be answered from a copy of its keys ─► parked: read when all before it is answered
//!     a later write is to its shard            ─► it joins the log before that, if it may
//!     a later write is to one of its keys      ─► … or else that is held back
//!   its shard cannot be read here at once      ─► it joins the log, if it may
//!   neither                                    ─► it waits, and so does all that is behind it
//! ```
//!
//! A read may join the log if all earlier unanswered writes went to the shard of its keys, and no
//! read before it stays parked: reads of a connection take effect in their order. It is a command
//! of that log, behind the writes. Its answer counts only if the shard that gave it has answered
//! every write before it: a write that a split has sent to another shard may take effect later than
//! the read did. A read whose answer does not count, or that was refused, is parked again. If a
//! later write to its keys was sent meanwhile, the gateway replies an error instead, for the read
//! could see that write.
//!
//! A parked read that may not join holds back later writes of the connection to its keys, and
//! nothing else.
//!
//! | limit of a connection | bound | beyond |
//! |---|---|---|
//! | reads that have joined or are parked | [`READS_MAX`] | the next one waits |
//! | bytes of their copies | [`READ_BYTES_MAX`] | the same |

use std::collections::VecDeque;

use command::{Read, transaction};
use keyspace::codec::Reader;
use keyspace::{KeyspaceId, ShardId};

/// Reads of one connection that have joined a batch or are parked.
pub const READS_MAX: usize = 1024;
/// Bytes of the copies of these.
pub const READ_BYTES_MAX: usize = 64 << 10;

/// Among which shards some writes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shards {
    #[default]
    None,
    One(ShardId),
    Several,
}

impl Shards {
    #[inline]
    fn add(&mut self, shard: ShardId) {
        *self = match *self {
            Shards::None => Shards::One(shard),
            Shards::One(one) if one == shard => return,
            _ => Shards::Several,
        };
    }
}

/// What is known of a read behind unanswered writes.
#[derive(Clone, Copy, Debug)]
pub struct ReadTraits {
    /// The shard in which all its keys lie, if one does.
    pub shard: Option<ShardId>,
    /// Whether that shard can be read here at once.
    pub is_served: bool,
    /// Whether a log may carry it.
    pub may_join: bool,
    /// Whether it can be answered later from a copy of its keys.
    pub may_park: bool,
}

/// What becomes of a read behind unanswered writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPlan {
    /// It is the next command of this shard's batch.
    Join(ShardId),
    /// It is read when all before it is answered; it may join this shard's log before that.
    Park(Option<ShardId>),
    /// It waits until nothing is owed, and all that is behind it waits too.
    Wait,
}

/// What must be done before a write to some key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeWrite {
    /// Nothing.
    Nothing,
    /// This many of the oldest parked reads join the log ([`Pipeline::next_to_join`]).
    Join(usize),
    /// It waits until nothing is owed.
    Wait,
}

/// A read that has joined or is parked.
#[derive(Clone, Copy, Debug)]
struct HeldRead {
    keyspace: KeyspaceId,
    /// The driver's number for its reply.
    number: u32,
    /// Where its bytes begin, counted from the connection's first read.
    start: usize,
    bytes: usize,
    keys: usize,
    is_parked: bool,
    /// The shard whose log it may join while it is parked.
    shard: Option<ShardId>,
    /// Whether a later write to one of its keys was sent.
    is_overwritten: bool,
    /// Whether it has joined, and its answer is lost: it will fall back.
    is_lost: bool,
}

impl HeldRead {
    /// Whether a write to one of its keys that goes to this shard must wait for its reply.
    fn holds_back(&self, shard: ShardId) -> bool {
        self.is_lost || (self.is_parked && self.shard != Some(shard))
    }

    /// Whether it is parked and may not join.
    fn is_apart(&self) -> bool {
        self.is_parked && self.shard.is_none()
    }
}

/// A read that joins the log of a shard now.
#[derive(Debug)]
pub struct JoiningRead<'a> {
    /// The driver's number for its reply.
    pub number: u32,
    /// The shard.
    pub shard: ShardId,
    /// The read.
    pub read: Read<'a>,
}

/// The unanswered commands of one connection, as far as reads behind them must know.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// Shards to which writes went since the connection was last owed nothing.
    sent: Shards,
    /// Shards that have answered them, in the order of replies.
    answered: Shards,
    reads: VecDeque<HeldRead>,
    /// Hashes of their keys.
    hashes: VecDeque<u64>,
    /// The encoded reads, back to back, behind those that are done.
    bytes: Vec<u8>,
    /// Bytes of reads that are done.
    done_bytes: usize,
    /// Where the first of `bytes` is, counted from the connection's first read.
    base: usize,
    parked: usize,
    /// How many of the parked ones may not join.
    apart: usize,
    /// How many have joined, and have lost their answer.
    lost: usize,
    /// Planted: reads join whatever the shards of earlier writes are.
    joins_anywhere: bool,
}

impl Pipeline {
    /// Plants a fault: reads join whatever the shards of earlier writes are.
    pub fn plant_eager_join(&mut self) {
        self.joins_anywhere = true;
    }

    /// A write goes to this shard.
    #[inline]
    pub fn wrote(&mut self, shard: ShardId) {
        self.sent.add(shard);
    }

    /// This shard has answered a write, in the order of replies.
    #[inline]
    pub fn answered(&mut self, shard: ShardId) {
        self.answered.add(shard);
    }

    /// Nothing is owed any more.
    #[inline]
    pub fn all_are_answered(&mut self) {
        debug_assert!(self.reads.is_empty(), "reads are owed a reply each");
        (self.sent, self.answered) = (Shards::None, Shards::None);
    }

    /// Decides about a read while something is owed.
    pub fn plan(&self, read: &ReadTraits) -> ReadPlan {
        if self.reads.len() >= READS_MAX || self.bytes.len() - self.done_bytes >= READ_BYTES_MAX {
            return ReadPlan::Wait;
        }
        let may_join = read.may_join && self.apart == 0;
        let joins = read.shard.filter(|shard| may_join && self.sent == Shards::One(*shard));
        match (joins, read.shard) {
            (_, Some(shard)) if self.joins_anywhere && read.may_join => ReadPlan::Join(shard),
            (Some(shard), _) if self.parked == 0 && !(read.is_served && read.may_park) => {
                ReadPlan::Join(shard)
            }
            _ if read.may_park => ReadPlan::Park(joins),
            _ => ReadPlan::Wait,
        }
    }

    /// Copies a read that joins or is parked; its reply has this number.
    pub fn add(
        &mut self,
        keyspace: KeyspaceId,
        read: &Read<'_>,
        number: u32,
        hash: impl Fn(&[u8]) -> u64,
        plan: ReadPlan,
    ) {
        let before = self.bytes.len();
        transaction::encode_read(read, &mut self.bytes);
        let (bytes, keys) = (self.bytes.len() - before, read.keys().len());
        self.hashes.extend(read.keys().iter().map(|key| hash(key)));
        let (is_parked, shard) = match plan {
            ReadPlan::Park(shard) => (true, shard),
            ReadPlan::Join(_) | ReadPlan::Wait => (false, None),
        };
        let held = HeldRead {
            keyspace,
            number,
            start: self.base + before,
            bytes,
            keys,
            is_parked,
            shard,
            is_overwritten: false,
            is_lost: false,
        };
        self.parked += usize::from(is_parked);
        self.apart += usize::from(held.is_apart());
        self.reads.push_back(held);
    }

    /// Whether there are no reads that have joined or are parked.
    #[inline]
    pub fn has_no_reads(&self) -> bool {
        self.reads.is_empty()
    }

    /// What must be done before a write to a key of this shard, with this hash, is sent: parked
    /// reads of the key must not see it, and those that may join the shard's log come before it.
    pub fn before_write(&self, shard: ShardId, hash: u64) -> BeforeWrite {
        if self.parked == 0 && self.lost == 0 {
            return BeforeWrite::Nothing;
        }
        // Mostly no read is of that key.
        if self.hashes.contains(&hash) {
            let mut hashes = self.hashes.iter();
            for read in &self.reads {
                // All of its own are taken, so that those of the next come next.
                let own = hashes.by_ref().take(read.keys);
                let is_of_it = own.filter(|of| **of == hash).count() > 0;
                if is_of_it && read.holds_back(shard) {
                    return BeforeWrite::Wait;
                }
            }
        }
        if self.parked == self.apart {
            return BeforeWrite::Nothing;
        }
        // Those that may join are of one shard, and come before the others, unless one has fallen
        // back.
        match self.oldest_parked().and_then(|place| self.reads[place].shard) {
            None => BeforeWrite::Wait,
            Some(of) if of == shard => BeforeWrite::Join(self.parked - self.apart),
            Some(_) => BeforeWrite::Nothing,
        }
    }

    /// The place of the oldest parked read: behind those that have joined, unless the first of
    /// these has fallen back.
    fn oldest_parked(&self) -> Option<usize> {
        let has_fallen_back = self.reads.front().is_some_and(|read| read.is_parked);
        let place = if has_fallen_back { 0 } else { self.reads.len() - self.parked };
        (self.parked > 0).then_some(place)
    }

    /// The oldest parked read, which may join the log.
    pub fn next_to_join(&self) -> Option<JoiningRead<'_>> {
        let held = self.reads[self.oldest_parked()?];
        let mut reader = Reader::new(&self.bytes[held.start - self.base..]);
        let read = transaction::decode_read(&mut reader).expect("it was encoded here");
        Some(JoiningRead { number: held.number, shard: held.shard?, read })
    }

    /// The oldest parked read has joined the log.
    pub fn has_joined(&mut self) {
        if let Some(place) = self.oldest_parked() {
            let oldest = &mut self.reads[place];
            (oldest.is_parked, oldest.shard) = (false, None);
            self.parked -= 1;
        }
    }

    /// A write to the key of this hash is sent: reads of it that have joined were before it.
    pub fn overwrites(&mut self, hash: u64) {
        if !self.hashes.contains(&hash) {
            return;
        }
        let mut hashes = self.hashes.iter();
        for read in &mut self.reads {
            let is_of_it = hashes.by_ref().take(read.keys).filter(|of| **of == hash).count() > 0;
            read.is_overwritten |= is_of_it;
        }
    }

    /// Whether the answer counts that this shard has given the oldest read, which has joined.
    pub fn counts(&self, by: ShardId) -> bool {
        self.joins_anywhere || self.answered == Shards::One(by)
    }

    /// The read of this number has joined, and has no answer, or one that is too long to be held.
    /// It will fall back, and holds back later writes to its keys until then. `false` if one was
    /// sent already: then it cannot.
    pub fn loses(&mut self, number: u32) -> bool {
        let Some(read) = self.reads.iter_mut().find(|read| read.number == number) else {
            return false;
        };
        if read.is_overwritten {
            return false;
        }
        self.lost += usize::from(!read.is_lost);
        read.is_lost = true;
        true
    }

    /// The oldest read has joined, and has no answer that counts: it is parked now, unless a later
    /// write to its keys was sent. Then it is not.
    pub fn falls_back(&mut self) -> bool {
        let Some(oldest) = self.reads.front_mut() else { return false };
        if oldest.is_overwritten {
            return false;
        }
        self.lost -= usize::from(std::mem::take(&mut oldest.is_lost));
        (oldest.is_parked, oldest.shard) = (true, None);
        self.parked += 1;
        self.apart += 1;
        // Reads behind it that have joined took effect before it does.
        self.answered = Shards::Several;
        true
    }

    /// The reads in their order, each with its keyspace.
    pub fn reads(&self) -> impl Iterator<Item = (KeyspaceId, Read<'_>)> {
        let mut reader = Reader::new(&self.bytes[self.done_bytes..]);
        self.reads.iter().map(move |held| {
            let read = transaction::decode_read(&mut reader);
            (held.keyspace, read.expect("it was encoded here"))
        })
    }

    /// The oldest read is done.
    pub fn pop(&mut self) {
        let Some(done) = self.reads.pop_front() else { return };
        self.parked -= usize::from(done.is_parked);
        self.apart -= usize::from(done.is_apart());
        self.lost -= usize::from(done.is_lost);
        self.hashes.drain(..done.keys);
        self.done_bytes += done.bytes;
        if self.reads.is_empty() {
            self.base += self.bytes.len();
            self.bytes.clear();
            self.done_bytes = 0;
        } else if self.done_bytes > READ_BYTES_MAX {
            self.bytes.drain(..self.done_bytes);
            self.base += self.done_bytes;
            self.done_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ShardId = ShardId(1);
    const TWO: ShardId = ShardId(2);

    /// A read of a shard that is led elsewhere.
    fn of(shard: ShardId) -> ReadTraits {
        ReadTraits { shard: Some(shard), is_served: false, may_join: true, may_park: true }
    }

    /// A read of a shard that is led here.
    fn here(shard: ShardId) -> ReadTraits {
        ReadTraits { is_served: true, ..of(shard) }
    }

    fn hash(key: &[u8]) -> u64 {
        key.iter().map(|byte| u64::from(*byte)).sum()
    }

    fn add(pipeline: &mut Pipeline, key: &[u8], plan: ReadPlan) {
        let number = pipeline.reads.len() as u32;
        pipeline.add(KeyspaceId(1), &Read::Get(key), number, hash, plan);
    }

    #[test]
    fn reads_join_only_behind_writes_of_their_shard() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Join(ONE));
        assert_eq!(pipeline.plan(&here(ONE)), ReadPlan::Park(Some(ONE)));
        let joins_only = ReadTraits { may_park: false, ..here(ONE) };
        assert_eq!(pipeline.plan(&joins_only), ReadPlan::Join(ONE));
        assert_eq!(pipeline.plan(&of(TWO)), ReadPlan::Park(None));
        let never_joins = ReadTraits { may_join: false, ..of(ONE) };
        assert_eq!(pipeline.plan(&never_joins), ReadPlan::Park(None));
        assert_eq!(pipeline.plan(&ReadTraits { may_park: false, ..of(TWO) }), ReadPlan::Wait);
        let apart = ReadTraits { shard: None, ..of(ONE) };
        assert_eq!(pipeline.plan(&apart), ReadPlan::Park(None));
        pipeline.wrote(TWO);
        assert_eq!(pipeline.plan(&of(TWO)), ReadPlan::Park(None), "a write is in another shard");
        pipeline.all_are_answered();
        pipeline.wrote(TWO);
        assert_eq!(pipeline.plan(&of(TWO)), ReadPlan::Join(TWO));
    }

    #[test]
    fn no_read_joins_before_one_that_stays_parked() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        add(&mut pipeline, b"of two", ReadPlan::Park(None));
        assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Park(None));
        pipeline.pop();
        assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Join(ONE));
        add(&mut pipeline, b"a", ReadPlan::Park(Some(ONE)));
        assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Park(Some(ONE)), "both may join in order");
        pipeline.pop();
    }

    #[test]
    fn parked_reads_that_may_not_join_hold_back_writes_to_their_keys_only() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        let read = Read::Exists(vec![b"a", b"b"]);
        pipeline.add(KeyspaceId(1), &read, 7, hash, ReadPlan::Park(None));
        add(&mut pipeline, b"c", ReadPlan::Park(None));
        let held = |pipeline: &mut Pipeline| {
            [b"a", b"b", b"c", b"d"].map(|key| match pipeline.before_write(ONE, hash(key)) {
                BeforeWrite::Nothing => false,
                BeforeWrite::Wait => true,
                joins => panic!("{joins:?}"),
            })
        };
        assert_eq!(held(&mut pipeline), [true, true, true, false]);
        let keys: Vec<Vec<&[u8]>> =
            pipeline.reads().map(|(_, read)| read.keys().to_vec()).collect();
        assert_eq!(keys, [vec![&b"a"[..], b"b"], vec![b"c"]]);
        pipeline.pop();
        assert_eq!(held(&mut pipeline), [false, false, true, false]);
        pipeline.pop();
        assert!(pipeline.has_no_reads() && held(&mut pipeline) == [false; 4]);
    }

    #[test]
    fn parked_reads_join_in_their_order_before_a_write_to_their_shard() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        for key in [b"a", b"b"] {
            add(&mut pipeline, key, ReadPlan::Park(Some(ONE)));
        }
        add(&mut pipeline, b"c", ReadPlan::Park(None));
        assert_eq!(pipeline.before_write(TWO, hash(b"d")), BeforeWrite::Nothing);
        assert_eq!(pipeline.before_write(ONE, hash(b"c")), BeforeWrite::Wait);
        assert_eq!(pipeline.before_write(ONE, hash(b"d")), BeforeWrite::Join(2));
        assert_eq!(pipeline.before_write(ONE, hash(b"b")), BeforeWrite::Join(2));
        for (number, key) in [(0, b"a"), (1, b"b")] {
            let next = pipeline.next_to_join().expect("two are to join");
            assert_eq!((next.number, next.shard, next.read), (number, ONE, Read::Get(key)));
            pipeline.has_joined();
        }
        pipeline.overwrites(hash(b"b"));
        assert_eq!(pipeline.before_write(ONE, hash(b"b")), BeforeWrite::Nothing);
        pipeline.answered(ONE);
        assert!(pipeline.counts(ONE));
        (0..3).for_each(|_| pipeline.pop());
        pipeline.all_are_answered();
    }

    #[test]
    fn answer_does_not_count_if_a_write_before_it_was_answered_elsewhere() {
        let mut pipeline = Pipeline::default();
        for (by, counts) in [(ONE, true), (TWO, false)] {
            pipeline.wrote(ONE);
            add(&mut pipeline, b"a", ReadPlan::Join(ONE));
            pipeline.answered(by);
            assert_eq!(pipeline.counts(ONE), counts);
            assert!(pipeline.falls_back(), "no later write is of its key");
            assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Park(None));
            assert_eq!(pipeline.before_write(ONE, hash(b"a")), BeforeWrite::Wait);
            pipeline.pop();
            pipeline.all_are_answered();
        }
        add(&mut pipeline, b"a", ReadPlan::Join(ONE));
        assert_eq!(
            pipeline.before_write(ONE, hash(b"a")),
            BeforeWrite::Nothing,
            "the log orders them"
        );
        pipeline.overwrites(hash(b"a"));
        assert!(!pipeline.falls_back(), "it would see the later write");
        pipeline.pop();
    }

    #[test]
    fn read_whose_answer_is_lost_holds_back_writes_until_it_has_fallen_back() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        add(&mut pipeline, b"a", ReadPlan::Join(ONE));
        add(&mut pipeline, b"b", ReadPlan::Join(ONE));
        assert_eq!(pipeline.before_write(ONE, hash(b"b")), BeforeWrite::Nothing);
        assert!(pipeline.loses(1) && pipeline.loses(1));
        let before = |pipeline: &Pipeline, key| pipeline.before_write(ONE, hash(key));
        assert_eq!(before(&pipeline, b"a"), BeforeWrite::Nothing);
        assert_eq!(before(&pipeline, b"b"), BeforeWrite::Wait);
        pipeline.answered(ONE);
        pipeline.pop();
        assert!(pipeline.falls_back());
        assert_eq!(before(&pipeline, b"b"), BeforeWrite::Wait);
        pipeline.pop();
        assert_eq!(before(&pipeline, b"b"), BeforeWrite::Nothing);
        add(&mut pipeline, b"a", ReadPlan::Join(ONE));
        pipeline.overwrites(hash(b"a"));
        assert!(!pipeline.loses(0), "a later write was sent");
        pipeline.pop();
    }

    #[test]
    fn reads_behind_one_that_fell_back_do_not_count() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        add(&mut pipeline, b"a", ReadPlan::Join(ONE));
        add(&mut pipeline, b"b", ReadPlan::Join(ONE));
        pipeline.answered(ONE);
        assert!(pipeline.counts(ONE) && pipeline.falls_back());
        pipeline.pop();
        assert!(!pipeline.counts(ONE));
        pipeline.pop();
    }

    #[test]
    fn copies_of_reads_are_bounded() {
        let mut pipeline = Pipeline::default();
        pipeline.wrote(ONE);
        for _ in 0..READS_MAX {
            assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Join(ONE));
            add(&mut pipeline, b"a", ReadPlan::Join(ONE));
        }
        assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Wait);
        (0..READS_MAX).for_each(|_| pipeline.pop());
        let parks = ReadPlan::Park(None);
        add(&mut pipeline, &vec![b'k'; READ_BYTES_MAX], parks);
        assert_eq!(pipeline.plan(&of(ONE)), ReadPlan::Wait);
        pipeline.pop();
        // A connection that is always owed something gives back what is done.
        add(&mut pipeline, b"a", parks);
        for _ in 0..100 {
            add(&mut pipeline, &vec![b'k'; 10_000], parks);
            pipeline.pop();
            add(&mut pipeline, b"a", parks);
            pipeline.pop();
            assert!(pipeline.bytes.len() < 3 * READ_BYTES_MAX);
        }
        assert_eq!(pipeline.reads().count(), 1);
    }
}
