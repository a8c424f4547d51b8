//! Changes of scripts and libraries within EXEC: FUNCTION LOAD, DELETE, FLUSH, RESTORE and KILL,
//! SCRIPT FLUSH and KILL.
//!
//! ```text
//!   follow the catalogue ──► run on copies: the keys, and a draft of the libraries
//!        ──► commit the keys, if what was read is as it was; else nothing of it is done
//!        ──► make the changes in their order: each is answered as the catalogue answers it
//! ```
//!
//! Commands behind a change see the draft, so FCALL finds what a LOAD before it has loaded. The
//! catalogue has the last word: another client may have changed the libraries since. Then that one
//! change is an error among the replies, as a failed command within EXEC is, and all else is done.
//!
//! The draft also has the scripts that were loaded or called by their source. This node remembers
//! them when the transaction is done.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | changes of one EXEC | [`CHANGES_MAX`] | EXEC is refused, nothing is done |
//! | bytes of the draft's libraries | as of the catalogue's | that change is an error |
//! | scripts that others are asked for | [`UNKNOWN_MAX`] | the rest is looked for here only |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use command::Sink as _;
use gateway::resp::{LibraryRequest, Mode, Queue, RespWriter, Restore, ScriptName, Version};
use gateway::resp::{called_function, called_script, changes_scripts};
use keyspace::catalogue::{Libraries, Library, LibraryOp, RestorePolicy};
use lua::Sha1Hex;
use lua::library::dump;
use node::executor::Answer;

use super::cache::{NoScript, Program, Script};
use super::exec_reply::{Filling, Gaps};
use super::host::{Halt, Queued, ScriptHost};
use super::job::{Job, JobReply};
use super::libraries::{self, Known, follow, not_changed_text, not_followed};
use super::{NO_FUNCTION, NO_SCRIPT, Scripts, fetch_all, kill_elsewhere};
use crate::runtime::NodeRuntime;

/// Changes that one EXEC may make.
pub const CHANGES_MAX: usize = 128;
/// Scripts that other members are asked for before one EXEC.
const UNKNOWN_MAX: usize = 1024;

/// The error of SCRIPT KILL and FUNCTION KILL when nothing runs.
pub const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";

/// What one command changes when the transaction's keys are committed.
#[derive(Debug)]
pub enum Change {
    /// FUNCTION LOAD.
    Load {
        /// The library.
        library: Library,
        /// Whether it may take the place of one of its name.
        replace: bool,
    },
    /// FUNCTION DELETE, of this name.
    Delete(String),
    /// FUNCTION FLUSH.
    Flush,
    /// FUNCTION RESTORE.
    Restore {
        /// By rising name.
        libraries: Vec<Library>,
        /// What becomes of those that are there.
        policy: RestorePolicy,
    },
    /// SCRIPT FLUSH.
    FlushScripts {
        /// Scripts that commands behind it have had this node remember.
        then: Vec<Arc<Script>>,
    },
    /// SCRIPT KILL, or FUNCTION KILL.
    Kill {
        /// Which.
        functions: bool,
    },
}

impl Change {
    /// What a command on libraries changes, of these.
    ///
    /// # Errors
    /// Redis's, of what cannot be a library.
    pub fn of(asked: &LibraryRequest<'_>, all: &Libraries) -> Result<Self, String> {
        Ok(match *asked {
            LibraryRequest::Load { code, replace } => {
                Self::Load { library: libraries::judge_beside(all, code, replace)?, replace }
            }
            LibraryRequest::Delete(name) => {
                // No library has another name.
                Self::Delete(String::from_utf8_lossy(name).into_owned())
            }
            LibraryRequest::Flush => Self::Flush,
            LibraryRequest::Restore { payload, how } => {
                let codes = dump::decode(payload).map_err(|error| error.0)?;
                let codes: Vec<_> = codes.into_iter().map(Vec::into_boxed_slice).collect();
                Self::Restore { libraries: libraries::judge_all(&codes)?, policy: policy(how) }
            }
            LibraryRequest::List { .. } | LibraryRequest::Dump | LibraryRequest::Stats => {
                unreachable!("they change nothing")
            }
        })
    }

    /// What the catalogue is to do, if it is to do anything.
    fn op(&self) -> Option<LibraryOp<'_>> {
        Some(match self {
            Self::Load { library, replace } => {
                LibraryOp::Load { library: library.clone(), replace: *replace }
            }
            Self::Delete(name) => LibraryOp::Delete { name },
            Self::Flush => LibraryOp::Flush,
            Self::Restore { libraries, policy } => {
                LibraryOp::Restore { policy: *policy, libraries: libraries.clone() }
            }
            Self::FlushScripts { .. } => LibraryOp::FlushScripts,
            Self::Kill { .. } => return None,
        })
    }

    /// Makes it; `done` gets its reply.
    fn make(
        self,
        runtime: &Arc<NodeRuntime>,
        mode: Mode,
        version: Version,
        done: impl FnOnce(Vec<u8>) + Send + 'static,
    ) {
        let loaded = match &self {
            Self::Load { library, .. } => Some(library.name.clone()),
            _ => None,
        };
        let done = move |result: Result<(), String>| {
            let mut bytes = Vec::new();
            let mut writer = RespWriter::new(&mut bytes, version);
            match (result, loaded) {
                (Err(text), _) => writer.error(&text),
                (Ok(()), Some(name)) => writer.bulk(name.as_bytes()),
                (Ok(()), None) => writer.ok(),
            }
            done(bytes);
        };
        match self {
            Self::FlushScripts { then } => {
                let again = runtime.clone();
                libraries::flush_scripts(runtime, move |result| {
                    then.iter().for_each(|script| again.scripts.cache.put(script));
                    done(result);
                });
            }
            Self::Kill { functions } => kill(runtime, functions, done),
            change => {
                let op = change.op().expect("all others are the catalogue's");
                libraries::change(runtime, mode, op, done);
            }
        }
    }
}

/// What a word of RESTORE means to the catalogue.
pub fn policy(how: Restore) -> RestorePolicy {
    match how {
        Restore::Append => RestorePolicy::Append,
        Restore::Replace => RestorePolicy::Replace,
        Restore::Flush => RestorePolicy::Flush,
    }
}

/// Stops all scripts that run on linked nodes, or functions.
pub fn kill(
    runtime: &Arc<NodeRuntime>,
    functions: bool,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) {
    let is_killed = runtime.scripts.kill(functions);
    kill_elsewhere(runtime, functions, move |elsewhere| {
        done((is_killed || elsewhere).then_some(()).ok_or_else(|| NOT_BUSY.into()));
    });
}

/// The scripts and libraries as the commands of one EXEC see them.
#[derive(Default)]
pub struct Draft {
    /// The libraries, if a command has changed them.
    libraries: Option<Arc<Known>>,
    /// The scripts whose source commands have had, since one of them has flushed all.
    scripts: BTreeMap<Sha1Hex, Arc<Script>>,
    /// Whether one has.
    has_flushed_scripts: bool,
}

impl Draft {
    fn known(&self, scripts: &Scripts) -> Arc<Known> {
        self.libraries.clone().unwrap_or_else(|| scripts.libraries.known())
    }

    /// The libraries.
    pub fn libraries(&self, scripts: &Scripts) -> Arc<Libraries> {
        self.known(scripts).libraries()
    }

    /// Whether there are libraries that the catalogue may not have.
    pub fn has_changed_libraries(&self) -> bool {
        self.libraries.is_some()
    }

    /// The script of this SHA1.
    pub fn script(&self, scripts: &Scripts, sha: &Sha1Hex) -> Option<Arc<Script>> {
        let own = self.scripts.get(sha).cloned();
        own.or_else(|| scripts.cache.get(sha).filter(|_| !self.has_flushed_scripts))
    }

    /// A script is remembered: by this node when the transaction is done.
    pub fn remember(&mut self, script: &Arc<Script>) {
        self.scripts.insert(script.sha, script.clone());
    }

    /// Whether there is a function of this name.
    pub fn has_function(&self, scripts: &Scripts, name: &[u8]) -> bool {
        self.known(scripts).find(name).is_some()
    }

    /// What a call names.
    ///
    /// # Errors
    /// The reply.
    pub fn find(&self, scripts: &Scripts, name: ScriptName<'_>) -> Result<Program, String> {
        match name {
            ScriptName::Function(name) => {
                self.known(scripts).find(name).ok_or_else(|| NO_FUNCTION.into())
            }
            ScriptName::Source(source) => match scripts.cache.of(source) {
                Ok(script) => Ok(Program::Script(script)),
                Err(NoScript::Malformed(text)) => Err(text),
                Err(NoScript::Unknown(_)) => unreachable!("its source is known"),
            },
            ScriptName::Sha(sha) => {
                let found = Sha1Hex::parse(sha).and_then(|sha| self.script(scripts, &sha));
                found.map(Program::Script).ok_or_else(|| NO_SCRIPT.into())
            }
        }
    }

    /// Makes a change here, as far as it can be made. What the catalogue will say of it is known
    /// only later.
    pub fn change(&mut self, scripts: &Scripts, change: &Change) {
        match change {
            Change::FlushScripts { .. } => {
                self.scripts.clear();
                self.has_flushed_scripts = true;
            }
            Change::Kill { .. } => {}
            change => {
                let known = self.known(scripts);
                let op = change.op().expect("all others are the catalogue's");
                if let Ok(changed) = known.libraries().changed(&op) {
                    self.libraries = Some(Arc::new(known.followed_by(changed)));
                }
            }
        }
    }

    /// The EXEC has ended: the scripts that were remembered come with its reply, or behind the last
    /// flush of scripts.
    pub fn end(self, reply: &mut JobReply, gaps: &mut Gaps) {
        let known = self.scripts.into_values().collect();
        if !self.has_flushed_scripts {
            reply.scripts = known;
            return;
        }
        for gap in gaps.all.iter_mut().rev() {
            if let Filling::Change(change) = &mut gap.filling
                && let Change::FlushScripts { then } = &mut **change
            {
                *then = known;
                return;
            }
        }
    }
}

impl ScriptHost<'_> {
    /// What a command on libraries changes, if that can be.
    pub(super) fn change<'q>(
        &mut self,
        asked: &LibraryRequest<'_>,
        version: Version,
        draft: &Draft,
        reply: &mut Vec<u8>,
    ) -> Queued<'q> {
        // A library's code runs to show what is in it.
        if !self.ground.is_long {
            self.halt = Some(Halt::TakesLong);
            return Queued::Done;
        }
        match Change::of(asked, &draft.libraries(&self.runtime.scripts)) {
            Ok(change) => Queued::Change(Box::new(change)),
            Err(text) => {
                RespWriter::new(reply, version).error(&text);
                Queued::Done
            }
        }
    }
}

/// Why an EXEC with so many changes is refused, if it is.
pub fn refusal(queue: &Queue) -> Option<String> {
    let count = queue.commands().filter(|args| changes_scripts(*args)).count();
    (count > CHANGES_MAX).then(|| {
        format!(
            "EXECABORT a transaction changes libraries and scripts at most {CHANGES_MAX} times; \
             nothing was done. Send several"
        )
    })
}

/// Whether an EXEC needs to know the libraries as they are now: it changes them, or calls a
/// function that is not known here.
pub fn needs_news(runtime: &NodeRuntime, queue: &Queue) -> bool {
    let is_unknown = |name| runtime.scripts.libraries.find(name).is_none();
    queue.commands().any(|args| {
        changes_scripts(args)
            || runtime.peers.is_some() && called_function(args).is_some_and(is_unknown)
    })
}

/// Scripts that an EXEC calls by their SHA1 and this node does not know: the first of them.
pub fn unknown_scripts(runtime: &NodeRuntime, queue: &Queue) -> Vec<Sha1Hex> {
    if runtime.peers.is_none() {
        return Vec::new();
    }
    let called = queue.commands().filter_map(called_script).filter_map(Sha1Hex::parse);
    let unknown: BTreeSet<_> =
        called.filter(|sha| runtime.scripts.cache.get(sha).is_none()).collect();
    unknown.into_iter().take(UNKNOWN_MAX).collect()
}

/// Has an EXEC run when other members were asked for these scripts, and with the catalogue's news
/// if it needs them.
pub fn push_with_scripts(
    runtime: &Arc<NodeRuntime>,
    unknown: Vec<Sha1Hex>,
    needs_news: bool,
    job: Job,
) {
    let again = runtime.clone();
    fetch_all(runtime, unknown, move |_| match needs_news {
        true => push_with_news(&again, job),
        false => again.scripts.push(job),
    });
}

/// Has an EXEC run when this node knows all that the catalogue has now.
pub fn push_with_news(runtime: &Arc<NodeRuntime>, job: Job) {
    let again = runtime.clone();
    let callback = move |answer| match answer {
        Answer::NotDone { why, .. } => {
            job.refuse(&again, not_changed_text(not_followed(why)));
        }
        _ => again.scripts.push(job),
    };
    follow(runtime, Box::new(callback));
}

/// Makes the changes of an EXEC whose keys are committed, one behind the other; `done` gets the
/// reply with theirs.
pub fn make_all(
    runtime: &Arc<NodeRuntime>,
    mode: Mode,
    version: Version,
    mut reply: JobReply,
    done: Box<dyn FnOnce(JobReply) + Send>,
) {
    let gaps = reply.gaps.iter_mut().flat_map(|gaps| &mut gaps.all);
    let next = gaps.enumerate().find_map(|(number, gap)| match &gap.filling {
        Filling::Change(_) => Some((number, gap)),
        Filling::Reply(_) | Filling::Connection(_) => None,
    });
    let Some((number, gap)) = next else { return done(reply) };
    let filling = std::mem::replace(&mut gap.filling, Filling::Reply(Vec::new()));
    let Filling::Change(change) = filling else { unreachable!("it was looked for") };
    let again = runtime.clone();
    change.make(runtime, mode, version, move |bytes| {
        if let Some(gaps) = &mut reply.gaps {
            gaps.all[number].filling = Filling::Reply(bytes);
        }
        // Not from here: some are answered at once, and each would lie upon the stack.
        let runtime = again.clone();
        again.scripts.call(Box::new(move || make_all(&runtime, mode, version, reply, done)));
    });
}
