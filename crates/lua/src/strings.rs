//! Functions of `string` that could run for ever in Lua's own form: those with patterns, and `rep`.

use std::ffi::c_int;

use mlua::ffi;

use crate::buffer::Buffer;
use crate::context::charge;
use crate::pattern::{Matcher, is_special};
use crate::stack::{check_bytes, integer_or, lua_State, push, set, set_function, text};

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        set_function(l, table, "find", find);
        set_function(l, table, "match", match_);
        set_function(l, table, "gmatch", gmatch);
        set_function(l, table, "gfind", gmatch);
        set_function(l, table, "gsub", gsub);
        set_function(l, table, "rep", rep);
        ffi::lua_pushnil(l);
        set(l, table, "dump");
    }
}

unsafe extern "C-unwind" fn find(l: *mut lua_State) -> c_int {
    unsafe { search(l, true) }
}

unsafe extern "C-unwind" fn match_(l: *mut lua_State) -> c_int {
    unsafe { search(l, false) }
}

/// Where a search begins: the third argument, which may count from the end.
unsafe fn start_of_search(l: *mut lua_State, len: usize) -> usize {
    unsafe {
        let len = len as i64;
        let asked = integer_or(l, 3, 1);
        let from_start = if asked < 0 { (asked + len + 1).max(0) } else { asked };
        (from_start - 1).clamp(0, len) as usize
    }
}

unsafe fn search(l: *mut lua_State, is_find: bool) -> c_int {
    unsafe {
        let subject = check_bytes(l, 1);
        let pattern = check_bytes(l, 2);
        let start = start_of_search(l, subject.len());
        if is_find && (ffi::lua_toboolean(l, 4) != 0 || !is_special(pattern)) {
            return find_plain(l, subject, pattern, start);
        }
        let (is_anchored, pattern) = anchor(pattern);
        let mut matcher = Matcher::new(l, subject, pattern);
        let last = if is_anchored { start } else { subject.len() };
        for at in start..=last {
            let Some(end) = matcher.match_at(at) else { continue };
            if !is_find {
                return matcher.push_captures(Some((at, end)));
            }
            ffi::lua_pushnumber(l, (at + 1) as f64);
            ffi::lua_pushnumber(l, end as f64);
            return matcher.push_captures(None) + 2;
        }
        ffi::lua_pushnil(l);
        1
    }
}

fn anchor(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, pattern),
    }
}

unsafe fn find_plain(l: *mut lua_State, subject: &[u8], pattern: &[u8], start: usize) -> c_int {
    unsafe {
        charge(l, (subject.len() - start) as u64 / 64);
        match memchr::memmem::find(&subject[start..], pattern) {
            None => {
                ffi::lua_pushnil(l);
                1
            }
            Some(at) => {
                ffi::lua_pushnumber(l, (start + at + 1) as f64);
                ffi::lua_pushnumber(l, (start + at + pattern.len()) as f64);
                2
            }
        }
    }
}

unsafe extern "C-unwind" fn gmatch(l: *mut lua_State) -> c_int {
    unsafe {
        check_bytes(l, 1);
        check_bytes(l, 2);
        ffi::lua_settop(l, 2);
        ffi::lua_pushnumber(l, 0.0);
        ffi::lua_pushcclosure(l, gmatch_next, 3);
        1
    }
}

unsafe extern "C-unwind" fn gmatch_next(l: *mut lua_State) -> c_int {
    unsafe {
        let subject = text(l, ffi::lua_upvalueindex(1));
        let pattern = text(l, ffi::lua_upvalueindex(2));
        let start = ffi::lua_tonumber(l, ffi::lua_upvalueindex(3)) as usize;
        let mut matcher = Matcher::new(l, subject, pattern);
        for at in start..=subject.len() {
            let Some(end) = matcher.match_at(at) else { continue };
            let next = if end == at { end + 1 } else { end };
            ffi::lua_pushnumber(l, next as f64);
            ffi::lua_replace(l, ffi::lua_upvalueindex(3));
            return matcher.push_captures(Some((at, end)));
        }
        0
    }
}

unsafe extern "C-unwind" fn gsub(l: *mut lua_State) -> c_int {
    unsafe {
        let subject = check_bytes(l, 1);
        let (is_anchored, pattern) = anchor(check_bytes(l, 2));
        let kind = ffi::lua_type(l, 3);
        let max = integer_or(l, 4, subject.len() as i64 + 1) as i32;
        let can_replace = [ffi::LUA_TNUMBER, ffi::LUA_TSTRING, ffi::LUA_TTABLE, ffi::LUA_TFUNCTION];
        if !can_replace.contains(&kind) {
            crate::stack::bad_argument(l, 3, c"string/function/table expected");
        }
        let mut matcher = Matcher::new(l, subject, pattern);
        let mut out = Buffer::new(l, subject.len());
        let (mut at, mut count) = (0, 0);
        while count < max {
            let end = matcher.match_at(at);
            if let Some(end) = end {
                count += 1;
                replace(l, &mut matcher, &mut out, (at, end));
            }
            match end {
                Some(end) if end > at => at = end,
                _ if at < subject.len() => {
                    out.push(subject[at]);
                    at += 1;
                }
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        out.extend(&subject[at..]);
        out.finish();
        ffi::lua_pushnumber(l, f64::from(count));
        2
    }
}

/// Appends what replaces a match; a function may return nothing, and the match stays.
unsafe fn replace(
    l: *mut lua_State,
    matcher: &mut Matcher<'_>,
    out: &mut Buffer,
    (start, end): (usize, usize),
) {
    unsafe {
        match ffi::lua_type(l, 3) {
            ffi::LUA_TFUNCTION => {
                ffi::lua_pushvalue(l, 3);
                let count = matcher.push_captures(Some((start, end)));
                ffi::lua_call(l, count, 1);
            }
            ffi::LUA_TTABLE => {
                matcher.push_capture(0, start, end);
                ffi::lua_gettable(l, 3);
            }
            _ => return replace_by_text(l, matcher, out, (start, end)),
        }
        if ffi::lua_toboolean(l, -1) == 0 {
            ffi::lua_settop(l, -2);
            ffi::lua_pushlstring(l, text(l, 1).as_ptr().add(start).cast(), end - start);
        } else if ffi::lua_isstring(l, -1) == 0 {
            let name = ffi::lua_typename(l, ffi::lua_type(l, -1));
            ffi::luaL_error(l, c"invalid replacement value (a %s)".as_ptr(), name);
        }
        out.extend(text(l, -1));
        ffi::lua_settop(l, out.slot());
    }
}

unsafe fn replace_by_text(
    l: *mut lua_State,
    matcher: &mut Matcher<'_>,
    out: &mut Buffer,
    (start, end): (usize, usize),
) {
    unsafe {
        let news = text(l, 3);
        let mut at = 0;
        while at < news.len() {
            let byte = news[at];
            at += 1;
            if byte != b'%' {
                out.push(byte);
                continue;
            }
            // After the last byte Lua sees a zero.
            let next = news.get(at).copied().unwrap_or(0);
            at += 1;
            if next == b'0' {
                out.extend(&text(l, 1)[start..end]);
            } else if next.is_ascii_digit() {
                matcher.push_capture(usize::from(next - b'1'), start, end);
                out.extend(text(l, -1));
                ffi::lua_settop(l, out.slot());
            } else {
                out.push(next);
            }
        }
        charge(l, news.len() as u64 / 16);
    }
}

unsafe extern "C-unwind" fn rep(l: *mut lua_State) -> c_int {
    unsafe {
        let piece = check_bytes(l, 1);
        let count = ffi::luaL_checknumber(l, 2) as i64 as i32;
        if count <= 0 || piece.is_empty() {
            push(l, b"");
            return 1;
        }
        let len = piece.len().saturating_mul(count as usize).min(isize::MAX as usize / 2);
        let mut out = Buffer::new(l, len);
        out.extend(piece);
        while out.len() < len {
            // Whole pieces, but for the last copy.
            let most = ((1 << 20) / piece.len()).max(1) * piece.len();
            let more = out.len().min(len - out.len()).min(most);
            charge(l, more as u64 / 64);
            out.extend_from_start(more);
        }
        out.finish();
        1
    }
}
