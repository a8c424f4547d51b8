//! Questions to other nodes, for answers about the whole cluster; and the thread that answers
//! theirs.
//!
//! A node that does not answer in time is named as silent; what the others know is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use api::inquiry::{Answer, Question, Refusal};
use api::{
    ApiError, Decisions, Done, NodeMetrics, ShardLoad, ShardStatus, Shards, ShardsQuery, SilentNode,
};
use keyspace::{NodeId, ShardId};
use parking_lot::Mutex;

use super::NodeApi;
use super::shards::shown as shown_id;
use crate::cluster::{MemberInfo, MemberState};
use crate::runtime::NodeRuntime;
use crate::runtime::inquiries::{self, Asking, NoAnswer};
use crate::runtime::survey::{self, name_of};

/// For what nodes know at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// For what their control has to be asked for.
const DECISIONS_TIMEOUT: Duration = Duration::from_secs(3);

type Answers = Vec<(NodeId, Result<Answer, NoAnswer>)>;

/// Answers that are gathered.
struct Gathered {
    answers: Answers,
    left: usize,
    done: Option<Box<dyn FnOnce(Answers) + Send>>,
}

/// Asks each of these nodes, and calls `done` when all have answered, or will not.
fn ask_all(
    runtime: &NodeRuntime,
    questions: Vec<(NodeId, Question)>,
    timeout: Duration,
    done: impl FnOnce(Answers) + Send + 'static,
) {
    if questions.is_empty() {
        return done(Vec::new());
    }
    // Who asked waits no longer.
    let timeout = timeout.min(Duration::from_nanos(runtime.request_timeout_nanos));
    let (left, done) = (questions.len(), Some(Box::new(done) as Box<_>));
    let gathered = Arc::new(Mutex::new(Gathered { answers: Vec::new(), left, done }));
    for (node, question) in questions {
        let gathered = gathered.clone();
        let answered = move |answer| {
            let all = {
                let mut gathered = gathered.lock();
                gathered.answers.push((node, answer));
                gathered.left -= 1;
                match gathered.left {
                    0 => gathered.done.take().map(|d| (d, std::mem::take(&mut gathered.answers))),
                    _ => None,
                }
            };
            if let Some((done, mut answers)) = all {
                answers.sort_by_key(|(node, _)| *node);
                done(answers);
            }
        };
        inquiries::ask(runtime, node, &question, timeout, Box::new(answered));
    }
}

/// A node that has not said what it knows.
fn silent(node: NodeId, why: &str, members: &[MemberInfo]) -> SilentNode {
    SilentNode { id: shown_id(node), name: name_of(node, members), why: why.to_owned() }
}

/// Why an answer is of no use.
fn useless(answer: &Result<Answer, NoAnswer>) -> &'static str {
    match answer {
        Err(why) => why.why(),
        Ok(Answer::Refused(Refusal::Unknown)) => "it runs an older version that cannot answer",
        Ok(Answer::Refused(Refusal::Stopping)) => "it is stopping",
        Ok(Answer::Refused(_)) => "it has too much to do",
        Ok(_) => "it has answered something else",
    }
}

impl NodeApi {
    /// Asks all other nodes the same; `done` gets their answers, and which nodes are down.
    fn ask_members(
        &self,
        question: &Question,
        timeout: Duration,
        done: impl FnOnce(Answers, Vec<SilentNode>) + Send + 'static,
    ) {
        let members = self.runtime.members();
        let own = self.runtime.identity.node;
        let others = members.iter().filter(|member| member.node != own);
        let others = others.filter(|member| member.state != MemberState::Left);
        let (up, down): (Vec<_>, Vec<_>) = others.partition(|member| member.is_up());
        let down = down.iter().map(|member| silent(member.node, "it is down", &members)).collect();
        let questions = up.iter().map(|member| (member.node, question.clone())).collect();
        ask_all(&self.runtime, questions, timeout, move |answers| done(answers, down));
    }

    pub(super) fn ask_decisions(&self, dry: bool, done: Done<Decisions>) {
        // Here, not when the last answer is there: that is on the links' thread.
        let (runtime, mut all) = (self.runtime.clone(), self.show_decisions(dry));
        let question = Question::Decisions { dry };
        self.ask_members(&question, DECISIONS_TIMEOUT, move |answers, down| {
            all.silent = down;
            let members = runtime.members();
            for (node, answer) in answers {
                match answer {
                    Ok(Answer::Decisions(more)) => all.add(more),
                    other => all.silent.push(silent(node, useless(&other), &members)),
                }
            }
            done(Ok(all));
        });
    }

    pub(super) fn ask_metrics(&self, done: Done<NodeMetrics>) {
        let (runtime, own) = (self.runtime.clone(), api::NodeService::metrics_summary(self));
        self.ask_members(&Question::Metrics, ANSWER_TIMEOUT, move |answers, down| {
            let mut all = NodeMetrics { nodes: vec![own], silent: down };
            let members = runtime.members();
            for (node, answer) in answers {
                match answer {
                    Ok(Answer::Metrics(summary)) => all.nodes.push(summary),
                    other => all.silent.push(silent(node, useless(&other), &members)),
                }
            }
            done(Ok(all));
        });
    }

    pub(super) fn ask_shards(&self, asked: &ShardsQuery<'_>, done: Done<Shards>) {
        let page = match self.show_shards(asked) {
            Ok(page) => page,
            Err(error) => return done(Err(error)),
        };
        let asked_of = asked_of(&page, &self.runtime.members());
        let leaders: BTreeSet<NodeId> =
            asked_of.iter().filter(|(_, of)| !of.led.is_empty()).map(|(node, _)| *node).collect();
        let question = |of: OfShards| Question::Shards { shards: of.led, followed: of.followed };
        let questions = asked_of.into_iter().map(|(node, of)| (node, question(of))).collect();
        let runtime = self.runtime.clone();
        ask_all(&self.runtime, questions, ANSWER_TIMEOUT, move |answers| {
            let members = runtime.members();
            let mut page = page;
            let mut follower_reads = own_follower_reads(&page);
            for (node, answer) in answers {
                match answer {
                    Ok(Answer::Shards(told)) => {
                        let leads =
                            |shard: &ShardStatus| shard.leader.as_ref() == Some(&shown_id(node));
                        let (led, followed): (Vec<_>, Vec<_>) = told.into_iter().partition(leads);
                        take_told(&mut page.shards, led);
                        add_follower_reads(&mut follower_reads, &followed);
                    }
                    // How often others than the leader are asked is little to miss.
                    other if leaders.contains(&node) => {
                        page.silent.push(silent(node, useless(&other), &members));
                    }
                    _ => {}
                }
            }
            for shard in &mut page.shards {
                let reads = follower_reads.get(&shard.id).copied().unwrap_or(0);
                shard.load = with_follower_reads(shard.load, reads);
            }
            done(Ok(page));
        });
    }

    /// What this node knows of shards that it leads, of the first list; and of those that it
    /// follows and serves reads of, of the second.
    fn told_shards(&self, led: &[u64], followed: &[u64]) -> Vec<ShardStatus> {
        let survey = survey::survey(&self.runtime);
        let now = crate::runtime::boot_nanos();
        let mut told = Vec::new();
        for seen in &survey.shards {
            let Some(report) = &seen.report else { continue };
            let asked = if report.leads { led } else { followed };
            if asked.binary_search(&seen.id().0).is_ok() {
                let shard = self.shard(seen, &survey, now);
                let serves = shard.load.is_some_and(|load| load.reads_per_second > 0);
                told.extend((report.leads || serves).then_some(shard));
            }
        }
        told
    }

    /// Answers another node's question; `reply` sends the answer.
    fn answer(self: &Arc<Self>, asking: &Asking) {
        let reply = asking.reply();
        let this = self.clone();
        match &asking.question {
            Question::Decisions { dry } => {
                reply(&this.runtime, &Answer::Decisions(this.show_decisions(*dry)));
            }
            Question::Shards { shards, followed } => {
                reply(&this.runtime, &Answer::Shards(this.told_shards(shards, followed)));
            }
            Question::Metrics => {
                let summary = api::NodeService::metrics_summary(&*this);
                reply(&this.runtime, &Answer::Metrics(summary));
            }
            Question::Split { shard, at } => {
                let done = move |result| this.reply_done(reply, result, Answer::Split);
                self.split_here(ShardId(*shard), at.clone(), Box::new(done));
            }
            Question::Merge { shard } => {
                let done = move |result| this.reply_done(reply, result, Answer::Merge);
                self.merge_here(ShardId(*shard), Box::new(done));
            }
        }
    }

    /// Nothing is answered if the outcome is unknown: so it is to who asked.
    fn reply_done<T>(
        &self,
        reply: impl FnOnce(&NodeRuntime, &Answer),
        result: Result<T, ApiError>,
        answer: impl FnOnce(T) -> Answer,
    ) {
        match result {
            Ok(done) => reply(&self.runtime, &answer(done)),
            Err(error) => {
                if let Some(refusal) = Refusal::of(error) {
                    reply(&self.runtime, &Answer::Refused(refusal));
                }
            }
        }
    }
}

/// The shards that a node is asked about.
#[derive(Debug, Default, PartialEq, Eq)]
struct OfShards {
    /// Those that it seems to lead.
    led: Vec<u64>,
    /// Of these it has another replica.
    followed: Vec<u64>,
}

/// What other nodes are asked, for a page of shards.
fn asked_of(page: &Shards, members: &[MemberInfo]) -> BTreeMap<NodeId, OfShards> {
    let is_up = |node: NodeId| members.iter().any(|member| member.node == node && member.is_up());
    let id_of = |text: &str| u64::from_str_radix(text, 16).ok().map(NodeId);
    let mut asked_of: BTreeMap<NodeId, OfShards> = BTreeMap::new();
    for shard in &page.shards {
        let leader = shard.leader.as_ref().filter(|leader| **leader != page.node);
        if let Some(leader) = leader.and_then(|leader| id_of(leader)) {
            asked_of.entry(leader).or_default().led.push(shard.id);
        }
        for replica in shard.replicas.iter().filter(|replica| replica.node != page.node) {
            let node =
                id_of(&replica.node).filter(|_| Some(&replica.node) != shard.leader.as_ref());
            if let Some(node) = node.filter(|node| is_up(*node)) {
                asked_of.entry(node).or_default().followed.push(shard.id);
            }
        }
    }
    asked_of
}

/// Reads a second that replicas serve which do not lead, by shard.
type FollowerReads = BTreeMap<u64, u64>;

/// Those that this node serves.
fn own_follower_reads(page: &Shards) -> FollowerReads {
    let mut reads = FollowerReads::new();
    add_follower_reads(&mut reads, &page.shards);
    reads
}

fn add_follower_reads(reads: &mut FollowerReads, shards: &[ShardStatus]) {
    for shard in shards {
        let load = shard.load.unwrap_or_default();
        if load.follower_reads_per_second > 0 {
            *reads.entry(shard.id).or_default() += load.follower_reads_per_second;
        }
    }
}

/// A load with the reads of all replicas that do not lead: of the leader or, if that did not
/// answer, of this node.
fn with_follower_reads(load: Option<ShardLoad>, follower_reads: u64) -> Option<ShardLoad> {
    let load = load.or((follower_reads > 0).then(ShardLoad::default))?;
    Some(ShardLoad {
        reads_per_second: load.reads_per_second - load.follower_reads_per_second + follower_reads,
        follower_reads_per_second: follower_reads,
        ..load
    })
}

/// Puts what leaders have told in place of what is known here.
fn take_told(shards: &mut [ShardStatus], told: Vec<ShardStatus>) {
    for told in told {
        // Not another shard: it may have been split or merged meanwhile.
        if let Some(own) = shards.iter_mut().find(|own| own.id == told.id) {
            *own = ShardStatus { here: own.here, ..told };
        }
    }
}

/// The thread that answers other nodes' questions.
pub struct InquiryThread(JoinHandle<()>);

impl InquiryThread {
    /// Starts it.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn spawn(api: Arc<NodeApi>) -> io::Result<Self> {
        let thread = thread::Builder::new().name("inquiries".into()).spawn(move || {
            while let Some(asking) = api.runtime.inquiries.next() {
                api.answer(&asking);
            }
        })?;
        Ok(Self(thread))
    }

    /// Ends it.
    pub fn stop(self, runtime: &NodeRuntime) {
        runtime.inquiries.stop();
        self.0.join().expect("a thread that panics has ended the process");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_followers_are_added_once() {
        let leader = ShardLoad { reads_per_second: 50, writes_per_second: 7, ..Default::default() };
        let all = with_follower_reads(Some(leader), 300).expect("there is a load");
        let shown = (all.reads_per_second, all.follower_reads_per_second, all.writes_per_second);
        assert_eq!(shown, (350, 300, 7));
        // This node follows, its leader did not answer, and another follower serves 200.
        let own = ShardLoad {
            reads_per_second: 100,
            follower_reads_per_second: 100,
            ..Default::default()
        };
        let all = with_follower_reads(Some(own), 300).expect("there is a load");
        assert_eq!((all.reads_per_second, all.follower_reads_per_second), (300, 300));
        assert_eq!(with_follower_reads(None, 0), None);
        assert_eq!(with_follower_reads(None, 5).map(|load| load.reads_per_second), Some(5));
    }
}
