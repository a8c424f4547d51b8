//! Asks all reachable members for scripts that this node does not know, by their SHA1.
//!
//! ```text
//!   EVALSHA ──► not here ──► every member: has it? ──► found: remembered here, and run
//!                                                 └──► none has it, or 200 ms are over: NOSCRIPT
//! ```
//!
//! Question and answer name no moment: a member may learn of a script, or forget one, right then.
//! A question names the asker's script epoch, so that a member which has not heard of the last
//! SCRIPT FLUSH forgets its scripts before it looks.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time of a question | [`WAIT`], rounded up to the next tick | what has come counts |
//! | questions under way | [`QUESTIONS_MAX`] | as if no member had answered |
//!
//! SCRIPT KILL asks in the same way, for a script runs where its shard is led. A node that cannot
//! read that question answers nothing: its silence counts as that it runs no script.
//!
//! # Bytes
//! A frame: `u8` 0, a question: number u64, script epoch `varint`, `u8` whether sources are wanted,
//! count `varint`, SHA1s of 40 bytes each. Or `u8` 1, an answer: number u64, and of each SHA1 in
//! its order `u8` 0, or 1 and the source `bytes`, empty if it is not wanted.
//! Or `u8` 2, have what runs stopped: number u64, `u8` whether functions are meant; the answer is 1
//! and empty if any was stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, Feature, NodeId};
use lua::Sha1Hex;
use parking_lot::Mutex;

use super::cache::Script;
use crate::runtime::NodeRuntime;
use crate::runtime::peers::{KIND_SCRIPT_QUESTION, Peers};

/// How long members' answers are waited for.
pub const WAIT: Duration = Duration::from_millis(200);
/// Questions under way at one time.
pub const QUESTIONS_MAX: usize = 1024;
/// Scripts in one question.
const SCRIPTS_MAX: u64 = 1 << 20;

const QUESTION: u8 = 0;
const ANSWER: u8 = 1;
const KILL: u8 = 2;

/// Per script that was asked for its source, if a member has it.
pub type Found = Vec<Option<Box<[u8]>>>;
type Done = Box<dyn FnOnce(Found) + Send>;

/// Questions under way.
#[derive(Default)]
pub struct Questions(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    all: BTreeMap<u64, Question>,
}

struct Question {
    found: Found,
    /// Members that have not answered.
    of: BTreeSet<NodeId>,
    /// Whether there is an end before all have answered.
    ends_early: bool,
    until: Instant,
    done: Done,
}

impl Question {
    fn is_over(&self) -> bool {
        self.of.is_empty() || self.ends_early && self.found.iter().all(Option::is_some)
    }

    fn end(self) {
        (self.done)(self.found);
    }
}

/// Asks members for scripts, with or without their sources; without any, has them forget theirs.
/// `done` gets what they have, on any thread.
pub fn ask(
    runtime: &NodeRuntime,
    wanted: &[Sha1Hex],
    with_source: bool,
    done: impl FnOnce(Found) + Send + 'static,
) {
    let found: Found = wanted.iter().map(|_| None).collect();
    let mut body = Vec::new();
    put_varint(runtime.scripts.cache.epoch(), &mut body);
    body.push(u8::from(with_source));
    put_varint(wanted.len() as u64, &mut body);
    wanted.iter().for_each(|sha| body.extend_from_slice(sha.as_bytes()));
    let ends_early = !wanted.is_empty();
    send_question(runtime, QUESTION, &body, (found, ends_early), Box::new(done));
}

/// Has members stop the scripts, or functions, that they run; `done` gets whether any did, on any
/// thread.
pub fn kill_elsewhere(
    runtime: &NodeRuntime,
    functions: bool,
    done: impl FnOnce(bool) + Send + 'static,
) {
    let killed = |found: Found| done(found.iter().any(Option::is_some));
    // All of them are to hear of it.
    let expected = (vec![None], false);
    send_question(runtime, KILL, &[u8::from(functions)], expected, Box::new(killed));
}

/// Asks all members that are linked. `expected`: the places of what they may have, and whether it
/// is enough to have one for each.
fn send_question(runtime: &NodeRuntime, tag: u8, body: &[u8], expected: (Found, bool), done: Done) {
    let (found, ends_early) = expected;
    let Some(peers) = &runtime.peers else { return done(found) };
    let members = runtime.members();
    let others = members.iter().map(|member| member.node);
    let of: BTreeSet<NodeId> = others
        .filter(|node| *node != runtime.identity.node && peers.cluster.is_connected(*node))
        .collect();
    let mut waiting = runtime.scripts.questions.0.lock();
    let is_full = waiting.all.len() >= QUESTIONS_MAX;
    if of.is_empty() || is_full || !runtime.version.allows(Feature::Functions) {
        drop(waiting);
        return done(found);
    }
    waiting.next += 1;
    let (number, nodes) = (waiting.next, of.clone());
    let until = Instant::now() + WAIT;
    let question = Question { found, of, ends_early, until, done };
    waiting.all.insert(number, question);
    drop(waiting);
    let mut frame = vec![tag];
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(body);
    for node in nodes {
        if peers.cluster.send(node, KIND_SCRIPT_QUESTION, &[&frame]).is_err() {
            take_part(runtime, number, node, |_| Ok(())).ok();
        }
    }
    peers.cluster.flush();
}

/// A member's part of a question is there, or will not come.
fn take_part(
    runtime: &NodeRuntime,
    number: u64,
    from: NodeId,
    take: impl FnOnce(&mut Found) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut waiting = runtime.scripts.questions.0.lock();
    let Some(question) = waiting.all.get_mut(&number) else { return Ok(()) };
    if !question.of.remove(&from) {
        return Ok(());
    }
    let taken = take(&mut question.found);
    if question.is_over() {
        let question = waiting.all.remove(&number);
        drop(waiting);
        question.into_iter().for_each(Question::end);
    }
    taken
}

/// A link is lost, with what it was to bring.
pub fn member_lost(runtime: &NodeRuntime, node: NodeId) {
    let numbers: Vec<u64> = runtime.scripts.questions.0.lock().all.keys().copied().collect();
    numbers
        .into_iter()
        .for_each(|number| take_part(runtime, number, node, |_| Ok(())).unwrap_or(()));
}

/// Ends questions that have waited for long enough.
pub fn tick(runtime: &NodeRuntime) {
    let now = Instant::now();
    let mut waiting = runtime.scripts.questions.0.lock();
    let late = waiting.all.extract_if(.., |_, question| question.until <= now);
    let late: Vec<Question> = late.map(|(_, question)| question).collect();
    drop(waiting);
    late.into_iter().for_each(Question::end);
}

/// Takes a frame of another node.
pub fn take_question(runtime: &NodeRuntime, peers: &Peers, from: NodeId, frame: &[u8]) {
    if let Err(error) = read_frame(runtime, peers, from, frame) {
        tracing::warn!("cannot read a question for scripts of node {:016x}: {error}", from.0);
    }
}

fn read_frame(
    runtime: &NodeRuntime,
    peers: &Peers,
    from: NodeId,
    frame: &[u8],
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(frame);
    match reader.u8()? {
        tag @ (QUESTION | KILL) => {
            let answer = match tag {
                KILL => kill_here(runtime, &mut reader)?,
                _ => answer(runtime, &mut reader)?,
            };
            // A lost link ends the question there.
            let _lost = peers.cluster.send(from, KIND_SCRIPT_QUESTION, &[&answer]);
            peers.cluster.flush();
            Ok(())
        }
        ANSWER => {
            let number = reader.u64()?;
            take_part(runtime, number, from, |found| {
                for place in found {
                    if reader.u8()? == 1 {
                        let source = reader.bytes()?;
                        place.get_or_insert_with(|| source.into());
                    }
                }
                reader.end()
            })
        }
        found => Err(DecodeError::Tag { what: "question for scripts", found }),
    }
}

fn kill_here(runtime: &NodeRuntime, reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let (number, functions) = (reader.u64()?, reader.u8()? == 1);
    reader.end()?;
    let mut frame = vec![ANSWER];
    frame.extend_from_slice(&number.to_le_bytes());
    match runtime.scripts.kill(functions) {
        true => {
            frame.push(1);
            put_bytes(b"", &mut frame);
        }
        false => frame.push(0),
    }
    Ok(frame)
}

fn answer(runtime: &NodeRuntime, reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let (number, epoch, with_source) = (reader.u64()?, reader.varint()?, reader.u8()? == 1);
    let count = reader.varint_max(SCRIPTS_MAX, "count of scripts")?;
    let cache = &runtime.scripts.cache;
    cache.flushed(epoch);
    let mut frame = vec![ANSWER];
    frame.extend_from_slice(&number.to_le_bytes());
    for _ in 0..count {
        let sha = reader.take(40)?;
        match Sha1Hex::parse(sha).and_then(|sha| cache.get(&sha)) {
            None => frame.push(0),
            Some(script) => {
                frame.push(1);
                put_bytes(if with_source { &script.source } else { b"" }, &mut frame);
            }
        }
    }
    reader.end()?;
    Ok(frame)
}

/// Asks members for a script, and remembers it here; `done` gets it if there is one.
pub fn fetch(
    runtime: &Arc<NodeRuntime>,
    sha: Sha1Hex,
    done: impl FnOnce(Option<Arc<Script>>) + Send + 'static,
) {
    fetch_all(runtime, vec![sha], |mut found| done(found.pop().flatten()));
}

/// The same of several.
pub fn fetch_all(
    runtime: &Arc<NodeRuntime>,
    wanted: Vec<Sha1Hex>,
    done: impl FnOnce(Vec<Option<Arc<Script>>>) + Send + 'static,
) {
    let epoch = runtime.scripts.cache.epoch();
    let (again, shas) = (runtime.clone(), wanted.clone());
    ask(runtime, &wanted, true, move |found| {
        let cache = &again.scripts.cache;
        let remember = |(sha, source): (Sha1Hex, Option<Box<[u8]>>)| {
            let source = source.filter(|source| Sha1Hex::of(source) == sha);
            source.filter(|_| cache.epoch() == epoch).and_then(|source| cache.add(&source).ok())
        };
        done(shas.into_iter().zip(found).map(remember).collect());
    });
}
