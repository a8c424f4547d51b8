//! Replicas, their disks, and messages in flight, which move only when a script says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bytes::Bytes;
use keyspace::ReplicaId;
use replication::{
    Change, ChangeRefused, Entry, Group, GroupLimits, HardState, Members, Message, MessageKind,
    RejectedMessage, StartContext,
};

use crate::disk::{Disk, Unsynced};

const MILLI: u64 = 1_000_000;
const TICK: u64 = 50 * MILLI;
/// More than any election timeout.
const TICKS_OF_ELECTION: u64 = 40;

struct Replica {
    group: Group,
    disk: Disk,
    unsynced: Vec<Unsynced>,
    is_slow: bool,
    /// What was last printed of its role.
    role: String,
}

/// See the front page.
#[derive(Default)]
pub struct Network {
    /// What is to be printed.
    pub out: String,
    now: u64,
    replicas: BTreeMap<ReplicaId, Replica>,
    flying: Vec<Message>,
    cut: BTreeSet<ReplicaId>,
    /// Descriptions of proposed changes of members, which their entries hold.
    changes: BTreeMap<Vec<u8>, Change>,
}

fn list(ids: &[ReplicaId]) -> String {
    ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",")
}

fn of_members(members: &Members) -> String {
    let mut text = format!("voters {}", list(&members.voters));
    let others = [("outgoing", &members.outgoing), ("learners", &members.learners)];
    for (name, ids) in others.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        write!(text, ", {name} {}", list(ids)).expect("a string");
    }
    text
}

fn of_entry(entry: &Entry) -> String {
    let data = String::from_utf8_lossy(entry.data());
    let data = if data.is_empty() { "(opens the term)".into() } else { data };
    format!("{}@{} {data}", entry.index(), entry.term())
}

/// A message in short. Its fields are read from its bytes, whose table is on the front page of
/// `replication::message`.
fn of_message(message: &Message) -> String {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let field = |place: usize| {
        let at = 2 + 8 * place;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    let is_rejected = bytes[1] & 1 != 0;
    let (term, log_term, index, commit) = (field(2), field(4), field(5), field(6));
    let context = usize::from(bytes[74]);
    let at = 75 + context;
    let entries = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let said = if is_rejected { "rejected" } else { "granted" };
    let text = match message.kind().expect("it is sent") {
        MessageKind::Append if entries == 0 => format!("append nothing commit={commit}"),
        MessageKind::Append => {
            let (first, last) = (index + 1, index + u64::from(entries));
            let which = if first == last { format!("{first}") } else { format!("{first}..{last}") };
            format!("append {which} after={index}@{log_term} commit={commit}")
        }
        MessageKind::Appended if is_rejected => {
            format!("append_response rejected, hint={}", field(8))
        }
        MessageKind::Appended => format!("append_response match={index}"),
        MessageKind::Heartbeat => format!("heartbeat commit={commit}"),
        MessageKind::HeartbeatAnswer => "heartbeat_response".into(),
        MessageKind::PreVote => format!("pre_vote last={index}@{log_term}"),
        MessageKind::PreVoteAnswer => format!("pre_vote_response {said}"),
        MessageKind::Vote => format!("vote last={index}@{log_term}"),
        MessageKind::VoteAnswer => format!("vote_response {said}"),
        MessageKind::Snapshot => {
            let (index, term) = message.snapshot().expect("the message heads a snapshot");
            format!("snapshot {index}@{term}")
        }
        MessageKind::TimeoutNow => "timeout_now".into(),
    };
    format!("{} -> {}  {text}  term={term}", message.from().0, message.to().0)
}

impl Network {
    /// Replicas of a new group, and others that have nothing yet.
    pub fn found(&mut self, voters: &[ReplicaId], empty: &[ReplicaId]) {
        *self = Self { out: std::mem::take(&mut self.out), now: 1_000 * MILLI, ..Self::default() };
        for id in voters.iter().chain(empty) {
            let mut disk = Disk::default();
            if voters.contains(id) {
                disk.members = Members::of_voters(voters);
                disk.hard_state = HardState { term: 1, vote: 0, commit: 1 };
                (disk.before, disk.applied) = ((1, 1), 1);
            }
            self.start(*id, disk, 1);
        }
    }

    fn start(&mut self, id: ReplicaId, disk: Disk, started: u64) {
        // Small, so that a follower that lags is soon too late for entries.
        let limits = GroupLimits {
            retained_bytes: 4,
            retained_for_followers_bytes: 4,
            retained_for_active_followers_bytes: 4,
            ..GroupLimits::default()
        };
        let boot = StartContext { now: self.now, started, seed: 7 };
        let group = Group::new(id, &disk.members, disk.start(), &limits, boot);
        let (unsynced, role) = (Vec::new(), "follower".to_owned());
        self.replicas.insert(id, Replica { group, disk, unsynced, is_slow: false, role });
        self.work(id);
    }

    pub fn restart(&mut self, id: ReplicaId, is_losing: bool) {
        let mut disk = self.replicas.remove(&id).expect("the replica exists").disk;
        self.flying.retain(|message| message.from() != id && message.to() != id);
        if is_losing {
            (disk.entries, disk.applied, disk.state) = (Vec::new(), 1, Vec::new());
            disk.hard_state.commit = 1;
        }
        self.start(id, disk, self.now);
        self.replicas.get_mut(&id).expect("the replica was started").role = "follower".to_owned();
    }

    fn with(&mut self, id: ReplicaId, act: impl FnOnce(&mut Group)) {
        let replica = self.replicas.get_mut(&id).expect("the replica exists");
        replica.group.observe(self.now);
        act(&mut replica.group);
        self.work(id);
    }

    fn say(&mut self, text: &str) {
        writeln!(self.out, "{text}").expect("a string");
    }

    pub fn millis(&self) -> u64 {
        self.now / MILLI
    }

    pub fn flying(&self) -> usize {
        self.flying.len()
    }

    pub fn sleep(&mut self, millis: u64) {
        self.now += millis * MILLI;
        self.replicas.values_mut().for_each(|replica| replica.group.observe(self.now));
    }

    pub fn tick(&mut self, ids: &[ReplicaId]) {
        self.now += TICK;
        let now = self.now;
        for id in ids {
            self.with(*id, |group| _ = group.tick(now));
        }
    }

    pub fn burst(&mut self, id: ReplicaId, count: u64) {
        let now = self.now;
        self.with(id, |group| (0..count).for_each(|_| _ = group.tick(now)));
    }

    pub fn campaign(&mut self, id: ReplicaId) {
        let (before, now) = (self.replicas[&id].group.campaigns(), self.now);
        for _ in 0..TICKS_OF_ELECTION {
            self.with(id, |group| _ = group.tick(now));
            if self.replicas[&id].group.campaigns() > before {
                return;
            }
        }
        self.say(&format!("{} does not campaign: it has to keep silent", id.0));
    }

    pub fn propose(&mut self, id: ReplicaId, data: &str) {
        let mut proposed = None;
        self.with(id, |group| proposed = group.propose(data.as_bytes().to_vec()).ok());
        if proposed.is_none() {
            self.say(&format!("{} proposes nothing: it does not lead, or hands over", id.0));
        }
    }

    pub fn propose_change(&mut self, id: ReplicaId, change: &Change) {
        let text = match change {
            Change::AddLearners(ids) => format!("(add learners {})", list(ids)),
            Change::EnterJoint { promote, remove } => {
                format!("(enter joint: promote {}; remove {})", list(promote), list(remove))
            }
            Change::LeaveJoint => "(leave joint)".to_owned(),
        };
        self.changes.insert(text.clone().into_bytes(), change.clone());
        let mut refused = None;
        self.with(id, |group| refused = group.propose_change(change, text.into_bytes()).err());
        if let Some(why) = refused {
            let why = match why {
                ChangeRefused::NotLeader => "it does not lead, or hands over",
                ChangeRefused::Pending => "another change is not applied yet",
                ChangeRefused::WrongJointState => {
                    "a joint change is left before the next one, others cannot be"
                }
            };
            self.say(&format!("{} refuses the change: {why}", id.0));
        }
    }

    pub fn transfer(&mut self, from: ReplicaId, to: ReplicaId) {
        self.with(from, |group| group.transfer(to));
    }

    pub fn confirm(&mut self, id: ReplicaId) {
        self.with(id, Group::confirm);
    }

    /// How a linearizable read may be served that came then, or comes now.
    pub fn read(&mut self, id: ReplicaId, came: Option<u64>) {
        let group = &self.replicas[&id].group;
        let came = came.map_or(self.now, |millis| millis * MILLI);
        let text = match group.lease_until() > self.now {
            _ if !group.is_leader() => "does not serve a read: it does not lead".to_owned(),
            true => {
                let left = (group.lease_until() - self.now) / MILLI;
                format!("serves a read at once, under its lease of {left} ms more")
            }
            false if group.serves_until() > came => {
                "serves a read: a majority has confirmed it since the read came".to_owned()
            }
            false => "serves a read when a majority has confirmed it (ReadIndex)".to_owned(),
        };
        self.say(&format!("{} {text}", id.0));
    }

    pub fn cut(&mut self, id: ReplicaId) {
        self.cut.insert(id);
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    pub fn slow(&mut self, id: ReplicaId) {
        self.replicas.get_mut(&id).expect("the replica exists").is_slow = true;
    }

    pub fn sync(&mut self, id: ReplicaId) {
        self.replicas.get_mut(&id).expect("the replica exists").is_slow = false;
        self.work(id);
    }

    pub fn lose(&mut self, link: Option<(ReplicaId, ReplicaId)>) {
        let is_on =
            |message: &mut Message| link.is_none_or(|l| l == (message.from(), message.to()));
        let lost: Vec<Message> = self.flying.extract_if(.., is_on).collect();
        for message in lost {
            self.arrive(message, true);
        }
    }

    pub fn deliver(&mut self, link: Option<(ReplicaId, ReplicaId)>) {
        let is_on =
            |message: &mut Message| link.is_none_or(|l| l == (message.from(), message.to()));
        let due: Vec<Message> = self.flying.extract_if(.., is_on).collect();
        for message in due {
            self.arrive(message, false);
        }
    }

    pub fn settle(&mut self) {
        for _ in 0..100 {
            if self.flying.is_empty() {
                return;
            }
            self.deliver(None);
        }
        panic!("messages never end");
    }

    fn arrive(&mut self, message: Message, is_lost: bool) {
        let (from, to) = (message.from(), message.to());
        let is_lost = is_lost || self.cut.contains(&from) || self.cut.contains(&to);
        let text = of_message(&message);
        let is_snapshot = message.snapshot().is_some();
        if is_lost {
            self.say(&format!("{text}  LOST"));
            if is_snapshot {
                self.with(from, |group| group.snapshot_sent(to, false));
            }
            return;
        }
        self.say(&text);
        if is_snapshot {
            self.install(&message);
        }
        let (mut refused, now) = (None, self.now);
        self.with(to, |group| refused = group.step(message, now).err());
        if is_snapshot {
            self.with(from, |group| group.snapshot_sent(to, true));
        }
        match refused {
            Some(RejectedMessage::LostLog { last, needed }) => self.say(&format!(
                "   {} refuses: its log ends at {last}, and it acknowledged {needed}: quarantined",
                to.0
            )),
            Some(refused) => panic!("{refused}"),
            None => {}
        }
    }

    /// The state travels beside the head of a snapshot; the receiver installs it first.
    fn install(&mut self, head: &Message) {
        let (index, term) = head.snapshot().expect("the message heads a snapshot");
        if !self.replicas[&head.to()].group.wants(head) {
            return self.say(&format!("   {} has that already", head.to().0));
        }
        let state = self.replicas[&head.from()].disk.state.clone();
        let replica = self.replicas.get_mut(&head.to()).expect("the replica exists");
        replica.unsynced.clear();
        let disk = &mut replica.disk;
        (disk.state, disk.entries) = (state, Vec::new());
        (disk.before, disk.applied, disk.hard_state.commit) = ((index, term), index, index);
        self.say(&format!("   {} installs the state of entry {index}", head.to().0));
    }

    /// A replica does what is to be done: its disk, its state machine, its messages.
    fn work(&mut self, id: ReplicaId) {
        let mut out = String::new();
        let replica = self.replicas.get_mut(&id).expect("the replica exists");
        let Replica { group, disk, unsynced, is_slow, role } = replica;
        loop {
            if !*is_slow {
                for work in unsynced.drain(..) {
                    disk.write(&work);
                    group.persisted(work.number);
                }
            }
            let Some(work) = group.ready() else { break };
            if work.restored.is_some() {
                disk.members = group.members().clone();
            }
            for entry in &work.committed {
                writeln!(out, "   {} applies {}", id.0, of_entry(entry)).expect("a string");
                if let Some(change) = self.changes.get(&entry.data()[..]) {
                    disk.members = group.change(change).clone();
                }
                disk.state.push(Bytes::clone(entry.data()));
                disk.applied = entry.index();
                disk.hard_state.commit = disk.hard_state.commit.max(entry.index());
                group.applied(entry.index());
            }
            let (number, entries, hard_state) = (work.number, work.entries, work.hard_state);
            unsynced.push(Unsynced { number, entries, hard_state });
        }
        let is = match group.is_leader() {
            true => format!("leader of term {}", group.term()),
            false => "follower".to_owned(),
        };
        if *role != is {
            writeln!(out, "   {} is {is}", id.0).expect("a string");
            *role = is;
        }
        self.out += &out;
        group.take_messages(&mut self.flying);
    }

    /// One line for each replica.
    pub fn show(&mut self) {
        let line = |(id, replica): (&ReplicaId, &Replica)| {
            let group = &replica.group;
            let leader = group.leader().map_or("nobody".to_owned(), |id| id.0.to_string());
            let (last, committed) = (group.last_index(), group.committed());
            let members = of_members(group.members());
            format!(
                "{}: term {}, follows {leader}, log to {last}, committed {committed}, {members}\n",
                id.0,
                group.term(),
            )
        };
        let lines: String = self.replicas.iter().map(line).collect();
        self.out += &lines;
    }
}
