//! Questions to other nodes about themselves, and theirs to this one ([`api::inquiry`]).
//!
//! ```text
//!   HTTP thread ── ask ──► frame ──► the other node: queue ──► its thread `inquiries` ──► answer
//!        ▲                                                                                  │
//!        └── done(Ok(answer) | Err(why not)) ◄── frame, or a lost link, or its time is over ◄┘
//! ```
//!
//! A question is asked once. A node answers as it can; nothing is kept for who asked.
//!
//! | limit | bound | beyond it |
//! |---|---|---|
//! | questions under way from here | [`ASKED_MAX`] | not asked |
//! | time for an answer | given with the question, rounded up to a tick | [`NoAnswer::Late`] |
//! | questions of other nodes that wait | [`QUEUED_MAX`] | answered that it cannot now |
//! | bytes | [`QUESTION_BYTES_MAX`], [`ANSWER_BYTES_MAX`] | not sent, or not read |
//!
//! # Bytes
//! A frame: `u8` 1, a question, or 2, an answer to it; the asker's number of the question u64; the
//! JSON of [`Question`] or [`Answer`], all that is left.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use api::inquiry::{ANSWER_BYTES_MAX, Answer, QUESTION_BYTES_MAX, Question, Refusal};
use keyspace::codec::Reader;
use keyspace::{DecodeError, Feature, NodeId};
use parking_lot::{Condvar, Mutex};

use super::NodeRuntime;

/// The kind of frames that carry questions to nodes, and answers.
pub const KIND_INQUIRY: u8 = 10;
/// Questions under way from this node.
pub const ASKED_MAX: usize = 1024;
/// Questions of other nodes that wait for the thread that answers.
pub const QUEUED_MAX: usize = 64;

/// The tag of a question.
pub const QUESTION: u8 = 1;
/// The tag of an answer.
pub const ANSWER: u8 = 2;

/// Why a node did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It was not asked: it cannot be reached, or too many questions are under way.
    NotAsked,
    /// It was not asked: some node of the cluster could not read the question.
    OldVersion,
    /// The link to it was lost. A change may have been done.
    LinkLost,
    /// It has not answered in time. A change may have been done.
    Late,
}

impl NoAnswer {
    /// In words, of a node.
    pub fn why(self) -> &'static str {
        match self {
            NoAnswer::NotAsked => "it cannot be reached from here",
            NoAnswer::OldVersion => "the cluster version does not allow to ask it",
            NoAnswer::LinkLost => "the connection to it was lost",
            NoAnswer::Late => "it has not answered in time",
        }
    }
}

/// Called once with the answer, on any thread.
pub type Answered = Box<dyn FnOnce(Result<Answer, NoAnswer>) + Send>;

/// See the front page of this module.
#[derive(Default)]
pub struct Inquiries {
    asked: Mutex<PendingInquiries>,
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct PendingInquiries {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    of: NodeId,
    until: Instant,
    done: Answered,
}

#[derive(Default)]
struct Queue {
    questions: VecDeque<Asking>,
    is_stopping: bool,
}

/// A question of another node.
pub struct Asking {
    from: NodeId,
    number: u64,
    /// What it asks.
    pub question: Question,
}

/// Asks a node; `done` gets its answer.
pub fn ask(
    runtime: &NodeRuntime,
    node: NodeId,
    question: &Question,
    timeout: Duration,
    done: Answered,
) {
    let Some(peers) = &runtime.peers else { return done(Err(NoAnswer::NotAsked)) };
    if !runtime.version.allows(Feature::Inquiries) {
        return done(Err(NoAnswer::OldVersion));
    }
    let json = question.to_json();
    let number = {
        let mut asked = runtime.inquiries.asked.lock();
        if asked.waiting.len() >= ASKED_MAX || json.len() > QUESTION_BYTES_MAX {
            drop(asked);
            return done(Err(NoAnswer::NotAsked));
        }
        asked.next += 1;
        let number = asked.next;
        let until = Instant::now() + timeout;
        asked.waiting.insert(number, Waiting { of: node, until, done });
        number
    };
    let head = [&[QUESTION][..], &number.to_le_bytes()].concat();
    if peers.cluster.send(node, KIND_INQUIRY, &[&head, &json]).is_err() {
        return runtime.inquiries.end(number, node, Err(NoAnswer::NotAsked));
    }
    peers.cluster.flush();
}

impl Inquiries {
    fn end(&self, number: u64, of: NodeId, answer: Result<Answer, NoAnswer>) {
        let mut asked = self.asked.lock();
        // Another node cannot answer in its place.
        if asked.waiting.get(&number).is_none_or(|waiting| waiting.of != of) {
            return;
        }
        let waiting = asked.waiting.remove(&number);
        drop(asked);
        if let Some(waiting) = waiting {
            (waiting.done)(answer);
        }
    }

    /// A link is lost, with what it was to bring.
    pub fn link_lost(&self, node: NodeId) {
        self.end_all(NoAnswer::LinkLost, |waiting| waiting.of == node);
    }

    /// Ends what has waited for long enough: at each of the node's ticks.
    pub fn tick(&self) {
        let now = Instant::now();
        self.end_all(NoAnswer::Late, |waiting| waiting.until <= now);
    }

    fn end_all(&self, why: NoAnswer, is_over: impl Fn(&Waiting) -> bool) {
        let mut asked = self.asked.lock();
        let over = asked.waiting.extract_if(.., |_, waiting| is_over(waiting));
        let over: Vec<Waiting> = over.map(|(_, waiting)| waiting).collect();
        drop(asked);
        over.into_iter().for_each(|waiting| (waiting.done)(Err(why)));
    }

    /// Takes a frame of another node.
    pub fn take_frame(&self, runtime: &NodeRuntime, from: NodeId, body: &[u8]) {
        let (tag, number, json) = match read(body) {
            Ok(read) => read,
            Err(why) => return self.unreadable(from, &why.to_string()),
        };
        if tag == ANSWER {
            return match Answer::from_json(json) {
                Ok(answer) => self.end(number, from, Ok(answer)),
                Err(why) => {
                    self.unreadable(from, &why);
                    self.end(number, from, Ok(Answer::Refused(Refusal::Unknown)));
                }
            };
        }
        let refusal = match Question::from_json(json) {
            Ok(question) => match self.queue(Asking { from, number, question }) {
                true => return,
                false => Refusal::Busy,
            },
            // A later version may have others.
            Err(_) => Refusal::Unknown,
        };
        send_answer(runtime, from, number, &Answer::Refused(refusal));
    }

    fn unreadable(&self, from: NodeId, why: &str) {
        tracing::warn!("cannot read an inquiry of node {:016x}: {why}", from.0);
    }

    fn queue(&self, asking: Asking) -> bool {
        let mut queue = self.queue.lock();
        if queue.questions.len() >= QUEUED_MAX || queue.is_stopping {
            return false;
        }
        queue.questions.push_back(asking);
        self.wake.notify_one();
        true
    }

    /// The next question of another node; waits for one. None: the node stops.
    pub fn next(&self) -> Option<Asking> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            if let Some(asking) = queue.questions.pop_front() {
                return Some(asking);
            }
            self.wake.wait(&mut queue);
        }
    }

    /// Nothing more is answered.
    pub fn stop(&self) {
        self.queue.lock().is_stopping = true;
        self.wake.notify_all();
    }
}

impl Asking {
    /// How to answer it.
    pub fn reply(&self) -> impl FnOnce(&NodeRuntime, &Answer) + Send + use<> {
        let (from, number) = (self.from, self.number);
        move |runtime, answer| send_answer(runtime, from, number, answer)
    }
}

fn send_answer(runtime: &NodeRuntime, to: NodeId, number: u64, answer: &Answer) {
    let Some(peers) = &runtime.peers else { return };
    let mut json = answer.to_json();
    if json.len() > ANSWER_BYTES_MAX {
        json = Answer::Refused(Refusal::Busy).to_json();
    }
    let head = [&[ANSWER][..], &number.to_le_bytes()].concat();
    // Who asked waits no longer if the link is lost.
    let _lost = peers.cluster.send(to, KIND_INQUIRY, &[&head, &json]);
    peers.cluster.flush();
}

/// Tag, number and JSON of a frame.
///
/// # Errors
/// [`DecodeError`] if it is none. The JSON is not looked at.
pub fn read(body: &[u8]) -> Result<(u8, u64, &[u8]), DecodeError> {
    let mut reader = Reader::new(body);
    let (tag, number) = (reader.u8()?, reader.u64()?);
    let bytes_max = match tag {
        QUESTION => QUESTION_BYTES_MAX,
        ANSWER => ANSWER_BYTES_MAX,
        found => return Err(DecodeError::Tag { what: "inquiry", found }),
    };
    let json = reader.rest();
    match json.len() <= bytes_max {
        true => Ok((tag, number, json)),
        false => Err(DecodeError::Field { what: "inquiry: length" }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    type Heard = mpsc::Receiver<Result<Answer, NoAnswer>>;

    fn waiting(inquiries: &Inquiries, number: u64, of: u64, until: Instant) -> Heard {
        let (sender, receiver) = mpsc::channel();
        let done = Box::new(move |answer| sender.send(answer).unwrap());
        let waiting = Waiting { of: NodeId(of), until, done };
        inquiries.asked.lock().waiting.insert(number, waiting);
        receiver
    }

    #[test]
    fn question_ends_with_the_answer_of_its_node_or_the_end_of_link_or_time() {
        let inquiries = Inquiries::default();
        let later = Instant::now() + Duration::from_secs(60);
        let one = waiting(&inquiries, 1, 7, later);
        let busy = || Ok(Answer::Refused(Refusal::Busy));
        inquiries.end(1, NodeId(8), busy());
        inquiries.end(2, NodeId(7), busy());
        assert!(one.try_recv().is_err(), "another node has answered, or another question");
        inquiries.end(1, NodeId(7), busy());
        assert_eq!(one.try_recv().unwrap(), busy());

        let (lost, kept) = (waiting(&inquiries, 2, 7, later), waiting(&inquiries, 3, 8, later));
        let late = waiting(&inquiries, 4, 8, Instant::now());
        inquiries.link_lost(NodeId(7));
        inquiries.tick();
        assert_eq!(lost.try_recv().unwrap(), Err(NoAnswer::LinkLost));
        assert_eq!(late.try_recv().unwrap(), Err(NoAnswer::Late));
        assert!(kept.try_recv().is_err());
    }

    #[test]
    fn questions_wait_in_bounds_and_end_with_the_node() {
        let inquiries = Inquiries::default();
        let asking = || Asking { from: NodeId(1), number: 1, question: Question::Metrics };
        let queued = (0..QUEUED_MAX + 3).filter(|_| inquiries.queue(asking())).count();
        assert_eq!(queued, QUEUED_MAX);
        assert_eq!(inquiries.next().unwrap().question, Question::Metrics);
        inquiries.stop();
        assert!(inquiries.next().is_none() && !inquiries.queue(asking()));
    }

    /// The fuzzer's seeds: the good ones are frames, the bad ones are refused.
    #[test]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let seeds = harness::seeds::replay("inquiry", |bytes| {
            let (tag, number, json) = read(bytes).map_err(|error| error.to_string())?;
            let json = match tag {
                QUESTION => Question::from_json(json)?.to_json(),
                _ => Answer::from_json(json)?.to_json(),
            };
            Ok([&[tag][..], &number.to_le_bytes(), &json].concat())
        });
        let has = |part: &str| {
            let holds = |seed: &Vec<u8>| String::from_utf8_lossy(seed).contains(part);
            seeds.iter().any(holds)
        };
        let names = ["decisions", "shards", "metrics", "split", "merge", "refused"];
        assert!(names.into_iter().all(has), "a question or an answer without a seed");
    }

    #[test]
    fn frames_are_read_or_refused() {
        let frame = |tag: u8, rest: &[u8]| [&[tag][..], &5u64.to_le_bytes(), rest].concat();
        assert_eq!(read(&frame(QUESTION, b"{}")), Ok((QUESTION, 5, &b"{}"[..])));
        assert_eq!(read(&frame(ANSWER, b"")), Ok((ANSWER, 5, &b""[..])));
        assert!(read(&frame(3, b"{}")).is_err());
        assert!(read(&[]).is_err() && read(&[QUESTION, 1, 2]).is_err());
        let long = vec![b' '; QUESTION_BYTES_MAX + 1];
        assert!(read(&frame(QUESTION, &long)).is_err());
        assert!(read(&frame(ANSWER, &long)).is_ok());
    }
}
