//! What a connection whose client caches must still hear, in its place among the replies owed
//! ([`super::tracking`]).
//!
//! ```text
//!   own change, or another version than shown before ──► invalidation ── reply
//!   change by others ──► invalidation ── replies owed ──► if they may show the key as it was
//!                                                         before: invalidation again
//! ```

use std::collections::{BTreeSet, VecDeque};

use command::Sink as _;
use gateway::resp::{RespWriter, Version};
use node::tracking::interests::Invalidation;
use node::tracking::unheard::Unheard;

use super::pending_reply::ReplyState;
use crate::runtime::tracking::Client;

/// Where invalidations of RESP2 clients are published.
const CHANNEL: &[u8] = b"__redis__:invalidate";
/// Numbers of replies have so many bits.
const MASK: u32 = u32::MAX >> 1;

/// What a connection that tracks must still hear.
pub(super) struct TrackingConnection {
    /// Its name in the node's table.
    pub client: Client,
    /// To be said before replies that are owed, oldest first.
    own_writes: VecDeque<OwnWrite>,
    /// Replies owed that show keys, oldest first.
    shows: VecDeque<ShowingReply>,
    /// The last that it heard is that any key may have changed, and it has held nothing since.
    is_flushed: bool,
    /// How often it has held keys.
    holds: u32,
    /// What the connection must hear that hears in its place.
    pub unsent: Unheard,
    /// How often its next command has had keys registered.
    pub tries: u32,
    /// Keys that its next command shows as they were before they were registered: the client hears
    /// behind the reply that they have changed.
    pub doubtful: Vec<Box<[u8]>>,
    /// Which versions its command has shown is known.
    pub knows_versions: bool,
}

/// What is to be said before a reply.
pub(super) struct OwnWrite {
    /// Of the reply.
    pub number: u32,
    pub what: Invalidation,
    /// The client need not hear of it if it is done (NOLOOP).
    pub is_silent: bool,
    /// Another connection hears of it.
    pub is_redirected: bool,
    /// The command flushes, and the connection had held keys so often when it came.
    pub flushes_after: Option<u32>,
}

/// A reply owed that shows keys as they may be by now, or as they were before.
pub(super) struct ShowingReply {
    number: u32,
    /// The keys. None: not known yet.
    keys: Option<BTreeSet<Box<[u8]>>>,
    /// Whether the client may cache them.
    pub caches: bool,
    /// Keys that it holds no more, though they may not change (NOLOOP).
    pub released: Vec<Box<[u8]>>,
    /// What has changed since the command came. To be said behind the reply.
    heard: Unheard,
    /// Another connection hears of it.
    is_redirected: bool,
}

impl ShowingReply {
    /// A reply that shows these keys. None: not known yet.
    pub fn new(number: u32, keys: Option<BTreeSet<Box<[u8]>>>, is_redirected: bool) -> Self {
        let (released, heard) = (Vec::new(), Unheard::default());
        Self { number, keys, caches: true, released, heard, is_redirected }
    }

    /// These are to be said behind it, too.
    pub fn behind(mut self, keys: Vec<Box<[u8]>>) -> Self {
        self.hear_keys(keys);
        self
    }

    /// The same.
    pub fn hear_keys(&mut self, keys: Vec<Box<[u8]>>) {
        self.heard.add_keys(keys);
    }

    /// What it shows is known: these keys. Of the doubtful ones the client hears behind it.
    pub fn shows(&mut self, keys: BTreeSet<Box<[u8]>>, doubtful: Vec<Box<[u8]>>) {
        let heard = std::mem::take(&mut self.heard);
        self.heard.add_keys(keys.iter().filter(|key| heard.names(key)).cloned());
        self.heard.add_keys(doubtful);
        self.keys = Some(keys);
    }

    /// Whether it is not known yet which keys it shows.
    pub fn shows_unknown(&self) -> bool {
        self.keys.is_none()
    }

    /// Whether the client has heard, since the command came, that a key has changed.
    pub fn has_heard(&self, key: &[u8]) -> bool {
        self.heard.names(key)
    }

    fn hear(&mut self, what: &Invalidation) {
        match (&self.keys, what) {
            (None, what) => self.heard.add(what.clone()),
            (Some(shown), Invalidation::All) if shown.is_empty() => {}
            (Some(_), Invalidation::All) => self.heard.add(Invalidation::All),
            (Some(shown), Invalidation::Keys(keys)) => {
                self.heard.add_keys(keys.iter().filter(|key| shown.contains(*key)).cloned());
            }
        }
    }
}

impl TrackingConnection {
    /// Of a connection that begins to track.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            own_writes: VecDeque::new(),
            shows: VecDeque::new(),
            is_flushed: false,
            holds: 0,
            unsent: Unheard::default(),
            tries: 0,
            doubtful: Vec::new(),
            knows_versions: false,
        }
    }

    /// It is about to hold keys.
    pub fn holds_keys(&mut self) {
        self.is_flushed = false;
        self.holds = self.holds.wrapping_add(1);
    }

    /// How often it has held keys.
    pub fn holds(&self) -> u32 {
        self.holds
    }

    /// This is to be said before a reply.
    pub fn say_before(&mut self, own: OwnWrite) {
        let at = self.own_writes.iter().rposition(|before| is_due(before.number, own.number));
        self.own_writes.insert(at.map_or(0, |at| at + 1), own);
    }

    /// A reply is owed that shows keys.
    pub fn owe(&mut self, shows: ShowingReply) {
        self.shows.push_back(shows);
    }

    /// The reply owed of this number that shows keys, if it does.
    pub fn owed(&mut self, number: u32) -> Option<&mut ShowingReply> {
        self.shows.iter_mut().find(|shown| shown.number == number)
    }

    /// The client is about to hear this, before the reply of this number and all that are owed
    /// behind it. Whether it must be said: not twice, if it heard the same and has held nothing.
    pub fn hears(&mut self, what: &Invalidation, next: u32) -> bool {
        self.shows.iter_mut().for_each(|shown| shown.hear(what));
        if let (Some(own), Invalidation::Keys(heard)) = (self.own_writes.front_mut(), what)
            && own.number == next
            && let Invalidation::Keys(keys) = &mut own.what
        {
            keys.retain(|key| !heard.contains(key));
        }
        let is_flush = *what == Invalidation::All;
        let was_flushed = std::mem::replace(&mut self.is_flushed, is_flush);
        !(was_flushed && is_flush)
    }

    /// The reply of this number is about to be written: the client hears first what it shows.
    pub fn before_reply(
        &mut self,
        number: u32,
        state: &ReplyState,
        version: Version,
        out: &mut Vec<u8>,
    ) {
        while let Some(own) = self.own_writes.pop_front_if(|own| is_due(own.number, number)) {
            if own.is_silent && state.has_changed() {
                continue;
            }
            if own.is_redirected {
                self.unsent.add(own.what);
                continue;
            }
            self.is_flushed |= own.flushes_after == Some(self.holds);
            write_push(&own.what, version, out);
        }
    }

    /// The reply of this number was written.
    pub fn after_reply(&mut self, number: u32, version: Version, out: &mut Vec<u8>) {
        while let Some(mut shown) = self.shows.pop_front_if(|shown| is_due(shown.number, number)) {
            match shown.heard.take() {
                None => {}
                Some(what) if shown.is_redirected => self.unsent.add(what),
                Some(what) => write_push(&what, version, out),
            }
        }
    }
}

/// Whether a number is that of this reply, or of one before.
fn is_due(number: u32, reply: u32) -> bool {
    reply.wrapping_sub(number) & MASK <= MASK / 2
}

/// Writes an invalidation as a push. RESP2 has none.
pub(super) fn write_push(what: &Invalidation, version: Version, out: &mut Vec<u8>) {
    let says_nothing = matches!(what, Invalidation::Keys(keys) if keys.is_empty());
    if version == Version::V3 && !says_nothing {
        let mut writer = RespWriter::new(out, version);
        writer.push(2);
        writer.bulk(b"invalidate");
        write_keys(what, &mut writer);
    }
}

fn write_keys(what: &Invalidation, writer: &mut RespWriter<'_>) {
    match what {
        Invalidation::All => writer.nil(),
        Invalidation::Keys(keys) => {
            writer.array(keys.len());
            keys.iter().for_each(|key| writer.bulk(key));
        }
    }
}

/// An invalidation as a message of the channel for it.
pub(super) fn message(what: &Invalidation) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RespWriter::new(&mut bytes, Version::V2);
    writer.array(3);
    writer.bulk(b"message");
    writer.bulk(CHANNEL);
    write_keys(what, &mut writer);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> TrackingConnection {
        TrackingConnection::new(Client { event_loop: 0, at: 0, id: 1, number: 0 })
    }

    fn flush(number: u32, tracking: &TrackingConnection) -> OwnWrite {
        OwnWrite {
            number,
            what: Invalidation::All,
            is_silent: false,
            is_redirected: false,
            flushes_after: Some(tracking.holds()),
        }
    }

    fn reply(tracking: &mut TrackingConnection, number: u32) -> usize {
        let (mut out, answered) = (Vec::new(), ReplyState::Bytes(Vec::new()));
        tracking.before_reply(number, &answered, Version::V3, &mut out);
        tracking.after_reply(number, Version::V3, &mut out);
        out.windows(10).filter(|word| *word == b"invalidate").count()
    }

    #[test]
    fn what_is_held_behind_an_own_flush_is_said_to_have_changed() {
        for holds in [false, true] {
            let mut tracking = connection();
            tracking.holds_keys();
            tracking.say_before(flush(4, &tracking));
            if holds {
                // EXEC, behind the flush in the pipeline.
                tracking.holds_keys();
            }
            assert_eq!(reply(&mut tracking, 4), 1);
            assert_eq!(tracking.hears(&Invalidation::All, 5), holds);
            assert!(!tracking.hears(&Invalidation::All, 5));
        }
    }

    #[test]
    fn what_is_heard_while_a_reply_is_owed_is_said_behind_it_if_that_shows_it() {
        let keys = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect();
        let mut tracking = connection();
        let shown: Vec<Box<[u8]>> = keys(&["a", "b"]);
        tracking.owe(ShowingReply::new(7, Some(shown.into_iter().collect()), false));
        assert!(tracking.hears(&Invalidation::Keys(keys(&["c"])), 6));
        assert_eq!((reply(&mut tracking, 6), reply(&mut tracking, 7)), (0, 0));

        tracking.owe(ShowingReply::new(8, None, false));
        assert!(tracking.hears(&Invalidation::Keys(keys(&["a", "c"])), 8));
        let owed = tracking.owed(8).expect("it is owed");
        owed.shows(BTreeSet::from([Box::from(*b"c")]), Vec::new());
        assert!(owed.has_heard(b"c") && !owed.has_heard(b"a"));
        assert_eq!((reply(&mut tracking, 8), reply(&mut tracking, 9)), (1, 0));
    }

    #[test]
    fn an_own_change_that_was_heard_of_is_not_said_again() {
        let mut tracking = connection();
        let keys: Vec<Box<[u8]>> = vec![Box::from(*b"a")];
        let what = Invalidation::Keys(keys);
        let own = OwnWrite { what: what.clone(), flushes_after: None, ..flush(3, &tracking) };
        tracking.say_before(own);
        assert!(tracking.hears(&what, 3));
        assert_eq!(reply(&mut tracking, 3), 0);
    }
}
