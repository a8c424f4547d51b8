//! Libraries: what `FUNCTION LOAD` replies, what functions reply, what `FUNCTION DUMP` holds.

use std::sync::atomic::AtomicBool;

use lua::library::dump;
use lua::{Callable, Interpreter, Outcome, Run};

use super::{ARGS, KEYS, LIMITS, Pair, shown};

/// Texts of libraries that cannot be loaded, or can.
const TEXTS: &str = include_str!("libraries.txt");

/// A library with a function for each thing that functions can do.
const FUNCTIONS: &str = "#!lua name=many
local function helper(x) return x * 2 end
local count = 0
redis.register_function('keys', function(keys, args) return {keys, args} end)
redis.register_function{function_name='named', callback=function() return helper(21) end,
  flags={'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'},
  description='says 42'}
redis.register_function('count', function() count = count + 1 return count end)
redis.register_function('global', function() x = 1 end)
redis.register_function('nosuch', function() return KEYS end)
redis.register_function('call', function(keys) return redis.call('get', keys[1]) end)
redis.register_function('refused', function(keys) return redis.call('incr', keys[1]) end)
redis.register_function('pcall', function(keys) return redis.pcall('incr', keys[1]).err end)
redis.register_function('raise', function() error('raised') end)
redis.register_function('register', function() redis.register_function('z', helper) end)
redis.register_function('log', redis.log)
redis.register_function('encode', function(keys) return cjson.encode(keys) end)
redis.register_function('resp3', function() redis.setresp(3) return {true, {double=1.5}} end)
redis.register_function('globals', function() local t = {} for k in pairs(_G) do
  if k ~= 'os' then t[#t + 1] = k end end table.sort(t) return t end)
redis.register_function('redis', function() local t = {} for k in pairs(redis) do
  t[#t + 1] = k end table.sort(t) return t end)
redis.register_function('more', function() return loadstring('return x')() end)
redis.register_function('sha', function() return redis.sha1hex('a') end)
";

const NAMES: [&str; 17] = [
    "keys", "named", "count", "global", "nosuch", "call", "refused", "pcall", "raise", "register",
    "log", "encode", "resp3", "globals", "redis", "more", "sha",
];

#[test]
fn libraries_load_as_in_redis() {
    super::beside_redis(|pair| {
        let texts: Vec<&str> = TEXTS.split("\n\n").filter(|text| !text.is_empty()).collect();
        assert!(texts.len() > 30);
        for text in texts {
            let text = text.trim_matches('\n').replace("\\n", "\n");
            let theirs = pair.resp2.call(&[b"FUNCTION", b"LOAD", b"REPLACE", text.as_bytes()]);
            let ours = match pair.interpreter.load_library(text.as_bytes()) {
                Ok(library) => format!("${}\r\n{}\r\n", library.name.len(), library.name),
                Err(error) => format!("-{}\r\n", error.0),
            };
            assert_eq!(shown(ours.as_bytes()), shown(&theirs), "{text}");
        }
    });
}

#[test]
fn functions_reply_as_in_redis() {
    super::beside_redis(|pair| {
        let loaded = pair.resp2.call(&[b"FUNCTION", b"LOAD", FUNCTIONS.as_bytes()]);
        assert_eq!(loaded, b"$4\r\nmany\r\n", "{}", shown(&loaded));
        let library = pair.interpreter.load_library(FUNCTIONS.as_bytes()).unwrap();
        assert_eq!(library.functions.len(), NAMES.len());
        let named = library.functions.iter().find(|function| function.name == "named").unwrap();
        assert_eq!(named.flags.names().count(), 5);
        assert_eq!(named.description.as_deref(), Some(&b"says 42"[..]));
        for name in NAMES {
            for resp3 in [false, true] {
                let theirs = call_theirs(pair, name, resp3);
                let ours = call_ours(pair, name, resp3);
                assert_eq!(shown(&ours), shown(&theirs), "{name}");
            }
        }
    });
}

fn call_theirs(pair: &mut Pair, name: &str, resp3: bool) -> Vec<u8> {
    pair.prepare();
    let mut command: Vec<&[u8]> = vec![b"FCALL", name.as_bytes(), b"2"];
    command.extend(KEYS);
    command.extend(ARGS);
    let connection = if resp3 { &mut pair.resp3 } else { &mut pair.resp2 };
    connection.call(&command)
}

fn call_ours(pair: &mut Pair, name: &str, resp3: bool) -> Vec<u8> {
    pair.prepare();
    let what = Callable::Function { library: b"many", name: name.as_bytes() };
    let killed = AtomicBool::new(false);
    let run = Run { what, keys: &KEYS, args: &ARGS, resp3, limits: LIMITS, killed: &killed };
    let mut reply = Vec::new();
    let outcome = pair.interpreter.run(&run, &mut pair.host, &mut reply);
    assert!(matches!(outcome, Outcome::Replied { .. }), "{name}: {outcome:?}");
    reply
}

#[test]
fn dumps_are_exchanged_with_redis() {
    super::beside_redis(|pair| {
        let second = "#!lua name=b\nredis.register_function('b', function() return 1 end)";
        let texts = [FUNCTIONS.as_bytes(), second.as_bytes()];
        for text in texts {
            pair.resp2.call(&[b"FUNCTION", b"LOAD", text]);
        }
        // Theirs is compressed.
        let reply = pair.resp2.call(&[b"FUNCTION", b"DUMP"]);
        let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let mut theirs = dump::decode(&reply[start..reply.len() - 2]).unwrap();
        theirs.sort();
        let mut ours = texts.map(<[u8]>::to_vec).to_vec();
        ours.sort();
        assert_eq!(theirs, ours);

        let payload = dump::encode(texts);
        let restored = pair.resp2.call(&[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"]);
        assert_eq!(restored, b"+OK\r\n", "{}", shown(&restored));
        assert_eq!(pair.resp2.call(&[b"FCALL", b"b", b"0"]), b":1\r\n");
    });
}

#[test]
fn unloaded_libraries_are_unknown() {
    let mut interpreter = Interpreter::new();
    let text = b"#!lua name=l\nredis.register_function('f', function() return 1 end)";
    interpreter.load_library(text).unwrap();
    interpreter.unload_library(b"l");
    let killed = AtomicBool::new(false);
    let what = Callable::Function { library: b"l", name: b"f" };
    let run = Run { what, keys: &[], args: &[], resp3: false, limits: LIMITS, killed: &killed };
    struct Nobody;
    impl lua::Host for Nobody {
        fn call(&mut self, _: &[&[u8]], _: bool, _: &mut Vec<u8>) -> lua::Flow {
            lua::Flow::Abort
        }
        fn allows(&mut self, _: &[&[u8]]) -> Option<bool> {
            None
        }
        fn log(&mut self, _: lua::LogLevel, _: &[u8]) {}
    }
    let mut out = Vec::new();
    assert_eq!(interpreter.run(&run, &mut Nobody, &mut out), Outcome::Unknown);
}
