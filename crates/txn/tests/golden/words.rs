//! How commands, steps and answers stand in scripts.

use command::limits::VALUE_BYTES_MAX;
use command::{Expiry, Read, Refusal, Reply, SetIf, SetReply, Step as Command, Write};
use keyspace::Timestamp;
use txn::locks::{
    Answers, Deadline, KeyFinding, Mark, PrepareRefusal, RecordState, StepReply, TxnId,
};

/// `T100`, or `T100.1` for the second attempt: it began at 100 ms.
pub fn name(id: TxnId) -> String {
    let start = id.start.millis();
    if id.attempt == 0 { format!("T{start}") } else { format!("T{start}.{}", id.attempt) }
}

/// What `T100.1` names, of a coordinator.
pub fn id(name: &str, coordinator: u64) -> TxnId {
    let number = name.strip_prefix('T').expect("T and when it began");
    let (start, attempt) = number.split_once('.').unwrap_or((number, "0"));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let start = Timestamp::from_millis(number(start));
    TxnId { start, coordinator, attempt: number(attempt) as u32 }
}

pub fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub fn texts<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> String {
    keys.into_iter().map(|key| text(key.as_ref())).collect::<Vec<_>>().join(" ")
}

/// `SET k v`, `SET k v PXAT 300`, `APPEND k v`, `INCRBY k 5`, `DEL k`, `GET k`.
pub fn command(text: &str) -> Command<'_> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let set = |key, value, expiry| {
        let (when, reply) = (SetIf::Always, SetReply::Ok);
        Command::Write(Write::Set { key, value, when, expiry, reply })
    };
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    match (words[0], &bytes[1..]) {
        ("SET", [key, value]) => set(key, value, Expiry::Never),
        ("SET", [key, value, _, _]) => {
            set(key, value, Expiry::At(words[4].parse().expect("milliseconds")))
        }
        ("APPEND", [key, value]) => {
            Command::Write(Write::Append { key, value, bytes_max: VALUE_BYTES_MAX })
        }
        ("INCRBY", [key, _]) => {
            Command::Write(Write::Increment { key, by: words[2].parse().expect("a number") })
        }
        ("RENAME", [from, to]) => Command::Write(Write::Rename { from, to, if_absent: false }),
        ("DEL", [key]) => Command::Write(Write::Delete { key }),
        ("GET", [key]) => Command::Read(Read::Get(key)),
        _ => panic!("no command: {text}"),
    }
}

pub fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Ok => "OK".to_owned(),
        Reply::Nil => "nil".to_owned(),
        Reply::Int(number) => format!("({number})"),
        Reply::Bulk(bytes) => format!("\"{}\"", text(bytes)),
        Reply::Refused(Refusal::NotInteger) => "error, not an integer".to_owned(),
        Reply::Moved { .. } => "re-routed".to_owned(),
        Reply::Fenced { epoch } => format!("fenced off by {epoch}"),
        Reply::Changed(key) => format!("nil: {} has changed", text(key)),
        other => panic!("not in scripts: {other:?}"),
    }
}

pub fn replies<'a>(all: impl IntoIterator<Item = &'a Reply>) -> String {
    all.into_iter().map(reply).collect::<Vec<_>>().join(" ")
}

fn answers(all: &Answers) -> String {
    match all.is_empty() {
        true => String::new(),
        false => format!(", answers {}", replies(all.iter().map(|(_, reply)| reply))),
    }
}

/// Until when it may be committed, if that is not for ever.
pub fn before(deadline: Deadline) -> String {
    deadline.millis().map(|end| format!(" before {end}")).unwrap_or_default()
}

/// The same, of a lock.
pub fn commit_before(deadline: Deadline) -> String {
    match before(deadline) {
        none if none.is_empty() => none,
        some => format!(", commits{some}"),
    }
}

fn finding(finding: &KeyFinding) -> String {
    match finding {
        KeyFinding::Locked(vote) => {
            format!("locked at {}{}", vote.at.millis(), commit_before(vote.deadline))
        }
        KeyFinding::Marked(Mark::Aborted) => "prevented".to_owned(),
        KeyFinding::Marked(Mark::Committed { commit_time, .. }) => {
            format!("committed at {}", commit_time.millis())
        }
    }
}

/// What a shard answers to a step.
pub fn step_reply(reply: &StepReply) -> String {
    match reply {
        StepReply::Voted(vote) => {
            let (at, before) = (vote.at.millis(), commit_before(vote.deadline));
            format!("prepared at {at}{before}{}", answers(&vote.answers))
        }
        StepReply::Refused(PrepareRefusal::TooOld(at)) => {
            format!("refused: too old at {}", at.millis())
        }
        StepReply::Refused(PrepareRefusal::Aborted) => "refused: aborted".to_owned(),
        StepReply::Refused(PrepareRefusal::Locked(key)) => {
            format!("refused: conflict on {}", text(key))
        }
        StepReply::Refused(PrepareRefusal::Changed(key)) => {
            format!("refused: {} has changed", text(key))
        }
        StepReply::Refused(PrepareRefusal::Expired) => {
            "refused: a value elsewhere has expired".to_owned()
        }
        StepReply::Refused(PrepareRefusal::TooMuch) => "refused: too much".to_owned(),
        StepReply::Record(state, rest) => {
            let state = match state {
                RecordState::Staged => "STAGED".to_owned(),
                RecordState::Committed(at) => format!("COMMITTED at {}", at.millis()),
                RecordState::Aborted => "ABORTED".to_owned(),
                RecordState::TooOld => "too old to know".to_owned(),
            };
            let rest = if rest.is_empty() { rest_of("") } else { rest_of(&texts(rest)) };
            format!("record {state}{rest}")
        }
        StepReply::Found(all) => all.iter().map(finding).collect::<Vec<_>>().join(", "),
        StepReply::Done => "done".to_owned(),
        StepReply::Moved => "re-routed: not this shard's keys".to_owned(),
    }
}

fn rest_of(keys: &str) -> String {
    if keys.is_empty() { String::new() } else { format!(", to be resolved: {keys}") }
}
