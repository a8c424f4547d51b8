//! Runs the commands of an EXEC on copies of its keys, scripts among them.

use std::sync::Arc;
use std::time::Instant;

use command::Sink as _;
use gateway::resp::{RespWriter, ScriptCall, ScriptName, ScriptedCommand};
use lua::Stopped;
use node::routing::route::Route;

use super::Scripts;
use super::cache::{ExecProgram, NoScript, Program};
use super::exec_changes::Draft;
use super::exec_reply::{Filling, Gap, Gaps};
use super::host::{Queued, ScriptHost};
use super::job::{Job, JobReply};
use super::run::{Called, Ground, Ran};
use super::threads::Runner;

/// How far an EXEC has come.
struct Progress {
    reply: JobReply,
    gaps: Gaps,
    draft: Draft,
    /// The keyspace that it has selected, unless it is its own.
    selected: Option<Arc<Route>>,
}

impl Progress {
    fn leave_gap(&mut self, filling: Filling) {
        self.gaps.all.push(Gap { at: self.reply.bytes.len(), filling });
    }
}

impl Runner {
    /// Runs the commands of an EXEC, scripts among them.
    pub(super) fn execute_all(
        &mut self,
        job: &Job,
        exec: &Arc<ExecProgram>,
        mut ground: Ground<'_>,
    ) -> Ran {
        exec.watched.iter().for_each(|(key, seen)| ground.copy.watch(key, *seen));
        let (mut reply, gaps) = (JobReply::new(Vec::new(), false), Gaps::of(exec));
        reply.touched = job.tracks.then(Default::default);
        let (draft, selected) = Default::default();
        if !exec.is_alone {
            RespWriter::new(&mut reply.bytes, job.version).array(exec.queue.len());
        }
        let mut all = Progress { reply, gaps, draft, selected };
        for (number, args) in exec.queue.commands().enumerate() {
            if Instant::now() >= ground.until {
                return Ran::Stopped(Stopped::Time);
            }
            let (runtime, surroundings) = (&self.runtime, &self.surroundings);
            let (workspace, may) = (&mut self.workspace, ScriptedCommand::default());
            let mut host = ScriptHost::new(runtime, surroundings, workspace, ground.again(), may);
            (host.selected, host.touched) = (all.selected.take(), all.reply.touched.take());
            host.mode = job.mode;
            let queued = host.queued(args, job.version, &all.draft, &mut all.reply.bytes);
            all.reply.messages.append(&mut host.messages);
            (all.selected, all.reply.touched) = (host.selected, host.touched);
            if let Some(halt) = host.halt {
                return Ran::Halted(halt);
            }
            match queued {
                Queued::Done => {}
                Queued::Script(call) => {
                    if let Some(halted) = self.call_queued(job, &call, ground.again(), &mut all) {
                        return halted;
                    }
                }
                Queued::Load(source) => self.load_queued(job, source, &mut all),
                Queued::Change(change) => {
                    all.draft.change(&self.runtime.scripts, &change);
                    all.leave_gap(Filling::Change(change));
                }
                Queued::Connection => all.leave_gap(Filling::Connection(number)),
            }
        }
        let Progress { mut reply, mut gaps, draft, selected } = all;
        if draft.has_changed_libraries() {
            self.has_used_draft();
        }
        draft.end(&mut reply, &mut gaps);
        reply.gaps = (!gaps.all.is_empty()).then(|| Box::new(gaps));
        reply.selected = selected.map(|route| route.keyspace.name.clone());
        Ran::Ended(reply)
    }

    /// Runs a script among them. What has become of it, if the others cannot go on.
    fn call_queued(
        &mut self,
        job: &Job,
        call: &ScriptCall<'_>,
        ground: Ground<'_>,
        all: &mut Progress,
    ) -> Option<Ran> {
        let (scripts, is_full) = (&self.runtime.scripts, self.runtime.memory.is_full());
        let found = all.draft.find(scripts, call.name).and_then(|program| {
            Scripts::permit(&program, call, is_full, job.mode).map(|()| program)
        });
        let program = match found {
            Ok(program) => program,
            Err(text) => {
                RespWriter::new(&mut all.reply.bytes, job.version).error(&text);
                return None;
            }
        };
        let read_only = call.read_only || program.flags().no_writes;
        let (keys, args, selected) = (&call.keys[..], &call.args[..], all.selected.clone());
        let called = Called { program: &program, keys, args, read_only, selected };
        let (ran, _) = self.execute_script(job, &called, ground);
        if let (ScriptName::Source(_), Program::Script(script)) = (call.name, &program)
            && self.interpreter.has(&script.sha)
        {
            all.draft.remember(script);
        }
        match ran {
            Ran::Ended(mut reply) | Ran::Refused(mut reply) => {
                all.reply.bytes.append(&mut reply.bytes);
                all.reply.messages.append(&mut reply.messages);
                if let (Some(touched), Some(more)) = (&mut all.reply.touched, &mut reply.touched) {
                    touched.append(more);
                }
                None
            }
            halted => Some(halted),
        }
    }

    /// SCRIPT LOAD among them.
    fn load_queued(&mut self, job: &Job, source: &[u8], all: &mut Progress) {
        let script = self.runtime.scripts.cache.of(source).map_err(|why| match why {
            NoScript::Malformed(text) => text,
            NoScript::Unknown(_) => unreachable!("its source is known"),
        });
        let loaded = script.and_then(|script| self.load(&script).map(|()| script));
        let mut writer = RespWriter::new(&mut all.reply.bytes, job.version);
        match loaded {
            Ok(script) => {
                writer.bulk(script.sha.as_bytes());
                all.draft.remember(&script);
            }
            Err(text) => writer.error(&text),
        }
    }
}
