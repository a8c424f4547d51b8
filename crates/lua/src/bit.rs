//! The library `bit`: operations on 32 bits.

use std::ffi::c_int;

use mlua::ffi;

use crate::stack::{lua_State, push, set_function};

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        set_function(l, table, "tobit", tobit);
        set_function(l, table, "bnot", bnot);
        set_function(l, table, "bswap", bswap);
        set_function(l, table, "band", band);
        set_function(l, table, "bor", bor);
        set_function(l, table, "bxor", bxor);
        set_function(l, table, "lshift", lshift);
        set_function(l, table, "rshift", rshift);
        set_function(l, table, "arshift", arshift);
        set_function(l, table, "rol", rol);
        set_function(l, table, "ror", ror);
        set_function(l, table, "tohex", tohex);
    }
}

/// The low 32 bits of a number, rounded to the nearest integer: adding 2⁵² + 2⁵¹ puts them at the
/// end of the mantissa.
unsafe fn bits(l: *mut lua_State, index: c_int) -> u32 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    unsafe {
        let number = ffi::luaL_checknumber(l, index);
        (number + SHIFT).to_bits() as u32
    }
}

unsafe fn result(l: *mut lua_State, bits: u32) -> c_int {
    unsafe {
        ffi::lua_pushnumber(l, f64::from(bits as i32));
        1
    }
}

unsafe extern "C-unwind" fn tobit(l: *mut lua_State) -> c_int {
    unsafe { result(l, bits(l, 1)) }
}

unsafe extern "C-unwind" fn bnot(l: *mut lua_State) -> c_int {
    unsafe { result(l, !bits(l, 1)) }
}

unsafe extern "C-unwind" fn bswap(l: *mut lua_State) -> c_int {
    unsafe { result(l, bits(l, 1).swap_bytes()) }
}

unsafe fn fold(l: *mut lua_State, join: fn(u32, u32) -> u32) -> c_int {
    unsafe {
        let mut sum = bits(l, 1);
        for index in 2..=ffi::lua_gettop(l) {
            sum = join(sum, bits(l, index));
        }
        result(l, sum)
    }
}

unsafe extern "C-unwind" fn band(l: *mut lua_State) -> c_int {
    unsafe { fold(l, |a, b| a & b) }
}

unsafe extern "C-unwind" fn bor(l: *mut lua_State) -> c_int {
    unsafe { fold(l, |a, b| a | b) }
}

unsafe extern "C-unwind" fn bxor(l: *mut lua_State) -> c_int {
    unsafe { fold(l, |a, b| a ^ b) }
}

unsafe fn shift(l: *mut lua_State, by: fn(u32, u32) -> u32) -> c_int {
    unsafe {
        let value = bits(l, 1);
        let count = bits(l, 2) & 31;
        result(l, by(value, count))
    }
}

unsafe extern "C-unwind" fn lshift(l: *mut lua_State) -> c_int {
    unsafe { shift(l, |value, count| value << count) }
}

unsafe extern "C-unwind" fn rshift(l: *mut lua_State) -> c_int {
    unsafe { shift(l, |value, count| value >> count) }
}

unsafe extern "C-unwind" fn arshift(l: *mut lua_State) -> c_int {
    unsafe { shift(l, |value, count| ((value as i32) >> count) as u32) }
}

unsafe extern "C-unwind" fn rol(l: *mut lua_State) -> c_int {
    unsafe { shift(l, u32::rotate_left) }
}

unsafe extern "C-unwind" fn ror(l: *mut lua_State) -> c_int {
    unsafe { shift(l, u32::rotate_right) }
}

/// Hexadecimal digits, eight unless asked otherwise; a negative number of them means capitals.
unsafe extern "C-unwind" fn tohex(l: *mut lua_State) -> c_int {
    unsafe {
        let mut value = bits(l, 1);
        let is_absent = ffi::lua_type(l, 2) == ffi::LUA_TNONE;
        let asked = if is_absent { 8 } else { bits(l, 2) as i32 };
        let letters: &[u8; 16] = if asked < 0 { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let count = asked.unsigned_abs().min(8) as usize;
        let mut digits = [0; 8];
        for digit in digits[..count].iter_mut().rev() {
            *digit = letters[value as usize & 15];
            value >>= 4;
        }
        push(l, &digits[..count]);
        1
    }
}
