//! A script's value as a RESP reply.
//!
//! The reply is in the client's protocol. Booleans alone also depend on the script's: unless it
//! has called `redis.setresp(3)`, true is 1 and false is nil.

use std::ffi::c_int;
use std::io::Write as _;

use mlua::ffi;

use crate::context::{Context, charge, check_length, of};
use crate::errors::{append_flat, append_line, until_zero};
use crate::stack::{bytes, format_double, get, lua_State, text};

/// Appends the value on top to the context's reply, and pops it.
pub(crate) unsafe fn reply(l: *mut lua_State) {
    unsafe {
        if ffi::lua_checkstack(l, 4) == 0 {
            let out = &mut of(l).out;
            out.extend_from_slice(b"-ERR reached lua stack limit\r\n");
            ffi::lua_settop(l, -2);
            return;
        }
        charge(l, 1);
        check_length(l, of(l).out.len());
        let context = of(l);
        match ffi::lua_type(l, -1) {
            ffi::LUA_TSTRING => bulk(&mut context.out, text(l, -1)),
            ffi::LUA_TNUMBER => integer(&mut context.out, ffi::lua_tonumber(l, -1)),
            ffi::LUA_TBOOLEAN => boolean(context, ffi::lua_toboolean(l, -1) != 0),
            ffi::LUA_TTABLE => return table(l),
            _ => null(context),
        }
        ffi::lua_settop(l, -2);
    }
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    let _ = write!(out, "{number}\r\n");
}

/// As the C cast to `long long` on x86-64: what does not fit is the least integer.
fn integer(out: &mut Vec<u8>, number: f64) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let fits = (-LIMIT..LIMIT).contains(&number);
    let number = if fits { number as i64 } else { i64::MIN };
    let _ = write!(out, ":{number}\r\n");
}

fn boolean(context: &mut Context, value: bool) {
    match (context.script_resp3, value) {
        (false, true) => context.out.extend_from_slice(b":1\r\n"),
        (false, false) => null(context),
        (true, _) if context.client_resp3 => {
            context.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" });
        }
        (true, _) => context.out.extend_from_slice(if value { b":1\r\n" } else { b":0\r\n" }),
    }
}

fn null(context: &mut Context) {
    let null: &[u8] = if context.client_resp3 { b"_\r\n" } else { b"$-1\r\n" };
    context.out.extend_from_slice(null);
}

/// A table is what its first known field says; without one it is an array.
unsafe fn table(l: *mut lua_State) {
    unsafe {
        let table = ffi::lua_gettop(l);
        let done = error(l, table)
            || status(l, table)
            || double(l, table)
            || map(l, table)
            || set(l, table)
            || big_number(l, table)
            || verbatim(l, table);
        if !done {
            array(l, table);
        }
        ffi::lua_settop(l, table - 1);
    }
}

/// Pushes a field; is it of this type? Pops it if not.
unsafe fn field(l: *mut lua_State, table: c_int, name: &str, kind: c_int) -> bool {
    unsafe {
        get(l, table, name);
        let is_it = ffi::lua_type(l, -1) == kind;
        if !is_it {
            ffi::lua_settop(l, table);
        }
        is_it
    }
}

unsafe fn error(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        let is_it = field(l, table, "err", ffi::LUA_TSTRING);
        if is_it {
            let context = of(l);
            context.is_error |= table == 2;
            context.out.push(b'-');
            append_line(&mut context.out, text(l, -1));
            context.out.extend_from_slice(b"\r\n");
        }
        is_it
    }
}

unsafe fn status(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        let is_it = field(l, table, "ok", ffi::LUA_TSTRING);
        if is_it {
            let out = &mut of(l).out;
            out.push(b'+');
            append_line(out, text(l, -1));
            out.extend_from_slice(b"\r\n");
        }
        is_it
    }
}

unsafe fn double(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        let is_it = field(l, table, "double", ffi::LUA_TNUMBER);
        if is_it {
            let number = ffi::lua_tonumber(l, -1);
            let mut buffer = [0; 64];
            let len = format_double(c"%.17g", number, &mut buffer);
            let context = of(l);
            if context.client_resp3 {
                context.out.push(b',');
                context.out.extend_from_slice(&buffer[..len]);
                context.out.extend_from_slice(b"\r\n");
            } else {
                bulk(&mut context.out, &buffer[..len]);
            }
        }
        is_it
    }
}

/// Writes the pairs of the table on top; the header comes in front when their number is known.
unsafe fn pairs(l: *mut lua_State, with_values: bool) {
    unsafe {
        let inner = ffi::lua_gettop(l);
        let mut count = 0;
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, inner) != 0 {
            ffi::lua_settop(l, -2);
            count += 1;
        }
        let context = of(l);
        let (kind, number) = match (context.client_resp3, with_values) {
            (true, true) => (b'%', count),
            (true, false) => (b'~', count),
            (false, true) => (b'*', count * 2),
            (false, false) => (b'*', count),
        };
        header(&mut context.out, kind, number);
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, inner) != 0 {
            ffi::lua_pushvalue(l, -2);
            reply(l);
            if with_values {
                reply(l);
            } else {
                ffi::lua_settop(l, -2);
            }
        }
    }
}

unsafe fn map(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        let is_it = field(l, table, "map", ffi::LUA_TTABLE);
        if is_it {
            pairs(l, true);
        }
        is_it
    }
}

unsafe fn set(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        let is_it = field(l, table, "set", ffi::LUA_TTABLE);
        if is_it {
            pairs(l, false);
        }
        is_it
    }
}

unsafe fn big_number(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        let is_it = field(l, table, "big_number", ffi::LUA_TSTRING);
        if is_it {
            let context = of(l);
            let number = text(l, -1);
            if context.client_resp3 {
                context.out.push(b'(');
                append_flat(&mut context.out, number);
                context.out.extend_from_slice(b"\r\n");
            } else {
                header(&mut context.out, b'$', number.len());
                append_flat(&mut context.out, number);
                context.out.extend_from_slice(b"\r\n");
            }
        }
        is_it
    }
}

unsafe fn verbatim(l: *mut lua_State, table: c_int) -> bool {
    unsafe {
        if !field(l, table, "verbatim_string", ffi::LUA_TTABLE) {
            return false;
        }
        get(l, table + 1, "format");
        get(l, table + 1, "string");
        let (Some(format), Some(string)) = (bytes(l, table + 2), bytes(l, table + 3)) else {
            ffi::lua_settop(l, table);
            return false;
        };
        let context = of(l);
        if context.client_resp3 {
            header(&mut context.out, b'=', string.len() + 4);
            // Three letters, padded with spaces.
            let mut three = *b"   ";
            let format = until_zero(format);
            let len = format.len().min(3);
            three[..len].copy_from_slice(&format[..len]);
            context.out.extend_from_slice(&three);
            context.out.push(b':');
            context.out.extend_from_slice(string);
            context.out.extend_from_slice(b"\r\n");
        } else {
            bulk(&mut context.out, string);
        }
        true
    }
}

/// All up to the first nil.
unsafe fn array(l: *mut lua_State, table: c_int) {
    unsafe {
        let mut count = 0;
        loop {
            ffi::lua_rawgeti(l, table, count + 1);
            let is_nil = ffi::lua_type(l, -1) == ffi::LUA_TNIL;
            ffi::lua_settop(l, table);
            if is_nil {
                break;
            }
            count += 1;
        }
        header(&mut of(l).out, b'*', count as usize);
        for index in 1..=count {
            ffi::lua_rawgeti(l, table, index);
            reply(l);
        }
    }
}
