//! Golden scripts of rings: what is done to a ring, and all that its members send then.
//!
//! | verb | does |
//! |---|---|
//! | `ring chord 2 d m` | shard 1 has the whole circle; it is split at d, then at m; all is still |
//! | `split g told handed` | the owner of g is split; its table hears of it, its list is handed on |
//! | `tick 1` | shard 1 ticks, and everything that is sent arrives in order |
//! | `tick 1 lost` | nothing of it arrives |
//! | `rounds 5` | so many ticks of everybody |
//! | `merge 2`, `fail 2` | its left neighbour takes it in; it is gone without a message |
//! | `walk 1 h` | from shard 1 to the owner of h, and what led there |
//! | `show` | place, shard: predecessor, successors, fingers |
//!
//! `UPDATE_GOLDENFILES=1` writes the outputs anew.

#[path = "../overlay/ring_world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod ring_world;

use std::error::Error;
use std::fmt::Write as _;

use goldenscript::Context;
use keyspace::ShardId;
use overlay::ring::ideal;
use overlay::ring::message::{RingMessage, Strategy};
use overlay::{Message, Step};
use test_each_file::test_each_path;

use ring_world::{Kind, World, point};

#[derive(goldenscript::Command)]
enum Verb {
    Ring { strategy: String, length: usize, places: Vec<String> },
    Split { place: String, how: Option<String>, more: Option<String> },
    Tick { at: u64, lost: Option<String> },
    Rounds(u64),
    Merge(u64),
    Fail(u64),
    Walk { from: u64, place: String },
    Show,
}

#[derive(Default)]
struct Runner {
    world: Option<World>,
}

/// What a member says, in short.
fn said(message: &Message) -> String {
    let Message::Ring { to, from, word, .. } = message else { panic!("of a ring: {message:?}") };
    let shards = |known: &[std::sync::Arc<overlay::KnownShard>]| {
        known.iter().map(|known| format!(" {}", known.shard())).collect::<String>()
    };
    let word = match word {
        RingMessage::Ask { .. } => "who stands before you, and who after?".to_owned(),
        RingMessage::Neighbours { predecessor, successors, .. } => {
            let before = predecessor.as_ref().map(|known| known.shard().to_string());
            format!("{} |{}", before.as_deref().unwrap_or("-"), shards(successors))
        }
        RingMessage::Notify => "I stand before you".to_owned(),
        RingMessage::Ping { .. } => "are you there?".to_owned(),
        RingMessage::Pong { .. } => "I am".to_owned(),
        RingMessage::Find { asker, target, .. } => {
            format!("shard {asker} wants the first from {target:016x}")
        }
        RingMessage::Found { member, .. } => format!("that is {}", member.shard()),
        RingMessage::AskFinger { level, .. } => format!("which is your finger {level}?"),
        RingMessage::Finger { member, .. } => format!("it is{}", shards(member.as_slice())),
    };
    format!("  {} to {to}: {word}", from.shard())
}

fn walked(world: &World, from: ShardId, place: &[u8]) -> String {
    let (mut at, mut way) = (from, format!("  {from}"));
    loop {
        let table = &world.tables[&at];
        match table.lookup().next(point(place)) {
            Step::Owner(_) => return way + ", the owner\n",
            Step::Ask(_) => return way + ", who knows nobody closer\n",
            Step::Closer(closer) => {
                let via = table.via(point(place)).expect("it has led here").0;
                at = closer.shard();
                let dead = if world.tables.contains_key(&at) { "" } else { ", who is gone\n" };
                write!(way, " -- {via} --> {at}{dead}").expect("a string");
                if !dead.is_empty() {
                    return way;
                }
            }
        }
    }
}

fn made(strategy: &str, length: usize, places: &[String]) -> World {
    let strategy = Strategy::ALL.into_iter().find(|known| known.name() == strategy);
    let kind = Kind(strategy.expect("a strategy's name"), 2);
    let places: Vec<Vec<u8>> = places.iter().map(|place| place.as_bytes().to_vec()).collect();
    let mut made = World::grown(kind, length, &places);
    (0..200).for_each(|_| made.round());
    made
}

/// A shard ticks, and everything that is sent then arrives, or is lost.
fn ticked(world: &mut World, at: ShardId, is_lost: bool) -> String {
    let mut out = String::new();
    world.tick(at);
    while let Some(first) = world.flying.first() {
        let message = first.message();
        let is_lost = is_lost || !world.tables.contains_key(&ShardId(first.to.0));
        let fate = if is_lost { "   (lost)" } else { "" };
        writeln!(out, "{}{fate}", said(&message)).expect("a string");
        match is_lost {
            true => drop(world.flying.remove(0)),
            false => world.deliver(0, false),
        }
    }
    out
}

impl goldenscript::Runner for Runner {
    type Command = Verb;

    fn run(&mut self, verb: &Verb, _: &Context) -> Result<String, Box<dyn Error>> {
        if let Verb::Ring { strategy, length, places } = verb {
            self.world = Some(made(strategy, *length, places));
            return Ok(String::new());
        }
        let world = self.world.as_mut().ok_or("a script begins with a ring")?;
        Ok(match verb {
            Verb::Ring { .. } => String::new(),
            Verb::Split { place, how, more } => {
                let has = |word| [how, more].into_iter().flatten().any(|given| given == word);
                let joins = world.split(place.as_bytes(), has("told"), has("handed"));
                format!("  shard {} joins", joins.ok_or("nobody owns it")?)
            }
            Verb::Merge(gone) => {
                let left = world.merge(ShardId(*gone)).ok_or("it has no neighbour")?;
                format!("  shard {left} takes it in")
            }
            Verb::Fail(gone) => {
                world.fail(ShardId(*gone));
                String::new()
            }
            Verb::Tick { at, lost } => ticked(world, ShardId(*at), lost.is_some()),
            Verb::Rounds(count) => {
                (0..*count).for_each(|_| world.round());
                String::new()
            }
            Verb::Walk { from, place } => walked(world, ShardId(*from), place.as_bytes()),
            Verb::Show => {
                let state = ideal::ideal(world.rings()).map(|()| "ideal".to_owned());
                let state = state.unwrap_or_else(|flaw| flaw.to_string());
                format!("{}  {state}", world.drawn())
            }
        })
    }
}

test_each_path! { in "crates/overlay/tests/golden/scripts" as golden => run }

fn run(path: &std::path::Path) {
    goldenscript::run(&mut Runner::default(), path).expect("the script runs");
}
