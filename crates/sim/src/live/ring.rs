//! Members of a ring with the tables of each lookup: they join, leave, fail and come back, and
//! keep their tables as in [`crate::overlay::churn`], a round each [`ROUND_MS`].
//!
//! Every member keeps three tables side by side, of Chord, Chord# and the linear lookup. All three
//! see the same members; none knows of the others. The page draws a member as a node that leads one
//! shard.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc as Shared;

use keyspace::{
    Arc, Keyspace, KeyspaceOptions, NodeId, Placement, Position, ReplicaId, ShardId, Timestamp,
};
use node::event::{Event, EventKind, MemberChange, Trace};
use node::replica::ShardReport;
use overlay::{Chord, ChordSharp, Kind as Finder, KnownShard, Linear, LookupChoice};
use replication::Members;

use super::action::Action;
use super::lookups::{self, Walk};
use super::setup::{MEMBERS_MAX, MEMBERS_MIN, Setup, Wrong, wrong};
use super::{NodeState, NodeView, ShardView};
use crate::check::Violation;
use crate::cluster::{KEYSPACE as NAME, WALL_MS};
use crate::overlay::Keys;
use crate::overlay::churn::{MaintainedTable, World};
use crate::overlay::ring::{KEYSPACE, draw, shard};
use crate::rng::Rng;
use crate::trace::Trace as Record;

/// A round of upkeep, in virtual milliseconds.
pub const ROUND_MS: u64 = 500;

/// See the module's documentation.
pub struct RingSim {
    chord: World<Chord>,
    chord_sharp: World<ChordSharp>,
    linear: World<Linear>,
    /// Members that have failed, as they were.
    failed: BTreeMap<ShardId, Shared<KnownShard>>,
    gone: BTreeSet<ShardId>,
    /// When each has joined.
    joined_ms: BTreeMap<ShardId, u64>,
    rng: Rng,
    now_ms: u64,
    record: Record,
    events: Vec<Event>,
    is_watched: bool,
}

/// A member and its tables, for viewers.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: NodeId,
    /// Where its arc begins.
    pub start: Vec<u8>,
    /// Members right behind it, as its Chord table has them.
    pub successors: Vec<String>,
    /// By lookup: what each entry is called, and whom it names.
    pub tables: Vec<(&'static str, Vec<(String, String)>)>,
}

impl RingSim {
    /// A ring of so many members that is right.
    pub fn new(setup: &Setup, is_watched: bool) -> Self {
        let mut rng = Rng::new(setup.seed);
        let mut starts = BTreeSet::new();
        while starts.len() < setup.nodes - 1 {
            starts.insert(draw(Keys::Uniform, &mut rng).to_vec());
        }
        // The first begins at the origin, so that no arc goes past it.
        let starts: Vec<Vec<u8>> = [Vec::new()].into_iter().chain(starts).collect();
        let position = |place: usize| Position::at(KEYSPACE, &starts[place % starts.len()]);
        let member = |place: usize| {
            let arc = Arc::new(position(place), position(place + 1)).expect("one circle");
            shard(place as u64 + 1, arc, 1)
        };
        let members: Vec<Shared<KnownShard>> = (0..starts.len()).map(member).collect();
        Self {
            chord: World::of(&members, Rng::new(setup.seed)),
            chord_sharp: World::of(&members, Rng::new(setup.seed)),
            linear: World::of(&members, Rng::new(setup.seed)),
            failed: BTreeMap::new(),
            gone: BTreeSet::new(),
            joined_ms: members.iter().map(|member| (member.shard(), 0)).collect(),
            rng,
            now_ms: 0,
            record: Record::new(false),
            events: Vec::new(),
            is_watched,
        }
    }

    /// Virtual time.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Of all that has happened.
    pub fn digest(&self) -> u64 {
        self.record.hash()
    }

    /// Lets one millisecond pass.
    ///
    /// # Errors
    /// None so far: a ring's rules are asked for by a check.
    pub fn millisecond(&mut self) -> Result<(), Violation> {
        self.now_ms += 1;
        self.record.step = self.now_ms as u32;
        if self.now_ms.is_multiple_of(ROUND_MS) {
            self.chord.round();
            self.chord_sharp.round();
            self.linear.round();
            self.record_tables();
        }
        Ok(())
    }

    /// What members know goes into the digest.
    fn record_tables(&mut self) {
        let mut text = String::new();
        for table in self.chord.tables.values() {
            let entries = table.entries().map(|(_, known)| known.shard().0);
            text += &format!("{} {:?}; ", table.place().me().shard(), entries.collect::<Vec<_>>());
        }
        let others = (self.chord_sharp.tables.len(), self.linear.tables.len());
        self.record.event(format_args!("{text}{others:?}"));
    }

    /// Whether lists and predecessors of all members are right. Where members have failed, they
    /// are not: nobody owns what those owned.
    ///
    /// # Errors
    /// If they are not.
    pub fn check(&self) -> Result<(), Violation> {
        if !self.failed.is_empty() {
            return Ok(());
        }
        let places = self.chord.tables.values().map(MaintainedTable::place);
        overlay::ring::ideal::ideal(places)
            .map_err(|why| Violation::new("the ring is as it should be", format!("{why:?}")))
    }

    /// Events since they were last taken.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn tell(&mut self, member: ShardId, state: MemberChange) {
        let node = NodeId(member.0);
        self.record.event(format_args!("{node} is {}", state.name()));
        let witness = self.chord.tables.keys().find(|other| **other != member).copied();
        if let (true, Some(witness)) = (self.is_watched, witness) {
            let at = Timestamp::from_millis(WALL_MS + self.now_ms);
            let what = EventKind::Member { node, state };
            self.events.push(Event { node: NodeId(witness.0), at, what });
        }
    }

    /// Does something now.
    ///
    /// # Errors
    /// If it cannot be done; nothing was done then.
    pub fn act(&mut self, action: &Action) -> Result<(), Wrong> {
        match action {
            Action::AddNodes { count } => self.add(*count),
            Action::RemoveNode { node } => {
                let member = self.alive(node)?;
                self.chord.leave_at(member);
                self.chord_sharp.leave_at(member);
                self.linear.leave_at(member);
                self.gone.insert(member);
                self.tell(member, MemberChange::Gone);
                Ok(())
            }
            Action::Crash { node } => {
                let member = self.alive(node)?;
                let was = self.chord.fail_at(member);
                self.chord_sharp.fail_at(member);
                self.linear.fail_at(member);
                self.failed.insert(member, was);
                self.tell(member, MemberChange::Down);
                Ok(())
            }
            Action::Restart { node } => {
                let member = self.member(node)?;
                if !self.failed.contains_key(&member) {
                    return wrong(format!("{node} has not failed"));
                }
                self.come_back(member);
                Ok(())
            }
            Action::Heal => {
                let failed: Vec<ShardId> = self.failed.keys().copied().collect();
                failed.into_iter().for_each(|member| self.come_back(member));
                Ok(())
            }
            _ => wrong(format!(
                "an overlay has no such action: there are {}",
                Action::OF_RINGS.join(", ")
            )),
        }
    }

    fn add(&mut self, count: usize) -> Result<(), Wrong> {
        let there = self.joined_ms.len();
        if count == 0 || there + count > MEMBERS_MAX {
            let why =
                format!("there are {there} members, and at most {MEMBERS_MAX}, gone ones too");
            return wrong(why);
        }
        let mut left = count;
        // A place that nobody owns, since its owner has failed, is drawn again.
        for _ in 0..100 * count {
            let tail = draw(Keys::Uniform, &mut self.rng);
            let point = crate::overlay::ring::Ring::point(&tail);
            let mut owners = self.chord.tables.values();
            let owner = owners.find(|table| point.is_in(table.place().me().arc()));
            let Some(owner) = owner.map(|table| table.place().me().shard()) else { continue };
            let Some(joined) = self.chord.join_at(owner, &tail) else { continue };
            self.chord_sharp.join_at(owner, &tail);
            self.linear.join_at(owner, &tail);
            self.joined_ms.insert(joined, self.now_ms);
            self.tell(joined, MemberChange::Up);
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
        wrong("too few members are alive for others to join")
    }

    fn come_back(&mut self, member: ShardId) {
        let Some(was) = self.failed.remove(&member) else { return };
        self.chord.come_back(was.clone());
        self.chord_sharp.come_back(was.clone());
        self.linear.come_back(was);
        self.tell(member, MemberChange::Up);
    }

    /// A member by name or id; `any` is one that the seed draws.
    fn member(&self, text: &str) -> Result<ShardId, Wrong> {
        let by_name = text.strip_prefix('n').and_then(|number| number.parse::<u64>().ok());
        let by_id = || u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
        let found = by_name.or_else(by_id).map(ShardId);
        let found = found.filter(|member| self.joined_ms.contains_key(member));
        found.ok_or_else(|| Wrong(format!("there is no member {text:?}")))
    }

    /// … who is alive, and not one of the last few.
    fn alive(&mut self, text: &str) -> Result<ShardId, Wrong> {
        let count = self.chord.tables.len();
        if count <= MEMBERS_MIN {
            return wrong(format!("a ring has at least {MEMBERS_MIN} members"));
        }
        if text == "any" {
            let place = self.rng.below(count as u64) as usize;
            let drawn = self.chord.tables.keys().nth(place).copied();
            return drawn.ok_or_else(|| Wrong("nobody is alive".to_owned()));
        }
        let member = self.member(text)?;
        if !self.chord.tables.contains_key(&member) {
            return wrong(format!("{text} is not alive"));
        }
        Ok(member)
    }

    // ---- views ----

    fn state(&self, member: ShardId) -> NodeState {
        match () {
            () if self.gone.contains(&member) => NodeState::Gone,
            () if self.failed.contains_key(&member) => NodeState::Down,
            () => NodeState::Up,
        }
    }

    /// All members that there ever were.
    pub fn nodes(&self) -> Vec<NodeView> {
        let view = |(member, joined_ms): (&ShardId, &u64)| {
            let state = self.state(*member);
            let leads = u64::from(state != NodeState::Gone);
            NodeView {
                id: NodeId(member.0),
                name: name(*member),
                state,
                domain: String::new(),
                skew_ms: 0,
                slow_disk_ms: 0,
                cut_to: Vec::new(),
                admin_state: keyspace::AdminState::Member,
                replicas: leads,
                leads: u64::from(state == NodeState::Up),
                data_bytes: 0,
                started_ms: *joined_ms,
            }
        };
        self.joined_ms.iter().map(view).collect()
    }

    /// The arcs of all members.
    pub fn shards(&self) -> Vec<ShardView> {
        let alive = self.chord.tables.values().map(|table| table.place().me());
        let all: BTreeMap<ShardId, &Shared<KnownShard>> =
            alive.chain(self.failed.values()).map(|known| (known.shard(), known)).collect();
        let keyspace = self.keyspace();
        let view = |known: &&Shared<KnownShard>| {
            let node = NodeId(known.shard().0);
            let is_up = self.state(known.shard()) == NodeState::Up;
            ShardView {
                descriptor: known.descriptor().clone(),
                keyspace: Some(keyspace.clone()),
                members: Members { voters: vec![ReplicaId(1)], ..Members::default() },
                is_changing: false,
                report: report(known, is_up),
                boot: 0,
                leader: is_up.then_some(node),
                live: is_up.then_some(node).into_iter().collect(),
                replicas_wanted: 1,
                keys: 0,
                bytes: 0,
                sessions: 0,
            }
        };
        all.values().map(view).collect()
    }

    /// The ring, as a keyspace whose keys are spread by hash.
    pub fn keyspace(&self) -> Keyspace {
        let options =
            KeyspaceOptions { placement: Placement::LinearHash, ..KeyspaceOptions::default() };
        Keyspace {
            id: KEYSPACE,
            name: NAME.into(),
            options,
            shards: self.chord.tables.keys().copied().collect(),
            nodes: Vec::new(),
            linear_hash_table: None,
        }
    }

    /// How the owner of a key is found by each of these lookups; and who asked.
    ///
    /// # Errors
    /// If there is no such member.
    pub fn look_up(
        &self,
        key: &[u8],
        from: Option<&str>,
        ways: &[LookupChoice],
    ) -> Result<(NodeId, Vec<Trace>), Wrong> {
        let from = match from {
            Some(text) => self.member(text)?,
            None => *self.chord.tables.keys().next().ok_or(Wrong("nobody is alive".into()))?,
        };
        if !self.chord.tables.contains_key(&from) {
            return wrong(format!("{} is not alive: it asks nothing", name(from)));
        }
        let position = Placement::LinearHash.position(KEYSPACE, key);
        let is_alive = |shard: ShardId| self.chord.tables.contains_key(&shard);
        let walk = |way: &LookupChoice| {
            let point = (&position).into();
            let begun = Walk::new(*way, NodeId(from.0));
            match way.kind {
                Finder::Chord => begun.ring(&self.chord.tables, from, point, &is_alive),
                Finder::ChordSharp => begun.ring(&self.chord_sharp.tables, from, point, &is_alive),
                Finder::Linear => begun.ring(&self.linear.tables, from, point, &is_alive),
                Finder::Full => {
                    let mut alive = self.chord.tables.values().map(|table| table.place().me());
                    begun.full(alive.find(|known| point.is_in(known.arc())))
                }
                Finder::Lh => {
                    let members = self.chord.tables.values().map(|table| table.place().me());
                    let members: Vec<Shared<KnownShard>> = members.cloned().collect();
                    begun.buckets(&members, lookups::hash_of(&position))
                }
            }
        };
        Ok((NodeId(from.0), ways.iter().map(walk).collect()))
    }

    /// The tables of a member.
    ///
    /// # Errors
    /// If there is no such member who is alive.
    pub fn tables(&self, text: &str) -> Result<MemberView, Wrong> {
        let member = self.member(text)?;
        let not_alive = || Wrong(format!("{text} is not alive: it has no tables"));
        let chord = self.chord.tables.get(&member).ok_or_else(not_alive)?;
        let place = chord.place();
        let of = |entries: Vec<(String, ShardId)>| {
            entries.into_iter().map(|(entry, shard)| (entry, name(shard))).collect::<Vec<_>>()
        };
        let sharp = self.chord_sharp.tables.get(&member);
        let linear = self.linear.tables.get(&member);
        Ok(MemberView {
            name: name(member),
            id: NodeId(member.0),
            start: place.me().arc().start().tail().to_vec(),
            successors: place.list().iter().map(|known| name(known.shard())).collect(),
            tables: vec![
                ("chord", of(lookups::entries(chord))),
                ("chord-sharp", of(sharp.map(lookups::entries).unwrap_or_default())),
                ("linear", of(linear.map(lookups::entries).unwrap_or_default())),
            ],
        })
    }
}

/// The name of a member.
fn name(member: ShardId) -> String {
    format!("n{}", member.0)
}

fn report(known: &KnownShard, leads: bool) -> ShardReport {
    ShardReport {
        shard: known.shard(),
        replica: ReplicaId(1),
        term: 1,
        committed: 0,
        applied: 0,
        last_index: 0,
        leader: leads.then_some(ReplicaId(1)),
        leader_node: leads.then_some(NodeId(known.shard().0)),
        leads,
        lease_until: u64::MAX,
        followers: Vec::new(),
        leaderless_nanos: u64::from(!leads),
        stalled_nanos: 0,
        finding: None,
        quarantined: Vec::new(),
        durability: keyspace::Durability::Memory,
    }
}
