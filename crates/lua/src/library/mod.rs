//! Libraries: texts that register functions when they are loaded.
//!
//! While it is loaded, a library sees `redis` alone, with which it registers; its functions see
//! everything when they run. All libraries share one state but no globals.

pub mod dump;
mod lzf;

use std::collections::BTreeMap;
use std::ffi::c_int;

use mlua::ffi;

use crate::context::{Stop, of};
use crate::errors::{self, raise};
use crate::sandbox;
use crate::script_flags::{ScriptFlags, split_words};
use crate::stack::{bytes, get, lua_State, text};

const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and \
                        must be at least one character long";

/// What a library's first line and registrations say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    /// Its name.
    pub name: String,
    /// Always `LUA`.
    pub engine: String,
    /// Its functions, by name.
    pub functions: Vec<Function>,
}

/// One function of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it says about itself.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: ScriptFlags,
}

/// Why a library could not be loaded: the error reply, with its code and without the dash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryError(pub String);

impl LibraryError {
    fn new(message: &str) -> Self {
        Self(format!("ERR {message}").replace(['\r', '\n'], " "))
    }

    /// The library ran into a limit.
    pub(crate) fn stopped(stop: Stop) -> Self {
        let what = match stop {
            Stop::Limit(crate::Stopped::Memory) => "FUNCTION LOAD needs too much memory",
            _ => "FUNCTION LOAD timeout",
        };
        Self::new(&format!("Error registering functions: ERR {what}"))
    }
}

/// A loaded library.
pub(crate) struct Loaded {
    pub(crate) source: Box<[u8]>,
    /// Functions by name, if the present state has loaded the library.
    pub(crate) references: Option<BTreeMap<Vec<u8>, c_int>>,
}

/// What a library has registered so far.
#[derive(Default)]
pub(crate) struct Loading {
    functions: Vec<Function>,
    references: BTreeMap<Vec<u8>, c_int>,
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Reads the first line, `#!lua name=…`.
pub(crate) fn parse_metadata(source: &[u8]) -> Result<Library, LibraryError> {
    if !source.starts_with(b"#!") {
        return Err(LibraryError::new("Missing library metadata"));
    }
    let end = memchr::memchr(b'\n', source);
    let end = end.ok_or_else(|| LibraryError::new("Invalid library metadata"))?;
    let words = split_words(&source[..end]).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| LibraryError::new("Invalid library metadata"))?;
    let mut name: Option<&[u8]> = None;
    for word in &words[1..] {
        let is_name = word.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"name="));
        if !is_name {
            let word = String::from_utf8_lossy(word);
            return Err(LibraryError::new(&format!("Invalid metadata value given: {word}")));
        }
        if name.is_some() {
            return Err(LibraryError::new(
                "Invalid metadata value, name argument was given multiple times",
            ));
        }
        name = Some(&word[5..]);
    }
    let name = name.ok_or_else(|| LibraryError::new("Library name was not given"))?;
    if !is_name(name) {
        return Err(LibraryError::new(BAD_NAME));
    }
    let engine = &words[0][2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        let engine = String::from_utf8_lossy(engine);
        return Err(LibraryError::new(&format!("Engine '{engine}' not found")));
    }
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(Library { name, engine: "LUA".to_owned(), functions: Vec::new() })
}

/// The name in a library's first line, if that is right.
pub fn name_of(source: &[u8]) -> Option<String> {
    parse_metadata(source).ok().map(|library| library.name)
}

/// What a library has registered: its functions, and where the registry has them.
pub(crate) type Registered = (Vec<Function>, BTreeMap<Vec<u8>, c_int>);

/// A library's text without its first line, and whether it could be compiled.
struct Job<'a> {
    body: &'a [u8],
    is_compiled: bool,
}

/// Compiles and runs a library's text, which registers its functions.
pub(crate) fn load(l: *mut lua_State, source: &[u8]) -> Result<Registered, LibraryError> {
    let end = memchr::memchr(b'\n', source).unwrap_or(source.len());
    let mut job = Job { body: &source[end..], is_compiled: false };
    let address: *mut Job<'_> = &mut job;
    // SAFETY: the push of a function without upvalues is the only unprotected allocation, and no
    // limit refuses it: it is smaller than any block that fails.
    let status = unsafe {
        of(l).loading = Some(Loading::default());
        ffi::lua_settop(l, 0);
        ffi::lua_pushcclosure(l, errors::handler, 0);
        ffi::lua_pushcclosure(l, run, 0);
        ffi::lua_pushlightuserdata(l, address.cast());
        ffi::lua_pcall(l, 1, 0, 1)
    };
    // SAFETY: nothing runs; the error is on top.
    let (loading, is_stopped, error) = unsafe {
        let loading = of(l).loading.take().unwrap_or_default();
        let is_stopped = of(l).stop.is_some();
        let error = (status != 0 && !is_stopped).then(|| message(l));
        ffi::lua_settop(l, 0);
        sandbox::enter_function_globals(l, false);
        (loading, is_stopped, error)
    };
    if let Some(error) = error {
        let what = if job.is_compiled { "registering functions" } else { "compiling function" };
        return Err(release(l, loading, &format!("Error {what}: {error}")));
    }
    if is_stopped {
        return Err(release(l, loading, ""));
    }
    if loading.functions.is_empty() {
        return Err(LibraryError::new("No functions registered"));
    }
    Ok((loading.functions, loading.references))
}

fn release(l: *mut lua_State, loading: Loading, error: &str) -> LibraryError {
    for reference in loading.references.into_values() {
        // SAFETY: the reference is the registry's; freeing it allocates nothing.
        unsafe { ffi::luaL_unref(l, ffi::LUA_REGISTRYINDEX, reference) };
    }
    LibraryError::new(error)
}

/// The text of the error on top.
unsafe fn message(l: *mut lua_State) -> String {
    unsafe {
        if ffi::lua_type(l, -1) == ffi::LUA_TTABLE {
            get(l, -1, "err");
        }
        let message = bytes(l, -1).unwrap_or(b"unknown error");
        String::from_utf8_lossy(message).into_owned()
    }
}

unsafe extern "C-unwind" fn run(l: *mut lua_State) -> c_int {
    unsafe {
        let job = &mut *ffi::lua_touserdata(l, 1).cast::<Job<'_>>();
        sandbox::enter_function_globals(l, true);
        if crate::base::compile(l, job.body, c"@user_function") != 0 {
            // A table, so that the handler leaves the text as it is.
            ffi::lua_createtable(l, 0, 1);
            ffi::lua_insert(l, -2);
            crate::stack::set(l, -2, "err");
            ffi::lua_error(l);
        }
        job.is_compiled = true;
        ffi::lua_call(l, 0, 0);
        0
    }
}

/// What one call of `register_function` says; all of it stands on Lua's stack.
#[derive(Default)]
struct Arguments {
    name: Option<&'static [u8]>,
    description: Option<&'static [u8]>,
    callback: Option<c_int>,
    flags: ScriptFlags,
}

pub(crate) unsafe extern "C-unwind" fn register_function(l: *mut lua_State) -> c_int {
    unsafe {
        let count = ffi::lua_gettop(l);
        if !(1..=2).contains(&count) {
            raise(l, "wrong number of arguments to redis.register_function");
        }
        if of(l).loading.is_none() {
            raise(l, "redis.register_function can only be called on FUNCTION LOAD command");
        }
        let arguments = if count == 1 { named(l) } else { positional(l) };
        let name = arguments.name.unwrap_or_default();
        let Some(callback) = arguments.callback else {
            raise(l, "redis.register_function must get a callback argument")
        };
        if !is_name(name) {
            raise(l, BAD_NAME);
        }
        let is_known = |loading: &Loading| loading.references.contains_key(name);
        if of(l).loading.as_ref().is_some_and(is_known) {
            raise(l, "Function already exists in the library");
        }
        ffi::lua_pushvalue(l, callback);
        let reference = ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
        if let Some(loading) = &mut of(l).loading {
            loading.references.insert(name.to_vec(), reference);
            loading.functions.push(Function {
                name: String::from_utf8_lossy(name).into_owned(),
                description: arguments.description.map(<[u8]>::to_vec),
                flags: arguments.flags,
            });
        }
        0
    }
}

unsafe fn positional(l: *mut lua_State) -> Arguments {
    unsafe {
        if ffi::lua_isstring(l, 1) == 0 {
            raise(l, "first argument to redis.register_function must be a string");
        }
        if ffi::lua_type(l, 2) != ffi::LUA_TFUNCTION {
            raise(l, "second argument to redis.register_function must be a function");
        }
        Arguments { name: Some(text(l, 1)), callback: Some(2), ..Arguments::default() }
    }
}

unsafe fn named(l: *mut lua_State) -> Arguments {
    unsafe {
        if ffi::lua_type(l, 1) != ffi::LUA_TTABLE {
            raise(
                l,
                "calling redis.register_function with a single argument is only applicable to \
                 Lua table (representing named arguments).",
            );
        }
        let mut arguments = Arguments::default();
        // Slots 2 to 4 keep the values alive: name, callback, description.
        ffi::lua_settop(l, 4);
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, 1) != 0 {
            if ffi::lua_isstring(l, 5) == 0 {
                raise(l, "named argument key given to redis.register_function is not a string");
            }
            let key = bytes(l, 5).unwrap_or_default();
            take_named(l, key, &mut arguments);
            ffi::lua_settop(l, 5);
        }
        if arguments.name.is_none() {
            raise(l, "redis.register_function must get a function name argument");
        }
        arguments
    }
}

/// Takes the named argument whose value is on top.
unsafe fn take_named(l: *mut lua_State, key: &[u8], arguments: &mut Arguments) {
    unsafe {
        let is_text = ffi::lua_isstring(l, -1) != 0;
        if key.eq_ignore_ascii_case(b"function_name") {
            if !is_text {
                raise(
                    l,
                    "function_name argument given to redis.register_function must be a string",
                );
            }
            ffi::lua_replace(l, 2);
            arguments.name = Some(text(l, 2));
        } else if key.eq_ignore_ascii_case(b"description") {
            if !is_text {
                raise(l, "description argument given to redis.register_function must be a string");
            }
            ffi::lua_replace(l, 4);
            arguments.description = Some(text(l, 4));
        } else if key.eq_ignore_ascii_case(b"callback") {
            if ffi::lua_type(l, -1) != ffi::LUA_TFUNCTION {
                raise(l, "callback argument given to redis.register_function must be a function");
            }
            ffi::lua_replace(l, 3);
            arguments.callback = Some(3);
        } else if key.eq_ignore_ascii_case(b"flags") {
            take_flags(l, &mut arguments.flags);
        } else {
            raise(l, "unknown argument given to redis.register_function");
        }
    }
}

unsafe fn take_flags(l: *mut lua_State, flags: &mut ScriptFlags) {
    unsafe {
        if ffi::lua_type(l, -1) != ffi::LUA_TTABLE {
            raise(
                l,
                "flags argument to redis.register_function must be a table representing function \
                 flags",
            );
        }
        let list = ffi::lua_gettop(l);
        for index in 1.. {
            ffi::lua_rawgeti(l, list, index);
            if ffi::lua_type(l, -1) == ffi::LUA_TNIL {
                break;
            }
            if !bytes(l, -1).is_some_and(|name| flags.set(name)) {
                raise(l, "unknown flag given");
            }
            ffi::lua_settop(l, list);
        }
    }
}
