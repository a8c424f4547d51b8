//! Who may have written what, as clients have seen it.

use std::collections::BTreeSet;

use command::Writer;

use super::{BLOCKS, VolumeClients};
use crate::check::Violation;
use crate::check::register::{RegisterAccess, RegisterOp, register};
use crate::cluster::World;

pub(super) const RULE: &str = "one session writes to a volume (G28)";

/// A write or read of a block.
#[derive(Clone, Debug)]
pub(super) struct BlockAccess {
    call: u64,
    back: Option<u64>,
    value: u64,
    /// Of a write, whose it is.
    writer: Option<Writer>,
}

impl BlockAccess {
    pub fn read(call: u64, back: u64, value: u64) -> Self {
        Self { call, back: Some(back), value, writer: None }
    }

    /// A write that is answered, or may have been done.
    pub fn wrote(call: u64, back: Option<u64>, value: u64, writer: Writer) -> Self {
        Self { call, back, value, writer: Some(writer) }
    }
}

impl World {
    /// What these clients have seen is judged.
    ///
    /// # Errors
    /// A rule is broken.
    pub(in crate::cluster) fn judge_volumes(&self) -> Result<(), Violation> {
        let Some(all) = &self.volumes else { return Ok(()) };
        for (block, accesses) in &all.history {
            if let Some(why) = judge(accesses, &all.had) {
                return Err(Violation::new(RULE, format!("block {block}: {why}")));
            }
        }
        Ok(())
    }
}

/// What is wrong with the history of a block; `had` says who had the volume, from when on.
fn judge(accesses: &[BlockAccess], had: &[(u64, Writer)]) -> Option<String> {
    let reads = accesses.iter().filter(|access| access.writer.is_none());
    let seen: BTreeSet<u64> = reads.map(|access| access.value).collect();
    let mut history = Vec::new();
    for BlockAccess { call, mut back, value, writer } in accesses.iter().cloned() {
        let Some(writer) = writer else {
            history.push(RegisterAccess { call, back, what: RegisterOp::Read(vec![value]) });
            continue;
        };
        // From then on all shards refused it.
        let later = had
            .iter()
            .filter(|(_, other)| other.session != writer.session && other.epoch > writer.epoch);
        if let Some(fenced_at) = later.map(|(at, _)| *at).min() {
            match back {
                Some(_) if fenced_at < call => {
                    return Some(format!(
                        "{writer:?} wrote {value} at {call}, and was fenced off at {fenced_at}"
                    ));
                }
                Some(at) => back = Some(at.min(fenced_at)),
                // Not at all, or by then.
                None if fenced_at < call || !seen.contains(&value) => continue,
                None => back = Some(fenced_at),
            }
        }
        history.push(RegisterAccess { call, back, what: RegisterOp::Wrote(value) });
    }
    register(&history)
}

impl VolumeClients {
    /// What has not happened since, as text.
    pub(super) fn lacks(&self, since: u64, first_connection: u64) -> String {
        let mut text = String::new();
        let new = |client: &super::VolumeClient| {
            let connection = client.connection.as_ref();
            connection.is_some_and(|it| it.number > first_connection && it.claim.is_held())
        };
        if !self.clients.iter().any(new) {
            text += "no new session has taken the volume; ";
        }
        let accesses = || self.history.values().flatten().filter(|access| access.call > since);
        if !accesses().any(|access| access.writer.is_some() && access.back.is_some()) {
            text += "nobody has written; ";
        }
        let unread = (0..BLOCKS).find(|block| {
            let accesses = self.history.get(block).into_iter().flatten();
            !accesses.into_iter().any(|it| it.call > since && it.writer.is_none())
        });
        if let Some(block) = unread {
            text += &format!("nobody has read block {block}; ");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Writer = Writer { epoch: 5, session: 1 };
    const NEW: Writer = Writer { epoch: 9, session: 2 };

    #[test]
    fn judge_finds_writes_of_who_was_fenced_off() {
        let wrote = |call, back| BlockAccess::wrote(call, back, 1, OLD);
        let had = [(10, NEW)];
        assert_eq!(judge(&[wrote(1, Some(4)), BlockAccess::read(5, 6, 1)], &had), None);
        assert!(judge(&[wrote(11, Some(12))], &had).expect("it began later").contains("fenced"));
        assert_eq!(judge(&[wrote(11, Some(12))], &[(10, Writer { epoch: 4, ..NEW })]), None);
        assert_eq!(judge(&[wrote(11, Some(12))], &[(10, Writer { session: 1, ..NEW })]), None);
        // Without an answer it may be done by then …
        let seen = |call| BlockAccess::read(call, call + 1, 1);
        let none = |call| BlockAccess::read(call, call + 1, 0);
        assert_eq!(judge(&[wrote(8, None), seen(12)], &had), None);
        assert_eq!(judge(&[wrote(8, None), none(12)], &had), None);
        // … and not later.
        assert!(judge(&[wrote(8, None), none(12), seen(14)], &had).is_some());
        assert!(judge(&[wrote(11, None), seen(14)], &had).is_some());
        // The same of one whose answer comes later.
        assert!(judge(&[wrote(8, Some(20)), none(12), seen(14)], &had).is_some());
        assert_eq!(judge(&[wrote(8, Some(20)), none(12), seen(14)], &[]), None);
    }
}
