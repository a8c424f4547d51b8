//! What C functions do with Lua's stack: bytes in, bytes out, errors.
//!
//! Every function here may leave by `longjmp`, as Lua's own do: a caller owns nothing then that
//! must be dropped. Buffers that grow live in the [`Context`](crate::context::Context).

use std::ffi::{CStr, c_char, c_int, c_void};

use mlua::ffi;
pub(crate) use mlua::ffi::lua_State;

/// A function that Lua calls.
pub(crate) type Function = unsafe extern "C-unwind" fn(*mut lua_State) -> c_int;

/// The bytes of a string at an index, or `None` for any other type. They live while the string is
/// on the stack: the lifetime is the caller's care.
pub(crate) unsafe fn bytes<'a>(l: *mut lua_State, index: c_int) -> Option<&'a [u8]> {
    unsafe {
        if ffi::lua_type(l, index) != ffi::LUA_TSTRING {
            return None;
        }
        Some(text(l, index))
    }
}

/// The bytes of a string or number at an index; the number becomes a string in place.
pub(crate) unsafe fn text<'a>(l: *mut lua_State, index: c_int) -> &'a [u8] {
    unsafe {
        let mut len = 0;
        let start = ffi::lua_tolstring(l, index, &mut len);
        if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast(), len) }
    }
}

/// The bytes of argument `index`, or the error that every library function raises.
pub(crate) unsafe fn check_bytes<'a>(l: *mut lua_State, index: c_int) -> &'a [u8] {
    unsafe {
        let mut len = 0;
        let start = ffi::luaL_checklstring(l, index, &mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// An integer argument, or the default where it is absent.
pub(crate) unsafe fn integer_or(l: *mut lua_State, index: c_int, default: i64) -> i64 {
    unsafe {
        match ffi::lua_type(l, index) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => default,
            _ => ffi::luaL_checknumber(l, index) as i64,
        }
    }
}

/// Pushes a string.
pub(crate) unsafe fn push(l: *mut lua_State, bytes: &[u8]) {
    unsafe {
        ffi::lua_pushlstring(l, bytes.as_ptr().cast::<c_char>(), bytes.len());
    }
}

/// Sets `table[name]` to the value on top, and pops it; `table` counts with the value on top.
pub(crate) unsafe fn set(l: *mut lua_State, table: c_int, name: &str) {
    unsafe {
        let table = absolute(l, table);
        push(l, name.as_bytes());
        ffi::lua_insert(l, -2);
        ffi::lua_rawset(l, table);
    }
}

/// Pushes `table[name]`, without metamethods.
pub(crate) unsafe fn get(l: *mut lua_State, table: c_int, name: &str) {
    unsafe {
        let table = absolute(l, table);
        push(l, name.as_bytes());
        ffi::lua_rawget(l, table);
    }
}

/// Sets `table[name]` to a function.
pub(crate) unsafe fn set_function(l: *mut lua_State, table: c_int, name: &str, f: Function) {
    unsafe {
        let table = absolute(l, table);
        ffi::lua_pushcclosure(l, f, 0);
        set(l, table, name);
    }
}

/// Sets `table[name]` to a number.
pub(crate) unsafe fn set_number(l: *mut lua_State, table: c_int, name: &str, number: f64) {
    unsafe {
        let table = absolute(l, table);
        ffi::lua_pushnumber(l, number);
        set(l, table, name);
    }
}

/// Sets `table[name]` to a string.
pub(crate) unsafe fn set_text(l: *mut lua_State, table: c_int, name: &str, text: &str) {
    unsafe {
        let table = absolute(l, table);
        push(l, text.as_bytes());
        set(l, table, name);
    }
}

/// An index that stays right while things are pushed.
pub(crate) unsafe fn absolute(l: *mut lua_State, index: c_int) -> c_int {
    unsafe {
        if index < 0 && index > ffi::LUA_REGISTRYINDEX {
            ffi::lua_gettop(l) + index + 1
        } else {
            index
        }
    }
}

/// Raises an error with the place of the caller in front.
pub(crate) unsafe fn fail(l: *mut lua_State, message: &CStr) -> ! {
    unsafe {
        ffi::luaL_error(l, c"%s".as_ptr(), message.as_ptr());
    }
    unreachable!("luaL_error does not return")
}

/// Raises the error of a wrong argument.
pub(crate) unsafe fn bad_argument(l: *mut lua_State, index: c_int, message: &CStr) -> ! {
    unsafe {
        ffi::luaL_argerror(l, index, message.as_ptr());
    }
    unreachable!("luaL_argerror does not return")
}

/// A number as C's `printf` writes it; the format takes one `double`.
pub(crate) fn format_double(format: &CStr, number: f64, buffer: &mut [u8; 64]) -> usize {
    // SAFETY: snprintf writes at most the buffer's length, and the format takes one double.
    let len = unsafe {
        libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), number)
    };
    usize::try_from(len).unwrap_or(0).min(buffer.len() - 1)
}

/// A light userdata whose address is a key of the registry that no script can make.
pub(crate) fn key(place: &'static u8) -> *mut c_void {
    std::ptr::from_ref(place).cast_mut().cast()
}

/// Pushes what the registry has under a [`key`].
pub(crate) unsafe fn get_registered(l: *mut lua_State, place: &'static u8) {
    unsafe {
        ffi::lua_pushlightuserdata(l, key(place));
        ffi::lua_rawget(l, ffi::LUA_REGISTRYINDEX);
    }
}

/// Puts the value on top into the registry under a [`key`], and pops it.
pub(crate) unsafe fn set_registered(l: *mut lua_State, place: &'static u8) {
    unsafe {
        ffi::lua_pushlightuserdata(l, key(place));
        ffi::lua_insert(l, -2);
        ffi::lua_rawset(l, ffi::LUA_REGISTRYINDEX);
    }
}
