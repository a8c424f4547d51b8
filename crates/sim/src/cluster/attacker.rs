//! Somebody on the network between the nodes, who does not know the cluster's secret.
//!
//! All that passes is made by the code that makes it in a real cluster (`node::rpc`, [`link`]), and
//! judged by the code that judges it there:
//!
//! | the attacker | who must refuse it |
//! |---|---|
//! | alters a byte of a message | the receiver's decoder, by the frame's checksum or length |
//! | alters a byte of a handshake | the side that gets it, by the other's MAC |
//! | dials a node in the name of another, and guesses the secret | the node, by the MAC |
//! | … or repeats the messages of a recorded handshake | the node: its nonce is new |
//!
//! A receiver that has refused a frame closes the link, and all that was on it is lost. If one of
//! these were taken for genuine, the run fails.
//!
//! # What it does not do
//! Frames carry no MAC: who can change packets can also make a new checksum, say a frame again, or
//! end a connection and go on in its place. Real links do not refuse that before there is TLS
//! (SECURITY.md), so it is no fault that a run could survive.
//!
//! # Caveats
//! If a frame's altered length is longer, the receiver takes what follows for the rest of it. Here
//! that comes at once; on a real link it comes as fast as the sender has something to say.

use bytes::Bytes;
use keyspace::{ClusterVersion, NodeId, VersionRange};
use link::frame::{self, Decoder, FRAME_BYTES_MAX, Frame, FrameError};
use link::handshake::{ExpectedPeer, Handshake, HandshakeError, Progress};
use link::handshake_record::{NONCE_BYTES, Parsed, parse};
use link::{Cluster, Local, Refusal, Secret, VERSIONS};
use node::event::EventKind;

use super::options::Options;
use super::{Plant, World};
use crate::check::Violation;
use crate::options::Fault;
use crate::rng::Rng;

/// The rule that is broken if something altered or forged is taken for genuine.
const RULE: &str = "what is altered or forged is refused";
/// While somebody attacks, a handshake is forged once in so many milliseconds.
const FORGE_IN: u64 = 40;
/// The nodes know it, and the attacker does not.
const SECRET: &[u8] = b"only nodes of this cluster know this";
/// Frames that follow one whose length was altered: pings.
const FOLLOWING_KIND: u8 = frame::KIND_OWN_MIN;
const FOLLOWING_FRAMES: usize = 512;

/// A message that was altered on its way.
#[derive(Clone, Debug)]
pub struct AlteredFrame {
    /// The sending node.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    /// The bytes that arrive.
    pub bytes: Vec<u8>,
}

/// See the module's documentation.
pub struct Attacker {
    /// Its own, so that runs without an attacker stay as they are.
    rng: Rng,
    /// One of so many messages is altered; 0: nobody attacks.
    one_in: u64,
    /// The dialler's messages of a genuine handshake, and whose it was.
    recorded: Option<Recording>,
}

#[derive(Clone, Debug)]
struct Recording {
    dialler: usize,
    acceptor: usize,
    messages: Vec<Vec<u8>>,
}

/// In a quarter of all runs. It is drawn apart, so that all else in a run of a seed stays as it
/// was. With a bug that is planted elsewhere there is none.
fn one_in_of(options: &Options) -> u64 {
    let mut rng = Rng::new(options.seed ^ 0x6174_7461_636b);
    let (is_drawn, one_in) = (rng.one_in(4), *rng.pick(&[60, 250, 1_000]));
    let is_wanted = match options.plant {
        None => is_drawn,
        Some(plant) => plant.is_of_links(),
    };
    if options.faults.has(Fault::Tamper) && is_wanted { one_in } else { 0 }
}

impl Attacker {
    /// Nobody attacks yet.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x7461_6d70_6572), one_in: 0, recorded: None }
    }

    /// One of so many messages is altered from now on; 0: none, and nothing is forged.
    pub fn set(&mut self, one_in: u64) {
        self.one_in = one_in;
    }

    /// One of so many messages is altered; 0: none.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Whether the next message is altered.
    pub fn strikes(&mut self) -> bool {
        self.one_in > 0 && self.rng.one_in(self.one_in)
    }

    /// Changes one byte.
    pub fn alter(&mut self, bytes: &mut [u8]) {
        let at = self.rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= self.rng.between(1, 255) as u8;
    }

    fn nonce(&mut self) -> [u8; NONCE_BYTES] {
        std::array::from_fn(|_| self.rng.bits() as u8)
    }
}

/// What a receiver's decoder makes of a stream that begins with these bytes. Pings follow.
fn read(bytes: &[u8]) -> Result<Frame, FrameError> {
    let mut following = Vec::new();
    for number in 0..FOLLOWING_FRAMES {
        frame::encode(&mut following, FOLLOWING_KIND, &[&number.to_le_bytes()]);
    }
    let (mut decoder, mut at) = (Decoder::new(FRAME_BYTES_MAX, bytes), 0);
    loop {
        if let Some(frame) = decoder.take()? {
            return Ok(frame);
        }
        let space = decoder.space();
        let count = space.len().min(following.len() - at);
        space[..count].copy_from_slice(&following[at..at + count]);
        decoder.filled(count);
        at = (at + count) % following.len();
    }
}

/// Lets two sides speak until one has ended it or waits for more; `on_the_way` may change a message
/// by its number, from 0. Whether the other's proof was found good: by the acceptor, by the
/// dialler.
fn converse(
    dialler: (&mut Handshake, Vec<u8>),
    acceptor: &mut Handshake,
    trusts_all: bool,
    mut on_the_way: impl FnMut(usize, &mut Vec<u8>),
) -> [bool; 2] {
    let (dialler, mut bytes) = dialler;
    let mut found_good = [false; 2];
    for number in 0..4 {
        on_the_way(number, &mut bytes);
        let (side, mut out) = (number % 2, Vec::new());
        let listener = if side == 0 { &mut *acceptor } else { &mut *dialler };
        match listener.step(&bytes, &mut out) {
            Ok(Progress::Proven(peer)) => {
                found_good[side] = true;
                let _linked = listener.proceed(&peer, 1, &mut out);
            }
            Ok(Progress::More | Progress::Linked { .. }) => {}
            Err(HandshakeError::Refused(Refusal::WrongSecret)) if trusts_all => {
                found_good[side] = true;
                return found_good;
            }
            Err(_) => return found_good,
        }
        if out.is_empty() {
            return found_good;
        }
        bytes = out;
    }
    found_good
}

impl World {
    /// Whether somebody attacks in this run.
    pub(super) fn begin_attack(&mut self) {
        self.set_attack(one_in_of(&self.options));
    }

    /// From now on one of so many messages is altered, and handshakes are forged; 0: no attack.
    pub(crate) fn set_attack(&mut self, one_in: u64) {
        if one_in != self.attacker.one_in() {
            match one_in {
                0 => self.trace.event(format_args!("nobody alters messages")),
                _ => self.trace.event(format_args!("one of {one_in} messages is altered")),
            }
        }
        self.attacker.set(one_in);
    }

    /// Altered messages arrive, and handshakes are forged.
    ///
    /// # Errors
    /// If something of that is taken for genuine.
    pub(super) fn attack(&mut self) -> Result<(), Violation> {
        for altered in self.network.altered_due(self.now_ms) {
            self.receive_altered(&altered)?;
        }
        if self.attacker.one_in > 0 && self.attacker.rng.one_in(FORGE_IN) {
            self.forge_handshake()?;
        }
        Ok(())
    }

    fn receive_altered(&mut self, altered: &AlteredFrame) -> Result<(), Violation> {
        let place = |node| self.node_slots.iter().position(|slot| slot.node == node);
        let (Some(from), Some(to)) = (place(altered.from), place(altered.to)) else {
            return Ok(());
        };
        if self.node_slots[to].machine.is_none() {
            return Ok(());
        }
        self.counts.altered += 1;
        let ends = [altered.from, altered.to];
        match read(&altered.bytes) {
            Err(FrameError::Damaged { kind, .. }) if self.has(Plant::UncheckedFrame) => {
                let text = format!("node {} reads an altered frame of kind {kind}", altered.to);
                Err(Violation::new(RULE, text))
            }
            Err(why) => {
                self.trace.event(format_args!("{} to {}: {why}", ends[0], ends[1]));
                self.counts.altered_refused += 1;
                self.lose_link_between(to, from);
                Ok(())
            }
            Ok(Frame { kind, body }) => {
                let bytes = body.len();
                let text = format!("node {} reads a frame of {kind}, {bytes} bytes", altered.to);
                Err(Violation::new(RULE, text))
            }
        }
    }

    /// What a node says of itself in a handshake.
    fn local_of(&self, at: usize, secret: Secret) -> Local {
        let cluster = self.cluster.expect("there is a cluster");
        let slot = &self.node_slots[at];
        Local {
            versions: VERSIONS,
            node: slot.node,
            process: slot.started_at,
            incarnation: 1,
            software: "carillon sim".to_owned(),
            cluster: Some(Cluster { id: cluster.id, hash_seed: cluster.hash_seed }),
            facts: Bytes::new(),
            supported: VersionRange::OURS,
            cluster_version: Some(ClusterVersion::NEWEST),
            secret,
        }
    }

    /// The attacker alters a handshake of two nodes, or dials one in the name of the other.
    fn forge_handshake(&mut self) -> Result<(), Violation> {
        let is_up = |at: &usize| self.is_awake(*at) && self.cluster.is_some();
        let up: Vec<usize> = (0..self.node_slots.len()).filter(is_up).collect();
        let two = self.attacker.rng.some(2, up);
        let [dialler, acceptor] = two[..] else { return Ok(()) };
        let kind = self.attacker.rng.below(3);
        let recorded = self.attacker.recorded.clone().filter(|known| self.is_awake(known.acceptor));
        let (what, ends, taken) = match (kind, recorded) {
            (0, Some(known)) => {
                let ends = [known.dialler, known.acceptor];
                ("a replayed handshake", ends, self.replay(&known))
            }
            (1, _) => ("a guessed secret", [dialler, acceptor], self.guess(dialler, acceptor)),
            _ => {
                let taken = self.alter_handshake(dialler, acceptor)?;
                ("an altered handshake", [dialler, acceptor], taken)
            }
        };
        let [one, other] = ends.map(|at| self.node_slots[at].node);
        self.counts.forged += 1;
        self.trace.event(format_args!("{what} of node {one} with {other}"));
        if taken {
            return Err(Violation::new(RULE, format!("{what} of node {one} with {other}")));
        }
        self.counts.forged_refused += 1;
        Ok(())
    }

    /// Dials in the name of a node, with a secret that is not the cluster's.
    fn guess(&mut self, dialler: usize, acceptor: usize) -> bool {
        let secret = match self.attacker.rng.below(3) {
            0 => Vec::new(),
            1 => SECRET[..SECRET.len() - 1].to_vec(),
            _ => self.attacker.nonce().to_vec(),
        };
        let local = self.local_of(dialler, Secret::new(&secret));
        let (mut dialler, hello) = self.dial(local, acceptor);
        let mut acceptor = self.accept(acceptor);
        let trusts_all = self.has(Plant::UnprovenHello);
        converse((&mut dialler, hello), &mut acceptor, trusts_all, |_, _| {})[0]
    }

    /// Repeats the dialler's messages of a recorded handshake.
    fn replay(&mut self, recording: &Recording) -> bool {
        let mut acceptor = self.accept(recording.acceptor);
        let trusts_all = self.has(Plant::UnprovenHello);
        let mut taken = false;
        for message in &recording.messages {
            taken = match acceptor.step(message, &mut Vec::new()) {
                Ok(Progress::Proven(_)) => true,
                Err(HandshakeError::Refused(Refusal::WrongSecret)) => trusts_all,
                _ => false,
            };
        }
        taken
    }

    /// Two nodes shake hands, and one of the messages with a proof or before it is altered. First
    /// they do so undisturbed, so that it is known that only the change is refused.
    fn alter_handshake(&mut self, dialler: usize, acceptor: usize) -> Result<bool, Violation> {
        let mut messages = Vec::new();
        let good = self.shake(dialler, acceptor, |number, bytes| {
            if number % 2 == 0 {
                messages.push(bytes.clone());
            }
        });
        if good != [true, true] {
            return Err(Violation::new(RULE, format!("but a genuine handshake was: {good:?}")));
        }
        self.attacker.recorded = Some(Recording { dialler, acceptor, messages });
        let altered = self.attacker.rng.below(4) as usize;
        let mut rng = self.attacker.rng.clone();
        let found_good = self.shake(dialler, acceptor, |number, bytes| {
            // A commit may stand behind the last proof; no MAC is over that.
            if let (true, Parsed::Record(_, _, record)) = (number == altered, parse(bytes)) {
                let at = rng.below(record as u64) as usize;
                bytes[at] ^= rng.between(1, 255) as u8;
            }
        });
        Ok(found_good[altered % 2])
    }

    fn shake(
        &mut self,
        dialler: usize,
        acceptor: usize,
        on_the_way: impl FnMut(usize, &mut Vec<u8>),
    ) -> [bool; 2] {
        let local = self.local_of(dialler, Secret::new(SECRET));
        let (mut dialler, hello) = self.dial(local, acceptor);
        let mut acceptor = self.accept(acceptor);
        let trusts_all = self.has(Plant::UnprovenHello);
        converse((&mut dialler, hello), &mut acceptor, trusts_all, on_the_way)
    }

    fn dial(&mut self, local: Local, acceptor: usize) -> (Handshake, Vec<u8>) {
        let (mut hello, expected) =
            (Vec::new(), ExpectedPeer::Node(self.node_slots[acceptor].node));
        let dialler = Handshake::dial(local, expected, self.attacker.nonce(), &mut hello);
        (dialler, hello)
    }

    fn accept(&mut self, acceptor: usize) -> Handshake {
        let local = self.local_of(acceptor, Secret::new(SECRET));
        Handshake::accept(local, self.attacker.nonce())
    }

    /// Shows viewers that a node has lost its link with another, or has one again.
    pub(super) fn show_link(&mut self, at: usize, node: NodeId, is_up: bool) {
        self.show_at(at, EventKind::Link { node, is_up });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, 2, &[b"a message of a replica"]);
        bytes
    }

    #[test]
    fn an_unaltered_frame_is_read() {
        let read = read(&frame()).expect("nobody has altered it");
        assert_eq!((read.kind, &read.body[..]), (2, &b"a message of a replica"[..]));
    }

    /// Also in the length, where the decoder first waits for what is not there.
    #[test]
    fn every_altered_byte_is_refused() {
        for at in 0..frame().len() {
            for change in [1, 2, 3, 4, 0x80, 0xff] {
                let mut bytes = frame();
                bytes[at] ^= change;
                let found = read(&bytes);
                assert!(found.is_err(), "byte {at} with {change:#x}: {found:?}");
            }
        }
    }

    #[test]
    fn only_some_runs_have_an_attacker() {
        let of = |seed| one_in_of(&Options::of(seed));
        let count = (0..100).filter(|seed| of(*seed) > 0).count();
        assert!((10..45).contains(&count), "{count} of 100");
        let planted = Options { plant: Some(Plant::StaleLease), ..Options::of(1) };
        assert!((0..100).all(|seed| one_in_of(&Options { seed, ..planted.clone() }) == 0));
    }
}
