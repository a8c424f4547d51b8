//! A worker whose clients speak to all nodes of a Redis Cluster.
//!
//! ```text
//!   connections of node 0        of node 1                     node n
//!   0 1 2 … count−1              count … 2·count−1             n·count + client
//! ```
//!
//! A client has a connection to each node and asks the one that serves the key's slot. What is
//! redirected is sent again to where it was directed; its latency counts from the first time.

use bytes::Bytes;

use super::{Pending, Worker};
use crate::driver::{Request, fill_word};
use crate::run::link::Link;
use crate::run::slots::Redirect;
use crate::scenario::Action;

/// How often a request is redirected before it has failed.
const REDIRECTS_MAX: u8 = 16;
/// What goes before a request that a node has told to ask elsewhere.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// What a request keeps to be sent again.
pub struct Again {
    /// Its bytes.
    bytes: Bytes,
    /// How often it was redirected.
    redirects: u8,
}

impl Worker<'_> {
    /// The client that a connection belongs to.
    pub(super) fn client_of(&self, connection: usize) -> usize {
        connection % self.count
    }

    /// The connections of a client.
    fn connections(&self, client: usize) -> impl Iterator<Item = usize> {
        (client..self.clients.len()).step_by(self.count.max(1))
    }

    fn is_open(&self, connection: usize) -> bool {
        self.clients[connection].link.as_ref().is_some_and(Link::is_ready)
    }

    /// Whether a client may send: it has a connection, and fewer requests under way than it may.
    pub(super) fn may_send(&self, client: usize) -> bool {
        let under_way: usize =
            self.connections(client).map(|at| self.clients[at].pending.len()).sum();
        (under_way as u64) < self.job.phase.pipeline
            && self.connections(client).any(|connection| self.is_open(connection))
    }

    /// Whether a connection is open, or broken while its client has others.
    pub(super) fn is_settled(&self, connection: usize) -> bool {
        let has_others =
            || self.connections(self.client_of(connection)).any(|other| self.is_open(other));
        self.is_open(connection) || self.clients[connection].retry.is_some() && has_others()
    }

    /// Sends a request to the node of its key.
    pub(super) fn send_to_owner(&mut self, client: usize, mut pending: Pending) {
        let action = &self.job.phase.mix[pending.entry].action;
        let request = Request { action, key: &self.key, other: &self.other, value: &self.value };
        let node = self.slots.as_mut().map_or(0, |slots| match action {
            Action::Command(words) if words.len() > 1 => {
                let mut named = Vec::new();
                fill_word(&words[1], &request, &mut named);
                slots.node_of(&named)
            }
            _ => slots.node_of(request.key),
        });
        let owner = node * self.count + client;
        let connection = Some(owner).filter(|connection| self.is_open(*connection));
        let connection = connection
            .or_else(|| self.connections(client).find(|connection| self.is_open(*connection)));
        let Some(link) = connection.and_then(|at| self.clients[at].link.as_mut()) else { return };
        let bytes = link.encode(&request);
        link.send_bytes(&bytes);
        pending.again = Some(Again { bytes, redirects: 0 });
        let connection = connection.unwrap_or(client);
        self.clients[connection].pending.push_back(pending);
        self.unsent.push(connection);
        self.under_way += 1;
    }

    /// Sends again what was redirected.
    pub(super) fn follow(&mut self, client: usize, now: u64) {
        for (mut pending, redirect) in std::mem::take(&mut self.redirected) {
            self.redirects += 1;
            let address = match redirect {
                Redirect::Moved(_, address) | Redirect::Ask(address) => address,
            };
            let node = self.slots.as_mut().and_then(|slots| slots.number(address));
            let again = pending.again.as_mut();
            let (Some(node), Some(again)) = (node, again.filter(|a| a.redirects < REDIRECTS_MAX))
            else {
                self.recorder.failed(pending.entry, "redirected too often", 1);
                continue;
            };
            again.redirects += 1;
            if let (Redirect::Moved(slot, _), Some(slots)) = (redirect, &mut self.slots) {
                slots.moved(slot, node);
            }
            let connection = node * self.count + client;
            while self.clients.len() <= connection {
                // A node that was not known: connections to it are opened as they are needed.
                let target = self.clients.len() / self.count;
                self.clients.push(super::Client { target, ..Default::default() });
            }
            if self.clients[connection].link.is_none()
                && let Err(why) = self.open(connection)
            {
                self.recorder.failed(pending.entry, &why.0, 1);
                continue;
            }
            let Some(link) = &mut self.clients[connection].link else { continue };
            let bytes = again.bytes.clone();
            if matches!(redirect, Redirect::Ask(_)) {
                link.send_bytes(ASKING);
                self.clients[connection].pending.push_back(Pending::skipped(now));
            }
            if let Some(link) = &mut self.clients[connection].link {
                link.send_bytes(&bytes);
            }
            self.clients[connection].pending.push_back(pending);
            self.unsent.push(connection);
            self.under_way += 1;
        }
        self.flush(now);
    }
}
