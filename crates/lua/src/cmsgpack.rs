//! The library `cmsgpack`, 0.4.0 as Redis has it: MessagePack to and from Lua values.

use std::ffi::c_int;

use mlua::ffi;

use crate::buffer::Buffer;
use crate::context::charge;
use crate::stack::{
    bad_argument, check_bytes, fail, integer_or, lua_State, push, set_function, set_text, text,
};

/// Tables deeper than this become nil.
const NESTING_MAX: u32 = 16;

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        set_function(l, table, "pack", pack);
        set_function(l, table, "unpack", unpack);
        set_function(l, table, "unpack_one", unpack_one);
        set_function(l, table, "unpack_limit", unpack_limit);
        set_text(l, table, "_NAME", "cmsgpack");
        set_text(l, table, "_VERSION", "lua-cmsgpack 0.4.0");
        set_text(l, table, "_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo");
        set_text(l, table, "_DESCRIPTION", "MessagePack C implementation for Lua");
    }
}

unsafe extern "C-unwind" fn pack(l: *mut lua_State) -> c_int {
    unsafe {
        let count = ffi::lua_gettop(l);
        if count == 0 {
            bad_argument(l, 0, c"MessagePack pack needs input.");
        }
        let mut out = Buffer::new(l, 128);
        ffi::luaL_checkstack(l, 4, c"Too many arguments for MessagePack pack.".as_ptr());
        for index in 1..=count {
            ffi::lua_pushvalue(l, index);
            encode(l, &mut out, 0);
        }
        out.finish();
        1
    }
}

/// Appends the value on top, and pops it.
unsafe fn encode(l: *mut lua_State, out: &mut Buffer, level: u32) {
    unsafe {
        charge(l, 1);
        match ffi::lua_type(l, -1) {
            ffi::LUA_TSTRING => {
                let bytes = text(l, -1);
                match bytes.len() {
                    len @ 0..32 => out.push(0xa0 | len as u8),
                    len @ 32..=0xff => out.extend(&[0xd9, len as u8]),
                    len => long_header(out, 0xda, len),
                }
                out.extend(bytes);
            }
            ffi::LUA_TBOOLEAN => out.push(0xc2 + u8::from(ffi::lua_toboolean(l, -1) != 0)),
            ffi::LUA_TNUMBER => encode_number(out, ffi::lua_tonumber(l, -1)),
            ffi::LUA_TTABLE if level < NESTING_MAX => encode_table(l, out, level),
            _ => out.push(0xc0),
        }
        ffi::lua_settop(l, -2);
    }
}

/// A length in 16 bits under `tag`, or in 32 under the next.
unsafe fn long_header(out: &mut Buffer, tag: u8, len: usize) {
    unsafe {
        if let Ok(len) = u16::try_from(len) {
            out.push(tag);
            out.extend(&len.to_be_bytes());
        } else {
            out.push(tag + 1);
            out.extend(&(len as u32).to_be_bytes());
        }
    }
}

unsafe fn encode_number(out: &mut Buffer, number: f64) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    unsafe {
        if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number) {
            return encode_integer(out, number as i64);
        }
        if f64::from(number as f32) == number {
            out.push(0xca);
            out.extend(&(number as f32).to_be_bytes());
        } else {
            out.push(0xcb);
            out.extend(&number.to_be_bytes());
        }
    }
}

unsafe fn encode_integer(out: &mut Buffer, integer: i64) {
    unsafe {
        let bytes = integer.to_be_bytes();
        let (tag, len) = match integer {
            -32..=0x7f => (None, 1),
            0x80..=0xff => (Some(0xcc), 1),
            0x100..=0xffff => (Some(0xcd), 2),
            0x1_0000..=0xffff_ffff => (Some(0xce), 4),
            0x1_0000_0000.. => (Some(0xcf), 8),
            -0x80..-32 => (Some(0xd0), 1),
            -0x8000..-0x80 => (Some(0xd1), 2),
            -0x8000_0000..-0x8000 => (Some(0xd2), 4),
            ..-0x8000_0000 => (Some(0xd3), 8),
        };
        if let Some(tag) = tag {
            out.push(tag);
        }
        out.extend(&bytes[8 - len..]);
    }
}

/// Appends the table on top, and leaves it there.
unsafe fn encode_table(l: *mut lua_State, out: &mut Buffer, level: u32) {
    unsafe {
        ffi::luaL_checkstack(l, 5, c"in function encode_lua_table_as_map".as_ptr());
        let table = ffi::lua_gettop(l);
        let (count, is_array) = measure(l, table);
        if is_array {
            match count {
                0..16 => out.push(0x90 | count as u8),
                _ => long_header(out, 0xdc, count),
            }
            for index in 1..=count {
                ffi::lua_rawgeti(l, table, index as ffi::lua_Integer);
                encode(l, out, level + 1);
            }
            return;
        }
        match count {
            0..16 => out.push(0x80 | count as u8),
            _ => long_header(out, 0xde, count),
        }
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, table) != 0 {
            ffi::lua_pushvalue(l, -2);
            encode(l, out, level + 1);
            encode(l, out, level + 1);
        }
    }
}

/// How many pairs the table has, and whether their keys are 1, 2, … up to that number.
unsafe fn measure(l: *mut lua_State, table: c_int) -> (usize, bool) {
    unsafe {
        let (mut count, mut max, mut is_array) = (0, 0.0_f64, true);
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, table) != 0 {
            charge(l, 1);
            ffi::lua_settop(l, -2);
            count += 1;
            let is_number = ffi::lua_type(l, -1) == ffi::LUA_TNUMBER;
            let key = if is_number { ffi::lua_tonumber(l, -1) } else { 0.0 };
            is_array &= key > 0.0 && key.fract() == 0.0;
            max = max.max(key);
        }
        (count, is_array && max == count as f64)
    }
}

unsafe extern "C-unwind" fn unpack(l: *mut lua_State) -> c_int {
    unsafe { decode_all(l, 0, 0) }
}

unsafe extern "C-unwind" fn unpack_one(l: *mut lua_State) -> c_int {
    unsafe {
        let offset = integer_or(l, 2, 0);
        decode_all(l, 1, offset)
    }
}

unsafe extern "C-unwind" fn unpack_limit(l: *mut lua_State) -> c_int {
    unsafe {
        let limit = ffi::luaL_checknumber(l, 2) as i64;
        let offset = integer_or(l, 3, 0);
        decode_all(l, limit, offset)
    }
}

/// Pushes up to `limit` values that begin at `offset`, behind where the next one begins; or, if
/// both are zero, all values.
unsafe fn decode_all(l: *mut lua_State, limit: i64, offset: i64) -> c_int {
    unsafe {
        let data = check_bytes(l, 1);
        let (limit, offset) = (limit as i32, offset as i32);
        let len = data.len() as c_int;
        if offset < 0 || limit < 0 {
            ffi::luaL_error(
                l,
                c"Invalid request to unpack with offset of %d and limit of %d.".as_ptr(),
                offset,
                len,
            );
        }
        if offset > len {
            let format = c"Start offset %d greater than input length %d.";
            ffi::luaL_error(l, format.as_ptr(), offset, len);
        }
        ffi::lua_settop(l, 1);
        let takes_all = limit == 0 && offset == 0;
        if !takes_all {
            ffi::lua_pushnil(l);
        }
        let mut decoder = Decoder { l, data, at: offset as usize };
        let mut count = 0;
        while decoder.at < data.len() && (takes_all || count < limit) {
            decoder.value();
            count += 1;
        }
        if takes_all {
            return count;
        }
        let next = if decoder.at == data.len() { -1.0 } else { decoder.at as f64 };
        ffi::lua_pushnumber(l, next);
        ffi::lua_replace(l, 2);
        count + 1
    }
}

struct Decoder<'a> {
    l: *mut lua_State,
    data: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    unsafe fn take(&mut self, len: usize) -> &[u8] {
        unsafe {
            let end = self.at.checked_add(len);
            match end.and_then(|end| self.data.get(self.at..end)) {
                Some(bytes) => {
                    self.at += len;
                    bytes
                }
                None => fail(self.l, c"Missing bytes in input."),
            }
        }
    }

    /// A big-endian number of so many bytes.
    unsafe fn number(&mut self, len: usize) -> u64 {
        unsafe { self.take(len).iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) }
    }

    unsafe fn signed(&mut self, len: usize) -> f64 {
        unsafe {
            let unused = 64 - 8 * len as u32;
            ((self.number(len) << unused) as i64 >> unused) as f64
        }
    }

    unsafe fn value(&mut self) {
        unsafe {
            const TOO_MANY: &std::ffi::CStr =
                c"too many return values at once; use unpack_one or unpack_limit instead.";
            let l = self.l;
            ffi::luaL_checkstack(l, 1, TOO_MANY.as_ptr());
            charge(l, 1);
            let tag = self.take(1)[0];
            match tag {
                0x00..=0x7f => ffi::lua_pushnumber(l, f64::from(tag)),
                0xe0..=0xff => ffi::lua_pushnumber(l, f64::from(tag as i8)),
                0xc0 => ffi::lua_pushnil(l),
                0xc2 | 0xc3 => ffi::lua_pushboolean(l, c_int::from(tag == 0xc3)),
                // 64 bits wrap to negative numbers, as they do in Redis.
                0xcc..=0xcf => {
                    let number = self.number(1 << (tag - 0xcc));
                    ffi::lua_pushnumber(l, number as i64 as f64);
                }
                0xd0..=0xd3 => {
                    let number = self.signed(1 << (tag - 0xd0));
                    ffi::lua_pushnumber(l, number);
                }
                0xca => {
                    let bits = self.number(4) as u32;
                    ffi::lua_pushnumber(l, f64::from(f32::from_bits(bits)));
                }
                0xcb => {
                    let bits = self.number(8);
                    ffi::lua_pushnumber(l, f64::from_bits(bits));
                }
                0xa0..=0xbf => self.string(usize::from(tag & 31)),
                0xd9..=0xdb => {
                    let len = self.number(1 << (tag - 0xd9)) as usize;
                    self.string(len);
                }
                0x90..=0x9f => self.array(u64::from(tag & 15)),
                0xdc | 0xdd => {
                    let len = self.number(2 << (tag - 0xdc));
                    self.array(len);
                }
                0x80..=0x8f => self.map(u64::from(tag & 15)),
                0xde | 0xdf => {
                    let len = self.number(2 << (tag - 0xde));
                    self.map(len);
                }
                _ => fail(l, c"Bad data format in input."),
            }
        }
    }

    unsafe fn string(&mut self, len: usize) {
        unsafe {
            let l = self.l;
            push(l, self.take(len));
        }
    }

    unsafe fn array(&mut self, len: u64) {
        unsafe {
            ffi::luaL_checkstack(self.l, 2, c"in function mp_decode_to_lua_array".as_ptr());
            ffi::lua_createtable(self.l, 0, 0);
            for index in 1..=len {
                self.value();
                ffi::lua_rawseti(self.l, -2, index as ffi::lua_Integer);
            }
        }
    }

    unsafe fn map(&mut self, len: u64) {
        unsafe {
            ffi::luaL_checkstack(self.l, 1, c"in function mp_decode_to_lua_hash".as_ptr());
            ffi::lua_createtable(self.l, 0, 0);
            for _ in 0..len {
                self.value();
                self.value();
                ffi::lua_settable(self.l, -3);
            }
        }
    }
}
