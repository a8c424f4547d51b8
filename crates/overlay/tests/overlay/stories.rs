//! Stories of rings, replayed: what is done to a ring, and all that is said then.
//!
//! ```text
//! # what is claimed, and why
//! > ring chord 2 d m      shard 1 has the whole circle; it is split at d, then at m; all is still
//! > split g told handed   the owner of g is split; its table hears of it, its list is handed on
//! > tick 1                shard 1 ticks, and everything that is said arrives in order
//! > tick 1 lost           nothing of it arrives
//! > rounds 5              so many ticks of everybody
//! > merge 2 | fail 2      its left neighbour takes it in; it is gone without a word
//! > walk 1 h              from shard 1 to the owner of h, and what led there
//! > show                  place, shard: predecessor | successors, fingers
//! ```
//! `UPDATE_GOLDEN=1` writes the answers anew.

use std::fmt::Write as _;

use keyspace::ShardId;
use overlay::ring::ideal;
use overlay::ring::word::{Strategy, Word};
use overlay::{Message, Step};

use crate::ring_world::{Kind, World, point};

fn shard(word: &str) -> ShardId {
    ShardId(word.parse().expect("a shard's number"))
}

/// What a member says, in short.
fn said(message: &Message) -> String {
    let Message::Ring { to, from, word, .. } = message else { panic!("of a ring: {message:?}") };
    let shards = |known: &[std::sync::Arc<overlay::Known>]| {
        known.iter().map(|known| format!(" {}", known.shard())).collect::<String>()
    };
    let word = match word {
        Word::Ask { .. } => "who stands before you, and who after?".to_owned(),
        Word::Neighbours { predecessor, successors, .. } => {
            let before = predecessor.as_ref().map(|known| known.shard().to_string());
            format!("{} |{}", before.as_deref().unwrap_or("-"), shards(successors))
        }
        Word::Notify => "I stand before you".to_owned(),
        Word::Ping { .. } => "are you there?".to_owned(),
        Word::Pong { .. } => "I am".to_owned(),
        Word::Find { asker, target, .. } => {
            format!("shard {asker} wants the first from {target:016x}")
        }
        Word::Found { member, .. } => format!("that is {}", member.shard()),
        Word::AskFinger { level, .. } => format!("which is your finger {level}?"),
        Word::Finger { member, .. } => format!("it is{}", shards(member.as_slice())),
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

fn run(world: &mut Option<World>, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    if let ["ring", strategy, length, places @ ..] = &words[..] {
        let strategy = Strategy::ALL.into_iter().find(|known| known.name() == *strategy);
        let kind = Kind(strategy.expect("a strategy's name"), 2);
        let places: Vec<Vec<u8>> = places.iter().map(|place| place.as_bytes().to_vec()).collect();
        let mut made = World::grown(kind, length.parse().expect("a number"), &places);
        (0..200).for_each(|_| made.round());
        *world = Some(made);
        return String::new();
    }
    let world = world.as_mut().expect("a script begins with a ring");
    let mut out = String::new();
    match &words[..] {
        ["split", place, how @ ..] => {
            let [told, handed] = ["told", "handed"].map(|word| how.contains(&word));
            let joins = world.split(place.as_bytes(), told, handed).expect("somebody owns it");
            writeln!(out, "  shard {joins} joins").expect("a string");
        }
        ["merge", gone] => {
            let left = world.merge(shard(gone)).expect("it has a neighbour");
            writeln!(out, "  shard {left} takes it in").expect("a string");
        }
        ["fail", gone] => world.fail(shard(gone)),
        ["tick", at, how @ ..] => {
            world.tick(shard(at));
            while let Some(first) = world.flying.first() {
                let message = first.message();
                let gone = !world.tables.contains_key(&ShardId(first.to.0));
                let lost = how.contains(&"lost") || gone;
                let fate = if lost { "   (lost)" } else { "" };
                writeln!(out, "{}{fate}", said(&message)).expect("a string");
                match lost {
                    true => drop(world.flying.remove(0)),
                    false => world.deliver(0, false),
                }
            }
        }
        ["rounds", count] => {
            (0..count.parse().expect("a number")).for_each(|_| world.round());
        }
        ["walk", from, place] => out = walked(world, shard(from), place.as_bytes()),
        ["show"] => {
            let state = match ideal::ideal(world.rings()) {
                Ok(()) => "ideal".to_owned(),
                Err(flaw) => flaw.to_string(),
            };
            writeln!(out, "{}  {state}", world.drawn()).expect("a string");
        }
        _ => panic!("no command: {command}"),
    }
    out
}

fn replayed(script: &str) -> String {
    let (mut out, mut world) = (String::new(), None);
    for line in script.lines() {
        if line.is_empty() || line.starts_with(['#', '>']) {
            writeln!(out, "{line}").expect("a string");
        }
        if let Some(command) = line.strip_prefix("> ") {
            out += &run(&mut world, command);
        }
    }
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "golden files are ordinary files")]
fn golden_stories_are_told_the_same() {
    let stories = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/overlay/stories");
    let mut count = 0;
    for file in std::fs::read_dir(stories).expect("a folder") {
        let path = file.expect("a file").path();
        let script = std::fs::read_to_string(&path).expect("text");
        let again = replayed(&script);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &again).expect("it can be written");
        } else {
            assert_eq!(again, script, "{}", path.display());
        }
        count += 1;
    }
    assert!(count >= 6, "{count} stories");
}
