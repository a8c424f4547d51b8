//! A fake node of one map, for tests of the code around nodes. Each write takes one millisecond of
//! its time. Writes of key `silent` are never answered, those of `lost` are dropped, and those of
//! `oom` and `busy` are refused.
//! Of its nodes, `n2` loses replicas each time it is looked at while it drains, `n1` none, and
//! without
//! `n3` there would be too few.

mod watching;

use std::collections::BTreeMap;
use std::sync::Mutex;

use api::*;
use bytes::Bytes;
use keyspace::{SnapshotToken, Timestamp};
use overlay::LookupChoice;

const START_MILLIS: u64 = 1_700_000_000_000;
/// Versions of one key: when, and the value with its end, or nothing.
type Versions = Vec<(Timestamp, Option<(Bytes, Option<u64>)>)>;

#[derive(Default)]
struct State {
    keyspaces: BTreeMap<String, (KeyspaceInfo, BTreeMap<Bytes, Versions>)>,
    writes: u64,
    unanswered: Vec<Done<Answer>>,
    admin_states: BTreeMap<u64, AdminState>,
    /// Replicas that have moved away from `n2`.
    moved: u64,
}

/// See the front page.
pub struct Fake {
    state: Mutex<State>,
}

fn info(spec: KeyspaceSpec, id: u32) -> KeyspaceInfo {
    KeyspaceInfo {
        id,
        name: spec.name,
        placement: spec.placement,
        durability: spec.durability.unwrap_or(Durability::Sync),
        retention_ms: spec.retention_ms.unwrap_or(60_000),
        replicas: spec.replicas.unwrap_or(1),
        skip_equal_writes: spec.skip_equal_writes.unwrap_or(false),
        volume: spec.volume,
        clone_of: None,
        shards: 8,
        keys: 0,
        warnings: Vec::new(),
    }
}

impl Fake {
    /// With the keyspace `0`.
    pub fn new() -> Self {
        let zero = KeyspaceSpec {
            name: "0".into(),
            placement: Placement::Hashed,
            durability: None,
            retention_ms: None,
            replicas: None,
            skip_equal_writes: None,
            volume: None,
        };
        let mut state = State::default();
        state.keyspaces.insert("0".into(), (info(zero, 1), BTreeMap::new()));
        Self { state: Mutex::new(state) }
    }
}

impl Fake {
    /// Degraded; failing without any keyspace.
    fn health(&self) -> Health {
        match self.not_ready() {
            None => Health {
                verdict: Verdict::Degraded,
                reasons: vec!["2 of 3 replicas of shard 1 of keyspace \"0\" are live".into()],
            },
            Some(why) => Health {
                verdict: Verdict::Failing,
                reasons: vec![format!("this node does not serve: {why}")],
            },
        }
    }
}

fn newest(versions: &Versions, at: Timestamp) -> Option<(Timestamp, Bytes, Option<u64>)> {
    let (written, value) = versions.iter().rev().find(|(written, _)| *written <= at)?;
    let (value, end) = value.as_ref()?;
    Some((*written, value.clone(), *end))
}

impl State {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START_MILLIS + self.writes)
    }

    fn call(&mut self, keyspace: &str, command: Command) -> Result<Answer, ApiError> {
        let now = if command.is_write() {
            self.writes += 1;
            self.now()
        } else {
            self.now()
        };
        let no_keyspace = || ApiError::NoKeyspace { name: keyspace.into() };
        let (_, keys) = self.keyspaces.get_mut(keyspace).ok_or_else(no_keyspace)?;
        Ok(match command {
            Command::Get { key, at, .. } => {
                if at.is_some_and(|at| at > now) {
                    return Err(ApiError::InFuture { at: at.unwrap(), now });
                }
                if at.is_some_and(|at| at.millis() < START_MILLIS) {
                    let safe_point = Timestamp::from_millis(START_MILLIS);
                    return Err(ApiError::BelowSafePoint { at: at.unwrap(), safe_point });
                }
                let versions = keys.get(&key).cloned().unwrap_or_default();
                match newest(&versions, at.unwrap_or(Timestamp::MAX)) {
                    Some((timestamp, value, expires_at_ms)) => {
                        Answer::Value { value, timestamp, expires_at_ms }
                    }
                    None if versions.first().is_some_and(|(first, _)| Some(*first) > at)
                        && at.is_some() =>
                    {
                        Answer::NilYet
                    }
                    None => Answer::Nil,
                }
            }
            Command::Put { key, value, expires_at_ms, when } => {
                let versions = keys.entry(key).or_default();
                let found = newest(versions, Timestamp::MAX).map(|(written, ..)| written);
                if !when.holds(found) {
                    return Ok(Answer::ConditionFailed);
                }
                versions.push((now, Some((value, expires_at_ms))));
                Answer::Written { timestamp: Some(now) }
            }
            Command::Delete { key, when } => {
                let versions = keys.entry(key).or_default();
                match newest(versions, Timestamp::MAX) {
                    None => Answer::NothingToDelete,
                    Some((written, ..)) if !when.holds(Some(written)) => Answer::ConditionFailed,
                    Some(_) => {
                        versions.push((now, None));
                        Answer::Written { timestamp: Some(now) }
                    }
                }
            }
        })
    }
}

impl TopicService for Fake {}

impl NodeService for Fake {
    fn call(&self, _id: RequestId, keyspace: &str, command: Command, done: Done<Answer>) {
        match command.key() {
            b"silent" => self.state.lock().unwrap().unanswered.push(done),
            b"lost" => drop(done),
            b"oom" => done(Err(ApiError::OutOfMemory { bytes_max: 1 << 30 })),
            b"busy" => done(Err(ApiError::Busy { why: "nobody leads" })),
            _ => {
                let answer = self.state.lock().unwrap().call(keyspace, command);
                done(answer);
            }
        }
    }

    /// Every key is found, but by lh; by rings with a move.
    fn route(
        &self,
        _keyspace: &str,
        _key: &[u8],
        ways: &[LookupChoice],
        _is_traced: bool,
        done: Done<Vec<RouteStatus>>,
    ) {
        let route = |way: &LookupChoice| {
            let step = RouteStep {
                shard: 7,
                node: "00000000000000aa".into(),
                name: "somebody".into(),
                by: "finger 61".into(),
                micros: Some(38),
            };
            let steps = Vec::from_iter(way.kind.strategy().map(|_| step));
            let is_found = way.kind.name() != "lh";
            RouteStatus {
                lookup: way.kind.name().to_owned(),
                form: way.form.name().to_owned(),
                images: way.cached,
                shard: is_found.then_some(7),
                leader: is_found.then(|| "00000000000000aa".into()),
                hops: steps.len() as u32,
                messages: Some(2 * steps.len() as u32),
                begins_at: way.kind.strategy().map(|_| 3),
                micros: 41,
                failure: (!is_found).then(|| "no file".into()),
                steps,
            }
        };
        done(Ok(ways.iter().map(route).collect()));
    }

    /// Its transactions have read what another has changed since.
    fn transact(&self, id: RequestId, txn: Txn, done: Done<TxnDone>) {
        match txn.then.first() {
            Some(TxnOp::Get { key }) if key == "lost" => drop(done),
            Some(_) => self.txn_commit(id, "", Box::new(|end| done(Err(end.unwrap_err())))),
            None => done(Ok(TxnDone { succeeded: true, results: Vec::new() })),
        }
    }

    fn txn_begin(&self, _keyspace: &str, _timeout_ms: u64, done: Done<String>) {
        done(Ok("t1".into()));
    }

    fn txn_run(&self, txn: &str, ops: Vec<TxnOp>, done: Done<Vec<TxnResult>>) {
        match txn {
            "silent" => drop(done),
            _ => done(Ok(ops.iter().map(|_| TxnResult::Nil).collect())),
        }
    }

    fn txn_commit(&self, id: RequestId, txn: &str, done: Done<()>) {
        done(Err(match txn {
            "unknown" => ApiError::Unknown { id },
            "again" => ApiError::MaybeCommitted { id, why: "it is not open".into() },
            _ => ApiError::Conflict { key: b"a\xff".as_slice().into() },
        }));
    }

    fn txn_rollback(&self, txn: &str) -> Result<(), ApiError> {
        match txn {
            "t1" | "silent" => Ok(()),
            _ => Err(ApiError::NoTransaction { why: format!("{txn} is not open") }),
        }
    }

    fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        self.state.lock().unwrap().keyspaces.values().map(|(info, _)| info.clone()).collect()
    }

    fn keyspace(&self, name: &str) -> Result<KeyspaceInfo, ApiError> {
        let found = self.keyspaces().into_iter().find(|info| info.name == name);
        found.ok_or_else(|| ApiError::NoKeyspace { name: name.to_owned() })
    }

    fn keyspace_create(&self, spec: KeyspaceSpec, done: Done<KeyspaceInfo>) {
        let mut state = self.state.lock().unwrap();
        if state.keyspaces.contains_key(&spec.name) {
            return done(Err(ApiError::KeyspaceExists { name: spec.name }));
        }
        if spec.name.is_empty() {
            let why = "the name of a keyspace is empty".into();
            return done(Err(ApiError::BadKeyspace { why }));
        }
        let made = info(spec, state.keyspaces.len() as u32 + 1);
        state.keyspaces.insert(made.name.clone(), (made.clone(), BTreeMap::new()));
        done(Ok(made));
    }

    fn keyspace_alter(&self, name: &str, change: KeyspaceChange, done: Done<KeyspaceInfo>) {
        let mut state = self.state.lock().unwrap();
        done(match state.keyspaces.get_mut(name) {
            None => Err(ApiError::NoKeyspace { name: name.into() }),
            Some((info, _)) => {
                info.durability = change.durability.unwrap_or(info.durability);
                info.retention_ms = change.retention_ms.unwrap_or(info.retention_ms);
                info.replicas = change.replicas.unwrap_or(info.replicas);
                let skips = &mut info.skip_equal_writes;
                *skips = change.skip_equal_writes.unwrap_or(*skips);
                Ok(info.clone())
            }
        });
    }

    fn keyspace_drop(&self, name: &str, done: Done<()>) {
        let removed = self.state.lock().unwrap().keyspaces.remove(name);
        done(removed.map(drop).ok_or_else(|| ApiError::NoKeyspace { name: name.into() }));
    }

    fn now_millis(&self) -> u64 {
        self.state.lock().unwrap().now().millis()
    }

    fn not_ready(&self) -> Option<String> {
        self.state.lock().unwrap().keyspaces.is_empty().then(|| "no keyspace is there".into())
    }

    fn status(&self) -> Status {
        let not_ready = self.not_ready();
        Status {
            name: "fake".into(),
            node_id: "00000000000000ff".into(),
            version: "0.1.0".into(),
            ready: not_ready.is_none(),
            not_ready,
            health: self.health(),
            cluster: ClusterStatus {
                id: "00000000000000aa".into(),
                members_up: 2,
                members_down: 1,
                shards_led: 1,
                ..ClusterStatus::default()
            },
            cluster_version: Some(self.cluster_version()),
            uptime_ms: 3_723_004,
            listeners: vec![ListenerStatus { protocol: "resp".into(), address: "::1:1".into() }],
            dir: "/data".into(),
            threads: 2,
            connections: 3,
            keyspaces: 1,
            shards: 8,
            keys: 12_345,
            memory: MemoryStatus {
                used_bytes: 5 << 20,
                old_versions_bytes: 1024,
                max_bytes: 1 << 30,
            },
            log: LogStatus::default(),
            recovered: "a new node".into(),
            warnings: vec!["nobody is asked for a password".into()],
            surfaces: Surface::names(&[Surface::Events, Surface::Keys]),
        }
    }

    fn nodes(&self) -> Nodes {
        let mut state = self.state.lock().unwrap();
        if state.admin_states.get(&2) == Some(&AdminState::Draining) {
            state.moved = (state.moved + 4).min(9);
        }
        let (admin_states, moved) = (state.admin_states.clone(), state.moved);
        drop(state);
        let admin_state = |id| admin_states.get(&id).copied().unwrap_or_default();
        let left = |id| if id == 2 { 9 - moved } else { 9 };
        let node = |id: u64, state| NodeStatus {
            id: format!("{id:016x}"),
            name: format!("n{id}"),
            this: id == 1,
            state,
            admin_state: admin_state(id),
            since_at_ms: START_MILLIS,
            linked: state == NodeState::Up,
            addresses: NodeAddresses {
                peer: Some(format!("10.0.0.{id}:7600")),
                resp: Some(format!("10.0.0.{id}:6379")),
                resp_replica: (id == 2).then(|| format!("10.0.0.{id}:6479")),
                native: None,
                http: Some(format!("10.0.0.{id}:7480")),
                resp_tls: None,
                http_tls: None,
            },
            domain: "rack".into(),
            version: "carillon 0.1.0".into(),
            replicas: left(id),
            leads: id.min(left(id)),
            shards: left(id),
            leaders: id,
            data_bytes: 2048,
            requests_per_second: 0,
            follower_reads_per_second: 0,
            slow_disk: false,
            joined_at_ms: START_MILLIS + id,
            drain_rate: None,
        };
        let states = [NodeState::Up, NodeState::Suspected, NodeState::Down];
        let nodes = (1..).zip(states).map(|(id, state)| node(id, state)).collect();
        let removed =
            admin_states.iter().filter(|(_, admin_state)| **admin_state == AdminState::Removed);
        let removed = removed.map(|(id, _)| format!("{id:016x}")).collect();
        Nodes { health: self.health(), nodes, removed }
    }

    fn set_admin_state(
        &self,
        id: RequestId,
        node: &str,
        admin_state: AdminState,
        unknown_too: bool,
        done: Done<NodeAdminState>,
    ) {
        let mut state = self.state.lock().unwrap();
        let moved = state.moved;
        let number = match node {
            "n1" | "0000000000000001" => 1,
            "n2" => 2,
            "n3" => {
                let why = "keyspace '0' keeps 3 replicas, and only 2 nodes would be left".into();
                return done(Err(ApiError::TooFewNodes { why }));
            }
            "twins" => {
                let ids = vec!["0000000000000001".into(), "0000000000000002".into()];
                return done(Err(ApiError::AmbiguousNode { node: node.into(), ids }));
            }
            "lost" => return done(Err(ApiError::Unknown { id })),
            "00000000000000a9" if unknown_too => 0xa9,
            _ => {
                let known = vec!["n1 (0000000000000001)".into()];
                return done(Err(ApiError::NoNode { node: node.into(), known }));
            }
        };
        let left = if number == 2 { 9 - moved } else { 9 };
        if admin_state == AdminState::Removed && left > 0 {
            let why = format!("{node} still has {left} replicas");
            return done(Err(ApiError::NodeInUse { why }));
        }
        state.admin_states.insert(number, admin_state);
        done(Ok(NodeAdminState {
            id: format!("{number:016x}"),
            name: Some(format!("n{number}")),
            admin_state,
            replicas: left,
            leads: number.min(left),
            data_bytes: 2048,
        }));
    }

    fn split(&self, shard: u64, at: Option<CutAt>, done: Done<SplitStatus>) {
        done(match (shard, at) {
            (1, at) => {
                let at = at.unwrap_or(CutAt::Slot(1024));
                Ok(SplitStatus { shard, right: 9, at })
            }
            (2, _) => Err(ApiError::NotLeader { why: "shard 2 is led by n2".into() }),
            (3, _) => Err(ApiError::NoSplit { shard, why: "it has slot 7 only".into() }),
            _ => Err(ApiError::NoShard { shard }),
        });
    }

    fn merge(&self, shard: u64, done: Done<MergeStatus>) {
        done(match shard {
            // Nobody ever answers.
            7 => return,
            1 => Ok(MergeStatus { shard, right: 9, moves: true }),
            2 => Err(ApiError::NotLeader { why: "shard 2 is led by n2".into() }),
            3 => Err(ApiError::NoMerge { shard, why: "it is the last of its keyspace".into() }),
            _ => Err(ApiError::NoShard { shard }),
        });
    }

    fn cluster_version(&self) -> ClusterVersionStatus {
        let node = |id: u64, supported| NodeVersions {
            id: format!("{id:016x}"),
            name: format!("n{id}"),
            supported,
        };
        ClusterVersionStatus {
            version: 1,
            supported: [1, 2],
            automatic: true,
            objections: vec!["n2 supports 1 only".into(), "n3 has not been heard of".into()],
            nodes: vec![node(1, Some([1, 2])), node(2, Some([1, 1])), node(3, None)],
        }
    }

    fn raise_version(&self, _id: RequestId, to: Option<u8>, done: Done<ClusterVersionStatus>) {
        done(match to {
            Some(1) => Ok(self.cluster_version()),
            None | Some(2) => {
                let why = format!(
                    "not all nodes support version 2: {}",
                    self.cluster_version().objections[0]
                );
                Err(ApiError::VersionRefused { why })
            }
            Some(to) => {
                Err(ApiError::VersionRefused { why: format!("{to} is not the next version") })
            }
        });
    }

    fn keys(&self, keyspace: &str, asked: KeysQuery, done: Done<KeysPage>) {
        let state = self.state.lock().unwrap();
        let Some((_, keys)) = state.keyspaces.get(keyspace) else {
            return done(Err(ApiError::NoKeyspace { name: keyspace.into() }));
        };
        let from: usize = match asked.cursor.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(from)) => from,
            Some(Err(_)) => {
                return done(Err(ApiError::BadCursor { cursor: asked.cursor.unwrap() }));
            }
        };
        let keys = keys.keys().filter(|key| key.starts_with(&asked.prefix)).skip(from);
        let mut keys: Vec<Bytes> = keys.take(asked.limit + 1).cloned().collect();
        let next = (keys.len() > asked.limit).then(|| (from + asked.limit).to_string());
        keys.truncate(asked.limit);
        done(Ok(KeysPage { keys, next }));
    }

    fn cluster_id(&self) -> Option<u64> {
        Some(0xaa)
    }

    fn get_many(&self, _: &str, keys: Vec<Bytes>, _: Timestamp, done: Done<Vec<Answer>>) {
        let answer = |key: Bytes| match &key[..] {
            b"nil" => Answer::Nil,
            b"later" => Answer::NilYet,
            _ => Answer::Value { value: key, timestamp: Timestamp(7), expires_at_ms: Some(9) },
        };
        done(Ok(keys.into_iter().map(answer).collect()));
    }

    fn snapshot_take(&self, spec: SnapshotSpec, done: Done<SnapshotInfo>) {
        let at = spec.at.unwrap_or(Timestamp::from_millis(START_MILLIS));
        if spec.keyspaces.iter().any(|name| name == "full") {
            return done(Err(ApiError::SnapshotRefused { why: "there are too many".into() }));
        }
        let token = SnapshotToken { cluster: 0xaa, lease: 1, at }.to_string();
        done(Ok(SnapshotInfo {
            token,
            id: 1,
            keyspaces: spec.keyspaces,
            at: at.0.to_string(),
            at_ms: at.millis(),
            ends_at_ms: START_MILLIS + spec.ttl_ms,
        }));
    }

    fn snapshot_release(&self, id: u64, done: Done<()>) {
        done(if id == 1 { Ok(()) } else { Err(ApiError::NoSnapshot { id }) });
    }

    fn history(&self, keyspace: &str, key: Bytes, asked: HistoryQuery, done: Done<History>) {
        let state = self.state.lock().unwrap();
        let Some((_, keys)) = state.keyspaces.get(keyspace) else {
            return done(Err(ApiError::NoKeyspace { name: keyspace.into() }));
        };
        let at = asked.at(Timestamp::from_millis(START_MILLIS + state.writes));
        let versions = keys.get(&key).into_iter().flatten().rev();
        let mut versions = versions.filter(|(timestamp, _)| *timestamp <= at);
        let change = |(timestamp, value): &(Timestamp, Option<(Bytes, Option<u64>)>)| {
            let timestamp = *timestamp;
            match value.clone() {
                Some((value, expires_at_ms)) => KeyChange::Put { value, timestamp, expires_at_ms },
                None => KeyChange::Deleted { timestamp },
            }
        };
        let writes: Vec<KeyChange> = versions.by_ref().take(asked.limit).map(change).collect();
        let safe_point = Timestamp::from_millis(START_MILLIS);
        done(Ok(History::new(writes, versions.next().is_some(), safe_point, at)));
    }

    fn watch(
        &self,
        asked: &events::WatchRequest,
        wake: events::Wake,
    ) -> Result<events::Watching, ApiError> {
        watching::watch(asked, wake)
    }

    fn decisions(&self, dry: bool) -> Decisions {
        let node = DecisionNode { id: format!("{:016x}", 4), name: "n4".into() };
        let deviation = Deviation { before: 0.5, predicted: 0.25, achieved: None };
        let decided = DecisionStatus {
            at_ms: START_MILLIS,
            shard: 1,
            keyspace: Some("0".into()),
            add: vec![node],
            remove: vec![2],
            leader: None,
            split: None,
            merge: None,
            why: "n2 is draining".into(),
            deviation: Some(deviation),
            came: if dry { DecisionOutcomeStatus::Dry } else { DecisionOutcomeStatus::HandedOn },
            took_ms: None,
            waits: None,
            by: None,
        };
        Decisions { balances: false, decisions: vec![decided], silent: Vec::new() }
    }

    fn shards(&self, asked: &ShardsQuery<'_>) -> Result<Shards, ApiError> {
        let keyspace = asked.keyspace;
        let keyspaces = self.state.lock().unwrap();
        if let Some(name) = keyspace.filter(|name| !keyspaces.keyspaces.contains_key(*name)) {
            return Err(ApiError::NoKeyspace { name: name.into() });
        }
        drop(keyspaces);
        let replica = |id: u64| ReplicaStatus {
            replica: id,
            node: format!("{id:016x}"),
            name: Some(format!("n{id}")),
            role: if id == 3 { ReplicaRole::Learner } else { ReplicaRole::Voter },
            live: id < 3,
            leader: id == 1,
            behind: Some(7 * (id - 1)),
            contact_ms: (id == 2).then_some(12),
            awaits_snapshot: id == 3,
            snapshot: (id == 3)
                .then_some(SnapshotStatus { sent_bytes: 1 << 20, about_bytes: 3 << 20 }),
        };
        let shard = |id: u64| ShardStatus {
            id,
            keyspace: (id > 0).then(|| "0".into()),
            slots: (id > 0).then_some([0, 16_383]),
            arc: None,
            generation: 4,
            verdict: Verdict::Degraded,
            here: true,
            replicas_wanted: 3,
            replicas_live: 2,
            replicas: (1..=3).map(replica).collect(),
            leader: Some("0000000000000001".into()),
            without_leader_ms: 0,
            term: 5,
            committed: 100,
            applied: 99,
            lease_ms: Some(400),
            sessions: 2,
            keys: 12,
            bytes: 4096,
            quarantined: Vec::new(),
            lagging: vec![2],
            voters: 2,
            changing: true,
            load: None,
            told_by: None,
        };
        let shards = (0..2).filter(|id| keyspace.is_none() || *id > 0).map(shard);
        Ok(Shards::page(self.health(), shards, asked))
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.counter("carillon_writes_total", "Writes.", self.state.lock().unwrap().writes);
        let linked = [(vec![("peer", "00000000000000bb".to_owned())], 1.0)];
        metrics.numbers("carillon_peer_connected", "Links.", Kind::Gauge, linked);
        metrics
    }
}
