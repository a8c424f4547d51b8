//! What a connection does as one: commands queued since `MULTI`, keys watched since `WATCH`, the
//! transaction since `BEGIN`.

use command::ObservedVersion;
use keyspace::{KeyspaceId, Moment};
use txn::interactive::InteractiveTxn;

use super::Session;
use crate::access::Access;
use crate::resp::error::CommandError;
#[cfg(doc)]
use crate::resp::request::Request;
use crate::resp::scripted::is_script;
use crate::resp::table;
use crate::resp::transaction::{Queue, Watched};

impl Session {
    /// Whether commands are queued until EXEC.
    #[inline]
    pub fn is_queueing(&self) -> bool {
        self.queue.is_some()
    }

    /// Shows the keys of all commands that are queued.
    pub fn each_queued_key(&self, show: &mut dyn FnMut(&[u8])) {
        for args in self.queue.iter().flat_map(|queue| queue.commands()) {
            let Ok(spec) = table::lookup(args) else { continue };
            spec.keys_in(args).into_iter().flatten().for_each(|index| show(args.at(index)));
        }
    }

    /// Shows the names of all commands that are queued.
    pub fn each_queued_name(&self, show: &mut dyn FnMut(&'static str)) {
        let queued = self.queue.iter().flat_map(|queue| queue.commands());
        queued.filter_map(|args| table::lookup(args).ok()).for_each(|spec| show(spec.name));
    }

    /// The keyspace that EXEC is of, if the first of its commands selects one.
    pub fn queued_keyspace(&self) -> Option<&str> {
        let queue = self.queue.as_ref().filter(|_| self.watched.is_empty())?;
        let first = queue.commands().next().filter(|args| args.is(0, "select"))?;
        std::str::from_utf8(first.get(1)?).ok()
    }

    /// Shows the keys that queued commands only read, and those that queued scripts declare.
    pub fn each_queued_read_key(&self, show: &mut dyn FnMut(&[u8])) {
        for args in self.queue.iter().flat_map(|queue| queue.commands()) {
            let Ok(spec) = table::lookup(args) else { continue };
            if spec.access == Access::Read {
                spec.key_indexes(args.len()).for_each(|index| show(args.at(index)));
            } else if is_script(args) {
                spec.keys_in(args).into_iter().flatten().for_each(|index| show(args.at(index)));
            }
        }
    }

    /// The past time that the queued commands read, if they do not read the newest values.
    #[inline]
    pub fn queued_at(&self) -> Option<Moment> {
        self.queue.as_ref()?.at()
    }

    /// Takes what was queued, for [`Request::Exec`].
    pub fn take_queue(&mut self) -> Option<Box<Queue>> {
        self.queue.take()
    }

    /// Takes what is watched with it.
    pub fn take_watched(&mut self) -> Watched {
        std::mem::take(&mut self.watched)
    }

    /// EXEC must wait: restores the queued commands and watched keys.
    pub fn queue_again(&mut self, queue: Box<Queue>, watched: Watched) {
        self.queue = Some(queue);
        self.watched = watched;
    }

    /// What is watched.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Watches keys of the session's keyspace that had this, for [`Request::Watch`].
    ///
    /// # Errors
    /// The reply: too many are watched, or keys of another keyspace. Those stay.
    pub fn watch(
        &mut self,
        keyspace: KeyspaceId,
        seen: &[(&[u8], ObservedVersion)],
    ) -> Result<(), CommandError> {
        self.watched.add((&self.keyspace, keyspace), seen)
    }

    /// Whether anything is watched.
    pub fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Moves a WATCH whose reply is unsent to a later look at its keys, of the session's keyspace.
    pub fn watch_later(&mut self, keys: &[&[u8]], seen: &[ObservedVersion]) {
        self.watched.renew_versions(&self.keyspace, keys, seen);
    }

    /// What a key of the session's keyspace had when it was first watched, if it is.
    pub fn seen(&self, key: &[u8]) -> Option<ObservedVersion> {
        self.watched.seen(&self.keyspace, key)
    }

    /// The transaction has ended: nothing is queued, nothing watched.
    pub fn end_transaction(&mut self) {
        self.queue = None;
        self.watched.clear();
    }

    /// Whether BEGIN has begun a transaction.
    #[inline]
    pub fn has_transaction(&self) -> bool {
        self.begun.is_some()
    }

    /// Begins a transaction, for [`Request::Begin`]; or goes on with it.
    pub fn begin(&mut self, transaction: Box<InteractiveTxn>) {
        self.begun = Some(transaction);
    }

    /// Takes it: the session is as before BEGIN.
    pub fn take_transaction(&mut self) -> Option<Box<InteractiveTxn>> {
        self.begun.take()
    }
}
