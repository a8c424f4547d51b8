//! Libraries of functions (FUNCTION, FCALL): the catalogue has them, and every node a copy.
//!
//! ```text
//!   FUNCTION LOAD ──► a script thread: what is in it? ──► the catalogue ──► every node
//!   FCALL f ──► in the copy here ──► a script thread, which has the library loaded or loads it
//!          └──► not there ──► follow the catalogue as it is now ──► FCALL again, or an error
//! ```
//!
//! A change is answered when this node has it too. Another node has it within moments: one with a
//! replica of the catalogue when that has applied it, any other within about 200 ms. Until then it
//! calls the library as it was. So a new function can be called everywhere at once, for who does
//! not know it looks again; what takes the place of an old one is seen a little later elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use command::NotDone;
use gateway::resp::Mode;
use keyspace::catalogue::{Function, FunctionFlags, Libraries, Library, LibraryOp};
use keyspace::{CatalogueError, CatalogueOp, Feature};
use lua::{Callable, Interpreter, ScriptFlags, Sha1Hex};
use node::executor::{Answer, Origin};
use node::replica::entry::Waiter;
use parking_lot::Mutex;

use super::cache::Program;
use super::peers::ask;
use super::primaries::{self, AskedHere};
use super::threads::Runner;
use crate::event_loop::not_done_text;
use crate::runtime::mailbox::Mail;
use crate::runtime::{NodeRuntime, requests};

const CLUSTER_VERSION_TOO_LOW: &str = "ERR functions need a higher cluster version; nothing was \
                                       done. See `carillon upgrade --check`";

/// A function of a library, as it was when it was called.
#[derive(Clone, Debug)]
pub struct FunctionProgram {
    library: Arc<Library>,
    /// Of the library's code.
    sha: Sha1Hex,
    function: usize,
    /// What it declares.
    pub flags: ScriptFlags,
}

impl FunctionProgram {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.library.functions[self.function].name
    }

    /// The SHA1 of its library's code: what it does, whatever its name.
    pub fn library_sha(&self) -> &Sha1Hex {
        &self.sha
    }
}

/// The libraries that this node knows.
#[derive(Default)]
pub struct LibraryCache {
    all: ArcSwap<Known>,
    looking: Mutex<Looking>,
    pub(super) asked_here: Mutex<AskedHere>,
}

/// Libraries, and what is worked out of them.
#[derive(Default)]
pub struct Known {
    libraries: Arc<Libraries>,
    /// The SHA1 of the code of each, by name.
    shas: BTreeMap<Box<str>, (Arc<Library>, Sha1Hex)>,
}

/// Connections that wait until this node has followed the catalogue.
#[derive(Default)]
struct Looking {
    is_asking: bool,
    /// Those that came before it was asked.
    asked: Vec<(Origin, Waiter)>,
    /// Those that have come since: it must be asked again for them.
    next: Vec<(Origin, Waiter)>,
}

impl LibraryCache {
    /// Control follows the catalogue.
    pub fn store(&self, libraries: Libraries) {
        let before = self.all.load();
        self.asked_here.lock().follow(&before.libraries, &libraries);
        self.all.store(Arc::new(before.followed_by(libraries)));
    }

    /// All of them.
    pub fn all(&self) -> Arc<Libraries> {
        self.all.load().libraries.clone()
    }

    /// What is known now.
    pub(super) fn known(&self) -> Arc<Known> {
        self.all.load_full()
    }

    /// The function of this name.
    pub fn find(&self, name: &[u8]) -> Option<Program> {
        self.all.load().find(name)
    }
}

impl Known {
    /// The same of the libraries that come next.
    pub(super) fn followed_by(&self, libraries: Libraries) -> Self {
        let sha_of = |library: &Arc<Library>| match self.shas.get(&library.name) {
            Some((same, sha)) if Arc::ptr_eq(same, library) => *sha,
            _ => Sha1Hex::of(&library.code),
        };
        let shas = libraries.iter();
        let shas = shas.map(|one| (one.name.clone(), (one.clone(), sha_of(one)))).collect();
        Self { libraries: Arc::new(libraries), shas }
    }

    /// The libraries.
    pub(super) fn libraries(&self) -> Arc<Libraries> {
        self.libraries.clone()
    }

    /// The function of this name.
    pub(super) fn find(&self, name: &[u8]) -> Option<Program> {
        let (library, function) = self.libraries.function(std::str::from_utf8(name).ok()?)?;
        let (_, sha) = self.shas.get(&library.name)?;
        let place = library.functions.iter().position(|other| other.name == function.name)?;
        let (library, sha, flags) = (library.clone(), *sha, script_flags(function.flags));
        Some(Program::Function(FunctionProgram { library, sha, function: place, flags }))
    }
}

/// Has a connection go on when this node knows all libraries that the catalogue has now.
pub fn look_again(runtime: &Arc<NodeRuntime>, origin: Origin, waiter: Waiter) {
    let mut looking = runtime.scripts.libraries.looking.lock();
    looking.next.push((origin, waiter));
    if !looking.is_asking {
        ask_again(runtime, &mut looking);
    }
}

fn ask_again(runtime: &Arc<NodeRuntime>, looking: &mut Looking) {
    looking.is_asking = true;
    looking.asked = std::mem::take(&mut looking.next);
    let again = runtime.clone();
    let callback = move |answer| {
        let mut looking = again.scripts.libraries.looking.lock();
        let asked = std::mem::take(&mut looking.asked);
        looking.is_asking = false;
        if !looking.next.is_empty() {
            ask_again(&again, &mut looking);
        }
        drop(looking);
        for (origin, waiter) in asked {
            let mail = match &answer {
                Answer::NotDone { why, .. } => {
                    let (why, waiters) = (not_followed(*why), vec![waiter]);
                    Answer::NotDone { origin, waiters, why }
                }
                _ => Answer::Retry { origin, waiter },
            };
            // A loop that has ended has no clients left, or has given them up.
            let _is_read = again.delivery.mailboxes[origin.0 as usize].post(Mail::Answer(mail));
        }
    };
    follow(runtime, Box::new(callback));
}

/// Calls when this node knows all that the catalogue has now, or cannot.
pub(super) fn follow(runtime: &NodeRuntime, callback: Box<dyn FnOnce(Answer) + Send>) {
    // It has that version: an entry that changes nothing, answered when this node has applied it.
    let op = CatalogueOp::RaiseVersion { to: runtime.version.current() };
    requests::change_catalogue(runtime, &op, Some(callback));
}

/// Nothing was to be done but to look.
pub(super) fn not_followed(why: NotDone) -> NotDone {
    match why {
        NotDone::DiskFull => NotDone::DiskFull,
        _ => NotDone::NotLeader,
    }
}

/// Why the catalogue has not changed its libraries.
pub fn not_changed_text(why: NotDone) -> &'static str {
    match why {
        NotDone::DiskFull => not_done_text(why),
        NotDone::OutcomeUnknown => {
            "UNKNOWN the leader of the catalogue has not answered; the libraries may have been \
             changed, or may still be. Look with FUNCTION LIST before you send it again"
        }
        _ => {
            "TRYAGAIN no node has answered as the leader of the catalogue; nothing was done. Send \
             it again"
        }
    }
}

/// Why the libraries were not changed.
pub(super) struct NotChanged {
    /// What the catalogue says, if it was asked.
    pub error: Option<CatalogueError>,
    pub text: String,
}

impl From<String> for NotChanged {
    fn from(text: String) -> Self {
        Self { error: None, text }
    }
}

/// Changes the libraries; `done` gets the error's text, if they were not changed.
pub fn change(
    runtime: &Arc<NodeRuntime>,
    mode: Mode,
    op: LibraryOp<'_>,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) {
    match mode {
        Mode::Any => propose(runtime, op, |result| done(result.map_err(|why| why.text))),
        Mode::Cluster => primaries::change(runtime, op, done),
    }
}

pub(super) fn propose(
    runtime: &NodeRuntime,
    op: LibraryOp<'_>,
    done: impl FnOnce(Result<(), NotChanged>) + Send + 'static,
) {
    if !runtime.version.allows(Feature::Functions) {
        return done(Err(CLUSTER_VERSION_TOO_LOW.to_owned().into()));
    }
    let restores = matches!(op, LibraryOp::Restore { .. });
    let op = CatalogueOp::Library(op);
    if let Err(error) = op.check_proposal() {
        return done(Err(format!("ERR {error}").into()));
    }
    let callback = move |answer| match answer {
        Answer::Catalogue { result: Ok(_), .. } => done(Ok(())),
        Answer::Catalogue { result: Err(error), .. } => {
            let text = match &error {
                // Redis has a text of its own for each.
                CatalogueError::LibraryExists { name } if restores => {
                    format!("ERR Library {name} already exists")
                }
                error => format!("ERR {error}"),
            };
            done(Err(NotChanged { error: Some(error), text }));
        }
        Answer::NotDone { why, .. } => done(Err(not_changed_text(why).to_owned().into())),
        other => unreachable!("a catalogue operation is answered by the catalogue: {other:?}"),
    };
    requests::change_catalogue(runtime, &op, Some(Box::new(callback)));
}

/// What a library's code registers, in an interpreter of its own.
///
/// # Errors
/// Redis's.
fn judge(code: &[u8]) -> Result<Library, String> {
    let loaded = Interpreter::new().load_library(code).map_err(|error| error.0)?;
    let mut functions: Vec<Function> = loaded.functions.into_iter().map(function).collect();
    functions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Library { name: loaded.name.into(), code: code.into(), functions })
}

/// The same of a library to be loaded beside these. As in Redis, that one of its name is there
/// comes before what is wrong with its code.
///
/// # Errors
/// Redis's.
pub fn judge_beside(all: &Libraries, code: &[u8], replace: bool) -> Result<Library, String> {
    judge(code).map_err(|wrong| match lua::library::name_of(code) {
        Some(name) if !replace && all.get(&name).is_some() => {
            format!("ERR {}", CatalogueError::LibraryExists { name: name.into() })
        }
        _ => wrong,
    })
}

/// The same of several; by rising name.
///
/// # Errors
/// Redis's, also if two have the same name.
pub fn judge_all(codes: &[Box<[u8]>]) -> Result<Vec<Library>, String> {
    let mut libraries = codes.iter().map(|code| judge(code)).collect::<Result<Vec<_>, _>>()?;
    libraries.sort_by(|a, b| a.name.cmp(&b.name));
    match libraries.array_windows().find(|[a, b]| a.name == b.name) {
        Some([twice, _]) => Err(format!("ERR Library '{}' already exists", twice.name)),
        None => Ok(libraries),
    }
}

/// Raises the script epoch, and has those members that can be reached forget their scripts.
pub fn flush_scripts(
    runtime: &Arc<NodeRuntime>,
    done: impl FnOnce(Result<(), String>) + Send + 'static,
) {
    if !runtime.version.allows(Feature::Functions) {
        runtime.scripts.cache.clear();
        return done(Ok(()));
    }
    let again = runtime.clone();
    change(runtime, Mode::Any, LibraryOp::FlushScripts, move |result| match result {
        Err(text) => done(Err(text)),
        Ok(()) => ask(&again, &[], false, |_| done(Ok(()))),
    });
}

fn function(function: lua::Function) -> Function {
    let lua::Function { name, description, flags } = function;
    let pairs = FLAGS.into_iter().filter(|(_, is_set, _)| is_set(&flags));
    let flags = pairs.fold(FunctionFlags::default(), |all, (flag, _, _)| all.with(flag));
    Function { name: name.into(), flags, description: description.map(Vec::into_boxed_slice) }
}

type FlagRow = (FunctionFlags, fn(&ScriptFlags) -> bool, &'static str);

/// The flags of functions in the catalogue and in the interpreter, and their names.
const FLAGS: [FlagRow; 5] = [
    (FunctionFlags::NO_WRITES, |flags| flags.no_writes, "no-writes"),
    (FunctionFlags::ALLOW_OOM, |flags| flags.allow_oom, "allow-oom"),
    (FunctionFlags::ALLOW_STALE, |flags| flags.allow_stale, "allow-stale"),
    (FunctionFlags::NO_CLUSTER, |flags| flags.no_cluster, "no-cluster"),
    (
        FunctionFlags::ALLOW_CROSS_SLOT_KEYS,
        |flags| flags.allow_cross_slot_keys,
        "allow-cross-slot-keys",
    ),
];

/// The names of these flags.
pub fn flag_names(flags: FunctionFlags) -> Vec<&'static str> {
    FLAGS.iter().filter(|(flag, _, _)| flags.has(*flag)).map(|(_, _, name)| *name).collect()
}

/// A function is judged as a script whose first line has flags.
fn script_flags(flags: FunctionFlags) -> ScriptFlags {
    ScriptFlags {
        has_shebang: true,
        no_writes: flags.has(FunctionFlags::NO_WRITES),
        allow_oom: flags.has(FunctionFlags::ALLOW_OOM),
        allow_stale: flags.has(FunctionFlags::ALLOW_STALE),
        no_cluster: flags.has(FunctionFlags::NO_CLUSTER),
        allow_cross_slot_keys: flags.has(FunctionFlags::ALLOW_CROSS_SLOT_KEYS),
    }
}

/// The libraries that a script thread's interpreter has loaded.
#[derive(Default)]
pub(super) struct LoadedLibraries {
    by_name: BTreeMap<Box<str>, Arc<Library>>,
    /// What there was when those that are gone were last looked for.
    seen: Arc<Libraries>,
}

impl Runner {
    /// Has the interpreter know a function; what it runs then.
    ///
    /// # Errors
    /// Redis's.
    pub(super) fn load_function<'a>(
        &mut self,
        program: &'a FunctionProgram,
    ) -> Result<Callable<'a>, String> {
        let library = &program.library;
        let loaded = self.libraries.by_name.get(&library.name);
        if loaded.is_none_or(|loaded| !Arc::ptr_eq(loaded, library)) {
            self.forget_libraries();
            self.interpreter.load_library(&library.code).map_err(|error| error.0)?;
            self.libraries.by_name.insert(library.name.clone(), library.clone());
        }
        Ok(Callable::Function { library: library.name.as_bytes(), name: program.name().as_bytes() })
    }

    /// An EXEC has used libraries that the catalogue may never have: those go with the next load.
    pub(super) fn has_used_draft(&mut self) {
        self.libraries.seen = Arc::default();
    }

    /// Unloads libraries that were deleted.
    fn forget_libraries(&mut self) {
        let all = self.runtime.scripts.libraries.all();
        if Arc::ptr_eq(&self.libraries.seen, &all) {
            return;
        }
        let interpreter = &mut self.interpreter;
        self.libraries.by_name.retain(|name, _| {
            let is_there = all.get(name).is_some();
            if !is_there {
                interpreter.unload_library(name.as_bytes());
            }
            is_there
        });
        self.libraries.seen = all;
    }
}
