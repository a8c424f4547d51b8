//! Lua values as JSON.

use std::ffi::{CStr, c_int};
use std::io::Write as _;

use mlua::ffi;

use super::{Invalid, Settings, settings};
use crate::buffer::Buffer;
use crate::context::charge;
use crate::stack::{bad_argument, format_double, lua_State, text};

struct Encoder {
    l: *mut lua_State,
    settings: Settings,
    out: Buffer,
}

pub(super) unsafe extern "C-unwind" fn encode(l: *mut lua_State) -> c_int {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            bad_argument(l, 1, c"expected 1 argument");
        }
        let out = Buffer::new(l, 256);
        ffi::lua_pushvalue(l, 1);
        let mut encoder = Encoder { l, settings: *settings(l), out };
        encoder.value(0);
        encoder.out.finish();
        1
    }
}

impl Encoder {
    unsafe fn refuse(&self, index: c_int, why: &CStr) -> ! {
        unsafe {
            let name = ffi::lua_typename(self.l, ffi::lua_type(self.l, index));
            ffi::luaL_error(self.l, c"Cannot serialise %s: %s".as_ptr(), name, why.as_ptr());
        }
        unreachable!("luaL_error does not return")
    }

    /// Writes the value on top, and leaves it there.
    unsafe fn value(&mut self, depth: c_int) {
        unsafe {
            charge(self.l, 1);
            match ffi::lua_type(self.l, -1) {
                ffi::LUA_TSTRING => self.string(-1),
                ffi::LUA_TNUMBER => self.number(),
                ffi::LUA_TBOOLEAN if ffi::lua_toboolean(self.l, -1) != 0 => {
                    self.out.extend(b"true")
                }
                ffi::LUA_TBOOLEAN => self.out.extend(b"false"),
                ffi::LUA_TNIL => self.out.extend(b"null"),
                ffi::LUA_TTABLE => self.table(depth + 1),
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(self.l, -1).is_null() => {
                    self.out.extend(b"null");
                }
                _ => self.refuse(-1, c"type not supported"),
            }
        }
    }

    unsafe fn table(&mut self, depth: c_int) {
        unsafe {
            if depth > self.settings.encode_depth || ffi::lua_checkstack(self.l, 3) == 0 {
                ffi::luaL_error(
                    self.l,
                    c"Cannot serialise, excessive nesting (%d)".as_ptr(),
                    depth,
                );
            }
            match self.array_length() {
                Some(length) => self.array(depth, length),
                None => self.object(depth),
            }
        }
    }

    /// The length, if the table is an array that is not too sparse and not empty.
    unsafe fn array_length(&mut self) -> Option<c_int> {
        unsafe {
            let (mut max, mut count) = (0.0_f64, 0);
            ffi::lua_pushnil(self.l);
            while ffi::lua_next(self.l, -2) != 0 {
                charge(self.l, 1);
                let is_number = ffi::lua_type(self.l, -2) == ffi::LUA_TNUMBER;
                let key = if is_number { ffi::lua_tonumber(self.l, -2) } else { 0.0 };
                if key < 1.0 || key.floor() != key {
                    ffi::lua_settop(self.l, -3);
                    return None;
                }
                max = max.max(key);
                count += 1;
                ffi::lua_settop(self.l, -2);
            }
            // C's `int`: what does not fit is negative, and such a table an object.
            let max = if max < 2_147_483_648.0 { max as c_int } else { c_int::MIN };
            let ratio = self.settings.sparse_ratio;
            let is_sparse = ratio > 0
                && i64::from(max) > i64::from(count) * i64::from(ratio)
                && max > self.settings.sparse_safe;
            if is_sparse {
                if !self.settings.sparse_convert {
                    self.refuse(-1, c"excessively sparse array");
                }
                return None;
            }
            (max > 0).then_some(max)
        }
    }

    unsafe fn array(&mut self, depth: c_int, length: c_int) {
        unsafe {
            self.out.push(b'[');
            for index in 1..=length {
                if index > 1 {
                    self.out.push(b',');
                }
                ffi::lua_rawgeti(self.l, -1, ffi::lua_Integer::from(index));
                self.value(depth);
                ffi::lua_settop(self.l, -2);
            }
            self.out.push(b']');
        }
    }

    unsafe fn object(&mut self, depth: c_int) {
        unsafe {
            self.out.push(b'{');
            let mut is_first = true;
            ffi::lua_pushnil(self.l);
            while ffi::lua_next(self.l, -2) != 0 {
                if !is_first {
                    self.out.push(b',');
                }
                is_first = false;
                match ffi::lua_type(self.l, -2) {
                    ffi::LUA_TNUMBER => {
                        self.out.push(b'"');
                        ffi::lua_pushvalue(self.l, -2);
                        self.number();
                        ffi::lua_settop(self.l, -2);
                        self.out.extend(b"\":");
                    }
                    ffi::LUA_TSTRING => {
                        self.string(-2);
                        self.out.push(b':');
                    }
                    _ => self.refuse(-2, c"table key must be a number or string"),
                }
                self.value(depth);
                ffi::lua_settop(self.l, -2);
            }
            self.out.push(b'}');
        }
    }

    /// Writes the number on top.
    unsafe fn number(&mut self) {
        unsafe {
            let number = ffi::lua_tonumber(self.l, -1);
            if !number.is_finite() {
                match self.settings.encode_invalid {
                    Invalid::Refused => self.refuse(-1, c"must not be NaN or Inf"),
                    Invalid::Null => return self.out.extend(b"null"),
                    Invalid::Written if number.is_nan() => return self.out.extend(b"nan"),
                    Invalid::Written => {}
                }
            }
            let mut format = [0_u8; 16];
            let _ = write!(&mut format[..], "%.{}g", self.settings.precision);
            let format = CStr::from_bytes_until_nul(&format).unwrap_or(c"%.14g");
            let mut buffer = [0; 64];
            let len = format_double(format, number, &mut buffer);
            self.out.extend(&buffer[..len]);
        }
    }

    unsafe fn string(&mut self, index: c_int) {
        unsafe {
            let bytes = text(self.l, index);
            charge(self.l, bytes.len() as u64 / 16);
            self.out.push(b'"');
            let mut plain = 0;
            for (at, byte) in bytes.iter().enumerate() {
                let mut hex = *b"\\u0000";
                let escape: &[u8] = match byte {
                    b'"' => b"\\\"",
                    b'\\' => b"\\\\",
                    b'/' => b"\\/",
                    8 => b"\\b",
                    9 => b"\\t",
                    10 => b"\\n",
                    12 => b"\\f",
                    13 => b"\\r",
                    0..=31 | 127 => {
                        hex[4] = b"0123456789abcdef"[usize::from(byte >> 4)];
                        hex[5] = b"0123456789abcdef"[usize::from(byte & 15)];
                        &hex
                    }
                    _ => continue,
                };
                self.out.extend(&bytes[plain..at]);
                self.out.extend(escape);
                plain = at + 1;
            }
            self.out.extend(&bytes[plain..]);
            self.out.push(b'"');
        }
    }
}
