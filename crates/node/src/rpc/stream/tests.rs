//! Both sides of a stream, with a link between them that is cut wherever it hurts.
//!
//! The world steps in ticks of 10 ms: the receiver handles what has come, then the sender what it
//! is answered, then it sends one frame. Frames take a tick, and come in order or not at all.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use keyspace::random::Random;
use keyspace::{NodeId, ShardId};
use proptest::prelude::*;
use replication::BootNanos;

use super::frame::ReceiverFrame;
use super::incoming::{DONE_MAX, IncomingStreams, Name, StreamEnd};
use super::outgoing::{ASK_AFTER, GIVE_UP_AFTER, InvalidProgress, OutgoingStream, SendAction};
use super::pace::Pace;

const TICK: u64 = 10_000_000;
const NAME: Name = (NodeId(1), 7);
const SHARD: ShardId = ShardId(3);
/// Of one block.
const BYTES: usize = 100;
/// Most unconfirmed blocks that the sender keeps.
const UNCONFIRMED_BLOCKS_MAX: usize = 4;

/// A sender, a receiver, and what is between them.
struct World {
    blocks: u32,
    now: BootNanos,
    pace: Pace,
    out: OutgoingStream,
    coming: IncomingStreams<Vec<Vec<u8>>>,
    there: VecDeque<(SendAction, Vec<u8>)>,
    back: VecDeque<ReceiverFrame>,
    is_linked: bool,
    made: u32,
    blocks_sent: u32,
    /// Frames that the receiver was to handle, blocks and others.
    handled: u32,
    resumes: u32,
    installed: Vec<Vec<Vec<u8>>>,
    /// What the sender has heard last, or why it has given up.
    end: Option<&'static str>,
}

fn block(number: u32) -> Vec<u8> {
    vec![number as u8; BYTES]
}

impl World {
    fn new(blocks: u32) -> Self {
        let now = 1_000_000_000;
        let mut coming = IncomingStreams::default();
        coming.begin(NAME, SHARD, Vec::new(), now);
        let out = OutgoingStream::new(UNCONFIRMED_BLOCKS_MAX * BYTES, now);
        let (there, back, installed) = Default::default();
        let (made, blocks_sent, handled, resumes) = Default::default();
        let (is_linked, end, pace) = (true, None, Pace::new(None));
        Self {
            blocks,
            now,
            pace,
            out,
            coming,
            there,
            back,
            is_linked,
            made,
            blocks_sent,
            handled,
            resumes,
            installed,
            end,
        }
    }

    /// … that sends so many bytes a second at most.
    fn slow(blocks: u32, rate: u64) -> Self {
        Self { pace: Pace::new(NonZeroU64::new(rate)), ..Self::new(blocks) }
    }

    /// The link is gone, and what was on its way in both directions.
    fn cut(&mut self) {
        self.is_linked = false;
        self.there.clear();
        self.back.clear();
        self.out.set_link(false);
    }

    fn heal(&mut self) {
        self.is_linked = true;
        self.out.set_link(true);
    }

    /// The receiver's process starts again.
    fn forget(&mut self) {
        self.cut();
        self.coming = IncomingStreams::default();
    }

    fn receive(&mut self) {
        let Some((frame, bytes)) = self.there.pop_front() else { return };
        self.handled += 1;
        let reply = match frame {
            SendAction::Block(number) => {
                let Some(into) = self.coming.block(NAME, number, self.now) else { return };
                into.push(bytes);
                self.coming.answer(NAME, 0, self.now)
            }
            SendAction::Ask(ask) => self.coming.answer(NAME, ask, self.now),
            SendAction::End(blocks) => {
                let StreamEnd::Complete(all) = self.coming.end(NAME, blocks) else { return };
                self.installed.push(all);
                self.coming.done(NAME);
                ReceiverFrame::Done
            }
            other => unreachable!("{other:?} is not sent"),
        };
        if self.is_linked {
            self.back.push_back(reply);
        }
    }

    fn hear(&mut self) {
        match self.back.pop_front() {
            None => {}
            Some(ReceiverFrame::Has { ask, blocks }) => {
                let has_lost =
                    self.out.on_progress(ask, blocks, self.now).expect("the receiver is sane");
                self.resumes += u32::from(has_lost);
            }
            Some(ReceiverFrame::Done) => self.end = Some("done"),
            Some(ReceiverFrame::NotFound) => self.end = Some("not found"),
        }
    }

    fn send(&mut self) {
        let is_held = self.pace.held_until(self.now).is_some();
        let mut due = self.out.due(is_held, self.now);
        if due == SendAction::Make {
            if self.made < self.blocks {
                self.out.made(block(self.made));
                self.made += 1;
            } else {
                self.out.finish_blocks();
            }
            due = self.out.due(is_held, self.now);
        }
        let bytes = match due {
            SendAction::Nothing | SendAction::Paused => return,
            SendAction::GiveUp => {
                self.end = Some("given up");
                return;
            }
            SendAction::Block(number) => self.out.block(number).to_vec(),
            _ => Vec::new(),
        };
        assert!(self.is_linked, "{due:?} without a link");
        self.blocks_sent += u32::from(!bytes.is_empty());
        self.pace.sent(bytes.len(), self.now);
        self.out.sent(&due, self.now);
        self.there.push_back((due, bytes));
    }

    fn step(&mut self) {
        self.now += TICK;
        self.receive();
        self.hear();
        if self.end.is_none() {
            self.send();
        }
        self.coming.expire(self.now);
    }

    /// Steps until the sender knows how it ended.
    fn run(&mut self) -> &'static str {
        for _ in 0..1_000_000 {
            if let Some(end) = self.end {
                return end;
            }
            self.step();
        }
        panic!("neither done nor given up");
    }

    /// All blocks are there, in order and once.
    fn assert_installed(&self) {
        let all: Vec<Vec<u8>> = (0..self.blocks).map(block).collect();
        assert_eq!(self.installed, [all]);
    }
}

#[test]
fn stream_without_losses_sends_every_block_once() {
    for blocks in [0, 1, 3, 50] {
        let mut world = World::new(blocks);
        assert_eq!(world.run(), "done");
        world.assert_installed();
        assert_eq!((world.blocks_sent, world.resumes), (blocks, 0));
    }
}

#[test]
fn link_lost_at_any_frame_resends_only_frames_in_flight() {
    const BLOCKS: u32 = 12;
    for at in 0..BLOCKS + 1 {
        // Both: the frame has come and its answer is lost; or neither has come.
        for is_handled in [true, false] {
            let mut world = World::new(BLOCKS);
            while world.handled < at || world.there.is_empty() {
                world.step();
            }
            if is_handled {
                world.receive();
            }
            world.cut();
            for _ in 0..50 {
                world.step();
            }
            world.heal();
            assert_eq!(world.run(), "done", "cut at frame {at}");
            world.assert_installed();
            assert!(
                world.blocks_sent <= BLOCKS + UNCONFIRMED_BLOCKS_MAX as u32,
                "{} sent",
                world.blocks_sent
            );
            // The end is the last frame: who has it answers the question with that.
            let was_over = is_handled && at == BLOCKS;
            assert_eq!(world.resumes, u32::from(!was_over), "cut at frame {at}");
        }
    }
}

#[test]
fn both_sides_give_up_stream_without_link() {
    let mut world = World::new(40);
    while world.handled < 5 {
        world.step();
    }
    world.cut();
    let begun = world.now;
    assert_eq!(world.run(), "given up");
    assert!(world.now - begun <= GIVE_UP_AFTER);
    while world.now - begun <= GIVE_UP_AFTER {
        world.step();
    }
    assert_eq!(world.coming.answer(NAME, 1, world.now), ReceiverFrame::NotFound);
}

#[test]
fn restarted_receiver_reports_unknown_stream() {
    let mut world = World::new(40);
    while world.handled < 5 {
        world.step();
    }
    world.forget();
    world.heal();
    assert_eq!(world.run(), "not found");
    assert!(world.installed.is_empty());
}

/// The receiver's queue was full, or its answer had no room.
#[test]
fn frames_lost_on_open_link_are_resent() {
    for at in 0..14 {
        let mut world = World::new(12);
        let mut sent = 0;
        while world.end.is_none() {
            world.step();
            if !world.there.is_empty() {
                sent += 1;
                if sent == at + 1 {
                    world.there.clear();
                }
            }
        }
        assert_eq!(world.end, Some("done"), "frame {at} lost");
        world.assert_installed();
    }
    let mut world = World::new(12);
    while world.end.is_none() {
        world.step();
        // Only answers to questions come.
        world.back.retain(|reply| !matches!(reply, ReceiverFrame::Has { ask: 0, .. }));
    }
    assert_eq!(world.end, Some("done"));
    world.assert_installed();
    assert_eq!(world.blocks_sent, 12);
}

#[test]
fn unconfirmed_blocks_are_bounded_and_silent_receiver_is_probed() {
    let mut now: BootNanos = 1_000_000_000;
    let mut out = OutgoingStream::new(UNCONFIRMED_BLOCKS_MAX * BYTES, now);
    let mut blocks = 0;
    loop {
        match out.due(false, now) {
            SendAction::Make => out.made(block(0)),
            due @ SendAction::Block(_) => {
                blocks += 1;
                out.sent(&due, now);
            }
            due => break assert_eq!(due, SendAction::Nothing),
        }
    }
    assert_eq!(blocks, UNCONFIRMED_BLOCKS_MAX);
    let mut asked = 0;
    loop {
        now += ASK_AFTER;
        match out.due(false, now) {
            // The same question: nothing was sent since it was asked first.
            due @ SendAction::Ask(1) => {
                asked += 1;
                out.sent(&due, now);
            }
            due => break assert_eq!(due, SendAction::GiveUp),
        }
    }
    assert_eq!(asked, GIVE_UP_AFTER / 1_000_000_000 - 1);
}

/// Each block waits for longer than the timeout of either side.
#[test]
fn paused_stream_is_not_given_up() {
    const BLOCKS: u32 = 12;
    let mut world = World::slow(BLOCKS, 2);
    let begun = world.now;
    assert_eq!(world.run(), "done");
    world.assert_installed();
    assert_eq!((world.blocks_sent, world.resumes), (BLOCKS, 0));
    let seconds = (world.now - begun) / 1_000_000_000;
    let must = u64::from(BLOCKS - 1) * BYTES as u64 / 2;
    assert!((must - 1..=must + 1).contains(&seconds), "{seconds} s for {must}");
}

#[test]
fn paused_stream_without_link_or_answer_is_given_up() {
    let mut world = World::slow(12, 1);
    while world.handled < 20 {
        world.step();
    }
    let begun = world.now;
    world.cut();
    assert_eq!(world.run(), "given up");
    assert!(world.now - begun <= GIVE_UP_AFTER);

    let mut world = World::slow(12, 1);
    while world.handled < 20 {
        world.step();
    }
    let begun = world.now;
    while world.end.is_none() {
        world.step();
        world.there.clear();
    }
    assert_eq!(world.end, Some("given up"));
    assert!(world.now - begun <= GIVE_UP_AFTER + ASK_AFTER);
}

#[test]
fn paused_sender_detects_restarted_receiver_within_a_second() {
    let mut world = World::slow(12, 1);
    while world.handled < 20 {
        world.step();
    }
    world.coming = IncomingStreams::default();
    let begun = world.now;
    assert_eq!(world.run(), "not found");
    assert!(world.now - begun <= ASK_AFTER + 5 * TICK);
}

#[test]
fn answer_to_older_question_does_not_resume_stream() {
    let now = 1_000_000_000;
    let mut out = OutgoingStream::new(UNCONFIRMED_BLOCKS_MAX * BYTES, now);
    for number in 0..3 {
        assert_eq!(out.due(false, now), SendAction::Make);
        out.made(block(number));
        out.sent(&SendAction::Block(number), now);
    }
    for question in 1..=2 {
        out.set_link(false);
        out.set_link(true);
        assert_eq!(out.due(false, now), SendAction::Ask(question));
        out.sent(&SendAction::Ask(question), now);
    }
    assert_eq!(out.on_progress(1, 1, now), Ok(false));
    assert_eq!(out.due(false, now), SendAction::Nothing);
    assert_eq!(out.on_progress(2, 2, now), Ok(true));
    assert_eq!(out.due(false, now), SendAction::Block(2));
    assert_eq!(out.on_progress(0, 4, now), Err(InvalidProgress::TooMany { has: 4, made: 3 }));
    out.set_link(true);
    assert_eq!(out.due(false, now), SendAction::Ask(3));
    assert_eq!(out.on_progress(3, 1, now), Err(InvalidProgress::TooFew { has: 1, had: 2 }));
}

#[test]
fn shard_has_one_stream_and_done_streams_are_bounded() {
    let now = 1_000_000_000;
    let mut coming = IncomingStreams::default();
    let name = |number: u64| (NodeId(2), number);
    coming.begin(name(0), SHARD, "first", now);
    coming.begin(name(1), ShardId(4), "other", now);
    assert_eq!(coming.remove_streams_of(SHARD), ["first"]);
    coming.begin(name(2), SHARD, "second", now);
    assert_eq!(coming.answer(name(0), 1, now), ReceiverFrame::NotFound);
    assert_eq!(coming.answer(name(2), 1, now), ReceiverFrame::Has { ask: 1, blocks: 0 });
    assert_eq!(coming.end(name(2), 1), StreamEnd::Incomplete);
    assert_eq!(coming.end(name(2), 0), StreamEnd::Complete("second"));
    for number in 2..3 + DONE_MAX as u64 {
        coming.done(name(number));
    }
    assert_eq!(coming.answer(name(2), 1, now), ReceiverFrame::NotFound);
    assert_eq!(coming.answer(name(3), 1, now), ReceiverFrame::Done);
    assert_eq!(coming.give_up(name(1)), Some("other"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Links go and come, and frames are lost in both directions; for less than it takes to give
    /// up.
    #[test]
    fn stream_with_random_losses_arrives_complete_and_once(
        seed: u64, blocks in 0..60u32, odds in 3..60u64, rate in prop::option::of(200..40_000u64),
    ) {
        let mut random = Random::new(seed);
        let mut world = World::slow(blocks, rate.unwrap_or(0));
        for _ in 0..random.below(2_000) {
            match random.below(odds) {
                0 if world.is_linked => world.cut(),
                0 | 1 if !world.is_linked => world.heal(),
                1 => drop(world.there.pop_back()),
                2 => drop(world.back.pop_front()),
                _ => {}
            }
            world.step();
        }
        if !world.is_linked {
            world.heal();
        }
        prop_assert_eq!(world.run(), "done");
        world.assert_installed();
        // Whenever it goes on, it sends again what was kept at most.
        prop_assert!(world.blocks_sent <= blocks + world.resumes * UNCONFIRMED_BLOCKS_MAX as u32);
    }
}
