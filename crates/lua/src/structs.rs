//! The library `struct`: numbers and strings in the layout of C's structures.

use std::ffi::c_int;

use mlua::ffi;

use crate::buffer::Buffer;
use crate::context::charge;
use crate::stack::{bad_argument, check_bytes, fail, integer_or, lua_State, push, set_function};

const INTEGER_SIZE_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        set_function(l, table, "pack", pack);
        set_function(l, table, "unpack", unpack);
        set_function(l, table, "size", size);
    }
}

/// A format, read option by option.
struct Format<'a> {
    l: *mut lua_State,
    text: &'a [u8],
    at: usize,
    is_big: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    /// The format is the first argument, up to its first zero byte.
    unsafe fn new(l: *mut lua_State) -> Self {
        unsafe {
            let text: &'a [u8] = check_bytes(l, 1);
            let end = memchr::memchr(0, text).unwrap_or(text.len());
            Self { l, text: &text[..end], at: 0, is_big: false, alignment: 1 }
        }
    }

    /// The next option and the size it takes.
    unsafe fn next(&mut self) -> Option<(u8, usize)> {
        unsafe {
            charge(self.l, 1);
            let option = *self.text.get(self.at)?;
            self.at += 1;
            let size = match option {
                b'B' | b'b' | b'x' => 1,
                b'H' | b'h' => 2,
                b'L' | b'l' | b'T' | b'd' => 8,
                b'f' => 4,
                b'c' => self.number(1),
                b'i' | b'I' => {
                    let size = self.number(4);
                    if size > INTEGER_SIZE_MAX {
                        ffi::luaL_error(
                            self.l,
                            c"integral size %d is larger than limit of %d".as_ptr(),
                            size as c_int,
                            INTEGER_SIZE_MAX as c_int,
                        );
                    }
                    size
                }
                _ => 0,
            };
            Some((option, size))
        }
    }

    unsafe fn number(&mut self, default: usize) -> usize {
        unsafe {
            let mut number = None;
            while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
                let sum = number.unwrap_or(0) * 10 + usize::from(digit - b'0');
                if sum > c_int::MAX as usize {
                    fail(self.l, c"integral size overflow");
                }
                number = Some(sum);
                self.at += 1;
            }
            number.unwrap_or(default)
        }
    }

    /// Bytes between a position and the next place for an item of this size.
    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        size.wrapping_sub(position & (size.wrapping_sub(1))) & size.wrapping_sub(1)
    }

    /// An option that changes how others are read.
    unsafe fn control(&mut self, option: u8) {
        unsafe {
            match option {
                b' ' => {}
                b'>' => self.is_big = true,
                b'<' => self.is_big = false,
                b'!' => {
                    let alignment = self.number(ALIGNMENT_MAX);
                    if !alignment.is_power_of_two() {
                        let format = c"alignment %d is not a power of 2";
                        ffi::luaL_error(self.l, format.as_ptr(), alignment as c_int);
                    }
                    self.alignment = alignment;
                }
                other => {
                    let format = c"invalid format option '%c'";
                    let message = ffi::lua_pushfstring(self.l, format.as_ptr(), c_int::from(other));
                    ffi::luaL_argerror(self.l, 1, message);
                }
            }
        }
    }
}

fn is_integer(option: u8) -> bool {
    b"bBhHlLTiI".contains(&option)
}

unsafe extern "C-unwind" fn pack(l: *mut lua_State) -> c_int {
    unsafe {
        let mut format = Format::new(l);
        let last = ffi::lua_gettop(l);
        // What a first absent argument is taken for.
        ffi::lua_pushnil(l);
        let mut out = Buffer::new(l, 64);
        let mut index = 1;
        while let Some((option, size)) = format.next() {
            for _ in 0..format.padding(out.len(), option, size) {
                out.push(0);
            }
            let takes_argument = is_integer(option) || b"fdcs".contains(&option);
            if takes_argument {
                index += 1;
                if index > last + 1 {
                    // Makes the argument absent, so that the check below fails; the buffer, whose
                    // slot that was, is not used again.
                    ffi::lua_settop(l, last);
                }
            }
            pack_item(&mut format, &mut out, option, size, index);
        }
        out.finish();
        1
    }
}

unsafe fn pack_item(
    format: &mut Format<'_>,
    out: &mut Buffer,
    option: u8,
    size: usize,
    index: c_int,
) {
    unsafe {
        let l = format.l;
        match option {
            option if is_integer(option) => {
                let number = ffi::luaL_checknumber(l, index);
                let value = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut bytes = [0; INTEGER_SIZE_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                if format.is_big {
                    bytes[..size].reverse();
                }
                out.extend(&bytes[..size]);
            }
            b'x' => out.push(0),
            b'f' => {
                let number = ffi::luaL_checknumber(l, index) as f32;
                let bytes = if format.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
                out.extend(&bytes);
            }
            b'd' => {
                let number = ffi::luaL_checknumber(l, index);
                let bytes = if format.is_big { number.to_be_bytes() } else { number.to_le_bytes() };
                out.extend(&bytes);
            }
            b'c' | b's' => {
                let string = check_bytes(l, index);
                let size = if size == 0 { string.len() } else { size };
                if string.len() < size {
                    bad_argument(l, index + 1, c"string too short");
                }
                out.extend(&string[..size]);
                if option == b's' {
                    out.push(0);
                }
            }
            other => format.control(other),
        }
    }
}

unsafe extern "C-unwind" fn unpack(l: *mut lua_State) -> c_int {
    unsafe {
        let mut format = Format::new(l);
        let data = check_bytes(l, 2);
        let start = integer_or(l, 3, 1);
        if start == 0 {
            bad_argument(l, 3, c"offset must be 1 or greater");
        }
        let mut at = (start as usize).wrapping_sub(1);
        let mut count = 0;
        ffi::lua_settop(l, 2);
        while let Some((option, mut size)) = format.next() {
            at = at.wrapping_add(format.padding(at, option, size));
            check_fits(l, data, at, size);
            ffi::luaL_checkstack(l, 2, c"too many results".as_ptr());
            if option == b'c' && size == 0 {
                if count == 0 || ffi::lua_isnumber(l, -1) == 0 {
                    fail(l, c"format 'c0' needs a previous size");
                }
                size = ffi::lua_tonumber(l, -1) as i64 as usize;
                ffi::lua_settop(l, -2);
                count -= 1;
                check_fits(l, data, at, size);
            }
            match option {
                b's' => {
                    let Some(len) = memchr::memchr(0, &data[at..]) else {
                        fail(l, c"unfinished string in data")
                    };
                    push(l, &data[at..at + len]);
                    count += 1;
                    size = len + 1;
                }
                option if is_integer(option) || b"fdc".contains(&option) => {
                    push_item(&format, option, &data[at..at + size]);
                    count += 1;
                }
                b'x' => {}
                other => format.control(other),
            }
            at += size;
        }
        ffi::lua_pushnumber(l, (at + 1) as f64);
        count + 1
    }
}

unsafe fn check_fits(l: *mut lua_State, data: &[u8], at: usize, size: usize) {
    unsafe {
        if size > data.len() || at > data.len() - size {
            bad_argument(l, 2, c"data string too short");
        }
    }
}

unsafe fn push_item(format: &Format<'_>, option: u8, bytes: &[u8]) {
    unsafe {
        let l = format.l;
        let number = match (option, bytes) {
            (b'c', bytes) => return push(l, bytes),
            (b'f', &[a, b, c, d]) if format.is_big => f64::from(f32::from_be_bytes([a, b, c, d])),
            (b'f', &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (b'd', bytes) => {
                let bytes: [u8; 8] = bytes.try_into().unwrap_or_default();
                if format.is_big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) }
            }
            (_, bytes) => integer(bytes, format.is_big, option.is_ascii_lowercase()),
        };
        ffi::lua_pushnumber(l, number);
    }
}

/// An integer; of more than eight bytes the low eight count.
fn integer(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    let mut value =
        if is_big { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !is_signed {
        return value as f64;
    }
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
    if value & mask != 0 {
        value |= mask;
    }
    value as i64 as f64
}

unsafe extern "C-unwind" fn size(l: *mut lua_State) -> c_int {
    unsafe {
        let mut format = Format::new(l);
        let mut at = 0;
        while let Some((option, size)) = format.next() {
            at += format.padding(at, option, size);
            match (option, size) {
                (b's', _) => bad_argument(l, 1, c"option 's' has no fixed size"),
                (b'c', 0) => bad_argument(l, 1, c"option 'c0' has no fixed size"),
                (other, _) if !other.is_ascii_alphanumeric() => format.control(other),
                _ => {}
            }
            at += size;
        }
        ffi::lua_pushnumber(l, at as f64);
        1
    }
}
