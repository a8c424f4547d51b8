//! The world that scripts see: Redis's globals, which no script can change.
//!
//! Plain Lua 5.1 has no read-only tables. A table that scripts share is hidden behind a *proxy*:
//! an empty table whose metatable leads reads to the real table and refuses writes. `next`,
//! `pairs`, `rawget` and the others of [`base`](crate::base) look through proxies, so that scripts
//! see the real table's contents.
//!
//! Scripts and libraries have globals of their own: a script's have `KEYS` and `ARGV`; a library's
//! are `redis` alone while it is loaded, and all when its functions run.

use std::ffi::c_int;

use mlua::ffi;

use crate::context::of;
use crate::stack::{
    absolute, fail, get, get_registered, key, lua_State, push, set, set_function, set_number,
    set_registered, set_text,
};
use crate::{
    base, bit, cjson, cmsgpack, coroutine, errors, maths, redis, strings, structs, tables,
};

/// What a proxy's metatable has the real table under.
static REAL: u8 = 1;
/// Globals of scripts and of libraries, as proxies.
pub(crate) static SCRIPT: u8 = 2;
/// See [`SCRIPT`].
pub(crate) static FUNCTION: u8 = 3;
/// Where a script's `KEYS` and `ARGV` are set.
pub(crate) static SCRIPT_REAL: u8 = 4;
/// What a library's globals lead to while it is loaded.
static LOADING_REAL: u8 = 5;
/// What they lead to when its functions run.
static FUNCTION_REAL: u8 = 11;

const READ_ONLY: &std::ffi::CStr = c"Attempt to modify a readonly table";

unsafe extern "C-unwind" fn refuse_write(l: *mut lua_State) -> c_int {
    unsafe { fail(l, READ_ONLY) }
}

/// Raises the error of a write to a table that is read-only.
pub(crate) unsafe fn refuse(l: *mut lua_State) -> ! {
    unsafe {
        push(l, READ_ONLY.to_bytes());
        ffi::lua_error(l);
    }
}

unsafe extern "C-unwind" fn no_such_global(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::luaL_error(
            l,
            c"Script attempted to access nonexistent global variable '%s'".as_ptr(),
            ffi::lua_tolstring(l, 2, std::ptr::null_mut()),
        )
    }
}

/// Replaces the table on top by a proxy for it.
pub(crate) unsafe fn make_proxy(l: *mut lua_State) {
    unsafe {
        ffi::lua_createtable(l, 0, 0);
        ffi::lua_createtable(l, 0, 3);
        ffi::lua_pushvalue(l, -3);
        set(l, -2, "__index");
        set_function(l, -1, "__newindex", refuse_write);
        ffi::lua_pushlightuserdata(l, key(&REAL));
        ffi::lua_pushvalue(l, -4);
        ffi::lua_rawset(l, -3);
        ffi::lua_setmetatable(l, -2);
        ffi::lua_remove(l, -2);
    }
}

/// Pushes the real table if a proxy stands at `index`; else pushes nothing.
pub(crate) unsafe fn push_real(l: *mut lua_State, index: c_int) -> bool {
    unsafe {
        if ffi::lua_type(l, index) != ffi::LUA_TTABLE || ffi::lua_getmetatable(l, index) == 0 {
            return false;
        }
        ffi::lua_pushlightuserdata(l, key(&REAL));
        ffi::lua_rawget(l, -2);
        if ffi::lua_type(l, -1) == ffi::LUA_TTABLE {
            ffi::lua_remove(l, -2);
            return true;
        }
        ffi::lua_settop(l, -3);
        false
    }
}

/// Replaces a proxy at `index` by its real table.
pub(crate) unsafe fn look_through(l: *mut lua_State, index: c_int) {
    unsafe {
        if push_real(l, index) {
            ffi::lua_replace(l, index);
        }
    }
}

/// Refuses to change a proxy at `index`.
pub(crate) unsafe fn check_writable(l: *mut lua_State, index: c_int) {
    unsafe {
        if push_real(l, index) {
            refuse(l);
        }
    }
}

/// Builds everything in a fresh state; a C function, so that it runs protected.
pub(crate) unsafe extern "C-unwind" fn build(l: *mut lua_State) -> c_int {
    unsafe {
        for open in [ffi::luaopen_base, ffi::luaopen_table, ffi::luaopen_string, ffi::luaopen_math]
        {
            ffi::lua_pushcclosure(l, open, 0);
            ffi::lua_call(l, 0, 0);
        }
        ffi::lua_settop(l, 0);
        keep_originals(l);
        ffi::lua_pushvalue(l, ffi::LUA_GLOBALSINDEX);
        let globals = ffi::lua_gettop(l);
        remove_globals(l, globals);
        base::open(l, globals);
        coroutine::open(l, globals);
        open_libraries(l, globals);
        build_globals(l, globals);
        base::make_identities(l);
        redis::make_runner(l);
        0
    }
}

unsafe fn remove_globals(l: *mut lua_State, globals: c_int) {
    unsafe {
        for name in [
            "dofile", "loadfile", "print", "newproxy", "getfenv", "setfenv", "require", "module",
            "package", "io", "os", "debug",
        ] {
            ffi::lua_pushnil(l);
            set(l, globals, name);
        }
    }
}

/// Pushes `_G[library]`, changes it, and puts a proxy in its place.
unsafe fn with_library(
    l: *mut lua_State,
    globals: c_int,
    name: &str,
    change: unsafe fn(*mut lua_State, c_int),
) {
    unsafe {
        get(l, globals, name);
        if ffi::lua_type(l, -1) != ffi::LUA_TTABLE {
            ffi::lua_settop(l, -2);
            ffi::lua_createtable(l, 0, 0);
        }
        let table = ffi::lua_gettop(l);
        change(l, table);
        make_proxy(l);
        set(l, globals, name);
    }
}

unsafe fn open_libraries(l: *mut lua_State, globals: c_int) {
    unsafe {
        with_library(l, globals, "string", strings::open);
        with_library(l, globals, "table", tables::open);
        with_library(l, globals, "math", maths::open);
        with_library(l, globals, "coroutine", |_, _| ());
        with_library(l, globals, "os", |l, table| set_function(l, table, "clock", base::clock));
        with_library(l, globals, "bit", bit::open);
        with_library(l, globals, "struct", structs::open);
        with_library(l, globals, "cjson", cjson::open);
        with_library(l, globals, "cmsgpack", cmsgpack::open);
        // Methods of strings come from the proxy too, and their metatable is out of reach.
        push(l, b"");
        ffi::lua_getmetatable(l, -1);
        get(l, globals, "string");
        set(l, -2, "__index");
        ffi::lua_settop(l, -3);
    }
}

/// Makes the sets of globals from the one that the libraries filled.
unsafe fn build_globals(l: *mut lua_State, globals: c_int) {
    unsafe {
        ffi::lua_createtable(l, 0, 48);
        copy(l, globals, globals + 1);
        set_function(l, globals + 1, "__redis__err__handler", errors::handler);
        finish_globals(l, Some(redis::open_for_scripts), &SCRIPT_REAL);
        make_globals_proxy(l, &SCRIPT);

        ffi::lua_createtable(l, 0, 4);
        finish_globals(l, Some(redis::open_for_loading), &LOADING_REAL);
        ffi::lua_settop(l, globals);

        ffi::lua_createtable(l, 0, 48);
        copy(l, globals, globals + 1);
        finish_globals(l, Some(redis::open_for_functions), &FUNCTION_REAL);
        make_globals_proxy(l, &FUNCTION);
    }
}

/// Gives the real table of globals on top its `redis`, and the error for what it lacks.
unsafe fn finish_globals(
    l: *mut lua_State,
    open_redis: Option<unsafe fn(*mut lua_State, c_int)>,
    place: &'static u8,
) {
    unsafe {
        let real = ffi::lua_gettop(l);
        ffi::lua_createtable(l, 0, 32);
        if let Some(open_redis) = open_redis {
            open_redis(l, real + 1);
        }
        if std::ptr::eq(place, &raw const LOADING_REAL) {
            // Here a field that is missing is as bad as a global that is.
            ffi::lua_createtable(l, 0, 1);
            set_function(l, -1, "__index", no_such_global);
            ffi::lua_setmetatable(l, real + 1);
        }
        make_proxy(l);
        set(l, real, "redis");
        ffi::lua_createtable(l, 0, 1);
        set_function(l, -1, "__index", no_such_global);
        ffi::lua_setmetatable(l, real);
        ffi::lua_pushvalue(l, real);
        set_registered(l, place);
    }
}

/// Replaces the real table of globals on top by nothing, and registers its proxy.
unsafe fn make_globals_proxy(l: *mut lua_State, place: &'static u8) {
    unsafe {
        let real = ffi::lua_gettop(l);
        ffi::lua_pushvalue(l, real);
        make_proxy(l);
        ffi::lua_pushvalue(l, -1);
        set(l, real, "_G");
        set_registered(l, place);
        ffi::lua_settop(l, real - 1);
    }
}

/// Makes a library's globals those of all that is loaded and run from now on: while a library is
/// loaded they lead to `redis` alone.
pub(crate) unsafe fn enter_function_globals(l: *mut lua_State, is_loading: bool) {
    unsafe {
        enter_globals(l, &FUNCTION);
        ffi::lua_getmetatable(l, ffi::LUA_GLOBALSINDEX);
        let real = if is_loading { &LOADING_REAL } else { &FUNCTION_REAL };
        get_registered(l, real);
        ffi::lua_pushvalue(l, -1);
        set(l, -3, "__index");
        ffi::lua_pushlightuserdata(l, key(&REAL));
        ffi::lua_insert(l, -2);
        ffi::lua_rawset(l, -3);
        ffi::lua_settop(l, -2);
    }
}

unsafe fn copy(l: *mut lua_State, from: c_int, to: c_int) {
    unsafe {
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, from) != 0 {
            ffi::lua_pushvalue(l, -2);
            ffi::lua_insert(l, -2);
            ffi::lua_rawset(l, to);
        }
    }
}

/// Makes one of the two proxies the globals of all that is loaded and run from now on.
pub(crate) unsafe fn enter_globals(l: *mut lua_State, place: &'static u8) {
    unsafe {
        get_registered(l, place);
        ffi::lua_replace(l, ffi::LUA_GLOBALSINDEX);
    }
}

unsafe fn keep_originals(l: *mut lua_State) {
    unsafe {
        let find = |library: Option<&str>, name: &str| {
            match library {
                None => ffi::lua_pushvalue(l, ffi::LUA_GLOBALSINDEX),
                Some(library) => get(l, ffi::LUA_GLOBALSINDEX, library),
            }
            let table = absolute(l, -1);
            get(l, table, name);
            let function = ffi::lua_tocfunction(l, -1);
            ffi::lua_settop(l, table - 1);
            function
        };
        of(l).originals = crate::context::Originals {
            next: find(None, "next"),
            rawget: find(None, "rawget"),
            rawset: find(None, "rawset"),
            setmetatable: find(None, "setmetatable"),
            resume: find(Some("coroutine"), "resume"),
            create: find(Some("coroutine"), "create"),
            insert: find(Some("table"), "insert"),
        };
    }
}

/// The constants that both kinds of `redis` have.
pub(crate) unsafe fn set_constants(l: *mut lua_State, table: c_int, all: &[(&str, f64)]) {
    unsafe {
        for (name, number) in all {
            set_number(l, table, name, *number);
        }
        set_text(l, table, "REDIS_VERSION", crate::REDIS_VERSION);
    }
}
