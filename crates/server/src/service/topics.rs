//! Durable topics: keys of the keyspace whose data their messages speak of.

use std::time::Duration;

use bytes::Bytes;
use keyspace::{Feature, Timestamp};
use node::feed::changes::{ChangesWanted, FoundChanges, How, KeyFilter};
use node::routing::fetch::{FetchRequest, FetchResult};
use topics::group::{self, Delivery, Start, Taken};
use topics::keys::LOCKS;
use topics::record::{Group, GroupSettings, Head, Origin, TopicSettings};
use topics::topic::{self, Deleted, Shown};

use super::NodeApi;
use super::drafts::{Program, run};
use super::reads::fetch;
use api::{
    Acknowledged, ApiError, Done, GroupInfo, GroupSpec, GroupStart, LockInfo, LockSpec,
    MessageOrigin, RequestId, TakenMessages, TopicInfo, TopicMessage, TopicService, TopicSpec,
};

/// One that only reads; its name is not asked for.
const READ: RequestId = RequestId { incarnation: 0, sequence: 0 };

impl NodeApi {
    fn run_in<T: Send + 'static>(
        &self,
        id: RequestId,
        keyspace: &str,
        program: Program<T>,
        done: Done<T>,
    ) {
        let runtime = self.runtime.clone();
        self.in_keyspace(keyspace, move |keyspace| match keyspace {
            Ok(keyspace) => run(&runtime, keyspace, id, program, done),
            Err(error) => done(Err(error)),
        });
    }
}

impl NodeApi {
    /// Asks the leader of a key's shard whether it has changed above a time; it waits so long for
    /// the next change of the shard.
    fn await_change(
        &self,
        keyspace: &str,
        key: &[u8],
        above: Timestamp,
        wait: Duration,
        done: Done<Option<Timestamp>>,
    ) {
        let routes = self.runtime.routing.routes();
        let Some(route) = routes.get(keyspace) else {
            return done(Err(self.no_keyspace(keyspace)));
        };
        if !self.runtime.version.allows(Feature::Feeds) {
            let needed = Feature::Feeds.since();
            let why = format!("nodes tell of changes from cluster version {needed} on");
            return done(Err(ApiError::VersionRefused { why }));
        }
        let place = route.place_of_key(key);
        let want = FetchRequest::Changes(Box::new(ChangesWanted {
            ends: route.arc(place).ends(),
            keys: KeyFilter::One(key.into()),
            above,
            with_before: false,
            compact_to: Timestamp::ZERO,
            how: How::Live { until: Timestamp::ZERO, wait_ms: wait.as_millis() as u64 },
        }));
        let then = move |found: Result<Option<FetchResult>, ApiError>| {
            done(found.map(|found| match found {
                Some(FetchResult::Changes(FoundChanges::Live { changes, resolved })) => {
                    changes.is_empty().then_some(resolved)
                }
                // It was split or has moved, or is too old: who waits has to look.
                _ => None,
            }));
        };
        fetch(&self.runtime, route.shard(place), want, Box::new(then));
    }
}

impl TopicService for NodeApi {
    fn lock_acquire(&self, id: RequestId, name: &str, spec: LockSpec, done: Done<LockInfo>) {
        self.acquire_lock(id, name, spec, done);
    }

    fn lock_renew(&self, id: RequestId, name: &str, token: u64, ttl_ms: u64, done: Done<LockInfo>) {
        self.renew_lock(id, name, token, ttl_ms, done);
    }

    fn lock_release(&self, id: RequestId, name: &str, token: u64, done: Done<()>) {
        self.release_lock(id, name, token, done);
    }

    fn lock(&self, name: &str, done: Done<Option<LockInfo>>) {
        self.show_lock(name, done);
    }

    fn locks(&self, prefix: &str, after: Option<&str>, limit: usize, done: Done<Vec<LockInfo>>) {
        self.list_locks(prefix, after, limit, done);
    }

    fn topics(&self, keyspace: &str, done: Done<Vec<String>>) {
        self.run_in(READ, keyspace, Box::new(topic::list), done);
    }

    fn topic_create(
        &self,
        id: RequestId,
        keyspace: &str,
        topic: &str,
        spec: TopicSpec,
        done: Done<TopicInfo>,
    ) {
        let name = topic.to_owned();
        let default = TopicSettings::default();
        let settings = TopicSettings {
            kept_ms: spec.kept_ms.unwrap_or(default.kept_ms),
            messages_max: spec.messages_max.unwrap_or(default.messages_max),
            bytes_max: spec.bytes_max.unwrap_or(default.bytes_max),
        };
        let program: Program<_> = Box::new(move |draft| {
            let head = topic::create(draft, &name, settings)?;
            Ok(topic_info(&name, Shown { head, groups: Vec::new() }))
        });
        self.run_in(id, keyspace, program, done);
    }

    fn topic(&self, keyspace: &str, topic: &str, done: Done<TopicInfo>) {
        let name = topic.to_owned();
        let program: Program<_> =
            Box::new(move |draft| Ok(topic_info(&name, topic::show(draft, &name)?)));
        self.run_in(READ, keyspace, program, done);
    }

    fn topic_delete(&self, id: RequestId, keyspace: &str, topic: &str, done: Done<()>) {
        let (this, again, name) = (self.again(), keyspace.to_owned(), topic.to_owned());
        let named = name.clone();
        let then = move |deleted: Result<Deleted, ApiError>| match deleted {
            Ok(Deleted::Part) => this.topic_delete(id, &again, &name, done),
            Ok(Deleted::All) => done(Ok(())),
            Err(error) => done(Err(error)),
        };
        let program: Program<_> = Box::new(move |draft| topic::delete(draft, &named));
        self.run_in(id, keyspace, program, Box::new(then));
    }

    fn publish(
        &self,
        id: RequestId,
        keyspace: &str,
        topic: &str,
        bodies: Vec<Bytes>,
        done: Done<u64>,
    ) {
        let name = topic.to_owned();
        let program: Program<_> = Box::new(move |draft| {
            topic::publish_all(draft, &name, &bodies).map(Option::unwrap_or_default)
        });
        self.run_in(id, keyspace, program, done);
    }

    fn subscribe(
        &self,
        id: RequestId,
        keyspace: &str,
        (topic, group): (&str, &str),
        spec: GroupSpec,
        done: Done<GroupInfo>,
    ) {
        let (topic, name) = (topic.to_owned(), group.to_owned());
        let default = GroupSettings::default();
        let settings = GroupSettings {
            ack_ms: spec.ack_ms.unwrap_or(default.ack_ms),
            deliveries_max: spec.deliveries_max.unwrap_or(default.deliveries_max),
            dead_letter: spec.dead_letter,
        };
        let from = match spec.from {
            GroupStart::Latest => Start::Latest,
            GroupStart::Earliest => Start::Earliest,
            GroupStart::Number(number) => Start::Number(number),
        };
        let program: Program<_> = Box::new(move |draft| {
            let group = group::subscribe(draft, &topic, &name, settings.clone(), from)?;
            let next = topic::show(draft, &topic)?.head.next;
            Ok(group_info(name.clone(), &group, next))
        });
        self.run_in(id, keyspace, program, done);
    }

    fn unsubscribe(
        &self,
        id: RequestId,
        keyspace: &str,
        (topic, group): (&str, &str),
        done: Done<()>,
    ) {
        let (topic, name) = (topic.to_owned(), group.to_owned());
        let program: Program<_> = Box::new(move |draft| group::unsubscribe(draft, &topic, &name));
        self.run_in(id, keyspace, program, done);
    }

    fn moment(&self) -> Timestamp {
        self.runtime.clock.now()
    }

    fn await_message(
        &self,
        keyspace: &str,
        topic: &str,
        above: Timestamp,
        wait: Duration,
        done: Done<Option<Timestamp>>,
    ) {
        self.await_change(keyspace, &topics::keys::head(topic), above, wait, done);
    }

    fn await_lock(
        &self,
        name: &str,
        above: Timestamp,
        wait: Duration,
        done: Done<Option<Timestamp>>,
    ) {
        self.await_change(LOCKS, name.as_bytes(), above, wait, done);
    }

    fn take(
        &self,
        id: RequestId,
        keyspace: &str,
        (topic, group): (&str, &str),
        most: usize,
        done: Done<TakenMessages>,
    ) {
        let (topic, name) = (topic.to_owned(), group.to_owned());
        let program: Program<_> =
            Box::new(move |draft| group::take(draft, &topic, &name, most).map(taken));
        self.run_in(id, keyspace, program, done);
    }

    fn acknowledge(
        &self,
        id: RequestId,
        keyspace: &str,
        (topic, group): (&str, &str),
        what: Acknowledged,
        done: Done<u64>,
    ) {
        let (topic, name) = (topic.to_owned(), group.to_owned());
        let program: Program<_> = Box::new(move |draft| {
            let gone = group::ack(draft, &topic, &name, &what.done)?;
            let given = group::give_back(draft, &topic, &name, &what.back)?;
            Ok((gone + given) as u64)
        });
        self.run_in(id, keyspace, program, done);
    }
}

fn topic_info(name: &str, shown: Shown) -> TopicInfo {
    let Shown { head, groups } = shown;
    let bytes = head.bytes();
    let Head { first, next, settings, .. } = head;
    let TopicSettings { kept_ms, messages_max, bytes_max } = settings;
    let groups = groups.into_iter().map(|(name, group)| group_info(name, &group, next));
    let (name, groups) = (name.to_owned(), groups.collect());
    TopicInfo { name, first, next, bytes, kept_ms, messages_max, bytes_max, groups }
}

fn group_info(name: String, group: &Group, next: u64) -> GroupInfo {
    let GroupSettings { ack_ms, deliveries_max, dead_letter } = group.settings.clone();
    GroupInfo {
        name,
        next: group.next,
        waiting: next.saturating_sub(group.next),
        unacknowledged: group.pending.len() as u64,
        missed: group.missed,
        ack_ms,
        deliveries_max,
        dead_letter,
    }
}

fn taken(taken: Taken) -> TakenMessages {
    let Taken { messages, missed, dead } = taken;
    let message = |delivery: Delivery| {
        let Delivery { number, deliveries, version, origin, body } = delivery;
        let origin = origin.map(|Origin { topic, group, number, deliveries }| MessageOrigin {
            topic,
            group,
            number,
            deliveries,
        });
        let published_at_ms = Timestamp(version).millis();
        TopicMessage { number, deliveries, published_at_ms, origin, body: body.into() }
    };
    TakenMessages { messages: messages.into_iter().map(message).collect(), missed, dead }
}
