//! Commands and the requests they become.

use gateway::resp::{ArgRanges, Parsed, RequestLimits, parse};
use proptest::prelude::*;

use crate::context::{Still, send, session};

/// What a command becomes, keys and values shown as text.
fn request(line: &str) -> String {
    let (request, out) = send(&mut session(), line.as_bytes());
    assert!(out.is_empty(), "{line}: {}", out.escape_ascii());
    // Byte strings are shown as lists of numbers: make text of them.
    let mut text = String::new();
    let mut rest = request.as_str();
    while let Some(start) = rest.find('[') {
        let end = start + rest[start..].find(']').unwrap();
        let numbers: Result<Vec<u8>, _> =
            rest[start + 1..end].split(", ").map(str::parse).collect();
        match numbers {
            Ok(bytes) => {
                text += &rest[..start];
                text += &String::from_utf8(bytes).unwrap();
                rest = &rest[end + 1..];
            }
            Err(_) => {
                text += &rest[..=start];
                rest = &rest[start + 1..];
            }
        }
    }
    text + rest
}

/// A `SET k v` with these three.
fn set(when: &str, expiry: &str, reply: &str) -> String {
    format!("Write(Set {{ key: k, value: v, when: {when}, expiry: {expiry}, reply: {reply} }})")
}

#[test]
fn sets_of_all_kinds() {
    let cases = [
        ("SET k v", set("Always", "Never", "Ok")),
        ("set k v nx", set("Absent", "Never", "Ok")),
        ("SET k v XX GET KEEPTTL", set("Present", "Keep", "Old")),
        ("SET k v NX GET", set("Absent", "Never", "Old")),
        ("SET k v EX 10", set("Always", "At(1700000010123)", "Ok")),
        ("SET k v px 10 xx", set("Present", "At(1700000000133)", "Ok")),
        ("SET k v EXAT 10", set("Always", "At(10000)", "Ok")),
        ("SET k v PXAT 10", set("Always", "At(10)", "Ok")),
        ("SET k v EX 10 EX 20", set("Always", "At(1700000020123)", "Ok")),
        ("SETNX k v", set("Absent", "Never", "Flag")),
        ("SETEX k 10 v", set("Always", "At(1700000010123)", "Ok")),
        ("PSETEX k 10 v", set("Always", "At(1700000000133)", "Ok")),
        ("GETSET k v", set("Always", "Never", "Old")),
        ("MSET k v", set("Always", "Never", "Ok")),
    ];
    for (line, expected) in cases {
        assert_eq!(request(line), expected, "{line}");
    }
}

#[test]
fn requests_of_all_commands() {
    let cases = [
        ("GET k", "Read(Get(k))"),
        ("GETEX k", "Read(Get(k))"),
        ("GETEX k PERSIST", "Write(GetExpire { key: k, expiry: Never })"),
        ("GETEX k PXAT 5", "Write(GetExpire { key: k, expiry: At(5) })"),
        ("GETDEL k", "Write(GetDelete { key: k })"),
        ("MGET a b", "Read(GetMany([a, b]))"),
        ("MSETNX a x b y", "Write(SetAllIfAbsent { pairs: [(a, x), (b, y)] })"),
        ("APPEND k v", "Write(Append { key: k, value: v, bytes_max: 67108864 })"),
        ("STRLEN k", "Read(Length(k))"),
        ("GETRANGE k 1 -2", "Read(GetRange { key: k, start: 1, end: -2 })"),
        ("SUBSTR k 1 -2", "Read(GetRange { key: k, start: 1, end: -2 })"),
        ("SETRANGE k 5 v", "Write(SetRange { key: k, offset: 5, value: v })"),
        ("INCR k", "Write(Increment { key: k, by: 1 })"),
        ("DECR k", "Write(Increment { key: k, by: -1 })"),
        ("INCRBY k -7", "Write(Increment { key: k, by: -7 })"),
        ("DECRBY k 7", "Write(Increment { key: k, by: -7 })"),
        ("INCRBYFLOAT k 1.5e2", "Write(IncrementFloat { key: k, by: 1.5e2 })"),
        (
            "LCS a b",
            "Read(Lcs { keys: [a, b], len: false, idx: false, min_match: 0, \
             with_match_len: false })",
        ),
        (
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "Read(Lcs { keys: [a, b], len: false, idx: true, min_match: 4, with_match_len: true })",
        ),
        ("DEL k", "Write(Delete { key: k })"),
        ("UNLINK a b", "WriteEach { gather: Sum, writes: [Delete { key: a }, Delete { key: b }] }"),
        ("EXISTS a a", "Read(Exists([a, a]))"),
        ("TOUCH a", "Read(Exists([a]))"),
        ("TYPE k", "Read(Type(k))"),
        (
            "EXPIRE k 10",
            "Write(Expire { key: k, at: 1700000010123, \
             when: ExpireIf { nx: false, xx: false, gt: false, lt: false } })",
        ),
        (
            "PEXPIRE k -10 XX GT",
            "Write(Expire { key: k, at: 1700000000113, \
             when: ExpireIf { nx: false, xx: true, gt: true, lt: false } })",
        ),
        (
            "EXPIREAT k 10 NX",
            "Write(Expire { key: k, at: 10000, \
             when: ExpireIf { nx: true, xx: false, gt: false, lt: false } })",
        ),
        (
            "PEXPIREAT k 10 LT",
            "Write(Expire { key: k, at: 10, \
             when: ExpireIf { nx: false, xx: false, gt: false, lt: true } })",
        ),
        ("TTL k", "Read(Ttl { key: k, millis: false, absolute: false })"),
        ("PTTL k", "Read(Ttl { key: k, millis: true, absolute: false })"),
        ("EXPIRETIME k", "Read(Ttl { key: k, millis: false, absolute: true })"),
        ("PEXPIRETIME k", "Read(Ttl { key: k, millis: true, absolute: true })"),
        ("PERSIST k", "Write(Persist { key: k })"),
        ("RENAME a b", "Write(Rename { from: a, to: b, if_absent: false })"),
        ("RENAMENX a b", "Write(Rename { from: a, to: b, if_absent: true })"),
        ("COPY a b DB 0 REPLACE", "Write(Copy { from: a, to: b, replace: true })"),
        (
            "COPY a b DB 1 REPLACE",
            "Transfer(Transfer { from: a, to: b, keyspace: 1, moves: false, replace: true })",
        ),
        (
            "MOVE a 15",
            "Transfer(Transfer { from: a, to: a, keyspace: 15, moves: true, replace: false })",
        ),
        ("TPUBLISH t m n", "PublishToTopic { topic: t, messages: [m, n] }"),
        ("OBJECT ENCODING k", "Read(Encoding(k))"),
        ("OBJECT refcount k", "Read(RefCount(k))"),
        ("OBJECT IDLETIME k", "Read(IdleTime(k))"),
        ("DBSIZE", "Keyspace(Size)"),
        ("FLUSHDB ASYNC", "Keyspace(Flush)"),
        ("FLUSHALL", "Keyspace(FlushAll)"),
        ("RANDOMKEY", "Keyspace(RandomKey)"),
        ("KEYS a*", "Keyspace(Keys { pattern: a* })"),
        ("SCAN 0", "Keyspace(Scan { cursor: 0, count: 10, pattern: None, type_filter: None })"),
        (
            "SCAN 7 COUNT 5 MATCH a TYPE string",
            "Keyspace(Scan { cursor: 7, count: 5, pattern: Some(a), type_filter: Some(string) })",
        ),
        (
            "RANGE - +",
            "Keyspace(Range(Range { low: First, high: Last, limit: None, \
             reverse: false, with_values: false }))",
        ),
        (
            "RANGE [b (a REV LIMIT 3 WITHVALUES",
            "Keyspace(Range(Range { low: Excluded(a), high: Included(b), \
             limit: Some(3), reverse: true, with_values: true }))",
        ),
        ("SELECT 5", "Select(5)"),
        ("SELECT orders", "Select(orders)"),
    ];
    for (line, expected) in cases {
        assert_eq!(request(line), expected, "{line}");
    }
    let pairs = request("MSET a x b y");
    assert!(
        pairs.starts_with("WriteEach { gather: Ok, writes: [Set { key: a, value: x"),
        "{pairs}"
    );
}

#[test]
fn answers_given_at_once() {
    let cases = [
        ("PING", "+PONG\r\n"),
        ("PING hi", "$2\r\nhi\r\n"),
        ("ECHO hi", "$2\r\nhi\r\n"),
        ("TIME", "*2\r\n$10\r\n1700000000\r\n$6\r\n123000\r\n"),
        ("WAIT 3 100", ":0\r\n"),
        ("AUTH default any", "+OK\r\n"),
        ("CLUSTER KEYSLOT foo", ":12182\r\n"),
        ("CLUSTER MYID", "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n"),
        ("COMMAND INFO nosuch", "*1\r\n$-1\r\n"),
        ("COMMAND GETKEYS mset a x b y", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        (
            "COMMAND INFO GET",
            "*1\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*3\r\n\
             +@read\r\n+@string\r\n+@fast\r\n*0\r\n*1\r\n*6\r\n$5\r\nflags\r\n*2\r\n+RO\r\n\
             +access\r\n$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n\
             *2\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n$5\r\nrange\r\n\
             $4\r\nspec\r\n*6\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n\
             :0\r\n*0\r\n",
        ),
        (
            "COMMAND LIST FILTERBY PATTERN GET*",
            "*5\r\n$3\r\nget\r\n$6\r\ngetset\r\n$6\r\ngetdel\r\n$5\r\ngetex\r\n$8\r\ngetrange\r\n",
        ),
        ("COMMAND LIST FILTERBY MODULE x", "*0\r\n"),
        (
            "COMMAND GETKEYSANDFLAGS copy a b",
            "*2\r\n*2\r\n$1\r\na\r\n*2\r\n+RO\r\n+access\r\n\
             *2\r\n$1\r\nb\r\n*2\r\n+OW\r\n+update\r\n",
        ),
        ("COMMAND GETKEYSANDFLAGS set k v px 5", "*1\r\n*2\r\n$1\r\nk\r\n*2\r\n+OW\r\n+update\r\n"),
        (
            "COMMAND GETKEYSANDFLAGS set k v px 5 get",
            "*1\r\n*2\r\n$1\r\nk\r\n*3\r\n+RW\r\n+access\r\n+update\r\n",
        ),
        (
            "CONFIG GET save appendonly",
            "*4\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$4\r\nsave\r\n$0\r\n\r\n",
        ),
        ("CONFIG GET nosuch", "*0\r\n"),
        ("RANGE a b", "-ERR min or max not valid string range item\r\n"),
        ("RANGE - + LIMIT -1", "-ERR LIMIT can't be negative\r\n"),
        ("RANGE - + FOO", "-ERR syntax error\r\n"),
    ];
    for (line, expected) in cases {
        let (request, out) = send(&mut session(), line.as_bytes());
        assert_eq!(
            (request.as_str(), String::from_utf8(out).unwrap().as_str()),
            ("Answered", expected)
        );
    }
}

#[test]
fn keys_are_limited_wherever_they_stand() {
    let long = "k".repeat(65);
    let limits = RequestLimits { key_bytes_max: 64, ..RequestLimits::default() };
    let lines = [
        "GET K",
        "SET K v",
        "SET K v NX",
        "MSET a x K y",
        "DEL a K",
        "OBJECT ENCODING K",
        "RANGE [a [K",
        "MSETNX a x K y",
        "COPY a K",
    ];
    for line in lines {
        let mut session =
            gateway::resp::Session::new(1, Default::default(), limits, Default::default(), 0);
        let bytes = line.replace('K', &long) + "\n";
        let mut ranges = ArgRanges::new();
        parse(bytes.as_bytes(), &limits, &mut ranges).unwrap();
        let mut out = Vec::new();
        session.translate(ranges.args(bytes.as_bytes()), &Still, &mut out);
        assert_eq!(out, b"-ERR key is longer than 64 bytes (key_bytes_max)\r\n", "{line}");
    }
}

#[test]
fn info_has_what_client_libraries_read() {
    let info = |line: &str| String::from_utf8(send(&mut session(), line.as_bytes()).1).unwrap();
    let all = info("INFO");
    for wanted in [
        "redis_version:7.0.15\r\n",
        "carillon_version:0.1.0\r\n",
        "role:master\r\n",
        "redis_mode:standalone\r\n",
        "loading:0\r\n",
        "uptime_in_seconds:5\r\n",
        "# CPU\r\n",
        "db0:keys=3,expires=1,avg_ttl=7\r\n",
        "keyspace_orders:keys=0",
        "used_memory_human:1.00M",
        "number_of_cached_scripts:0\r\n",
        "used_memory_scripts:0\r\n",
        "cluster_enabled:0\r\n",
        "aof_enabled:1\r\n",
        "connected_clients:2\r\n",
    ] {
        assert!(all.contains(wanted), "{wanted} in {all}");
    }
    assert!(!all.contains("db1:"));
    let cluster = info("INFO cluster");
    let expected = "# Cluster\r\ncluster_enabled:0\r\ncarillon_cluster_id:00000000000000aa\r\n\
                    carillon_health:degraded\r\ncarillon_members_up:2\r\n\
                    carillon_members_down:1\r\n";
    assert!(cluster.contains(expected), "{cluster}");
    // How many others hold copies: no lines that would make read-only servers of them.
    assert!(all.contains("connected_slaves:1\r\n") && !all.contains("slave0"), "{all}");
    assert_eq!(info("INFO nosuch"), "$0\r\n\r\n");
    let two = info("INFO replication CLUSTER");
    assert!(two.contains("# Replication") && two.contains("\r\n\r\n# Cluster"));
    assert!(!two.contains("# Server"));
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    let known = "get set mset expire client command config hello scan range copy getex lcs object \
                 reply list kill info docs getkeys id ex px nx 0 1 -1 10 count match - + [a type";
    let known = prop::sample::select(known.split_whitespace().collect::<Vec<_>>());
    prop_oneof![
        4 => known.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..10),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn no_command_makes_the_session_panic(args in prop::collection::vec(words(), 1..8)) {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in &args {
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        let mut ranges = ArgRanges::new();
        let parsed = parse(&bytes, &RequestLimits::default(), &mut ranges);
        prop_assert_eq!(parsed, Ok(Parsed::Command { consumed: bytes.len() }));
        let mut out = Vec::new();
        session().translate(ranges.args(&bytes), &Still, &mut out);
        prop_assert!(out.is_empty() || out.ends_with(b"\r\n"));
    }
}
