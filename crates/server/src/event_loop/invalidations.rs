//! Tells clients that cache what they have not heard yet ([`super::tracking`]).
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | what waits for a client, with its replies | `output_bytes_max` | the connection is closed |

use command::Sink as _;
use gateway::resp::{RespWriter, Version};
use node::tracking::interests::Invalidation;

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::pubsub::push;
use super::state::ConnectionState;
use super::tracking_connection::{message, write_push};
use crate::runtime::mailbox::Push;
use crate::runtime::tracking::Client;

impl EventLoop {
    /// Tells the connection that hears in place of another what is left to be said.
    #[cold]
    pub(super) fn tell_unsent(&self, connection: &mut Connection) {
        let Some(tracking) = &mut connection.tracking else { return };
        let Some(what) = tracking.unsent.take() else { return };
        self.tell_instead(connection, &what);
    }

    /// Tells the connection that hears in place of this one.
    fn tell_instead(&self, connection: &mut Connection, what: &Invalidation) {
        let Protocol::Resp(session, _) = &connection.protocol else { return };
        let id = session.tracking().map_or(0, |tracking| tracking.redirect);
        let mut resp3 = Vec::new();
        write_push(what, Version::V3, &mut resp3);
        let frames = Push { id, resp2: message(what), resp3 };
        if id == 0 || push(&self.runtime, &self.clients, frames) {
            return;
        }
        let Protocol::Resp(session, _) = &mut connection.protocol else { return };
        session.lose_redirect();
        let mut bytes = Vec::new();
        let mut writer = RespWriter::new(&mut bytes, Version::V3);
        writer.push(2);
        writer.bulk(b"tracking-redir-broken");
        writer.int(i64::try_from(id).unwrap_or(i64::MAX));
        // A RESP2 client finds out by CLIENT TRACKINGINFO.
        connection.push(bytes, self.config.output_bytes_max as usize);
    }

    /// Tells the loop's clients what they have not heard yet: before replies are written that may
    /// show it.
    #[inline]
    pub(super) fn tell_news(&mut self) {
        if self.runtime.tracking.has_news(self.number) {
            let news = self.runtime.tracking.take_news(self.number);
            news.into_iter().for_each(|(client, what)| self.invalidate(client, &what));
        }
    }

    /// Tells a client that keys may have changed.
    #[cold]
    fn invalidate(&mut self, client: Client, what: &Invalidation) {
        let Some(Some(slot)) = self.connections.get_mut(client.at) else { return };
        // Another one may be at its place by now.
        if slot.tracking.as_ref().is_none_or(|tracking| tracking.client != client) {
            return;
        }
        let Some(mut connection) = self.connections[client.at].take() else { return };
        self.tell(&mut connection, what);
        let is_broken = connection.life == ConnectionState::Broken;
        self.connections[client.at] = Some(connection);
        match is_broken {
            true => self.enqueue(client.at),
            false => self.touch(client.at),
        }
    }

    fn tell(&self, connection: &mut Connection, what: &Invalidation) {
        let next = connection.first_number;
        let Protocol::Resp(session, _) = &connection.protocol else { return };
        let (Some(options), Some(tracking)) = (session.tracking(), &mut connection.tracking) else {
            return;
        };
        if options.redirect != 0 && options.redirect != connection.id {
            return self.tell_instead(connection, what);
        }
        // It may hear in place of connections that read, or beside them.
        let is_alone = options.redirect == 0 && !options.broadcasts;
        let is_new = tracking.hears(what, next);
        if (is_alone && !is_new) || session.version() == Version::V2 {
            // RESP2 has no pushes, and nobody else is to hear it: as Redis.
            return;
        }
        let mut bytes = Vec::new();
        write_push(what, Version::V3, &mut bytes);
        if !connection.push_before_replies(&bytes, self.config.output_bytes_max as usize) {
            // It would believe for ever in what it has.
            connection.advance(ConnectionState::Broken);
        }
    }
}
