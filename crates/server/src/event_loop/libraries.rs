//! FUNCTION, and what FCALL, EVALSHA and SCRIPT ask of other nodes before they answer.
//!
//! What other threads or nodes have to answer comes as the reply of a script ([`super::scripts`]).
//! A call that names what is not known here waits in its place until others were asked, and is
//! tried once more.

use std::sync::Arc;

use command::Sink as _;
use command::glob::matches_nocase;
use gateway::resp::{
    LibraryRequest, Mode, Request, RespWriter, ScriptName, ScriptRequest, Session, Version,
};
use keyspace::catalogue::{Libraries, Library, LibraryOp, RestorePolicy};
use lua::Sha1Hex;
use lua::library::dump;
use node::executor::{Answer, Origin};
use node::replica::entry::Waiter;

use super::EventLoop;
use super::connection::Connection;
use super::pending_reply::{PendingReply, ReplyFrame};
use super::resp::{CommandOutcome, OUT_OF_MEMORY};
use super::serve::{go_waiter, waiter};
use super::state::WaitsFor;
use crate::runtime::NodeRuntime;
use crate::runtime::mailbox::Mail;
use crate::scripts::{self, Draft, JobReply, NO_SCRIPT, Program, RunningScript, libraries};

/// A reply that another thread writes.
pub(super) struct LaterReply {
    runtime: Arc<NodeRuntime>,
    event_loop: usize,
    waiter: Waiter,
    version: Version,
}

impl LaterReply {
    pub(super) fn send(self, is_error: bool, write: impl FnOnce(&mut RespWriter<'_>)) {
        let mut bytes = Vec::new();
        write(&mut RespWriter::new(&mut bytes, self.version));
        let reply = vec![(self.waiter, JobReply::new(bytes, is_error))];
        // A loop that has ended has no clients left, or has given them up.
        let mailbox = &self.runtime.delivery.mailboxes[self.event_loop];
        let _is_read = mailbox.post(Mail::Scripted(reply));
    }

    fn result(self, result: Result<(), String>) {
        match result {
            Ok(()) => self.send(false, |writer| writer.ok()),
            Err(text) => self.send(true, |writer| writer.error(&text)),
        }
    }
}

impl EventLoop {
    /// Owes a connection a reply; its next command waits for it.
    pub(super) fn owe_later(
        &self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        muted: bool,
    ) -> LaterReply {
        let (runtime, event_loop) = (self.runtime.clone(), self.number);
        let (waiter, version) = (waiter(at, connection.next_number()), session.version());
        let frame = ReplyFrame::Resp { version, muted };
        connection.pending.push_back(PendingReply::waiting(frame));
        connection.next.barrier = true;
        LaterReply { runtime, event_loop, waiter, version }
    }

    /// Whether a call must wait because others are asked for what it names, which is not known
    /// here.
    pub(super) fn asks_others(
        &mut self,
        at: usize,
        connection: &mut Connection,
        name: ScriptName<'_>,
    ) -> bool {
        let (origin, go) = (Origin(self.number as u32), go_waiter(at));
        match name {
            ScriptName::Source(_) => return false,
            ScriptName::Function(name) => {
                let libraries = &self.runtime.scripts.libraries;
                if self.runtime.peers.is_none() || libraries.find(name).is_some() {
                    return false;
                }
                libraries::look_again(&self.runtime, origin, go);
            }
            ScriptName::Sha(sha) => {
                let Some(sha) = Sha1Hex::parse(sha) else { return false };
                if self.runtime.peers.is_none() || self.runtime.scripts.cache.get(&sha).is_some() {
                    return false;
                }
                let runtime = self.runtime.clone();
                scripts::fetch(&self.runtime, sha, move |_| {
                    let mail = Mail::Answer(Answer::Retry { origin, waiter: go });
                    let _is_read = runtime.delivery.mailboxes[origin.0 as usize].post(mail);
                });
            }
        }
        connection.next.has_asked_others = true;
        connection.next.waits_for = WaitsFor::Permission;
        true
    }

    /// Answers what SCRIPT asks of all nodes.
    pub(super) fn ask_members(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        asked: ScriptRequest<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let runtime = self.runtime.clone();
        let reply = self.owe_later(at, connection, session, muted);
        match asked {
            ScriptRequest::Exists(all) => {
                let all: Vec<Option<Sha1Hex>> = all.into_iter().map(Sha1Hex::parse).collect();
                script_exists(&runtime, &all, reply);
            }
            ScriptRequest::Show(sha) => {
                let known = Sha1Hex::parse(sha).map(|sha| (sha, runtime.scripts.cache.get(&sha)));
                let show = |script: Option<Arc<scripts::Script>>| match script {
                    Some(script) => reply.send(false, |writer| writer.bulk(&script.source)),
                    None => reply.result(Err(NO_SCRIPT.into())),
                };
                match known {
                    Some((sha, None)) => scripts::fetch(&runtime, sha, show),
                    known => show(known.and_then(|(_, script)| script)),
                }
            }
            ScriptRequest::Flush => {
                libraries::flush_scripts(&runtime, |result| reply.result(result));
            }
            ScriptRequest::Kill { functions } => {
                scripts::kill(&runtime, functions, |result| reply.result(result));
            }
            ScriptRequest::Load(_) => unreachable!("it concerns this node alone"),
        }
        CommandOutcome::Answered
    }

    /// Answers FUNCTION.
    pub(super) fn ask_of_libraries(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        asked: LibraryRequest<'_>,
        muted: bool,
    ) -> CommandOutcome {
        let takes_memory =
            matches!(asked, LibraryRequest::Load { .. } | LibraryRequest::Restore { .. });
        if takes_memory && self.is_out_of_memory() {
            return self.refuse(connection, session, OUT_OF_MEMORY, muted);
        }
        let (runtime, mode) = (self.runtime.clone(), self.config.resp_mode);
        let mut bytes = Vec::new();
        let mut writer = session.writer(&mut bytes);
        match asked {
            LibraryRequest::List { .. } | LibraryRequest::Stats | LibraryRequest::Dump => {
                let now = Draft::default();
                write_known(&runtime, &now, &Request::Libraries(asked), &mut writer);
            }
            LibraryRequest::Load { code, replace } => {
                let reply = self.owe_later(at, connection, session, muted);
                load(&runtime, mode, code.into(), replace, reply);
                return CommandOutcome::Answered;
            }
            LibraryRequest::Delete(name) => {
                // No library has another name.
                let name = String::from_utf8_lossy(name);
                let reply = self.owe_later(at, connection, session, muted);
                let op = LibraryOp::Delete { name: &name };
                libraries::change(&runtime, mode, op, |result| reply.result(result));
                return CommandOutcome::Answered;
            }
            LibraryRequest::Flush => {
                let reply = self.owe_later(at, connection, session, muted);
                let op = LibraryOp::Flush;
                libraries::change(&runtime, mode, op, |result| reply.result(result));
                return CommandOutcome::Answered;
            }
            LibraryRequest::Restore { payload, how } => {
                let codes = match dump::decode(payload) {
                    Ok(codes) => codes.into_iter().map(Vec::into_boxed_slice).collect(),
                    Err(error) => return self.refuse(connection, session, error.0, muted),
                };
                let reply = self.owe_later(at, connection, session, muted);
                restore(&runtime, mode, codes, scripts::policy(how), reply);
                return CommandOutcome::Answered;
            }
        }
        if !muted {
            connection.reply_with(bytes);
        }
        CommandOutcome::Answered
    }
}

/// Has a script thread see what the code registers, and the catalogue take the library.
fn load(runtime: &Arc<NodeRuntime>, mode: Mode, code: Box<[u8]>, replace: bool, reply: LaterReply) {
    let again = runtime.clone();
    let judge = move |runtime: &NodeRuntime, code: &[u8]| {
        libraries::judge_beside(&runtime.scripts.libraries.all(), code, replace)
    };
    runtime.scripts.call(Box::new(move || match judge(&again, &code) {
        Err(text) => reply.result(Err(text)),
        Ok(library) => {
            let name = library.name.clone();
            let op = LibraryOp::Load { library, replace };
            libraries::change(&again, mode, op, move |result| match result {
                Ok(()) => reply.send(false, |writer| writer.bulk(name.as_bytes())),
                Err(text) => reply.result(Err(text)),
            });
        }
    }));
}

fn restore(
    runtime: &Arc<NodeRuntime>,
    mode: Mode,
    codes: Vec<Box<[u8]>>,
    policy: RestorePolicy,
    reply: LaterReply,
) {
    let again = runtime.clone();
    runtime.scripts.call(Box::new(move || {
        let libraries = match libraries::judge_all(&codes) {
            Ok(libraries) => libraries,
            Err(text) => return reply.result(Err(text)),
        };
        let op = LibraryOp::Restore { policy, libraries };
        libraries::change(&again, mode, op, |result| reply.result(result));
    }));
}

fn script_exists(runtime: &NodeRuntime, all: &[Option<Sha1Hex>], reply: LaterReply) {
    let is_known = |sha: &Option<Sha1Hex>| {
        sha.as_ref().is_some_and(|sha| runtime.scripts.cache.get(sha).is_some())
    };
    let known: Vec<bool> = all.iter().map(is_known).collect();
    let unknown = all.iter().zip(&known).filter(|(_, known)| !**known);
    let unknown: Vec<Sha1Hex> = unknown.filter_map(|(sha, _)| *sha).collect();
    let all = all.to_vec();
    let write = move |found: scripts::Found| {
        let mut found = found.into_iter();
        let mut there = move |(sha, known): (&Option<Sha1Hex>, bool)| {
            known || sha.is_some() && found.next().flatten().is_some()
        };
        let exist: Vec<bool> = all.iter().zip(known).map(&mut there).collect();
        reply.send(false, |writer| {
            writer.array(exist.len());
            exist.into_iter().for_each(|exists| writer.int(i64::from(exists)));
        });
    };
    match unknown.is_empty() {
        true => write(Vec::new()),
        false => scripts::ask(runtime, &unknown, false, write),
    }
}

/// Answers what this node knows by itself of scripts and libraries, within EXEC too, where commands
/// may have changed that. False if the request asks for something else.
pub(crate) fn write_known(
    runtime: &NodeRuntime,
    draft: &Draft,
    request: &Request<'_>,
    writer: &mut RespWriter<'_>,
) -> bool {
    let scripts = &runtime.scripts;
    let script = |sha: &[u8]| Sha1Hex::parse(sha).and_then(|sha| draft.script(scripts, &sha));
    match request {
        Request::Scripts(ScriptRequest::Exists(all)) => {
            writer.array(all.len());
            all.iter().for_each(|sha| writer.int(i64::from(script(sha).is_some())));
        }
        Request::Scripts(ScriptRequest::Show(sha)) => match script(sha) {
            Some(script) => writer.bulk(&script.source),
            None => writer.error(NO_SCRIPT),
        },
        Request::Libraries(LibraryRequest::List { pattern, with_code }) => {
            write_list(&draft.libraries(scripts), *pattern, *with_code, writer);
        }
        Request::Libraries(LibraryRequest::Stats) => {
            let running = scripts.running_function();
            write_stats(&draft.libraries(scripts), running.as_ref(), writer);
        }
        Request::Libraries(LibraryRequest::Dump) => {
            let libraries = draft.libraries(scripts);
            writer.bulk(&dump::encode(libraries.iter().map(|library| &*library.code)));
        }
        _ => return false,
    }
    true
}

/// FUNCTION LIST.
fn write_list(
    all: &Libraries,
    pattern: Option<&[u8]>,
    with_code: bool,
    writer: &mut RespWriter<'_>,
) {
    let is_wanted = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| matches_nocase(pattern, library.name.as_bytes()))
    };
    writer.array(all.iter().filter(is_wanted).count());
    for library in all.iter().filter(is_wanted) {
        writer.map(if with_code { 4 } else { 3 });
        writer.bulk(b"library_name");
        writer.bulk(library.name.as_bytes());
        writer.bulk(b"engine");
        writer.bulk(b"LUA");
        writer.bulk(b"functions");
        writer.array(library.functions.len());
        for function in &library.functions {
            writer.map(3);
            writer.bulk(b"name");
            writer.bulk(function.name.as_bytes());
            writer.bulk(b"description");
            match &function.description {
                Some(description) => writer.bulk(description),
                None => writer.nil(),
            }
            let flags = libraries::flag_names(function.flags);
            writer.bulk(b"flags");
            writer.set(flags.len());
            flags.iter().for_each(|flag| writer.status(flag));
        }
        if with_code {
            writer.bulk(b"library_code");
            writer.bulk(&library.code);
        }
    }
}

/// FUNCTION STATS.
fn write_stats(all: &Libraries, running: Option<&RunningScript>, writer: &mut RespWriter<'_>) {
    writer.map(2);
    writer.bulk(b"running_script");
    match running {
        Some(RunningScript { program: Program::Function(function), since, .. }) => {
            writer.map(3);
            writer.bulk(b"name");
            writer.bulk(function.name().as_bytes());
            writer.bulk(b"command");
            writer.array(2);
            writer.bulk(b"fcall");
            writer.bulk(function.name().as_bytes());
            writer.bulk(b"duration_ms");
            writer.int(since.elapsed().as_millis() as i64);
        }
        _ => writer.nil(),
    }
    writer.bulk(b"engines");
    writer.map(1);
    writer.bulk(b"LUA");
    writer.map(2);
    writer.bulk(b"libraries_count");
    writer.int(all.len() as i64);
    writer.bulk(b"functions_count");
    writer.int(all.iter().map(|library| library.functions.len()).sum::<usize>() as i64);
}
