//! What was seen of keys, by hash tag; and the search for an order that explains it.

use std::collections::BTreeMap;

use command::Reply;
use keyspace::KeyspaceId;

use super::{ClientOp, Clients, KeyOp, Op};
use crate::check::Violation;
use crate::check::linear::{self, Linearizability, ObservedCommand};

/// States that the search of a history looks at before it is given up.
const STATES_MAX: usize = 100_000;

impl Clients {
    pub(super) fn note(&mut self, op: Op, replies: Option<Vec<Reply>>, high_ms: u64) {
        let Op { client, what: ClientOp::Keys(of_keys), call, .. } = op else { return };
        let KeyOp { route, keys, command, low_ms, in_parts, .. } = of_keys;
        let (client, high_ms, back) = (client as u8, high_ms.max(low_ms), 0);
        let places = Vec::new();
        let seen =
            ObservedCommand { command, places, client, call, back, low_ms, high_ms, replies };
        match in_parts {
            true => keys.iter().for_each(|key| self.saw(route.keyspace.id, &[*key], seen.clone())),
            false => self.saw(route.keyspace.id, &keys, seen),
        }
    }

    /// Something was seen of keys just now. Those that FLUSH empties may have several tags.
    pub(in crate::cluster) fn saw(
        &mut self,
        keyspace: KeyspaceId,
        keys: &[u64],
        seen: ObservedCommand,
    ) {
        self.events += 1;
        let (back, tagged) = (self.events, self.tagged);
        let mut of_tags: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for key in keys {
            of_tags.entry(key / tagged).or_default().push((key % tagged) as usize);
        }
        for (tag, places) in of_tags {
            let history = self.histories.entry((keyspace, tag)).or_default();
            history.push(ObservedCommand { places, back, ..seen.clone() });
        }
    }

    /// Searches every history for a linear order; how many were too long to judge.
    ///
    /// # Errors
    /// The first history without one.
    pub fn search(&mut self) -> Result<u64, Violation> {
        // What a sole replica has applied while it started was seen by nobody.
        let lost = std::mem::take(&mut self.lost).into_iter().map(|(op, _)| op);
        for op in std::mem::take(&mut self.endless).into_iter().chain(lost) {
            self.note(op, None, u64::MAX);
        }
        let mut unjudged = 0;
        let cells = vec![None; self.tagged as usize];
        for ((keyspace, tag), history) in &mut self.histories {
            if self.weak.contains(keyspace) {
                continue;
            }
            history.sort_by_key(|seen| seen.call);
            for (places, cells, seen) in linear::apart(&cells, history) {
                match linear::is_linear_within(&cells, &seen, STATES_MAX) {
                    Linearizability::Yes => continue,
                    // One command was under way while very many others came and went.
                    Linearizability::TooLong => {
                        unjudged += 1;
                        continue;
                    }
                    Linearizability::No => {}
                }
                let keys: Vec<u64> =
                    places.iter().map(|place| tag * self.tagged + *place as u64).collect();
                let end = linear::first_bad_prefix(&cells, &seen);
                let mut text = format!(
                    "keyspace {keyspace}, keys {keys:?}: no order of these explains the answers"
                );
                for seen in &seen[..end] {
                    text += &format!("\n    {seen}");
                }
                return Err(Violation::new("linearizable per key", text));
            }
        }
        Ok(unjudged)
    }
}
