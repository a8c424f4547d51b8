//! A growing buffer whose memory is Lua's: it counts against the script's limit, and an error that
//! leaves by `longjmp` leaves it to the garbage collector.

use std::ffi::c_int;

use mlua::ffi;

use crate::context::charge;
use crate::stack::{lua_State, push};

/// See the front page. It occupies one slot of Lua's stack, from [`Buffer::new`] until it is
/// [pushed](Buffer::finish).
pub(crate) struct Buffer {
    l: *mut lua_State,
    slot: c_int,
    start: *mut u8,
    capacity: usize,
    len: usize,
}

impl Buffer {
    /// Pushes the slot.
    pub(crate) unsafe fn new(l: *mut lua_State, capacity: usize) -> Self {
        unsafe {
            let start = ffi::lua_newuserdata(l, capacity.max(64)).cast();
            Self { l, slot: ffi::lua_gettop(l), start, capacity: capacity.max(64), len: 0 }
        }
    }

    /// The slot's index.
    pub(crate) fn slot(&self) -> c_int {
        self.slot
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes are written, and the slot keeps them alive.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    unsafe fn reserve(&mut self, more: usize) {
        unsafe {
            let needed = self.len + more;
            if needed <= self.capacity {
                return;
            }
            let capacity = needed.max(self.capacity * 2);
            charge(self.l, capacity as u64 / 64);
            let start: *mut u8 = ffi::lua_newuserdata(self.l, capacity).cast();
            std::ptr::copy_nonoverlapping(self.start, start, self.len);
            ffi::lua_replace(self.l, self.slot);
            self.start = start;
            self.capacity = capacity;
        }
    }

    pub(crate) unsafe fn extend(&mut self, bytes: &[u8]) {
        unsafe {
            self.reserve(bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(self.len), bytes.len());
            self.len += bytes.len();
        }
    }

    /// Appends its own first bytes once more.
    pub(crate) unsafe fn extend_from_start(&mut self, len: usize) {
        unsafe {
            self.reserve(len);
            std::ptr::copy_nonoverlapping(self.start, self.start.add(self.len), len);
            self.len += len;
        }
    }

    pub(crate) unsafe fn push(&mut self, byte: u8) {
        unsafe {
            if self.len == self.capacity {
                self.reserve(1);
            }
            *self.start.add(self.len) = byte;
            self.len += 1;
        }
    }

    /// Pushes the bytes as a string.
    pub(crate) unsafe fn finish(&self) {
        unsafe {
            charge(self.l, self.len as u64 / 64);
            push(self.l, self.bytes());
        }
    }
}
