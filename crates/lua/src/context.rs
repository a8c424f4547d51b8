//! What stands behind one Lua state: its memory, its limits, and whom a script speaks to.
//!
//! **How a script is stopped.** A count hook runs every [`PERIOD`] instructions, and every C
//! function of ours that loops [charges](charge) for its steps. Either reads the clock and the flag
//! `killed`; when a limit is reached it notes why ([`Context::stop`]) and raises. Whatever could
//! catch that (`pcall`, `xpcall`, `coroutine.resume`, `wrap`) asks [`rethrow`] and raises again, so
//! no Lua code sees it.
//!
//! **One instruction is not one unit of time.** `a < b` on two strings of 30 MB takes 10 ms. So the
//! period shrinks with the largest block that the script has ever allocated.
//!
//! **Memory.** Lua allocates through [`allocate`]. Above `soft` the next hook collects garbage, and
//! stops the script if that does not help. An allocation that would pass `hard` fails at once.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mlua::ffi;

use crate::library::Loading;
use crate::stack::{Function, lua_State};
use crate::{Host, Limits, Stopped};

/// Instructions between two looks at the limits, while all blocks are small.
const PERIOD: usize = 1_000;
/// Up to this size a block costs no more time than other things.
const SMALL_BLOCK: usize = 64 << 10;
/// Steps of our own functions between two looks at the limits.
const STEPS: u64 = 10_000;

/// Why a script ends that no `pcall` may keep alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Aborted,
    Limit(Stopped),
}

/// Original functions of Lua that ours call.
#[derive(Default)]
pub(crate) struct Originals {
    pub(crate) next: Option<Function>,
    pub(crate) rawget: Option<Function>,
    pub(crate) rawset: Option<Function>,
    pub(crate) setmetatable: Option<Function>,
    pub(crate) resume: Option<Function>,
    pub(crate) create: Option<Function>,
    pub(crate) insert: Option<Function>,
}

/// See the front page. Lua's allocator carries its address; [`of`] finds it.
pub(crate) struct Context {
    pub(crate) used: usize,
    soft: usize,
    hard: usize,
    largest: usize,
    /// Blocks that have grown.
    allocations: u32,
    pub(crate) stop: Option<Stop>,
    instructions: u64,
    instructions_max: u64,
    look_at: u64,
    deadline: Option<Instant>,
    /// See [`Limits::thread_time`]: until when the thread's time counts …
    thread_time: Option<Duration>,
    /// … and when it does no more.
    latest: Option<Instant>,
    killed: *const AtomicBool,
    is_running: bool,
    /// The thread that runs: hooks are per thread.
    current: *mut lua_State,
    host: Option<*mut dyn Host>,
    /// `redis.setresp(3)`.
    pub(crate) script_resp3: bool,
    pub(crate) client_resp3: bool,
    /// The reply of a command, in RESP.
    pub(crate) reply: Vec<u8>,
    /// The reply of the script, in RESP.
    pub(crate) out: Vec<u8>,
    pub(crate) is_error: bool,
    pub(crate) scratch: Vec<u8>,
    pub(crate) arguments: Vec<&'static [u8]>,
    /// Digits of numbers among the arguments, at fixed places.
    pub(crate) digits: Vec<[u8; 64]>,
    pub(crate) random: u64,
    pub(crate) ids: u64,
    pub(crate) originals: Originals,
    pub(crate) loading: Option<Loading>,
    pub(crate) cjson: crate::cjson::Settings,
    /// What `os.clock` counts from.
    pub(crate) started: Instant,
}

impl Context {
    pub(crate) fn new() -> Self {
        Self {
            used: 0,
            soft: usize::MAX,
            hard: usize::MAX,
            largest: 0,
            allocations: 0,
            stop: None,
            instructions: 0,
            instructions_max: u64::MAX,
            look_at: u64::MAX,
            deadline: None,
            thread_time: None,
            latest: None,
            killed: std::ptr::null(),
            is_running: false,
            current: std::ptr::null_mut(),
            host: None,
            script_resp3: false,
            client_resp3: false,
            reply: Vec::new(),
            out: Vec::new(),
            is_error: false,
            scratch: Vec::new(),
            arguments: Vec::new(),
            digits: Vec::new(),
            random: 0,
            ids: 0,
            originals: Originals::default(),
            loading: None,
            cjson: crate::cjson::Settings::default(),
            started: Instant::now(),
        }
    }

    /// Sets the limits of what runs now, until [`Context::finish`].
    pub(crate) fn start(&mut self, l: *mut lua_State, limits: &Limits, killed: &AtomicBool) {
        self.soft = limits.memory_bytes;
        self.hard = limits.memory_bytes.saturating_add(limits.memory_bytes / 2 + (1 << 20));
        self.largest = 0;
        self.stop = None;
        self.instructions = 0;
        self.instructions_max = limits.instructions;
        self.look_at = STEPS;
        let now = Instant::now();
        self.deadline = now.checked_add(limits.time);
        self.thread_time = limits.thread_time.map(|time| time.until);
        self.latest = limits.thread_time.and_then(|time| now.checked_add(time.longest));
        self.killed = killed;
        self.is_running = true;
        self.current = l;
        self.script_resp3 = false;
        self.random = crate::maths::SEED;
        self.ids = 0;
        self.cjson = crate::cjson::Settings::default();
        set_hook(l, self.period());
    }

    /// Nothing runs any more: no limit holds.
    pub(crate) fn finish(&mut self) {
        self.is_running = false;
        self.hard = usize::MAX;
        self.killed = std::ptr::null();
        self.host = None;
        self.deadline = None;
    }

    /// Lends the host until [`Context::finish`].
    ///
    /// # Safety
    /// The caller keeps the host alive, and does not touch it, until then.
    pub(crate) unsafe fn lend(&mut self, host: &mut dyn Host) {
        // SAFETY: only the lifetime changes, which the caller answers for.
        self.host = Some(unsafe { std::mem::transmute::<*mut dyn Host, *mut dyn Host>(host) });
    }

    /// The host of what runs; none while a library is loaded.
    pub(crate) fn host(&mut self) -> Option<&mut dyn Host> {
        // SAFETY: `lend`'s caller keeps it alive and untouched until `finish`.
        self.host.map(|host| unsafe { &mut *host })
    }

    fn period(&self) -> usize {
        (PERIOD * SMALL_BLOCK / self.largest.max(SMALL_BLOCK)).max(2)
    }

    fn is_late(&self) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let now = Instant::now();
        now >= deadline
            && (self.thread_time.is_none_or(|until| thread_time() >= until)
                || self.latest.is_some_and(|latest| now >= latest))
    }

    /// Which limit is reached?
    fn reached(&self) -> Option<Stopped> {
        // SAFETY: `start`'s flag outlives the run.
        let is_killed = !self.killed.is_null() && unsafe { (*self.killed).load(Ordering::Relaxed) };
        if is_killed {
            Some(Stopped::Killed)
        } else if self.instructions > self.instructions_max {
            Some(Stopped::Instructions)
        } else if self.is_late() {
            Some(Stopped::Time)
        } else {
            None
        }
    }
}

/// How much of the processor this thread has had.
///
/// # Panics
/// If the system has no such clock.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec`, which is there.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "no clock of the thread's time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn set_hook(l: *mut lua_State, period: usize) {
    let count = c_int::try_from(period).unwrap_or(c_int::MAX);
    // SAFETY: `l` is a live thread; setting a hook touches only its fields.
    unsafe { ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, count) };
}

/// The context of a state. The reference is unbound: nobody keeps it while Lua runs.
pub(crate) unsafe fn of<'a>(l: *mut lua_State) -> &'a mut Context {
    unsafe {
        let mut address = std::ptr::null_mut();
        ffi::lua_getallocf(l, &mut address);
        &mut *address.cast::<Context>()
    }
}

unsafe extern "C-unwind" fn hook(l: *mut lua_State, _: *mut ffi::lua_Debug) {
    unsafe {
        let context = of(l);
        if !context.is_running {
            return;
        }
        let period = context.period();
        context.instructions += period as u64;
        context.current = l;
        look(l);
        set_hook(l, of(l).period());
    }
}

/// Counts steps of a C function of ours, and raises if a limit is reached.
pub(crate) unsafe fn charge(l: *mut lua_State, steps: u64) {
    unsafe {
        let context = of(l);
        context.instructions = context.instructions.saturating_add(steps);
        if context.stop.is_some() || context.instructions >= context.look_at {
            look(l);
        }
    }
}

/// Counts the steps of a command, which may take long by itself, and raises if a limit is reached.
pub(crate) unsafe fn charge_command(l: *mut lua_State, steps: u64) {
    unsafe {
        let context = of(l);
        context.instructions = context.instructions.saturating_add(steps);
        look(l);
    }
}

/// Raises if the script has been stopped, or if a limit is reached.
unsafe fn look(l: *mut lua_State) {
    unsafe {
        let context = of(l);
        context.look_at = context.instructions + STEPS;
        if context.stop.is_none() {
            context.stop = context.reached().map(Stop::Limit);
        }
        if context.stop.is_none() && context.used > context.soft {
            ffi::lua_gc(l, ffi::LUA_GCCOLLECT, 0);
            let context = of(l);
            if context.used > context.soft - context.soft / 10 {
                context.stop = Some(Stop::Limit(Stopped::Memory));
            }
        }
        rethrow(l);
    }
}

/// Raises again if the script has been stopped.
pub(crate) unsafe fn rethrow(l: *mut lua_State) {
    unsafe {
        if of(l).stop.is_some() {
            set_hook(l, 1);
            ffi::lua_pushnil(l);
            ffi::lua_error(l);
        }
    }
}

/// Stops the script for good.
pub(crate) unsafe fn stop(l: *mut lua_State, why: Stop) -> ! {
    unsafe {
        of(l).stop = Some(why);
        rethrow(l);
    }
    unreachable!("a stopped script is thrown")
}

/// Stops the script if a buffer of ours, which Lua does not count, is longer than memory may be.
pub(crate) unsafe fn check_length(l: *mut lua_State, len: usize) {
    unsafe {
        if len > of(l).soft {
            stop(l, Stop::Limit(Stopped::Memory));
        }
    }
}

/// Notes which thread runs; returns the one that ran.
pub(crate) unsafe fn enter(l: *mut lua_State) -> *mut lua_State {
    unsafe {
        let context = of(l);
        let before = std::mem::replace(&mut context.current, l);
        set_hook(l, context.period());
        before
    }
}

/// Lua's allocator: see the front page.
pub(crate) unsafe extern "C" fn allocate(
    context: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    unsafe {
        let context = &mut *context.cast::<Context>();
        let old = if block.is_null() { 0 } else { old };
        if new > old && !context.may_grow(old, new) {
            return std::ptr::null_mut();
        }
        let fresh = match (block.is_null() || old == 0, new) {
            (true, 0) => return std::ptr::null_mut(),
            (true, _) => std::alloc::alloc(layout(new)),
            (false, 0) => {
                std::alloc::dealloc(block.cast(), layout(old));
                std::ptr::null_mut()
            }
            (false, _) => std::alloc::realloc(block.cast(), layout(old), new),
        };
        if new == 0 || !fresh.is_null() {
            context.used = context.used + new - old;
        }
        fresh.cast()
    }
}

fn layout(size: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(size, 16).expect("Lua's sizes are below 2^62")
}

impl Context {
    /// May a block grow? Notes a larger block than ever, and that memory is short.
    fn may_grow(&mut self, old: usize, new: usize) -> bool {
        if !self.is_running {
            return true;
        }
        let used = self.used - old + new;
        if used > self.hard {
            self.stop.get_or_insert(Stop::Limit(Stopped::Memory));
            return false;
        }
        if used > self.soft && self.used <= self.soft {
            set_hook(self.current, 1);
        }
        if new > SMALL_BLOCK && new > self.largest {
            self.largest = new;
            set_hook(self.current, self.period());
        }
        // Strings with one hash make each new string slow, so blocks are counted besides bytes.
        self.allocations = self.allocations.wrapping_add(1);
        let looks = new > SMALL_BLOCK || self.allocations.is_multiple_of(32);
        if looks && let Some(stopped) = self.reached() {
            self.stop.get_or_insert(Stop::Limit(stopped));
            return false;
        }
        true
    }
}
