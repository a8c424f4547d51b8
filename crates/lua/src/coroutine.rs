//! Coroutines: Lua's own, but that a stopped script goes through them, and that making or resuming
//! many of them counts as work.

use std::ffi::c_int;

use mlua::ffi;

use crate::base::original;
use crate::context::{charge, enter, of, rethrow};
use crate::stack::{get, lua_State, set_function};

/// Steps that a coroutine costs: it may run that long before its own hook counts it.
const COST: u64 = 200;

pub(crate) unsafe fn open(l: *mut lua_State, globals: c_int) {
    unsafe {
        get(l, globals, "coroutine");
        let table = ffi::lua_gettop(l);
        set_function(l, table, "create", create);
        set_function(l, table, "resume", resume);
        set_function(l, table, "wrap", wrap);
        ffi::lua_settop(l, table - 1);
    }
}

unsafe extern "C-unwind" fn create(l: *mut lua_State) -> c_int {
    unsafe {
        charge(l, COST);
        original!(l, create)
    }
}

unsafe extern "C-unwind" fn resume(l: *mut lua_State) -> c_int {
    unsafe {
        charge(l, COST);
        let thread = ffi::lua_tothread(l, 1);
        if thread.is_null() {
            return original!(l, resume);
        }
        let before = enter(thread);
        let count = original!(l, resume);
        enter(before);
        rethrow(l);
        count
    }
}

unsafe extern "C-unwind" fn wrap(l: *mut lua_State) -> c_int {
    unsafe {
        charge(l, COST);
        original!(l, create);
        ffi::lua_pushcclosure(l, resume_wrapped, 1);
        1
    }
}

unsafe extern "C-unwind" fn resume_wrapped(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(1));
        ffi::lua_insert(l, 1);
        let count = resume(l);
        if ffi::lua_toboolean(l, -count) != 0 {
            return count - 1;
        }
        if ffi::lua_isstring(l, -1) != 0 {
            ffi::luaL_where(l, 1);
            ffi::lua_insert(l, -2);
            ffi::lua_concat(l, 2);
        }
        ffi::lua_error(l)
    }
}
