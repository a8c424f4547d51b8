//! Functions of `table` that need care: they refuse read-only tables, and sorting can be stopped.

use std::ffi::c_int;

use mlua::ffi;

use crate::base::original;
use crate::context::{charge, of};
use crate::sandbox::check_writable;
use crate::stack::{fail, lua_State, set_function};

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        set_function(l, table, "insert", insert);
        set_function(l, table, "sort", sort);
    }
}

unsafe extern "C-unwind" fn insert(l: *mut lua_State) -> c_int {
    unsafe {
        check_writable(l, 1);
        original!(l, insert)
    }
}

/// Sorts in place, by quicksort with the median of three, in the order of Lua 5.1: scripts see
/// where equal elements end up.
unsafe extern "C-unwind" fn sort(l: *mut lua_State) -> c_int {
    unsafe {
        ffi::luaL_checktype(l, 1, ffi::LUA_TTABLE);
        let len = c_int::try_from(ffi::lua_objlen(l, 1)).unwrap_or(c_int::MAX);
        ffi::luaL_checkstack(l, 40, c"".as_ptr());
        if ffi::lua_type(l, 2) > ffi::LUA_TNIL {
            ffi::luaL_checktype(l, 2, ffi::LUA_TFUNCTION);
        }
        ffi::lua_settop(l, 2);
        sort_range(l, 1, len);
        0
    }
}

unsafe fn fetch(l: *mut lua_State, index: c_int) {
    unsafe {
        ffi::lua_rawgeti(l, 1, ffi::lua_Integer::from(index));
    }
}

/// Pops two values: the top goes to `first`, the one below to `second`.
unsafe fn store_two(l: *mut lua_State, first: c_int, second: c_int) {
    unsafe {
        ffi::lua_rawseti(l, 1, ffi::lua_Integer::from(first));
        ffi::lua_rawseti(l, 1, ffi::lua_Integer::from(second));
    }
}

/// Does the comparator, or `<`, put the value at `a` before the one at `b`?
unsafe fn less(l: *mut lua_State, a: c_int, b: c_int) -> bool {
    unsafe {
        charge(l, 1);
        if ffi::lua_type(l, 2) == ffi::LUA_TNIL {
            return ffi::lua_lessthan(l, a, b) != 0;
        }
        ffi::lua_pushvalue(l, 2);
        ffi::lua_pushvalue(l, a - 1);
        ffi::lua_pushvalue(l, b - 2);
        ffi::lua_call(l, 2, 1);
        let is_less = ffi::lua_toboolean(l, -1) != 0;
        ffi::lua_settop(l, -2);
        is_less
    }
}

/// Fetches both places, and swaps them if the later one's value comes first.
unsafe fn order(l: *mut lua_State, low: c_int, high: c_int) {
    unsafe {
        fetch(l, low);
        fetch(l, high);
        if less(l, -1, -2) {
            store_two(l, low, high);
        } else {
            ffi::lua_settop(l, -3);
        }
    }
}

unsafe fn sort_range(l: *mut lua_State, mut low: c_int, mut high: c_int) {
    unsafe {
        while low < high {
            order(l, low, high);
            if high - low == 1 {
                break;
            }
            let middle = low + (high - low) / 2;
            fetch(l, middle);
            fetch(l, low);
            if less(l, -2, -1) {
                store_two(l, middle, low);
            } else {
                ffi::lua_settop(l, -2);
                fetch(l, high);
                if less(l, -1, -2) {
                    store_two(l, middle, high);
                } else {
                    ffi::lua_settop(l, -3);
                }
            }
            if high - low == 2 {
                break;
            }
            let pivot = partition(l, low, high, middle);
            // The smaller part by recursion, so that the stack stays small.
            if pivot - low < high - pivot {
                sort_range(l, low, pivot - 1);
                low = pivot + 1;
            } else {
                sort_range(l, pivot + 1, high);
                high = pivot - 1;
            }
        }
    }
}

/// Divides the range around the value at `middle`; returns where that value ends up.
unsafe fn partition(l: *mut lua_State, low: c_int, high: c_int, middle: c_int) -> c_int {
    unsafe {
        fetch(l, middle);
        ffi::lua_pushvalue(l, -1);
        fetch(l, high - 1);
        store_two(l, middle, high - 1);
        let (mut left, mut right) = (low, high - 1);
        loop {
            left += 1;
            fetch(l, left);
            while less(l, -1, -2) {
                if left > high {
                    fail(l, c"invalid order function for sorting");
                }
                ffi::lua_settop(l, -2);
                left += 1;
                fetch(l, left);
            }
            right -= 1;
            fetch(l, right);
            while less(l, -3, -1) {
                if right < low {
                    fail(l, c"invalid order function for sorting");
                }
                ffi::lua_settop(l, -2);
                right -= 1;
                fetch(l, right);
            }
            if right < left {
                ffi::lua_settop(l, -4);
                break;
            }
            store_two(l, left, right);
        }
        fetch(l, high - 1);
        fetch(l, left);
        store_two(l, high - 1, left);
        left
    }
}
