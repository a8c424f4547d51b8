//! `math.random` and `randomseed`, on Redis's generator: the same numbers in every run.

use std::ffi::c_int;

use mlua::ffi;

use crate::context::of;
use crate::stack::{bad_argument, fail, lua_State, set_function};

/// The state of the 48-bit generator that seed 0 gives.
pub(crate) const SEED: u64 = seeded(0);
const RANGE: u64 = 2_147_483_647;

const fn seeded(seed: u32) -> u64 {
    ((seed as u64) << 16) | 0x330e
}

pub(crate) unsafe fn open(l: *mut lua_State, table: c_int) {
    unsafe {
        set_function(l, table, "random", random);
        set_function(l, table, "randomseed", randomseed);
    }
}

/// The next 31 bits of the linear congruential generator of `lrand48`.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
    *state >> 17
}

unsafe extern "C-unwind" fn random(l: *mut lua_State) -> c_int {
    unsafe {
        let fraction = (draw(&mut of(l).random) % RANGE) as f64 / RANGE as f64;
        let (low, high) = match ffi::lua_gettop(l) {
            0 => {
                ffi::lua_pushnumber(l, fraction);
                return 1;
            }
            1 => (1, integer(l, 1)),
            2 => (integer(l, 1), integer(l, 2)),
            _ => fail(l, c"wrong number of arguments"),
        };
        if low > high {
            let last = ffi::lua_gettop(l);
            bad_argument(l, last, c"interval is empty");
        }
        let width = high.wrapping_sub(low).wrapping_add(1);
        ffi::lua_pushnumber(l, (fraction * f64::from(width)).floor() + f64::from(low));
        1
    }
}

/// As C's cast to `int`, by way of a long integer.
unsafe fn integer(l: *mut lua_State, index: c_int) -> i32 {
    unsafe { ffi::luaL_checknumber(l, index) as i64 as i32 }
}

unsafe extern "C-unwind" fn randomseed(l: *mut lua_State) -> c_int {
    unsafe {
        let seed = integer(l, 1) as u32;
        of(l).random = seeded(seed);
        0
    }
}
