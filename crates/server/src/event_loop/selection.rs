//! Selects keyspaces for connections, and creates those with a number at their first use.

use std::sync::Arc;

use keyspace::{CatalogueOp, is_made_on_use};
use node::executor::{Input, Origin};

use super::EventLoop;
use super::connection::{Connection, Protocol};
use super::resp::{CommandOutcome, NO_KEYSPACE};
use super::serve::go_waiter;
use super::state::WaitsFor;
use gateway::resp::Session;

impl EventLoop {
    /// The session's keyspace does not exist: 0 to 15 are created, any other is an error.
    pub(super) fn without_keyspace(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> CommandOutcome {
        let name = session.keyspace();
        if !is_made_on_use(name) {
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        if !connection.waits_at_barrier() {
            self.create(at, connection, name);
        }
        CommandOutcome::Deferred
    }

    pub(super) fn select(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &mut Session,
        name: &[u8],
        muted: bool,
    ) -> CommandOutcome {
        if connection.waits_at_barrier() {
            return CommandOutcome::Deferred;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if self.runtime.routing.routes().get(&name).is_none() {
            if is_made_on_use(&name) {
                self.create(at, connection, &name);
                return CommandOutcome::Deferred;
            }
            return self.refuse(connection, session, NO_KEYSPACE, muted);
        }
        session.selected(&name);
        connection.route_version = u64::MAX;
        self.route_of(connection, session);
        if !muted {
            connection.output.bytes.extend_from_slice(b"+OK\r\n");
        }
        CommandOutcome::Answered
    }

    /// An EXEC of a connection has selected a keyspace; its next command waits for that.
    pub(super) fn has_selected(&mut self, at: usize, name: &str) {
        let connection = self.connection_at(at);
        if let Protocol::Resp(session, _) = &mut connection.protocol {
            session.selected(name);
            connection.route_version = u64::MAX;
        }
    }

    /// Creates a numbered keyspace; the connection's next command waits for it.
    pub(super) fn create(&mut self, at: usize, connection: &mut Connection, name: &str) {
        connection.next.waits_for = WaitsFor::Permission;
        connection.route_version = u64::MAX;
        let mut op = Vec::new();
        let options = self.config.keyspace_options();
        CatalogueOp::Create { name, options }.encode(&mut op);
        let origin = Origin(self.number as u32);
        let input = Input::Catalogue { op, origin, waiter: go_waiter(at) };
        self.inputs.push((keyspace::ShardId(0), input));
    }

    pub(super) fn route_of(&self, connection: &mut Connection, session: &Session) {
        connection.route = self.runtime.routing.routes().get(session.keyspace()).map(Arc::clone);
    }
}
