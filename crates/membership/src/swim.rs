//! Liveness: SWIM (Das, Gupta and Motivala, DSN 2002) with suspicion, by foca.
//!
//! Every half second a node pings one other, in a shuffled round. If that is silent, it asks others
//! to ping it. If it is still silent, it becomes a suspect. A suspect that does not object is down
//! [`SUSPECT_NANOS`] later. News travels on pings and on gossip of its own.
//!
//! | packet | bytes |
//! |---|---|
//! | header | sender's id, its round (u16), receiver's id, kind (u8), and for kinds 2 to 5 the third party's id |
//! | probe number | u8, in kinds 0 to 5 |
//! | updates, by foca | u16 (big-endian) count, then: id, round (u16), liveness `00` alive · `01` suspect · `02` down |
//!
//! An id is node (u64) and incarnation (u64). "Round" is what SWIM calls the incarnation: it rises
//! when a suspect objects. "Down" is final for an incarnation; the node comes back with a higher.
//!
//! This file hides foca: it runs its timers, catches its errors, and starts it anew when the node
//! refutes its death. A detector that was cut off must not spread its own false deaths. So a new
//! one takes over the nodes that it saw alive, and forgets those that it took for down.

use std::collections::BTreeMap;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use bytes::{Buf, BufMut};
use foca::{Foca, Header, Identity, Message, NoCustomBroadcast, Notification, State, Timer};
use keyspace::{DecodeError, NodeId};

use crate::facts::INCARNATION_MAX;
use crate::rng::Rng;
use crate::wire;

/// How often a node pings another, in nanoseconds.
pub const PROBE_NANOS: u64 = 500_000_000;
/// How long it waits for the answer before it asks others to ping, in nanoseconds.
pub const PROBE_ANSWER_NANOS: u64 = 200_000_000;
/// How long a suspect may object, in nanoseconds.
pub const SUSPECT_NANOS: u64 = 1_250_000_000;
/// How often news is gossiped while there is some, in nanoseconds.
pub const GOSSIP_NANOS: u64 = 200_000_000;
/// The longest packet, in bytes: within one Ethernet frame.
pub const PACKET_BYTES_MAX: usize = 1400;

/// How many are asked to ping in one's place, and how many are gossiped to.
const HELPERS: usize = 3;
/// How often one piece of news is passed on by each node that hears it.
const NEWS_REPEATS: u8 = 12;

fn config() -> foca::Config {
    let helpers = NonZeroUsize::new(HELPERS).expect("not zero");
    foca::Config {
        probe_period: Duration::from_nanos(PROBE_NANOS),
        probe_rtt: Duration::from_nanos(PROBE_ANSWER_NANOS),
        num_indirect_probes: helpers,
        max_transmissions: NonZeroU8::new(NEWS_REPEATS).expect("not zero"),
        suspect_to_down_after: Duration::from_nanos(SUSPECT_NANOS),
        // Only `forget` removes a node, and then everywhere.
        remove_down_after: None,
        max_packet_size: NonZeroUsize::new(PACKET_BYTES_MAX).expect("not zero"),
        // foca 2.0.0 then also tells those who have objected in time that they are down, when
        // the time they had is over. Digests tell the dead, and no others.
        notify_down_members: false,
        // Both are the work of digests, which also reach those whom foca gave up.
        periodic_announce: None,
        periodic_announce_to_down_members: None,
        periodic_gossip: Some(foca::PeriodicParams {
            frequency: Duration::from_nanos(GOSSIP_NANOS),
            num_members: helpers,
        }),
    }
}

/// A life of a node, as far as SWIM is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u64,
}

impl Identity for Id {
    type Addr = NodeId;

    /// Never by foca itself: [`Detector::begin_incarnation`] is how.
    fn renew(&self) -> Option<Self> {
        None
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.incarnation > adversary.incarnation
    }
}

/// What is held of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Suspect,
    Down,
}

/// How a node is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeView {
    pub(crate) incarnation: u64,
    pub(crate) round: u16,
    pub(crate) liveness: Liveness,
}

impl NodeView {
    pub(crate) fn is_active(self) -> bool {
        self.liveness != Liveness::Down
    }

    fn of(member: &foca::Member<Id>) -> Self {
        let liveness = match member.state() {
            State::Alive => Liveness::Alive,
            State::Suspect => Liveness::Suspect,
            State::Down => Liveness::Down,
        };
        Self { incarnation: member.id().incarnation, round: member.incarnation(), liveness }
    }

    fn member(self, node: NodeId) -> foca::Member<Id> {
        let state = match self.liveness {
            Liveness::Alive => State::Alive,
            Liveness::Suspect => State::Suspect,
            Liveness::Down => State::Down,
        };
        foca::Member::new(Id { node, incarnation: self.incarnation }, self.round, state)
    }
}

/// Frames to send, in order.
pub(crate) type Sends = Vec<(NodeId, Vec<u8>)>;

/// The failure detector of one node.
pub(crate) struct Detector {
    foca: Foca<Id, IdCodec, Rng, NoCustomBroadcast>,
    rng: Rng,
    world: World,
}

/// What foca asks of the world.
struct World {
    now: u64,
    timers: BTreeMap<(u64, u64), Timer<Id>>,
    timers_set: u64,
    /// Our round, as last sent.
    round: u16,
    /// Somebody holds us for down, and foca has stopped.
    defunct: bool,
    /// How often foca answered one of our calls with an error.
    complaints: u64,
    sends: Sends,
}

impl World {
    /// An error of foca's costs what it was about to do or say, which it repeats in time.
    fn note(&mut self, result: Result<(), foca::Error>) {
        self.complaints += u64::from(result.is_err());
    }
}

impl foca::Runtime<Id> for &mut World {
    fn notify(&mut self, notification: Notification<'_, Id>) {
        // The rest is seen by comparing the members before and after.
        self.defunct |= matches!(notification, Notification::Defunct);
    }

    fn send_to(&mut self, to: Id, packet: &[u8]) {
        if let Some(round) = packet.get(ID_BYTES..ID_BYTES + 2) {
            self.round = u16::from_le_bytes([round[0], round[1]]);
        }
        self.sends.push((to.node, wire::swim(packet)));
    }

    fn submit_after(&mut self, event: Timer<Id>, after: Duration) {
        let after = u64::try_from(after.as_nanos()).expect("periods of our own");
        self.timers_set += 1;
        self.timers.insert((self.now.saturating_add(after), self.timers_set), event);
    }
}

impl Detector {
    pub(crate) fn new(id: Id, now: u64, mut rng: Rng) -> Self {
        let foca = Foca::new(id, config(), Rng::new(rng.draw()), IdCodec);
        let (timers, sends) = (BTreeMap::new(), Vec::new());
        let world =
            World { now, timers, timers_set: 0, round: 0, defunct: false, complaints: 0, sends };
        Self { foca, rng, world }
    }

    /// Whether somebody holds us for down, so that we must be reborn to be heard.
    pub(crate) fn is_defunct(&self) -> bool {
        self.world.defunct
    }

    /// How often foca complained; what it then left out, it repeats in time.
    pub(crate) fn complaints(&self) -> u64 {
        self.world.complaints
    }

    /// Our round: how often we objected to a suspicion in this incarnation.
    pub(crate) fn round(&self) -> u16 {
        self.world.round
    }

    pub(crate) fn take_sends(&mut self) -> Sends {
        std::mem::take(&mut self.world.sends)
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        self.world.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Every node it knows but ourselves.
    pub(crate) fn sights(&self) -> BTreeMap<NodeId, NodeView> {
        let me = self.foca.identity().node;
        let members = self.foca.iter_membership_state().filter(|member| member.id().node != me);
        members.map(|member| (member.id().node, NodeView::of(member))).collect()
    }

    /// The highest incarnation that others have given to ourselves, if it was not us.
    pub(crate) fn claimed_incarnation(&self) -> Option<u64> {
        let me = self.foca.identity().node;
        let other = self.foca.iter_membership_state().find(|member| member.id().node == me);
        other.map(|member| member.id().incarnation)
    }

    pub(crate) fn active(&self) -> Vec<NodeId> {
        self.foca.iter_members().map(|member| member.id().node).collect()
    }

    /// Takes a packet, whose sender must be who the link says.
    pub(crate) fn receive(
        &mut self,
        now: u64,
        from: NodeId,
        packet: &[u8],
    ) -> Result<(), foca::Error> {
        if packet.get(..8) != Some(&from.0.to_le_bytes()[..]) {
            let wrong = DecodeError::Field { what: "sender of a packet" };
            return Err(foca::Error::Decode(Box::new(wrong)));
        }
        self.world.now = now;
        self.foca.handle_data(packet, &mut self.world)
    }

    /// Lets all timers that are due fire.
    pub(crate) fn fire(&mut self, now: u64) {
        self.world.now = now;
        while let Some(due) = self.world.timers.first_entry().filter(|due| due.key().0 <= now) {
            let event = due.remove();
            let result = self.foca.handle_timer(event, &mut self.world);
            self.world.note(result);
        }
    }

    /// Puts all timers off: we have slept, and the silence was our own.
    pub(crate) fn put_off(&mut self, nanos: u64) {
        let timers = std::mem::take(&mut self.world.timers).into_iter();
        let late = timers.map(|((at, order), event)| ((at.saturating_add(nanos), order), event));
        self.world.timers = late.collect();
    }

    /// Takes somebody's word about a node (or about us: we may object to a suspicion).
    pub(crate) fn hear(&mut self, now: u64, node: NodeId, sight: NodeView) {
        self.world.now = now;
        let result = self.foca.apply_many([sight.member(node)].into_iter(), true, &mut self.world);
        self.world.note(result);
    }

    /// Drops a node that is down.
    pub(crate) fn forget(&mut self, now: u64, node: NodeId, incarnation: u64) {
        self.world.now = now;
        let result =
            self.foca.handle_timer(Timer::RemoveDown(Id { node, incarnation }), &mut self.world);
        self.world.note(result);
    }

    /// Begins a new life under a higher incarnation.
    pub(crate) fn begin_incarnation(&mut self, now: u64, incarnation: u64) {
        let before = *self.foca.identity();
        assert!(incarnation > before.incarnation, "an incarnation goes up");
        let alive: Vec<_> = self
            .foca
            .iter_members()
            .filter(|member| member.id().node != before.node)
            .map(|member| {
                NodeView { liveness: Liveness::Alive, ..NodeView::of(member) }
                    .member(member.id().node)
            })
            .collect();
        let id = Id { node: before.node, incarnation };
        self.foca = Foca::new(id, config(), Rng::new(self.rng.draw()), IdCodec);
        self.world.timers.clear();
        self.world.now = now;
        self.world.defunct = false;
        self.world.round = 0;
        let known = self.foca.apply_many(alive.into_iter(), false, &mut self.world);
        self.world.note(known);
        // The header alone tells who we are now.
        let told = self.foca.gossip(&mut self.world);
        self.world.note(told);
    }
}

const ID_BYTES: usize = 16;
const MEMBER_BYTES: usize = ID_BYTES + 2 + 1;
const HEADER_BYTES_MAX: usize = ID_BYTES + 2 + ID_BYTES + 1 + ID_BYTES + 1;

/// Reads and writes foca's packets; lengths are fixed by the kind, so that limits hold by nature.
struct IdCodec;

impl foca::Codec<Id> for IdCodec {
    type Error = DecodeError;

    fn encode_header(
        &mut self,
        header: &Header<Id>,
        mut buf: impl BufMut,
    ) -> Result<(), DecodeError> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX);
        put_id(&header.src, &mut bytes);
        bytes.put_u16_le(header.src_incarnation);
        put_id(&header.dst, &mut bytes);
        let (kind, third, probe) = match &header.message {
            Message::Ping(probe) => (0, None, Some(*probe)),
            Message::Ack(probe) => (1, None, Some(*probe)),
            Message::PingReq { target, probe_number } => (2, Some(target), Some(*probe_number)),
            Message::IndirectPing { origin, probe_number } => {
                (3, Some(origin), Some(*probe_number))
            }
            Message::IndirectAck { target, probe_number } => (4, Some(target), Some(*probe_number)),
            Message::ForwardedAck { origin, probe_number } => {
                (5, Some(origin), Some(*probe_number))
            }
            Message::Announce => (6, None, None),
            Message::Feed => (7, None, None),
            Message::Gossip => (8, None, None),
            Message::TurnUndead => (9, None, None),
            Message::Broadcast => return Err(DecodeError::Field { what: "kind: broadcast" }),
        };
        bytes.put_u8(kind);
        if let Some(third) = third {
            put_id(third, &mut bytes);
        }
        bytes.extend(probe);
        put_whole(&bytes, &mut buf)
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Id>, DecodeError> {
        let src = get_id(&mut buf)?;
        let src_incarnation = buf.try_get_u16_le().map_err(|_| DecodeError::Short)?;
        let dst = get_id(&mut buf)?;
        let message = match byte(&mut buf)? {
            0 => Message::Ping(byte(&mut buf)?),
            1 => Message::Ack(byte(&mut buf)?),
            2 => Message::PingReq { target: get_id(&mut buf)?, probe_number: byte(&mut buf)? },
            3 => Message::IndirectPing { origin: get_id(&mut buf)?, probe_number: byte(&mut buf)? },
            4 => Message::IndirectAck { target: get_id(&mut buf)?, probe_number: byte(&mut buf)? },
            5 => Message::ForwardedAck { origin: get_id(&mut buf)?, probe_number: byte(&mut buf)? },
            6 => Message::Announce,
            7 => Message::Feed,
            8 => Message::Gossip,
            9 => Message::TurnUndead,
            found => return Err(DecodeError::Tag { what: "kind of packet", found }),
        };
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn encode_member(
        &mut self,
        member: &foca::Member<Id>,
        mut buf: impl BufMut,
    ) -> Result<(), DecodeError> {
        let mut bytes = Vec::with_capacity(MEMBER_BYTES);
        put_id(member.id(), &mut bytes);
        bytes.put_u16_le(member.incarnation());
        bytes.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        put_whole(&bytes, &mut buf)
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<foca::Member<Id>, DecodeError> {
        let id = get_id(&mut buf)?;
        let round = buf.try_get_u16_le().map_err(|_| DecodeError::Short)?;
        let state = match byte(&mut buf)? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            found => return Err(DecodeError::Tag { what: "liveness", found }),
        };
        Ok(foca::Member::new(id, round, state))
    }
}

fn put_id(id: &Id, out: &mut Vec<u8>) {
    out.put_u64_le(id.node.0);
    out.put_u64_le(id.incarnation);
}

/// All of `bytes` or none: foca goes on with what was there before.
fn put_whole(bytes: &[u8], buf: &mut impl BufMut) -> Result<(), DecodeError> {
    if buf.remaining_mut() < bytes.len() {
        return Err(DecodeError::Short);
    }
    buf.put_slice(bytes);
    Ok(())
}

fn get_id(buf: &mut impl Buf) -> Result<Id, DecodeError> {
    let node = buf.try_get_u64_le().map_err(|_| DecodeError::Short)?;
    let incarnation = buf.try_get_u64_le().map_err(|_| DecodeError::Short)?;
    if incarnation > INCARNATION_MAX {
        return Err(DecodeError::Field { what: "incarnation" });
    }
    Ok(Id { node: NodeId(node), incarnation })
}

fn byte(buf: &mut impl Buf) -> Result<u8, DecodeError> {
    buf.try_get_u8().map_err(|_| DecodeError::Short)
}
