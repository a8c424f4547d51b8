//! A command's reply, in RESP2 or RESP3, as a Lua value.
//!
//! The bytes come from the [`Host`](crate::Host), which writes whole and correct replies: anything
//! else is a fault of the host, and panics.

use std::ffi::c_int;

use mlua::ffi;

use crate::errors::push_error;
use crate::stack::{lua_State, push, set};

/// A place in a reply. It owns nothing: Lua may leave by `longjmp`.
struct Reader {
    rest: &'static [u8],
}

/// Pushes the value of the reply in `bytes`.
///
/// # Safety
/// The bytes stay as they are until this returns: only the lifetime is dropped here.
pub(crate) unsafe fn push_reply(l: *mut lua_State, bytes: &[u8]) {
    unsafe {
        let rest: &'static [u8] = std::slice::from_raw_parts(bytes.as_ptr(), bytes.len());
        value(l, &mut Reader { rest });
    }
}

impl Reader {
    fn line(&mut self) -> &'static [u8] {
        let end = memchr::memchr(b'\r', self.rest).expect("a whole reply");
        let (line, rest) = self.rest.split_at(end);
        self.rest = &rest[2..];
        line
    }

    fn number(&mut self) -> i64 {
        let line = self.line();
        let (sign, digits) = match line.strip_prefix(b"-") {
            Some(digits) => (-1, digits),
            None => (1, line),
        };
        digits.iter().fold(0_i64, |sum, digit| {
            sum.wrapping_mul(10).wrapping_add(sign * i64::from(digit.wrapping_sub(b'0')))
        })
    }

    /// The bytes of a string with its length in front; none for a null.
    fn string(&mut self) -> Option<&'static [u8]> {
        let len = usize::try_from(self.number()).ok()?;
        let (string, rest) = self.rest.split_at(len);
        self.rest = &rest[2..];
        Some(string)
    }
}

unsafe fn value(l: *mut lua_State, reader: &mut Reader) {
    unsafe {
        ffi::luaL_checkstack(l, 8, c"nested too deep".as_ptr());
        let kind = reader.rest[0];
        reader.rest = &reader.rest[1..];
        match kind {
            b':' => ffi::lua_pushnumber(l, reader.number() as f64),
            b'$' => match reader.string() {
                Some(string) => push(l, string),
                None => ffi::lua_pushboolean(l, 0),
            },
            b'+' => one_field(l, "ok", reader.line()),
            b'-' => {
                let line = reader.line();
                let message: &[u8] =
                    std::slice::from_raw_parts(line.as_ptr().sub(1), line.len() + 1);
                push_error(l, message, true);
            }
            b'*' | b'>' => array(l, reader),
            b'_' => {
                reader.line();
                ffi::lua_pushnil(l);
            }
            b'#' => {
                let is_true = reader.line() == b"t";
                ffi::lua_pushboolean(l, c_int::from(is_true));
            }
            b',' => double(l, reader.line()),
            b'(' => one_field(l, "big_number", reader.line()),
            b'=' => verbatim(l, reader.string().unwrap_or_default()),
            b'%' => map(l, reader),
            b'~' => members(l, reader),
            b'|' => {
                map(l, reader);
                ffi::lua_settop(l, -2);
                value(l, reader);
            }
            other => panic!("the host wrote a reply that begins with byte {other}"),
        }
    }
}

unsafe fn one_field(l: *mut lua_State, name: &str, text: &[u8]) {
    unsafe {
        ffi::lua_createtable(l, 0, 1);
        push(l, text);
        set(l, -2, name);
    }
}

unsafe fn double(l: *mut lua_State, line: &[u8]) {
    unsafe {
        ffi::lua_createtable(l, 0, 1);
        let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
        ffi::lua_pushnumber(l, number.unwrap_or(f64::NAN));
        set(l, -2, "double");
    }
}

unsafe fn verbatim(l: *mut lua_State, bytes: &[u8]) {
    unsafe {
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_createtable(l, 0, 2);
        push(l, bytes.get(4..).unwrap_or_default());
        set(l, -2, "string");
        push(l, bytes.get(..3).unwrap_or_default());
        set(l, -2, "format");
        set(l, -2, "verbatim_string");
    }
}

unsafe fn array(l: *mut lua_State, reader: &mut Reader) {
    unsafe {
        let Ok(count) = c_int::try_from(reader.number()) else {
            ffi::lua_pushboolean(l, 0);
            return;
        };
        if count < 0 {
            ffi::lua_pushboolean(l, 0);
            return;
        }
        ffi::lua_createtable(l, count, 0);
        for index in 1..=count {
            value(l, reader);
            ffi::lua_rawseti(l, -2, ffi::lua_Integer::from(index));
        }
    }
}

unsafe fn map(l: *mut lua_State, reader: &mut Reader) {
    unsafe {
        let count = reader.number();
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_createtable(l, 0, c_int::try_from(count).unwrap_or(0));
        for _ in 0..count {
            value(l, reader);
            value(l, reader);
            ffi::lua_rawset(l, -3);
        }
        set(l, -2, "map");
    }
}

unsafe fn members(l: *mut lua_State, reader: &mut Reader) {
    unsafe {
        let count = reader.number();
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_createtable(l, 0, c_int::try_from(count).unwrap_or(0));
        for _ in 0..count {
            value(l, reader);
            ffi::lua_pushboolean(l, 1);
            ffi::lua_rawset(l, -3);
        }
        set(l, -2, "set");
    }
}
