//! Are hostile scripts stopped, soon after their limit, and does the interpreter live on?

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lua::{Callable, Flow, Host, Interpreter, Limits, LogLevel, Outcome, Run, Stopped, ThreadTime};

const LIMITS: Limits = Limits {
    time: Duration::from_millis(100),
    thread_time: None,
    instructions: u64::MAX,
    memory_bytes: 64 << 20,
};

/// How long after its limit a script may end. The machine may be busy; what is meant is 50 ms, and
/// `late_stops` prints what it takes.
const LATE: Duration = Duration::from_millis(1_000);

/// Answers every command by OK, `abort` by [`Flow::Abort`], `slow` after 20 ms.
struct Nothing;

impl Host for Nothing {
    fn call(&mut self, args: &[&[u8]], _: bool, reply: &mut Vec<u8>) -> Flow {
        if args[0] == b"abort" {
            return Flow::Abort;
        }
        if args[0] == b"slow" {
            std::thread::sleep(Duration::from_millis(20));
        }
        reply.extend_from_slice(b"+OK\r\n");
        Flow::Continue
    }

    fn allows(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}
}

fn run(lua: &mut Interpreter, script: &str, limits: Limits) -> (Outcome, String) {
    let killed = AtomicBool::new(false);
    run_until(lua, script, limits, &killed)
}

fn run_until(
    lua: &mut Interpreter,
    script: &str,
    limits: Limits,
    killed: &AtomicBool,
) -> (Outcome, String) {
    let sha = match lua.load(script.as_bytes()) {
        Ok(sha) => sha,
        Err(error) => panic!("{script}: {}", error.0),
    };
    let mut reply = b"before".to_vec();
    let what = Callable::Script(&sha);
    let run = Run { what, keys: &[], args: &[], resp3: false, limits, killed };
    let outcome = lua.run(&run, &mut Nothing, &mut reply);
    if !matches!(outcome, Outcome::Replied { .. }) {
        assert_eq!(reply, b"before", "{script}");
    }
    (outcome, String::from_utf8_lossy(&reply[6..]).into_owned())
}

/// The interpreter is as good as new.
fn assert_alive(lua: &mut Interpreter) {
    let script = "local t = {} for i = 1, 100 do t[i] = tostring(i) end \
                  return table.concat(t):len() .. redis.call('x').ok";
    let (outcome, reply) = run(lua, script, Limits { time: Duration::from_secs(30), ..LIMITS });
    assert_eq!(outcome, Outcome::Replied { is_error: false });
    assert_eq!(reply, "$5\r\n192OK\r\n");
}

/// Scripts that never end, or would take minutes.
const ENDLESS: &[&str] = &[
    "while true do end",
    "repeat until false",
    "for i = 1, 1e300 do end",
    "local function f() return f() end f()",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(error) end",
    "while true do pcall(pcall, pcall, error) end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(function() error('x') end, function() while true do end end)",
    "while true do pcall(redis.call) end",
    "while true do redis.call('x') end",
    "while true do redis.pcall('x') end",
    "while true do coroutine.wrap(function() end)() end",
    "while true do pcall(coroutine.wrap(function() error('x') end)) end",
    "while true do local c = coroutine.wrap(function() while true do end end) pcall(c) end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "local c = coroutine.wrap(function() while true do coroutine.yield() end end) \
     while true do c() end",
    // Each level stays below the hook's period, all together are exponential.
    "local function f(n) for i = 1, 100 do coroutine.wrap(function() if n > 0 then f(n - 1) end \
     end)() end end while true do f(100) end",
    "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
    "local t = setmetatable({}, {__lt = function() while true do end end}) return t < t",
    "local t = setmetatable({}, {__tostring = function() while true do end end}) \
     return tostring(t)",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "local t = {} for i = 1, 100000 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 100000 do t[i] = i end \
     while true do pcall(table.sort, t, function() return true end) end",
    "('a'):gsub('a', function() while true do end end)",
    "while true do ('a'):gsub('a', 'b') end",
    "string.find(('a'):rep(24), ('a-'):rep(24) .. 'b')",
    "string.find(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(40))",
    "string.match(('a'):rep(10000), ('.-'):rep(20) .. 'b')",
    "string.gsub(('a'):rep(10000), ('.-'):rep(20) .. 'b', '')",
    "for _ in string.gmatch(('a'):rep(10000), ('.-'):rep(20) .. 'b') do end",
    "string.match(('('):rep(10000000), '%b()' .. ('.-'):rep(9) .. 'x')",
    "string.find(('x'):rep(10000000), ('[' .. ('a-b'):rep(10000) .. ']') .. '-y')",
    "while true do string.find(('a'):rep(1000000), ('a'):rep(100000) .. 'b', 1, true) end",
    "while true do string.rep('x', 1000000) end",
    "while true do string.rep('', 1e9) end",
    "local a, b = ('a'):rep(8000000) .. 'a', ('a'):rep(8000000) .. 'b' while true do \
     local c = a < b end",
    "local s = ('a'):rep(4000000) while true do local x = s .. 'x' end",
    "local s = ('a'):rep(4000000) while true do s:upper() s:reverse() s:byte(1) end",
    "local t = {} for i = 1, 1000000 do t[i] = i end while true do table.insert(t, 1, 0) \
     table.remove(t, 1) end",
    "local t = {} for i = 1, 1000000 do t[i] = i end for i = 1, 1000000 do t[i] = nil end \
     while true do next(t) end",
    "local t = {} for i = 1, 1000000 do t[i] = i end while true do table.maxn(t) end",
    "local t = {} for i = 1, 1000000 do t[i] = i end while true do table.concat(t) end",
    "local t = {} for i = 1, 400000 do t[i] = {} end while true do collectgarbage() end",
    "while true do collectgarbage('step') end",
    "while true do loadstring('return 1') end",
    "local s = ('x=1 '):rep(100000) while true do loadstring(s) end",
    "local s = ('x=1 '):rep(3000000) while true do loadstring(s) end",
    "load(function() return ' ' end)",
    "while true do cjson.encode({1, 2, {a = 'b'}}) end",
    "while true do cjson.decode('[1,2,{\"a\":\"b\"}]') end",
    "while true do cjson.new() end",
    "cjson.encode_sparse_array(false, 0) cjson.encode({[2147483647] = 1})",
    "local s = ('['):rep(900) .. (']'):rep(900) while true do cjson.decode(s) end",
    "local s = '[' .. ('1,'):rep(1000000) .. '1]' while true do cjson.decode(s) end",
    "while true do cmsgpack.unpack(cmsgpack.pack({1, 2, {a = 'b'}})) end",
    "local s = ('\\1'):rep(7000) while true do cmsgpack.unpack(s) end",
    "while true do struct.unpack('b', struct.pack('b', 1)) end",
    "local f = ('b'):rep(5000000) while true do struct.size(f) end",
    "local s = ('x'):rep(4000000) while true do redis.sha1hex(s) end",
    "while true do redis.log(redis.LOG_NOTICE, 'x') end",
    "while true do tostring({}) end",
    "local t = {} for i = 1, 30 do t = {t, t} end return t",
    "local t = {} for i = 1, 7000 do t[i] = i end while true do unpack(t) end",
    "local function f(...) return f(...) end local t = {} for i = 1, 7000 do t[i] = i end \
     while true do f(unpack(t)) end",
];

/// Scripts that want more memory than there is.
const HUNGRY: &[&str] = &[
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
    "local t = {} while true do pcall(function() t[#t + 1] = ('x'):rep(100000) .. #t end) end",
    "return ('x'):rep(1e9)",
    "return pcall(string.rep, 'x', 1e9)",
    "while true do pcall(string.rep, 'x', 1e9) end",
    "local s = 'x' while true do s = s .. s end",
    "local s = 'x' while true do pcall(function() s = s .. s end) end",
    "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end \
     return table.concat(t)",
    "return string.format(('%s'):rep(200), unpack((function() local t, s = {}, ('x'):rep(1000000) \
     for i = 1, 200 do t[i] = s end return t end)()))",
    "return ('x'):rep(1000000):gsub('x', ('y'):rep(1000))",
    "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    "local t = {} while true do t[#t + 1] = coroutine.wrap(function() coroutine.yield() end) \
     t[#t]() end",
    "local t = {} while true do t[#t + 1] = loadstring('return ' .. #t) end",
    "local t = {} while true do t[#t + 1] = function() return t end end",
    "return cjson.decode('[' .. ('[],'):rep(3000000) .. '1]')",
    "return cmsgpack.unpack('\\221\\0\\255\\255\\255' .. ('\\144'):rep(3000000))",
    "local a = {} for i = 1, 100 do a[i] = ('x'):rep(100000) end local b = {} for i = 1, 100 do \
     b[i] = a end return cjson.encode(b)",
    "local s, t = ('x'):rep(1000000), {} for i = 1, 1000 do t[i] = s end return t",
    "local s, t = ('x'):rep(1000000), {} for i = 1, 1000 do t[i] = s end \
     redis.log(1, unpack(t))",
    "local t = {} t[1] = ('x'):rep(1000000) for i = 1, 100 do t[i] = t[1] end \
     return cmsgpack.pack(unpack(t))",
];

fn stops(scripts: &[&str], limits: Limits, expected: &[Stopped]) {
    let mut lua = Interpreter::new();
    let mut wrong = Vec::new();
    for script in scripts {
        let start = Instant::now();
        if std::env::var_os("LUA_TEST_SHOW").is_some() {
            eprintln!("{script}");
        }
        let (outcome, _) = run(&mut lua, script, limits);
        let took = start.elapsed();
        let is_stopped = matches!(outcome, Outcome::Stopped(by) if expected.contains(&by));
        let late = took.saturating_sub(limits.time);
        if late > Duration::from_millis(20) {
            println!("{} ms late: {script}", late.as_millis());
        }
        if !is_stopped || late > LATE {
            wrong.push(format!("{outcome:?} after {took:?}: {script}"));
        }
        assert_alive(&mut lua);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn endless_scripts_are_stopped_in_time() {
    stops(ENDLESS, LIMITS, &[Stopped::Time, Stopped::Memory]);
}

#[test]
fn endless_scripts_are_stopped_by_instructions() {
    let limits = Limits { time: Duration::from_secs(60), instructions: 2_000_000, ..LIMITS };
    let mut lua = Interpreter::new();
    for script in ENDLESS.iter().take(17) {
        let start = Instant::now();
        let (outcome, _) = run(&mut lua, script, limits);
        assert_eq!(outcome, Outcome::Stopped(Stopped::Instructions), "{script}");
        assert!(start.elapsed() < Duration::from_secs(20), "{script}");
        assert_alive(&mut lua);
    }
}

#[test]
fn hungry_scripts_are_stopped() {
    let limits = Limits { time: Duration::from_secs(20), ..LIMITS };
    stops(HUNGRY, limits, &[Stopped::Memory]);
}

/// Garbage alone is no reason to stop.
#[test]
fn garbage_is_collected_before_memory_is_short() {
    let mut lua = Interpreter::new();
    let limits = Limits { time: Duration::from_secs(60), ..LIMITS };
    for script in [
        "for i = 1, 300 do local s = ('x'):rep(1000000) .. i end return 1",
        "collectgarbage('stop') for i = 1, 300 do local s = ('x'):rep(1000000) .. i end return 1",
        "for i = 1, 2000000 do local t = {i} end return 1",
    ] {
        let (outcome, reply) = run(&mut lua, script, limits);
        assert_eq!(
            (outcome, &*reply),
            (Outcome::Replied { is_error: false }, ":1\r\n"),
            "{script}"
        );
    }
}

/// What a run with more memory has left does not count against one with less.
#[test]
fn earlier_runs_leave_their_memory() {
    let mut lua = Interpreter::new();
    let limits = Limits { time: Duration::from_secs(60), ..LIMITS };
    for _ in 0..3 {
        let large = Limits { memory_bytes: 512 << 20, ..limits };
        let script = "collectgarbage('stop') local t = {} for i = 1, 1500000 do t[i] = {} end";
        let (outcome, _) = run(&mut lua, script, large);
        assert_eq!(outcome, Outcome::Replied { is_error: false });
        let small = Limits { memory_bytes: 2 << 20, ..limits };
        let (outcome, _) = run(&mut lua, "return 'small'", small);
        assert_eq!(outcome, Outcome::Replied { is_error: false });
        let text = b"#!lua name=l\nredis.register_function('f', function() end)";
        assert!(lua.load_library(text).is_ok());
    }
}

/// What nests too deep is an error of the script.
#[test]
fn deep_recursion_is_an_error() {
    let mut lua = Interpreter::new();
    let limits = Limits { time: Duration::from_secs(60), ..LIMITS };
    for script in [
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end return f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end \
         return t.x",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() return ('x'):gsub('x', f) end return f()",
        "local t = {2, 1} local function f() table.sort(t, f) end return f()",
        "return string.find(('a'):rep(100000), ('a?'):rep(100000))",
        "return string.find(('a'):rep(100000), ('(a'):rep(30) .. (')'):rep(30))",
        "return loadstring('return ' .. ('('):rep(100000) .. '1' .. (')'):rep(100000))",
        "return loadstring(('do '):rep(100000) .. ('end '):rep(100000))",
    ] {
        let (outcome, _) = run(&mut lua, script, limits);
        assert!(matches!(outcome, Outcome::Replied { .. }), "{outcome:?}: {script}");
        assert_alive(&mut lua);
    }
}

/// It executes few instructions of its own, and spends its time in commands.
#[test]
fn time_in_commands_counts() {
    let mut lua = Interpreter::new();
    let began = Instant::now();
    let (outcome, _) = run(&mut lua, "for i = 1, 200 do redis.pcall('slow') end", LIMITS);
    assert_eq!(outcome, Outcome::Stopped(Stopped::Time));
    assert!(began.elapsed() < LIMITS.time + LATE, "{:?}", began.elapsed());
    assert_alive(&mut lua);
}

/// While others have the processor, or a command sleeps, a script does not become long.
#[test]
fn time_of_the_thread_counts_where_it_is_asked_for() {
    let mut lua = Interpreter::new();
    let until = |millis| {
        let until = lua::thread_time() + Duration::from_millis(millis);
        Some(ThreadTime { until, longest: Duration::from_secs(60) })
    };
    let limits = Limits { thread_time: until(100), ..LIMITS };
    let slow = "for i = 1, 20 do redis.call('slow') end return 1";
    let (outcome, _) = run(&mut lua, slow, limits);
    assert!(matches!(outcome, Outcome::Replied { .. }), "{outcome:?}");
    let limits = Limits { time: Duration::ZERO, thread_time: until(100), ..LIMITS };
    let before = lua::thread_time();
    let (outcome, _) = run(&mut lua, "while true do redis.pcall('fast') end", limits);
    assert_eq!(outcome, Outcome::Stopped(Stopped::Time));
    assert!(lua::thread_time() - before >= Duration::from_millis(99));
    // Not for ever: who waits behind it sees the clock.
    let until = lua::thread_time() + Duration::from_secs(3600);
    let thread_time = Some(ThreadTime { until, longest: Duration::from_millis(50) });
    let limits = Limits { time: Duration::ZERO, thread_time, ..LIMITS };
    let began = Instant::now();
    let (outcome, _) = run(&mut lua, "while true do end", limits);
    assert_eq!(outcome, Outcome::Stopped(Stopped::Time));
    assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
}

#[test]
fn another_thread_kills_a_script() {
    let limits = Limits { time: Duration::from_secs(60), ..LIMITS };
    for script in [
        "while true do end",
        "while true do pcall(error) end",
        "for i = 1, 200 do redis.call('slow') end",
        ENDLESS[26],
    ] {
        let mut lua = Interpreter::new();
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                killed.store(true, Ordering::Relaxed);
            });
            let (outcome, _) = run_until(&mut lua, script, limits, &killed);
            assert_eq!(outcome, Outcome::Stopped(Stopped::Killed), "{script}");
        });
        assert_alive(&mut lua);
    }
}

#[test]
fn nothing_catches_an_abort() {
    let mut lua = Interpreter::new();
    for script in [
        "redis.call('abort')",
        "redis.pcall('abort') return 1",
        "pcall(redis.call, 'abort') return 1",
        "xpcall(function() redis.call('abort') end, function(e) return e end) return 1",
        "xpcall(function() redis.call('abort') end, function() pcall(redis.call) end) return 1",
        "coroutine.resume(coroutine.create(function() redis.call('abort') end)) return 1",
        "pcall(coroutine.wrap(function() redis.call('abort') end)) return 1",
        "pcall(coroutine.wrap(function() pcall(redis.call, 'abort') end)) return 1",
        "('x'):gsub('x', function() pcall(redis.call, 'abort') end) return 1",
        "table.sort({2, 1}, function() pcall(redis.call, 'abort') end) return 1",
        "load(function() redis.call('abort') end) return 1",
        "local t = setmetatable({}, {__index = function() redis.call('abort') end}) \
         pcall(function() return t.x end) return 1",
    ] {
        let (outcome, _) =
            run(&mut lua, script, Limits { time: Duration::from_secs(60), ..LIMITS });
        assert_eq!(outcome, Outcome::Aborted, "{script}");
        assert_alive(&mut lua);
    }
}

/// Nothing that one script does is seen by the next.
#[test]
fn scripts_leave_nothing_behind() {
    let mut lua = Interpreter::new();
    let limits = Limits { time: Duration::from_secs(60), ..LIMITS };
    let probe = "local t = {} for _, n in ipairs({'string', 'table', 'redis', 'cjson', 'math'}) do \
                 for k, v in pairs(_G[n]) do t[#t + 1] = n .. k .. type(v) end end \
                 for k, v in pairs(_G) do t[#t + 1] = k .. type(v) end table.sort(t) \
                 t[#t + 1] = cjson.encode_max_depth() t[#t + 1] = #KEYS \
                 t[#t + 1] = tostring({}) t[#t + 1] = ('x'):upper() return table.concat(t, ' ')";
    let before = run(&mut lua, probe, limits);
    for script in [
        "x = 1",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "string.x = 1",
        "table.insert(string, 1)",
        "rawset(string, 'x', 1)",
        "getmetatable('').__index = {}",
        "getmetatable('').x = 1",
        "rawset(getmetatable(''), '__index', {})",
        "setmetatable(_G, {})",
        "KEYS.x = 1",
        "setmetatable(getmetatable('').__index, {})",
        "getmetatable(_G).__index = nil",
        "rawset(getmetatable(_G), '__index', nil)",
        "KEYS[1] = 1",
        "cjson.encode_max_depth(3)",
        "table.foreach(_G, function(k, v) if type(v) == 'table' then rawset(v, 'x', 1) end end)",
        "tostring({}) tostring(print_)",
        "next(_G).x = 1",
        "table.setn(string, 5)",
        "for k, v in pairs(_G) do if type(v) == 'table' and k ~= 'KEYS' and k ~= 'ARGV' then \
         pcall(rawset, v, 'x', 1) pcall(setmetatable, v, {}) pcall(table.insert, v, 1) \
         pcall(table.sort, v) pcall(table.remove, v) pcall(function() v.x = 1 end) end end",
        "local m = getmetatable('') pcall(table.insert, m, 1) pcall(setmetatable, m, nil)",
        "redis.setresp(3)",
        "collectgarbage('stop')",
        "math.randomseed(9)",
    ] {
        run(&mut lua, script, limits);
        assert_eq!(run(&mut lua, probe, limits), before, "{script}");
    }
}
