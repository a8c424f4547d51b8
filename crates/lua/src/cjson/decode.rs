//! JSON as Lua values.

use std::ffi::{CStr, c_int};

use mlua::ffi;

use super::settings;
use crate::context::{charge, of};
use crate::stack::{bad_argument, check_bytes, fail, lua_State, push};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text,
    Number,
    Boolean,
    Null,
    Colon,
    Comma,
    End,
    Error(&'static CStr),
}

impl Kind {
    fn name(self) -> &'static CStr {
        match self {
            Kind::ObjectBegin => c"T_OBJ_BEGIN",
            Kind::ObjectEnd => c"T_OBJ_END",
            Kind::ArrayBegin => c"T_ARR_BEGIN",
            Kind::ArrayEnd => c"T_ARR_END",
            Kind::Text => c"T_STRING",
            Kind::Number => c"T_NUMBER",
            Kind::Boolean => c"T_BOOLEAN",
            Kind::Null => c"T_NULL",
            Kind::Colon => c"T_COLON",
            Kind::Comma => c"T_COMMA",
            Kind::End => c"T_END",
            Kind::Error(message) => message,
        }
    }
}

/// The last token; a string's bytes are in the context's scratch buffer.
struct Decoder<'a> {
    l: *mut lua_State,
    data: &'a [u8],
    at: usize,
    kind: Kind,
    start: usize,
    number: f64,
    is_true: bool,
    depth: c_int,
    depth_max: c_int,
    takes_invalid: bool,
}

pub(super) unsafe extern "C-unwind" fn decode(l: *mut lua_State) -> c_int {
    unsafe {
        if ffi::lua_gettop(l) != 1 {
            bad_argument(l, 1, c"expected 1 argument");
        }
        let data = check_bytes(l, 1);
        if data.len() >= 2 && (data[0] == 0 || data[1] == 0) {
            fail(l, c"JSON parser does not support UTF-16 or UTF-32");
        }
        let settings = settings(l);
        let mut decoder = Decoder {
            l,
            data,
            at: 0,
            kind: Kind::End,
            start: 0,
            number: 0.0,
            is_true: false,
            depth: 0,
            depth_max: settings.decode_depth,
            takes_invalid: settings.decode_invalid,
        };
        decoder.next();
        decoder.value();
        decoder.next();
        if decoder.kind != Kind::End {
            decoder.expected(c"the end");
        }
        1
    }
}

impl Decoder<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.data.get(at).copied().unwrap_or(0)
    }

    unsafe fn expected(&self, what: &CStr) -> ! {
        unsafe {
            ffi::luaL_error(
                self.l,
                c"Expected %s but found %s at character %d".as_ptr(),
                what.as_ptr(),
                self.kind.name().as_ptr(),
                (self.start + 1) as c_int,
            );
        }
        unreachable!("luaL_error does not return")
    }

    fn wrong(&mut self, message: &'static CStr) {
        self.kind = Kind::Error(message);
        self.start = self.at;
    }

    fn take(&mut self, kind: Kind, len: usize) {
        self.kind = kind;
        self.at += len;
    }

    /// Reads the next token.
    unsafe fn next(&mut self) {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.start = self.at;
        let rest = self.data.get(self.at..).unwrap_or_default();
        match self.byte(self.at) {
            b'{' => self.take(Kind::ObjectBegin, 1),
            b'}' => self.take(Kind::ObjectEnd, 1),
            b'[' => self.take(Kind::ArrayBegin, 1),
            b']' => self.take(Kind::ArrayEnd, 1),
            b',' => self.take(Kind::Comma, 1),
            b':' => self.take(Kind::Colon, 1),
            // Also a zero byte within the text.
            0 => self.kind = Kind::End,
            b'"' => unsafe { self.string() },
            b'-' | b'0'..=b'9' => {
                if !self.takes_invalid && is_invalid_number(rest) {
                    return self.wrong(c"invalid number");
                }
                self.number();
            }
            b't' if rest.starts_with(b"true") => {
                self.is_true = true;
                self.take(Kind::Boolean, 4);
            }
            b'f' if rest.starts_with(b"false") => {
                self.is_true = false;
                self.take(Kind::Boolean, 5);
            }
            b'n' if rest.starts_with(b"null") => self.take(Kind::Null, 4),
            b'+' | b'f' | b'i' | b'I' | b'n' | b'N' | b't'
                if self.takes_invalid && is_invalid_number(rest) =>
            {
                self.number();
            }
            _ => self.wrong(c"invalid token"),
        }
    }

    /// Reads what C's `strtod` takes for a number.
    fn number(&mut self) {
        let start = self.data[self.at..].as_ptr();
        let mut end = std::ptr::null_mut();
        // SAFETY: Lua's strings end with a zero byte, which ends the number at the latest.
        self.number = unsafe { libc::strtod(start.cast(), &mut end) };
        let len = end as usize - start as usize;
        if len == 0 {
            self.wrong(c"invalid number");
        } else {
            self.take(Kind::Number, len);
        }
    }

    unsafe fn string(&mut self) {
        unsafe {
            let scratch = &mut of(self.l).scratch;
            scratch.clear();
            self.at += 1;
            loop {
                let rest = self.data.get(self.at..).unwrap_or_default();
                let plain = memchr::memchr3(b'"', b'\\', 0, rest).unwrap_or(rest.len());
                scratch.extend_from_slice(&rest[..plain]);
                self.at += plain;
                match self.byte(self.at) {
                    b'"' => break,
                    b'\\' => {}
                    _ => return self.wrong(c"unexpected end of string"),
                }
                let plain = match self.byte(self.at + 1) {
                    b'u' => {
                        let Some((code, len)) = self.unicode_escape() else {
                            return self.wrong(c"invalid unicode escape code");
                        };
                        let mut utf8 = [0; 4];
                        let code = char::from_u32(code).unwrap_or('\0');
                        scratch.extend_from_slice(code.encode_utf8(&mut utf8).as_bytes());
                        self.at += len;
                        continue;
                    }
                    b'b' => 8,
                    b't' => 9,
                    b'n' => 10,
                    b'f' => 12,
                    b'r' => 13,
                    same @ (b'"' | b'\\' | b'/') => same,
                    _ => return self.wrong(c"invalid escape code"),
                };
                scratch.push(plain);
                self.at += 2;
            }
            self.take(Kind::Text, 1);
        }
    }

    /// The character of `\uXXXX`, or of two that make a pair, and its length.
    fn unicode_escape(&self) -> Option<(u32, usize)> {
        let hex = |at: usize| {
            let digits = self.data.get(at..at + 4)?;
            digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + (*digit as char).to_digit(16)?))
        };
        let code = hex(self.at + 2)?;
        if code & 0xf800 != 0xd800 {
            return Some((code, 6));
        }
        let is_pair = self.byte(self.at + 6) == b'\\' && self.byte(self.at + 7) == b'u';
        let low = if code & 0x400 == 0 && is_pair { hex(self.at + 8)? } else { return None };
        if low & 0xfc00 != 0xdc00 {
            return None;
        }
        Some((0x1_0000 + ((code & 0x3ff) << 10 | low & 0x3ff), 12))
    }

    /// Pushes the value that begins with the last token.
    unsafe fn value(&mut self) {
        unsafe {
            charge(self.l, 1);
            match self.kind {
                Kind::Text => push(self.l, &of(self.l).scratch),
                Kind::Number => ffi::lua_pushnumber(self.l, self.number),
                Kind::Boolean => ffi::lua_pushboolean(self.l, c_int::from(self.is_true)),
                Kind::Null => ffi::lua_pushlightuserdata(self.l, std::ptr::null_mut()),
                Kind::ObjectBegin => self.object(),
                Kind::ArrayBegin => self.array(),
                _ => self.expected(c"value"),
            }
        }
    }

    unsafe fn descend(&mut self, slots: c_int) {
        unsafe {
            self.depth += 1;
            if self.depth > self.depth_max || ffi::lua_checkstack(self.l, slots) == 0 {
                ffi::luaL_error(
                    self.l,
                    c"Found too many nested data structures (%d) at character %d".as_ptr(),
                    self.depth,
                    self.at as c_int,
                );
            }
            ffi::lua_createtable(self.l, 0, 0);
        }
    }

    unsafe fn object(&mut self) {
        unsafe {
            self.descend(3);
            self.next();
            while self.kind != Kind::ObjectEnd {
                if self.kind != Kind::Text {
                    self.expected(c"object key string");
                }
                push(self.l, &of(self.l).scratch);
                self.next();
                if self.kind != Kind::Colon {
                    self.expected(c"colon");
                }
                self.next();
                self.value();
                ffi::lua_rawset(self.l, -3);
                self.next();
                match self.kind {
                    Kind::ObjectEnd => break,
                    Kind::Comma => self.next(),
                    _ => self.expected(c"comma or object end"),
                }
                if self.kind == Kind::ObjectEnd {
                    self.expected(c"object key string");
                }
            }
            self.depth -= 1;
        }
    }

    unsafe fn array(&mut self) {
        unsafe {
            self.descend(2);
            self.next();
            let mut index = 0;
            while index > 0 || self.kind != Kind::ArrayEnd {
                self.value();
                index += 1;
                ffi::lua_rawseti(self.l, -2, index);
                self.next();
                match self.kind {
                    Kind::ArrayEnd => break,
                    Kind::Comma => self.next(),
                    _ => self.expected(c"comma or array end"),
                }
            }
            self.depth -= 1;
        }
    }
}

/// Is it a number that JSON forbids: with a plus, a leading zero, hexadecimal, infinite or none?
fn is_invalid_number(text: &[u8]) -> bool {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    if byte(0) == b'+' {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    match byte(0) {
        b'0' => byte(1).eq_ignore_ascii_case(&b'x') || byte(1).is_ascii_digit(),
        first if first <= b'9' => false,
        _ => text.get(..3).is_some_and(|word| {
            word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")
        }),
    }
}
