//! Errors, as scripts see them and as clients get them.
//!
//! An error that leaves a script is a table: `err`, and where it was raised, `source` and `line`.
//! [`handler`] makes it so, at the moment of the error.

use std::ffi::{CStr, c_int};

use mlua::ffi;

use crate::context::of;
use crate::stack::{bytes, get, lua_State, push, set, text};

/// The handler of errors for everything that runs: turns any error into a table with its place.
pub(crate) unsafe extern "C-unwind" fn handler(l: *mut lua_State) -> c_int {
    unsafe {
        if of(l).stop.is_some() {
            return 1;
        }
        ffi::lua_settop(l, 1);
        let mut place: ffi::lua_Debug = std::mem::zeroed();
        let mut found = locate(l, 1, &mut place);
        if found && CStr::from_ptr(place.what) == c"C" {
            found = locate(l, 2, &mut place) && !is_runner(l, 2);
        }
        if ffi::lua_type(l, 1) != ffi::LUA_TTABLE {
            ffi::lua_createtable(l, 0, 3);
            push(l, b"ERR ");
            push_as_text(l, 1);
            ffi::lua_concat(l, 2);
            set(l, -2, "err");
            ffi::lua_replace(l, 1);
        }
        if found {
            ffi::lua_pushstring(l, place.source);
            set(l, 1, "source");
            ffi::lua_pushnumber(l, f64::from(place.currentline));
            set(l, 1, "line");
        }
        1
    }
}

/// Is this level the function of ours that runs the script? Redis has none there.
unsafe fn is_runner(l: *mut lua_State, level: c_int) -> bool {
    unsafe {
        let is_main = ffi::lua_pushthread(l) == 1;
        ffi::lua_settop(l, -2);
        let mut place: ffi::lua_Debug = std::mem::zeroed();
        is_main && ffi::lua_getstack(l, level + 1, &mut place) == 0
    }
}

unsafe fn locate(l: *mut lua_State, level: c_int, place: &mut ffi::lua_Debug) -> bool {
    unsafe {
        ffi::lua_getstack(l, level, place) != 0 && ffi::lua_getinfo(l, c"nSl".as_ptr(), place) != 0
    }
}

/// What `tostring` says of anything that is no table, without its metatable.
unsafe fn push_as_text(l: *mut lua_State, index: c_int) {
    unsafe {
        match ffi::lua_type(l, index) {
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => push(l, text(l, index)),
            ffi::LUA_TBOOLEAN if ffi::lua_toboolean(l, index) != 0 => push(l, b"true"),
            ffi::LUA_TBOOLEAN => push(l, b"false"),
            ffi::LUA_TNIL => push(l, b"nil"),
            kind => {
                ffi::lua_pushstring(l, ffi::lua_typename(l, kind));
            }
        }
    }
}

/// Pushes a table `{err=…}`. A message that begins with `-` brings its code; others get `ERR`.
pub(crate) unsafe fn push_error(l: *mut lua_State, message: &[u8], skip_stats: bool) {
    unsafe {
        ffi::lua_createtable(l, 0, 3);
        let trimmed = trim_end(until_zero(message));
        let (code, rest) = match trimmed.strip_prefix(b"-") {
            None => (&b"ERR"[..], trimmed),
            Some(message) => match message.iter().position(|byte| *byte == b' ') {
                None => (&b"ERR"[..], message),
                Some(end) => (&message[..end], &message[end + 1..]),
            },
        };
        push(l, code);
        push(l, b" ");
        push(l, rest);
        ffi::lua_concat(l, 3);
        set(l, -2, "err");
        if skip_stats {
            ffi::lua_pushboolean(l, 1);
            set(l, -2, "ignore_error_stats_update");
        }
    }
}

pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

fn trim_end(message: &[u8]) -> &[u8] {
    let end = message.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    &message[..end.map_or(0, |end| end + 1)]
}

/// Raises such a table.
pub(crate) unsafe fn raise(l: *mut lua_State, message: &str) -> ! {
    unsafe {
        push_error(l, message.as_bytes(), false);
        ffi::lua_error(l)
    }
}

/// Appends text that must not end the line. As in C, it ends at its first zero byte.
pub(crate) fn append_line(out: &mut Vec<u8>, text: &[u8]) {
    append_flat(out, until_zero(text));
}

/// Appends text with blanks for the ends of its lines.
pub(crate) fn append_flat(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
}

/// Appends the reply for the error table on top; `name` is the script's sha or the function's name.
pub(crate) unsafe fn reply(l: *mut lua_State, name: &[u8]) {
    unsafe {
        let context = of(l);
        context.is_error = true;
        let error = ffi::lua_gettop(l);
        if ffi::lua_type(l, error) != ffi::LUA_TTABLE {
            context.out.extend_from_slice(b"-ERR Error running script ");
            append_line(&mut context.out, name);
            context.out.extend_from_slice(b", ");
            let message = bytes(l, error).unwrap_or(b"execution failure");
            append_line(&mut context.out, &message[..message.len().min(100)]);
            context.out.extend_from_slice(b"\r\n");
            return;
        }
        get(l, error, "err");
        get(l, error, "source");
        get(l, error, "line");
        let context = of(l);
        context.out.push(b'-');
        append_line(&mut context.out, bytes(l, error + 1).unwrap_or(b"ERR unknown error"));
        if ffi::lua_isstring(l, error + 2) != 0 && ffi::lua_isstring(l, error + 3) != 0 {
            context.out.extend_from_slice(b" script: ");
            append_line(&mut context.out, name);
            context.out.extend_from_slice(b", on ");
            append_line(&mut context.out, text(l, error + 2));
            context.out.push(b':');
            append_line(&mut context.out, text(l, error + 3));
            context.out.push(b'.');
        }
        context.out.extend_from_slice(b"\r\n");
        ffi::lua_settop(l, error);
    }
}
