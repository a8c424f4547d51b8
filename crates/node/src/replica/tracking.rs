//! The replica as the leader of a shard whose keys clients cache ([`crate::tracking`], SAFETY G24).

use hlc::Clock;
use keyspace::{NodeId, Timestamp};
use replication::BootNanos;
use storage::engine::MemoryEngine;

use super::Replica;
use crate::executor::Effects;
use crate::routing::fetch::{FetchRequest, FetchResult, is_owned};
use crate::rpc::message::RpcMessage;
use crate::tracking::changed::ChangedKeys;
use crate::tracking::interests::Registration;
use crate::tracking::leader::{KeyInterest, Outbox, changes_at};
use crate::tracking::message::StreamId;

impl Replica {
    /// Whether this is a request to be registered that can be done now: it leads, and nobody takes
    /// the shard over.
    pub(crate) fn registers(&self, want: &FetchRequest) -> bool {
        matches!(want, FetchRequest::Track { .. })
            && self.leads()
            && !self.merges_freeze()
            && is_owned(&self.state.read(), want)
    }

    /// Registers a node (none: this one) for keys, which are this shard's.
    pub(crate) fn register(
        &mut self,
        node: Option<NodeId>,
        want: &FetchRequest,
        now: BootNanos,
        now_ms: u64,
        effects: &mut Effects,
    ) -> FetchResult {
        let FetchRequest::Track { keys, wants_all, .. } = want else {
            unreachable!("only requests to be registered come here")
        };
        let (term, view) = (self.group.term(), self.state.clone());
        let state = view.read();
        let leader = self.own_node(&state.descriptor);
        let interests = keys.iter().map(|key| KeyInterest {
            key,
            expiry_ms: changes_at(state.engine().map_or(0, |engine| expiry(engine, key)), now_ms),
        });
        let mut out = Outbox::new();
        let node = node.unwrap_or(leader);
        // It may be out of the descriptor when its streams end.
        self.tracked.own = Some(leader);
        let (stream, next) =
            self.tracked.register(node, term, interests, *wants_all, now, &mut out);
        let keyspace = state.descriptor.arc.keyspace();
        drop(state);
        self.send_tracking(out, effects);
        FetchResult::Tracked(Registration { leader, keyspace, stream, next })
    }

    fn own_node(&self, descriptor: &keyspace::Descriptor) -> NodeId {
        descriptor.node_of(self.replica).expect("a replica that leads is in the descriptor")
    }

    /// A node wants to know whether its stream is valid.
    pub(crate) fn renew_tracking(
        &mut self,
        from: NodeId,
        renewed: (StreamId, u64),
        now: BootNanos,
        clock: &Clock,
        effects: &mut Effects,
    ) {
        let mut out = Outbox::new();
        // Before it says how far the stream is.
        self.tracked.expire(clock.now().millis(), &mut out);
        let is_leased = self.leads() && (self.is_sole() || now < self.group.lease_until());
        self.tracked.renew(from, renewed, is_leased, now, &mut out);
        self.tracked.forget_silent(now);
        self.send_tracking(out, effects);
    }

    /// An observer of what an entry changes, if any node is interested, or a feed.
    #[inline]
    pub(super) fn observer(&self) -> Option<ChangedKeys> {
        match (self.tracked.is_empty(), self.change_log.is_some()) {
            (true, false) => None,
            (false, false) => Some(ChangedKeys::default()),
            (is_untracked, true) => Some(ChangedKeys::for_feeds(!is_untracked)),
        }
    }

    /// An entry has changed these.
    #[inline(never)]
    pub(super) fn tell_changed(&mut self, changed: &ChangedKeys, effects: &mut Effects) {
        let mut out = Outbox::new();
        self.tracked.changed(changed, &mut out);
        self.send_tracking(out, effects);
    }

    /// Ends all streams: it does not lead, or the shard is another by now.
    pub(super) fn end_tracking(&mut self, effects: &mut Effects) {
        let mut out = Outbox::new();
        self.tracked.end(&mut out);
        self.send_tracking(out, effects);
    }

    fn send_tracking(&self, out: Outbox, effects: &mut Effects) {
        if out.is_empty() {
            return;
        }
        let shard = self.id;
        let own = self.tracked.own;
        for (node, message) in out {
            match own == Some(node) {
                true => effects.tracking.push((shard, message)),
                false => effects.rpcs.push((node, RpcMessage::Tracking { shard, message })),
            }
        }
    }
}

/// When the newest value of a key expires, in ms since 1970; 0: never, or there is none.
fn expiry(engine: &MemoryEngine, key: &[u8]) -> u64 {
    let version = engine.newest(&engine.hasher().key(key), Timestamp::ZERO);
    version.map_or(0, |version| version.expiry_ms)
}
