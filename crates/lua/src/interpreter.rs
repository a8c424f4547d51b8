//! Compiled scripts and libraries, and the Lua state that they run in.
//!
//! Sources are kept beside what was compiled of them: when a script has used up its memory, the
//! state is thrown away, and a fresh one compiles each script when it is next run.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mlua::ffi;

use crate::context::{self, Context, Stop};
use crate::library::{self, Loaded};
use crate::redis::{self, Job};
use crate::sandbox::{self, enter_globals};
use crate::stack::{lua_State, text};
use crate::{
    Callable, CompileError, Host, Library, LibraryError, Limits, Outcome, Run, ScriptFlags,
    Sha1Hex, Stopped,
};

/// What loading a library may use; Redis stops after the same time.
const LOADING: Limits = Limits {
    time: Duration::from_millis(500),
    thread_time: None,
    instructions: 200_000_000,
    memory_bytes: 64 << 20,
};

/// A text and what the present state has compiled of it.
struct Script {
    source: Box<[u8]>,
    reference: Option<c_int>,
}

/// One Lua state with compiled scripts. It lives on one thread.
pub struct Interpreter {
    state: *mut lua_State,
    /// Lua's callbacks change it behind our back: no reference outlives a call of Lua.
    context: *mut Context,
    scripts: BTreeMap<Sha1Hex, Script>,
    libraries: BTreeMap<Vec<u8>, Loaded>,
}

impl Default for Interpreter {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.close();
        // SAFETY: it came from a box, and its only other user, the state, is closed.
        drop(unsafe { Box::from_raw(self.context) });
    }
}

impl Interpreter {
    /// A state that knows no script.
    pub fn new() -> Self {
        let mut interpreter = Self {
            state: std::ptr::null_mut(),
            context: Box::into_raw(Box::new(Context::new())),
            scripts: BTreeMap::new(),
            libraries: BTreeMap::new(),
        };
        interpreter.open();
        interpreter
    }

    fn open(&mut self) {
        // SAFETY: the context is boxed and outlives the state; `build` runs protected.
        unsafe {
            self.state = ffi::lua_newstate(context::allocate, self.context.cast());
            assert!(!self.state.is_null(), "no memory for a Lua state");
            ffi::lua_pushcclosure(self.state, sandbox::build, 0);
            let status = ffi::lua_pcall(self.state, 0, 0, 0);
            assert_eq!(status, 0, "{}", String::from_utf8_lossy(text(self.state, -1)));
        }
    }

    fn context(&mut self) -> &mut Context {
        // SAFETY: it lives as long as the interpreter, and no caller keeps it while Lua runs.
        unsafe { &mut *self.context }
    }

    /// Sets the limits of what runs next. What earlier runs have left counts against none of them.
    fn start(&mut self, limits: &Limits, killed: &AtomicBool) {
        if self.context().used > limits.memory_bytes / 2 {
            // SAFETY: nothing runs, and collecting raises nothing.
            unsafe { ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0) };
        }
        let state = self.state;
        self.context().start(state, limits, killed);
    }

    fn close(&mut self) {
        // SAFETY: nothing runs; no Lua value has a finaliser that is Lua code.
        unsafe { ffi::lua_close(self.state) };
    }

    /// Throws the state away for a fresh one, which has compiled nothing yet.
    fn reopen(&mut self) {
        self.close();
        self.open();
        for script in self.scripts.values_mut() {
            script.reference = None;
        }
        for library in self.libraries.values_mut() {
            library.references = None;
        }
    }

    /// Compiles a script, and keeps it under its SHA-1. The error is Redis's.
    pub fn load(&mut self, source: &[u8]) -> Result<Sha1Hex, CompileError> {
        let sha = Sha1Hex::of(source);
        if self.scripts.get(&sha).is_some_and(|script| script.reference.is_some()) {
            return Ok(sha);
        }
        ScriptFlags::parse(source).map_err(CompileError)?;
        let reference = self.compile(source)?;
        let script = Script { source: source.into(), reference: Some(reference) };
        self.scripts.insert(sha, script);
        Ok(sha)
    }

    /// Does it have this script?
    pub fn has(&self, sha: &Sha1Hex) -> bool {
        self.scripts.contains_key(sha)
    }

    /// The text of a script that it has.
    pub fn source(&self, sha: &Sha1Hex) -> Option<&[u8]> {
        self.scripts.get(sha).map(|script| &*script.source)
    }

    /// Forgets a script.
    pub fn unload(&mut self, sha: &Sha1Hex) {
        if let Some(reference) = self.scripts.remove(sha).and_then(|script| script.reference) {
            self.release(reference);
        }
    }

    /// The flags of a script's first line, with Redis's errors (with their code).
    pub fn flags(source: &[u8]) -> Result<ScriptFlags, String> {
        ScriptFlags::parse(source)
    }

    fn release(&mut self, reference: c_int) {
        // SAFETY: the reference is one of this state's; freeing it allocates nothing.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, reference) };
    }

    /// Compiles a script's text, under limits.
    fn compile(&mut self, source: &[u8]) -> Result<c_int, CompileError> {
        let killed = AtomicBool::new(false);
        let body = script_flags_body(source);
        let mut job = Compile { source: &body, reference: ffi::LUA_NOREF };
        self.start(&LOADING, &killed);
        let address: *mut Compile<'_> = &mut job;
        // SAFETY: `compile_script` runs protected; the job outlives it.
        let status = unsafe {
            ffi::lua_settop(self.state, 0);
            redis::push_compiler(self.state);
            ffi::lua_pushlightuserdata(self.state, address.cast());
            ffi::lua_pcall(self.state, 1, 0, 0)
        };
        self.context().finish();
        if status == 0 {
            return Ok(job.reference);
        }
        let message = if self.context().stop.is_some() {
            "the script is too large".to_owned()
        } else {
            // SAFETY: the error of the protected call is on top.
            String::from_utf8_lossy(unsafe { text(self.state, -1) }).into_owned()
        };
        // SAFETY: nothing runs.
        unsafe { ffi::lua_settop(self.state, 0) };
        if self.context().stop.is_some() {
            self.reopen();
        }
        let message = message.replace(['\r', '\n'], " ");
        Err(CompileError(format!("ERR Error compiling script (new function): {message}")))
    }

    /// Runs a script or function, and appends its reply. Unless the outcome is
    /// [`Outcome::Replied`], `out` stays as it was. Afterwards the interpreter is as good as new.
    pub fn run(&mut self, run: &Run<'_>, host: &mut dyn Host, out: &mut Vec<u8>) -> Outcome {
        let (reference, is_function, name) = match run.what {
            Callable::Script(sha) => match self.reference_of(sha) {
                Some(reference) => (reference, false, &sha.as_bytes()[..]),
                None => return Outcome::Unknown,
            },
            Callable::Function { library, name } => match self.function_of(library, name) {
                Some(reference) => (reference, true, name),
                None => return Outcome::Unknown,
            },
        };
        let job = Job { reference, is_function, name, keys: run.keys, args: run.args };
        self.start(&run.limits, run.killed);
        let context = self.context();
        context.client_resp3 = run.resp3;
        context.is_error = false;
        std::mem::swap(&mut context.out, out);
        let before = context.out.len();
        // SAFETY: the host is lent until `finish`, and nobody else touches it. The runner's push
        // allocates nothing, and what it calls is protected.
        let status = unsafe {
            self.context().lend(host);
            ffi::lua_settop(self.state, 0);
            redis::push_runner(self.state);
            ffi::lua_pushlightuserdata(self.state, std::ptr::from_ref(&job).cast_mut().cast());
            let status = ffi::lua_pcall(self.state, 1, 0, 0);
            ffi::lua_settop(self.state, 0);
            status
        };
        let context = self.context();
        context.finish();
        let outcome = match (context.stop.take(), status) {
            (Some(Stop::Aborted), _) => Outcome::Aborted,
            (Some(Stop::Limit(limit)), _) => Outcome::Stopped(limit),
            (None, 0) => Outcome::Replied { is_error: context.is_error },
            (None, _) => Outcome::Stopped(Stopped::Memory),
        };
        if !matches!(outcome, Outcome::Replied { .. }) {
            context.out.truncate(before);
        }
        std::mem::swap(&mut context.out, out);
        if outcome == Outcome::Stopped(Stopped::Memory) {
            self.reopen();
        }
        outcome
    }

    /// The compiled script; compiles it if the state is younger than the script.
    fn reference_of(&mut self, sha: &Sha1Hex) -> Option<c_int> {
        let script = self.scripts.get(sha)?;
        if script.reference.is_some() {
            return script.reference;
        }
        let source = script.source.clone();
        let reference = self.compile(&source).ok()?;
        self.scripts.get_mut(sha)?.reference = Some(reference);
        Some(reference)
    }

    fn function_of(&mut self, library: &[u8], name: &[u8]) -> Option<c_int> {
        let loaded = self.libraries.get(library)?;
        if loaded.references.is_none() {
            let source = loaded.source.clone();
            self.load_library(&source).ok()?;
        }
        self.libraries.get(library)?.references.as_ref()?.get(name).copied()
    }

    /// Loads a library, in place of one with the same name. The error is Redis's; then the library
    /// that was there before stays.
    pub fn load_library(&mut self, source: &[u8]) -> Result<Library, LibraryError> {
        let killed = AtomicBool::new(false);
        let mut library = library::parse_metadata(source)?;
        self.start(&LOADING, &killed);
        let result = library::load(self.state, source);
        self.context().finish();
        let stopped = self.context().stop.take();
        if stopped == Some(Stop::Limit(Stopped::Memory)) {
            self.reopen();
        }
        if let Some(stopped) = stopped {
            return Err(LibraryError::stopped(stopped));
        }
        let (functions, references) = result?;
        library.functions = functions;
        let name = library.name.clone().into_bytes();
        self.unload_library(&name);
        self.libraries.insert(name, Loaded { source: source.into(), references: Some(references) });
        Ok(library)
    }

    /// Forgets a library.
    pub fn unload_library(&mut self, name: &[u8]) {
        let Some(loaded) = self.libraries.remove(name) else { return };
        for reference in loaded.references.into_iter().flatten().map(|(_, reference)| reference) {
            self.release(reference);
        }
    }
}

/// A script's text, without its first line if that has flags: a blank keeps lines as they were.
fn script_flags_body(source: &[u8]) -> Box<[u8]> {
    if !source.starts_with(b"#!") {
        return source.into();
    }
    let end = memchr::memchr(b'\n', source).unwrap_or(source.len());
    source[end..].into()
}

/// A text to compile, and what came of it.
pub(crate) struct Compile<'a> {
    source: &'a [u8],
    reference: c_int,
}

/// Compiles the text of the [`Compile`] whose address is its only argument.
pub(crate) unsafe extern "C-unwind" fn compile_script(l: *mut lua_State) -> c_int {
    unsafe {
        let job = &mut *ffi::lua_touserdata(l, 1).cast::<Compile<'_>>();
        enter_globals(l, &sandbox::SCRIPT);
        if crate::base::compile(l, job.source, c"@user_script") != 0 {
            ffi::lua_error(l);
        }
        job.reference = ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
        0
    }
}
