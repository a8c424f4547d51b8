//! The basic functions that differ from Lua's own: they look through read-only tables, load no
//! bytecode, tell no addresses, and catch no stopped script.

use std::ffi::c_int;

use mlua::ffi;

use crate::context::{charge, of, rethrow};
use crate::sandbox::{check_writable, look_through, push_real};
use crate::stack::{
    bytes, check_bytes, get, get_registered, lua_State, push, set, set_function, set_registered,
};

/// The weak table of tables, functions and threads that `tostring` has numbered.
static IDENTITIES: u8 = 6;
/// The original `tostring`, `pcall`, `loadstring`: all that needs Lua's own names in errors.
static NEXT: u8 = 7;

pub(crate) unsafe fn open(l: *mut lua_State, globals: c_int) {
    unsafe {
        set_function(l, globals, "next", next);
        ffi::lua_pushcclosure(l, next, 0);
        set_registered(l, &NEXT);
        set_function(l, globals, "pairs", pairs);
        set_function(l, globals, "rawget", rawget);
        set_function(l, globals, "unpack", unpack);
        set_function(l, globals, "rawset", rawset);
        set_function(l, globals, "setmetatable", setmetatable);
        set_function(l, globals, "getmetatable", getmetatable);
        set_function(l, globals, "pcall", pcall);
        set_function(l, globals, "xpcall", xpcall);
        set_function(l, globals, "load", load);
        set_function(l, globals, "loadstring", loadstring);
        set_function(l, globals, "collectgarbage", collectgarbage);
        set_function(l, globals, "tostring", tostring);
    }
}

/// Calls an original function of Lua in this function's own frame.
macro_rules! original {
    ($l:expr, $name:ident) => {
        (of($l).originals.$name.expect("kept when the state was built"))($l)
    };
}
pub(crate) use original;

unsafe extern "C-unwind" fn next(l: *mut lua_State) -> c_int {
    unsafe {
        look_through(l, 1);
        original!(l, next)
    }
}

unsafe extern "C-unwind" fn pairs(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        get_registered(l, &NEXT);
        ffi::lua_pushvalue(l, 1);
        ffi::lua_pushnil(l);
        3
    }
}

/// Lua's own counts in an `int` that overflows, and then writes past its stack.
unsafe extern "C-unwind" fn unpack(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        let first =
            if ffi::lua_type(l, 2) > ffi::LUA_TNIL { ffi::luaL_checknumber(l, 2) } else { 1.0 };
        let last = match ffi::lua_type(l, 3) > ffi::LUA_TNIL {
            true => ffi::luaL_checknumber(l, 3),
            false => ffi::lua_objlen(l, 1) as f64,
        };
        // As the C library's cast does: whole numbers of an `int`.
        let int = |number: f64| i64::from(number as i64 as c_int);
        let (first, last) = (int(first), int(last));
        if first > last {
            return 0;
        }
        let count = last - first + 1;
        if count >= i64::from(c_int::MAX) || ffi::lua_checkstack(l, count as c_int) == 0 {
            return ffi::luaL_error(l, c"too many results to unpack".as_ptr());
        }
        for index in first..=last {
            ffi::lua_rawgeti(l, 1, index as ffi::lua_Integer);
        }
        count as c_int
    }
}

unsafe extern "C-unwind" fn rawget(l: *mut lua_State) -> c_int {
    unsafe {
        look_through(l, 1);
        original!(l, rawget)
    }
}

unsafe extern "C-unwind" fn rawset(l: *mut lua_State) -> c_int {
    unsafe {
        check_writable(l, 1);
        original!(l, rawset)
    }
}

unsafe extern "C-unwind" fn setmetatable(l: *mut lua_State) -> c_int {
    unsafe {
        check_writable(l, 1);
        original!(l, setmetatable)
    }
}

/// The metatable; a read-only one for globals and strings, none for libraries.
unsafe extern "C-unwind" fn getmetatable(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::luaL_checkany(l, 1);
        let is_string = ffi::lua_type(l, 1) == ffi::LUA_TSTRING;
        if push_real(l, 1) {
            if ffi::lua_getmetatable(l, -1) == 0 {
                ffi::lua_pushnil(l);
                return 1;
            }
            crate::sandbox::make_proxy(l);
            return 1;
        }
        if ffi::lua_getmetatable(l, 1) == 0 {
            ffi::lua_pushnil(l);
            return 1;
        }
        get(l, -1, "__metatable");
        if ffi::lua_type(l, -1) != ffi::LUA_TNIL {
            return 1;
        }
        ffi::lua_settop(l, -2);
        if is_string {
            crate::sandbox::make_proxy(l);
        }
        1
    }
}

/// As Redis's own: an error that is a table is returned as its field `err`.
unsafe extern "C-unwind" fn pcall(l: *mut lua_State) -> c_int {
    unsafe {
        rethrow(l);
        if ffi::lua_gettop(l) == 0 {
            // What Redis calls then.
            ffi::lua_pushboolean(l, 1);
        }
        let status = ffi::lua_pcall(l, ffi::lua_gettop(l) - 1, ffi::LUA_MULTRET, 0);
        rethrow(l);
        ffi::luaL_checkstack(l, 2, c"too many results".as_ptr());
        ffi::lua_pushboolean(l, c_int::from(status == 0));
        ffi::lua_insert(l, 1);
        if status != 0 && ffi::lua_type(l, 2) == ffi::LUA_TTABLE {
            ffi::lua_getfield(l, 2, c"err".as_ptr());
            if ffi::lua_isstring(l, -1) != 0 {
                ffi::lua_replace(l, 2);
            }
            ffi::lua_settop(l, 2);
        }
        ffi::lua_gettop(l)
    }
}

/// Lua's own, but that the handler does not run once the script is stopped: within a hook, where
/// stops are raised, no other hook would stop the handler.
unsafe extern "C-unwind" fn xpcall(l: *mut lua_State) -> c_int {
    unsafe {
        rethrow(l);
        ffi::luaL_checkany(l, 2);
        ffi::lua_settop(l, 2);
        ffi::lua_pushcclosure(l, handle, 1);
        ffi::lua_insert(l, 1);
        let status = ffi::lua_pcall(l, 0, ffi::LUA_MULTRET, 1);
        rethrow(l);
        ffi::lua_pushboolean(l, c_int::from(status == 0));
        ffi::lua_replace(l, 1);
        ffi::lua_gettop(l)
    }
}

/// Hands an error to the handler of `xpcall`, its upvalue.
unsafe extern "C-unwind" fn handle(l: *mut lua_State) -> c_int {
    unsafe {
        if of(l).stop.is_none() {
            ffi::lua_pushvalue(l, ffi::lua_upvalueindex(1));
            ffi::lua_insert(l, 1);
            ffi::lua_call(l, 1, 1);
        }
        1
    }
}

/// Text that is handed to the compiler, a piece at a time.
struct Source {
    text: *const u8,
    len: usize,
    at: usize,
    /// A space before the sign of bytecode makes it text.
    needs_space: bool,
}

/// Between two pieces the limits are looked at: compiling runs no hook.
const PIECE: usize = 16 << 10;

unsafe extern "C-unwind" fn read(
    l: *mut lua_State,
    source: *mut std::ffi::c_void,
    len: *mut usize,
) -> *const std::ffi::c_char {
    unsafe {
        let source = &mut *source.cast::<Source>();
        if source.needs_space {
            source.needs_space = false;
            *len = 1;
            return c" ".as_ptr();
        }
        *len = PIECE.min(source.len - source.at);
        if source.at > 0 {
            charge(l, *len as u64);
        }
        let piece = source.text.add(source.at);
        source.at += *len;
        piece.cast()
    }
}

/// Compiles text, never bytecode; pushes the function or an error, and returns Lua's status.
pub(crate) unsafe fn compile(l: *mut lua_State, text: &[u8], name: &std::ffi::CStr) -> c_int {
    unsafe {
        let needs_space = text.first() == Some(&0x1b);
        let mut source = Source { text: text.as_ptr(), len: text.len(), at: 0, needs_space };
        let source: *mut Source = &mut source;
        ffi::lua_load(l, read, source.cast(), name.as_ptr())
    }
}

unsafe extern "C-unwind" fn loadstring(l: *mut lua_State) -> c_int {
    unsafe {
        let text = check_bytes(l, 1);
        charge(l, 100);
        let own = ffi::lua_tolstring(l, 1, std::ptr::null_mut());
        let name = ffi::luaL_optlstring(l, 2, own, std::ptr::null_mut());
        let status = compile(l, text, std::ffi::CStr::from_ptr(name));
        finish_load(l, status)
    }
}

unsafe fn finish_load(l: *mut lua_State, status: c_int) -> c_int {
    unsafe {
        rethrow(l);
        if status == 0 {
            return 1;
        }
        ffi::lua_pushnil(l);
        ffi::lua_insert(l, -2);
        2
    }
}

/// Asks the function at index 1 for the next piece; slot 3 keeps it alive.
unsafe extern "C-unwind" fn read_pieces(
    l: *mut lua_State,
    started: *mut std::ffi::c_void,
    len: *mut usize,
) -> *const std::ffi::c_char {
    unsafe {
        let started = started.cast::<u8>();
        if *started == 1 {
            // The piece that was held back for the space before it.
            *started = 2;
            let piece = bytes(l, 3).unwrap_or_default();
            *len = piece.len();
            return piece.as_ptr().cast();
        }
        ffi::luaL_checkstack(l, 2, c"too many nested functions".as_ptr());
        ffi::lua_pushvalue(l, 1);
        ffi::lua_call(l, 0, 1);
        *len = 0;
        match ffi::lua_type(l, -1) {
            ffi::LUA_TNIL => std::ptr::null(),
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => {
                ffi::lua_replace(l, 3);
                ffi::lua_tolstring(l, 3, std::ptr::null_mut());
                let piece = bytes(l, 3).unwrap_or_default();
                let is_first = *started == 0 && !piece.is_empty();
                if is_first && piece[0] == 0x1b {
                    *started = 1;
                    *len = 1;
                    return c" ".as_ptr();
                }
                *started = 2;
                *len = piece.len();
                piece.as_ptr().cast()
            }
            _ => crate::stack::fail(l, c"reader function must return a string"),
        }
    }
}

unsafe extern "C-unwind" fn load(l: *mut lua_State) -> c_int {
    unsafe {
        let name = ffi::luaL_optlstring(l, 2, c"=(load)".as_ptr(), std::ptr::null_mut());
        ffi::luaL_checktype(l, 1, ffi::LUA_TFUNCTION);
        ffi::lua_settop(l, 3);
        let mut started = 0_u8;
        let started: *mut u8 = &mut started;
        let status = ffi::lua_load(l, read_pieces, started.cast(), name);
        finish_load(l, status)
    }
}

/// As Lua's; a full collection is made in steps, so that it can be stopped.
unsafe extern "C-unwind" fn collectgarbage(l: *mut lua_State) -> c_int {
    unsafe {
        let what = if ffi::lua_gettop(l) == 0 { b"collect" as &[u8] } else { option(l) };
        let argument = integer_argument(l);
        let number = match what {
            b"stop" => ffi::lua_gc(l, ffi::LUA_GCSTOP, argument),
            b"restart" => ffi::lua_gc(l, ffi::LUA_GCRESTART, argument),
            b"count" => {
                let kilobytes = f64::from(ffi::lua_gc(l, ffi::LUA_GCCOUNT, 0));
                let bytes = f64::from(ffi::lua_gc(l, ffi::LUA_GCCOUNTB, 0));
                ffi::lua_pushnumber(l, kilobytes + bytes / 1024.0);
                return 1;
            }
            b"step" => {
                let done = ffi::lua_gc(l, ffi::LUA_GCSTEP, argument);
                charge(l, 1_000);
                ffi::lua_pushboolean(l, done);
                return 1;
            }
            b"setpause" => ffi::lua_gc(l, ffi::LUA_GCSETPAUSE, argument),
            b"setstepmul" => ffi::lua_gc(l, ffi::LUA_GCSETSTEPMUL, argument),
            _ => {
                // Two cycles: one may be half done.
                for _ in 0..2 {
                    while ffi::lua_gc(l, ffi::LUA_GCSTEP, 256) == 0 {
                        charge(l, 2_500);
                    }
                    charge(l, 2_500);
                }
                0
            }
        };
        ffi::lua_pushnumber(l, f64::from(number));
        1
    }
}

unsafe fn option<'a>(l: *mut lua_State) -> &'a [u8] {
    unsafe {
        if ffi::lua_type(l, 1) == ffi::LUA_TNIL {
            return b"collect";
        }
        let what = check_bytes(l, 1);
        let known: [&[u8]; 7] =
            [b"stop", b"restart", b"collect", b"count", b"step", b"setpause", b"setstepmul"];
        if !known.contains(&what) {
            let name = ffi::lua_tolstring(l, 1, std::ptr::null_mut());
            let message = ffi::lua_pushfstring(l, c"invalid option '%s'".as_ptr(), name);
            ffi::luaL_argerror(l, 1, message);
        }
        what
    }
}

unsafe fn integer_argument(l: *mut lua_State) -> c_int {
    unsafe { crate::stack::integer_or(l, 2, 0) as c_int }
}

pub(crate) unsafe extern "C-unwind" fn clock(l: *mut lua_State) -> c_int {
    unsafe {
        let seconds = of(l).started.elapsed().as_secs_f64();
        ffi::lua_pushnumber(l, seconds);
        1
    }
}

/// Makes the table of numbered values anew.
pub(crate) unsafe fn make_identities(l: *mut lua_State) {
    unsafe {
        ffi::lua_createtable(l, 0, 0);
        ffi::lua_createtable(l, 0, 1);
        push(l, b"k");
        set(l, -2, "__mode");
        ffi::lua_setmetatable(l, -2);
        set_registered(l, &IDENTITIES);
    }
}

/// As Lua's, but what has an address is numbered in the order of asking.
unsafe extern "C-unwind" fn tostring(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::luaL_checkany(l, 1);
        if ffi::luaL_callmeta(l, 1, c"__tostring".as_ptr()) != 0 {
            return 1;
        }
        match ffi::lua_type(l, 1) {
            ffi::LUA_TNUMBER => push(l, crate::stack::text(l, 1)),
            ffi::LUA_TSTRING => ffi::lua_pushvalue(l, 1),
            ffi::LUA_TBOOLEAN if ffi::lua_toboolean(l, 1) != 0 => push(l, b"true"),
            ffi::LUA_TBOOLEAN => push(l, b"false"),
            ffi::LUA_TNIL => push(l, b"nil"),
            ffi::LUA_TLIGHTUSERDATA => push(l, b"userdata: (nil)"),
            kind => {
                let number = identity(l);
                let address = number as *const u8;
                let name = ffi::lua_typename(l, kind);
                ffi::lua_pushfstring(l, c"%s: %p".as_ptr(), name, address);
            }
        }
        1
    }
}

/// The number of the value at index 1.
unsafe fn identity(l: *mut lua_State) -> usize {
    unsafe {
        if of(l).ids == 0 {
            make_identities(l);
        }
        get_registered(l, &IDENTITIES);
        ffi::lua_pushvalue(l, 1);
        ffi::lua_rawget(l, -2);
        if ffi::lua_type(l, -1) == ffi::LUA_TNUMBER {
            return ffi::lua_tonumber(l, -1) as usize;
        }
        ffi::lua_settop(l, -2);
        of(l).ids += 1;
        // Looks like an address, so that nobody parses it as less.
        let number = 0x7f00_0000_0000_usize + 0x40 * of(l).ids as usize;
        ffi::lua_pushvalue(l, 1);
        ffi::lua_pushnumber(l, number as f64);
        ffi::lua_rawset(l, -3);
        number
    }
}
