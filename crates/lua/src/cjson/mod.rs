//! The library `cjson`, 2.1.0 as Redis has it: JSON to and from Lua values.
//!
//! Settings, such as the greatest depth, hold for one run; `cjson.new()` makes a library with
//! settings of its own.

mod decode;
mod encode;

use std::ffi::{c_char, c_int, c_void};

use mlua::ffi;

use crate::context::{charge, of};
use crate::stack::{Function, bad_argument, lua_State, set, set_text};

/// How numbers that JSON lacks are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

/// What scripts can set.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    sparse_convert: bool,
    sparse_ratio: c_int,
    sparse_safe: c_int,
    encode_depth: c_int,
    decode_depth: c_int,
    precision: c_int,
    keep_buffer: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1_000,
            decode_depth: 1_000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
        }
    }
}

const FUNCTIONS: [(&str, Function); 10] = [
    ("encode", encode::encode),
    ("decode", decode::decode),
    ("encode_sparse_array", encode_sparse_array),
    ("encode_max_depth", encode_max_depth),
    ("decode_max_depth", decode_max_depth),
    ("encode_number_precision", encode_number_precision),
    ("encode_keep_buffer", encode_keep_buffer),
    ("encode_invalid_numbers", encode_invalid_numbers),
    ("decode_invalid_numbers", decode_invalid_numbers),
    ("new", new),
];

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        let settings: *mut Settings = &raw mut of(l).cjson;
        fill(l, table, |l| ffi::lua_pushlightuserdata(l, settings.cast::<c_void>()));
    }
}

/// Fills a table with the library's functions, on the settings that `push_settings` pushes.
unsafe fn fill(l: *mut lua_State, table: c_int, push_settings: impl Fn(*mut lua_State)) {
    unsafe {
        for (name, function) in FUNCTIONS {
            push_settings(l);
            ffi::lua_pushcclosure(l, function, 1);
            set(l, table, name);
        }
        set_text(l, table, "_NAME", "cjson");
        set_text(l, table, "_VERSION", "2.1.0");
        ffi::lua_pushlightuserdata(l, std::ptr::null_mut());
        set(l, table, "null");
    }
}

unsafe extern "C-unwind" fn new(l: *mut lua_State) -> c_int {
    unsafe {
        charge(l, 50);
        let settings = ffi::lua_newuserdata(l, size_of::<Settings>()).cast::<Settings>();
        settings.write(Settings::default());
        let slot = ffi::lua_gettop(l);
        ffi::lua_createtable(l, 0, 16);
        fill(l, slot + 1, |l| ffi::lua_pushvalue(l, slot));
        1
    }
}

/// The settings of the library whose function is called.
unsafe fn settings<'a>(l: *mut lua_State) -> &'a mut Settings {
    unsafe { &mut *ffi::lua_touserdata(l, ffi::lua_upvalueindex(1)).cast::<Settings>() }
}

/// At most so many arguments; absent ones become nil.
unsafe fn pad_arguments(l: *mut lua_State, count: c_int) {
    unsafe {
        if ffi::lua_gettop(l) > count {
            bad_argument(l, count + 1, c"found too many arguments");
        }
        ffi::lua_settop(l, count);
    }
}

/// Takes an integer setting, if there is one, and pushes what holds now.
unsafe fn integer(l: *mut lua_State, index: c_int, setting: &mut c_int, low: c_int, high: c_int) {
    unsafe {
        if ffi::lua_type(l, index) != ffi::LUA_TNIL {
            let value = ffi::luaL_checknumber(l, index) as i64 as c_int;
            if !(low..=high).contains(&value) {
                let format = c"expected integer between %d and %d";
                let message = ffi::lua_pushfstring(l, format.as_ptr(), low, high);
                ffi::luaL_argerror(l, 1, message);
            }
            *setting = value;
        }
        ffi::lua_pushnumber(l, f64::from(*setting));
    }
}

/// Takes one of some words, or a boolean for the first two; returns which.
unsafe fn choice(l: *mut lua_State, index: c_int, now: c_int, words: &[*const c_char]) -> c_int {
    unsafe {
        let chosen = match ffi::lua_type(l, index) {
            ffi::LUA_TNIL => now,
            ffi::LUA_TBOOLEAN => ffi::lua_toboolean(l, index),
            _ => ffi::luaL_checkoption(l, index, std::ptr::null(), words.as_ptr()),
        };
        if chosen <= 1 {
            ffi::lua_pushboolean(l, chosen);
        } else {
            ffi::lua_pushstring(l, words[chosen as usize]);
        }
        chosen
    }
}

unsafe fn boolean(l: *mut lua_State, index: c_int, setting: &mut bool) {
    unsafe {
        let words = [c"off".as_ptr(), c"on".as_ptr(), std::ptr::null()];
        *setting = choice(l, index, c_int::from(*setting), &words) == 1;
    }
}

unsafe extern "C-unwind" fn encode_sparse_array(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 3);
        let settings = settings(l);
        boolean(l, 1, &mut settings.sparse_convert);
        integer(l, 2, &mut settings.sparse_ratio, 0, c_int::MAX);
        integer(l, 3, &mut settings.sparse_safe, 0, c_int::MAX);
        3
    }
}

unsafe extern "C-unwind" fn encode_max_depth(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 1);
        integer(l, 1, &mut settings(l).encode_depth, 1, c_int::MAX);
        1
    }
}

unsafe extern "C-unwind" fn decode_max_depth(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 1);
        integer(l, 1, &mut settings(l).decode_depth, 1, c_int::MAX);
        1
    }
}

unsafe extern "C-unwind" fn encode_number_precision(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 1);
        integer(l, 1, &mut settings(l).precision, 1, 14);
        1
    }
}

unsafe extern "C-unwind" fn encode_keep_buffer(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 1);
        boolean(l, 1, &mut settings(l).keep_buffer);
        1
    }
}

unsafe extern "C-unwind" fn encode_invalid_numbers(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 1);
        let settings = settings(l);
        let words = [c"off".as_ptr(), c"on".as_ptr(), c"null".as_ptr(), std::ptr::null()];
        let now = settings.encode_invalid as c_int;
        settings.encode_invalid = match choice(l, 1, now, &words) {
            0 => Invalid::Refused,
            1 => Invalid::Written,
            _ => Invalid::Null,
        };
        1
    }
}

unsafe extern "C-unwind" fn decode_invalid_numbers(l: *mut lua_State) -> c_int {
    unsafe {
        pad_arguments(l, 1);
        boolean(l, 1, &mut settings(l).decode_invalid);
        1
    }
}
