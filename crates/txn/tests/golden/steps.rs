//! How steps stand in scripts, and what they are made of.

use command::transaction::KeyRange;
use command::{ObservedVersion, Transaction};
use keyspace::Timestamp;
use txn::locks::{Outcome, Prepare, Role, Step};

use crate::words::{before, name, text, texts};

/// `a,b`, as keys.
pub fn keys(list: &str) -> impl Iterator<Item = &[u8]> {
    list.split(',').filter(|key| !key.is_empty()).map(str::as_bytes)
}

/// `k@50`: the version of 50 ms; `k@none50`: no value at 50 ms.
pub fn watched(list: &str) -> Vec<(&[u8], ObservedVersion)> {
    let each = list.split(',').filter(|each| !each.is_empty());
    let watched = each.map(|each| {
        let (key, at) = each.split_once('@').expect("a key and when");
        let millis = |text: &str| Timestamp::from_millis(text.parse().expect("milliseconds"));
        let seen = match at.strip_prefix("none") {
            Some(at) => ObservedVersion::Absent(millis(at)),
            None => ObservedVersion::Version(millis(at)),
        };
        (key.as_bytes(), seen)
    });
    watched.collect()
}

/// `b..m`, or `b..` to the end.
pub fn range(text: &str) -> Option<KeyRange<'_>> {
    let (low, high) = text.split_once("..")?;
    Some((low.as_bytes(), (!high.is_empty()).then_some(high.as_bytes())))
}

pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Staged => "STAGED".to_owned(),
        Outcome::Committed(at) => format!("COMMITTED at {}", at.millis()),
        Outcome::Aborted => "ABORTED".to_owned(),
    }
}

fn of_part(part: &Transaction<'_>) -> String {
    let mut keys = Vec::new();
    part.each_key(&mut |key| keys.push(key));
    keys.sort_unstable();
    keys.dedup();
    texts(keys)
}

/// A step, as it is sent to a shard.
pub fn step(step: &Step<'_>) -> String {
    let id = name(step.id());
    match step {
        Step::Prepare(Prepare { record, promised, role, deadline, part, is_first, .. }) => {
            let first = if *is_first { ", the first" } else { "" };
            let role = match role {
                Role::Commits(_) => {
                    let before = deadline.map(before).unwrap_or_default();
                    format!(", the last: commits{before}, record {}", text(record))
                }
                Role::Votes if promised.is_empty() => String::new(),
                Role::Votes => {
                    format!(", record {} STAGED, promised {}", text(record), texts(promised))
                }
            };
            format!("PREPARE {id} keys {}{first}{role}", of_part(part))
        }
        Step::Decide { outcome: end, .. } => format!("DECIDE {id} {}", outcome(end)),
        Step::Resolve { outcome: end, keys, .. } => {
            format!("RESOLVE {id} {}, keys {}", outcome(end), texts(keys))
        }
        Step::Prevent { keys, .. } => format!("PREVENT {id} keys {}", texts(keys)),
        Step::ReadRecord { record, .. } => format!("LOOK {id} record {}", text(record)),
        Step::Forget { all, floor } => {
            let names: Vec<String> = all.iter().map(|(id, _)| name(*id)).collect();
            let floor = floor.map(|(_, at)| format!(", floor {}", at.millis()));
            format!("FORGET {}{}", names.join(" "), floor.unwrap_or_default())
        }
    }
}
