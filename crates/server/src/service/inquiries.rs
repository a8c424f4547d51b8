//! Questions to other nodes, for answers about the whole cluster; and the thread that answers
//! theirs.
//!
//! A node that does not answer in time is named as silent; what the others know is answered.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use api::inquiry::{Answer, Question, Refusal};
use api::{ApiError, Decisions, Done, NodeMetrics, ShardStatus, Shards, ShardsQuery, SilentNode};
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
        let own = &page.node;
        let mut by_leader: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for shard in page.shards.iter().filter(|shard| shard.leader.as_ref() != Some(own)) {
            let leader = shard.leader.as_ref().and_then(|id| u64::from_str_radix(id, 16).ok());
            if let Some(leader) = leader {
                by_leader.entry(NodeId(leader)).or_default().push(shard.id);
            }
        }
        let questions = by_leader.into_iter();
        let questions = questions.map(|(node, shards)| (node, Question::Shards { shards }));
        let questions = questions.collect();
        let runtime = self.runtime.clone();
        ask_all(&self.runtime, questions, ANSWER_TIMEOUT, move |answers| {
            let members = runtime.members();
            let mut page = page;
            for (node, answer) in answers {
                match answer {
                    Ok(Answer::Shards(told)) => take_told(&mut page.shards, told),
                    other => page.silent.push(silent(node, useless(&other), &members)),
                }
            }
            done(Ok(page));
        });
    }

    /// What this node knows of shards that it leads.
    fn led_shards(&self, ids: &[u64]) -> Vec<ShardStatus> {
        let survey = survey::survey(&self.runtime);
        let leads = |seen: &&survey::ShardView| {
            seen.report.as_ref().is_some_and(|report| report.leads)
                && ids.binary_search(&seen.id().0).is_ok()
        };
        let now = crate::runtime::boot_nanos();
        survey.shards.iter().filter(leads).map(|seen| self.shard(seen, &survey, now)).collect()
    }

    /// Answers another node's question; `reply` sends the answer.
    fn answer(self: &Arc<Self>, asking: &Asking) {
        let reply = asking.reply();
        let this = self.clone();
        match &asking.question {
            Question::Decisions { dry } => {
                reply(&this.runtime, &Answer::Decisions(this.show_decisions(*dry)));
            }
            Question::Shards { shards } => {
                reply(&this.runtime, &Answer::Shards(this.led_shards(shards)));
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
