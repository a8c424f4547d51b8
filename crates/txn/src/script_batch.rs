//! Which scripts of a queue take effect together, and what becomes of each?
//!
//! The scripts of a batch run one after the other on one copy of their keys, so each sees what
//! those before it wrote. What they wrote is one transaction: it holds the version of each key that
//! was read, and apply compares these (SAFETY G25). So all of it is done at one moment, or nothing
//! is.
//!
//! ```text
//!   [a b c] ─► run a: ended · run b: writes, then halts ─► a c run again, without b
//!           ─► run a: ended · run c: ended              ─► one entry
//!                                  Done    ─► a, c answered     b leaves the queue
//!                                  Changed ─► a, c run again    b leaves the queue
//!                                  led elsewhere ─► a, c to that queue
//! ```
//!
//! **In order.** A script leaves its queue once all earlier scripts of its client are done. Until a
//! script that left has ended, the later ones of its client stay in the queue
//! ([`script_queue`](crate::script_queue)). Both together let a client's pipeline take effect in
//! order.
//!
//! Its driver runs the scripts ([`QueueDriver`]), proposes the entry and says what came of it:
//! threads and Lua in the server, closures in the simulator.

use std::collections::BTreeSet;

use command::{NotDone, ObservedVersion, Reply, Transaction};

use crate::interactive::InteractiveTxn;

/// After so many conflicts in a row a script leaves the queue, and may reserve its keys. One script
/// of a batch does: over shards, all of them would conflict with each other.
pub const CONFLICTS_MAX: u32 = 4;

/// What became of a script that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran<R> {
    /// It has ended. This is its reply, if what it read is as it was.
    Ended(R),
    /// It does nothing, whatever its keys have: this is its reply.
    Void(R),
    /// It cannot go on in the queue: it touches a key of another shard, or takes long.
    Leaves,
    /// Its keys cannot be read here now: another node leads the shard, or a transaction has locked
    /// them.
    Blocked,
    /// It would read or write more than one entry holds, beside what those before it did. It begins
    /// the next batch, or leaves if it was alone.
    Full,
}

/// Runs the scripts of a batch.
pub trait QueueDriver<J, R> {
    /// A copy that knows no key yet.
    fn begin(&mut self) -> InteractiveTxn;

    /// Runs a script on the copy; and whether it has changed the copy.
    fn run(&mut self, script: &J, copy: &mut InteractiveTxn) -> (Ran<R>, bool);

    /// Whether the batch has taken so long that the rest makes the next batch.
    fn is_long(&mut self) -> bool;
}

/// A script of a batch.
#[derive(Debug)]
struct BatchScript<J, R> {
    client: u64,
    script: J,
    /// None: it has not run.
    ran: Option<Ran<R>>,
}

/// Scripts that ran on one copy, in their order.
#[derive(Debug)]
pub struct ScriptBatch<J, R> {
    scripts: Vec<BatchScript<J, R>>,
}

/// What running a batch has led to.
#[derive(Debug)]
pub struct RanBatch<J, R> {
    /// What all scripts have read and written.
    pub copy: InteractiveTxn,
    /// The scripts.
    pub batch: ScriptBatch<J, R>,
    /// Those that have not run, with their clients: they go back to the front of the queue.
    pub unrun: Vec<(u64, J)>,
}

/// How what a batch has written is done.
#[derive(Debug, PartialEq)]
pub enum BatchCommit<'a> {
    /// It has written nothing, and read one key at most: it is done.
    Nothing,
    /// It has written nothing: it is done if all keys are as they were, else they have changed.
    LookAgain(Vec<(&'a [u8], ObservedVersion)>),
    /// By an entry of this.
    Propose(Transaction<'a>),
}

/// What came of a batch's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// All of it is done.
    Done,
    /// A key that it has read had changed: nothing is done.
    Changed,
    /// It was not applied, or may not have been.
    NotDone(NotDone),
}

impl<'a> BatchCommit<'a> {
    /// Of a batch that ran on this copy.
    pub fn of(copy: &'a InteractiveTxn) -> Self {
        let transaction = copy.transaction();
        match (transaction.commands.is_empty(), transaction.watched.len()) {
            (true, ..=1) => Self::Nothing,
            (true, _) => Self::LookAgain(transaction.watched),
            (false, _) => Self::Propose(transaction),
        }
    }
}

impl BatchOutcome {
    /// Of an entry that was applied.
    pub fn applied(reply: Option<&Reply>) -> Self {
        match reply {
            Some(Reply::Changed(_)) => Self::Changed,
            _ => Self::Done,
        }
    }

    /// Of keys that were looked at once more.
    pub fn looked(is_same: bool) -> Self {
        if is_same { Self::Done } else { Self::Changed }
    }
}

/// What the driver does with each script of a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct SettledBatch<J, R> {
    /// These have their replies.
    pub answered: Vec<(J, R)>,
    /// These are refused.
    pub refused: Vec<(J, NotDone)>,
    /// These leave the queue, by client: they run over shards.
    pub leaving: Vec<(u64, J)>,
    /// These leave the queue, by client, and look for it again a moment later: another node leads
    /// their shard, or their keys are locked.
    pub moved: Vec<(u64, J)>,
    /// These run again in the queue, before all others.
    pub again: Vec<(u64, J)>,
}

impl<J, R> ScriptBatch<J, R> {
    /// Runs scripts, in this order, on one copy.
    pub fn run(scripts: Vec<(u64, J)>, driver: &mut dyn QueueDriver<J, R>) -> RanBatch<J, R> {
        let begin = |(client, script)| BatchScript { client, script, ran: None };
        let mut scripts: Vec<BatchScript<J, R>> = scripts.into_iter().map(begin).collect();
        // Those that fit into one batch.
        let mut fitting = scripts.len();
        let copy = loop {
            let mut copy = driver.begin();
            if Self::run_once(&mut scripts[..fitting], &mut fitting, driver, &mut copy) {
                break copy;
            }
            // What a script has done that does not end here is in the copy.
            let ended = scripts.iter_mut().filter(|one| matches!(one.ran, Some(Ran::Ended(_))));
            ended.for_each(|one| one.ran = None);
        };
        let mut waiting = BTreeSet::new();
        for one in &mut scripts {
            match one.ran {
                None => _ = waiting.insert(one.client),
                Some(Ran::Leaves | Ran::Blocked) if waiting.contains(&one.client) => one.ran = None,
                _ => {}
            }
        }
        let (ran, unrun) = scripts.into_iter().partition(|one| one.ran.is_some());
        let unrun: Vec<BatchScript<J, R>> = unrun;
        let unrun = unrun.into_iter().map(|one| (one.client, one.script)).collect();
        RanBatch { copy, batch: Self { scripts: ran }, unrun }
    }

    /// Runs those whose fate is open; false if the copy holds what one has done that does not end
    /// here. `fitting` becomes how many fit into the batch.
    fn run_once(
        scripts: &mut [BatchScript<J, R>],
        fitting: &mut usize,
        driver: &mut dyn QueueDriver<J, R>,
        copy: &mut InteractiveTxn,
    ) -> bool {
        let mut away = BTreeSet::new();
        for (number, one) in scripts.iter_mut().enumerate() {
            if one.ran.is_none() && !away.contains(&one.client) {
                let is_first = copy.keys() == 0;
                let (ran, wrote) = driver.run(&one.script, copy);
                let ran = match ran {
                    Ran::Full if is_first => Ran::Leaves,
                    Ran::Full => {
                        *fitting = number;
                        return false;
                    }
                    ran => ran,
                };
                let has_ended = matches!(ran, Ran::Ended(_));
                one.ran = Some(ran);
                let is_long = driver.is_long();
                if wrote && !has_ended {
                    // Those before it run again: those behind it would make the batch longer yet.
                    *fitting = if is_long { number + 1 } else { *fitting };
                    return false;
                }
                if is_long {
                    break;
                }
            }
            if matches!(one.ran, Some(Ran::Leaves | Ran::Blocked)) {
                away.insert(one.client);
            }
        }
        true
    }

    /// Scripts that cannot run in the queue, since its shard is not here any more.
    pub fn unplaced(scripts: Vec<(u64, J)>) -> SettledBatch<J, R> {
        let mut settled = SettledBatch::default();
        let mut away = BTreeSet::new();
        for (client, script) in scripts {
            match away.insert(client) {
                true => settled.moved.push((client, script)),
                false => settled.again.push((client, script)),
            }
        }
        settled
    }

    /// What becomes of each script. `conflict` notes one for a script, and says how many there
    /// were.
    pub fn settle(
        self,
        outcome: &BatchOutcome,
        mut conflict: impl FnMut(&mut J) -> u32,
    ) -> SettledBatch<J, R> {
        let mut settled = SettledBatch::default();
        // Clients with a script that is not done: their later ones wait for it.
        let mut waiting = BTreeSet::new();
        for BatchScript { client, mut script, ran } in self.scripts {
            let mut unless_often = |otherwise| match conflict(&mut script) > CONFLICTS_MAX {
                true if settled.leaving.is_empty() => Next::OverShards,
                _ => otherwise,
            };
            let next = match (ran, outcome) {
                (Some(Ran::Void(reply)), _) | (Some(Ran::Ended(reply)), BatchOutcome::Done) => {
                    settled.answered.push((script, reply));
                    continue;
                }
                (Some(Ran::Ended(_)), BatchOutcome::NotDone(why)) => match why {
                    NotDone::Locked => unless_often(Next::Again),
                    NotDone::CrossShard => Next::OverShards,
                    why if is_led_elsewhere(*why) => Next::FindQueue,
                    why => {
                        settled.refused.push((script, *why));
                        continue;
                    }
                },
                (Some(Ran::Ended(_)), BatchOutcome::Changed) => unless_often(Next::Again),
                (Some(Ran::Blocked), _) => unless_often(Next::FindQueue),
                _ => Next::OverShards,
            };
            let is_first = waiting.insert(client);
            match next {
                Next::OverShards if is_first => settled.leaving.push((client, script)),
                Next::FindQueue if is_first => settled.moved.push((client, script)),
                _ => settled.again.push((client, script)),
            }
        }
        settled
    }
}

/// What a script does next that is not done.
enum Next {
    Again,
    FindQueue,
    OverShards,
}

impl<J, R> Default for SettledBatch<J, R> {
    fn default() -> Self {
        let (answered, refused, leaving, moved, again) = Default::default();
        Self { answered, refused, leaving, moved, again }
    }
}

/// Whether nothing of a batch is done because another node leads the shard, or its keys are in
/// another shard.
fn is_led_elsewhere(why: NotDone) -> bool {
    matches!(why, NotDone::NotLeader | NotDone::EntryReplaced | NotDone::NoSuchShard)
}

#[cfg(test)]
mod tests;
