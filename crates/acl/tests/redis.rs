//! The same rules given to a redis-server: users are shown alike, and calls judged alike.
//!
//! Commands and categories are the server's own (`COMMAND`), so that only the language is compared.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test beside a server")]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use acl::rule::merge_selectors;
use acl::{Call, ChannelUse, Commands, Denied, KeyAccess, KeyUse, Rule, User};
use harness::resp::{Connection, TextReply};
use harness::until;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A server, which ends with the test.
struct Redis(Child, Connection);

impl Redis {
    fn start() -> Self {
        let at = harness::ports::unused();
        let mut command = Command::new("redis-server");
        command.args(["--port", &at.port().to_string(), "--save", "", "--bind", "127.0.0.1"]);
        let child = command.stdout(Stdio::null()).spawn().expect("redis-server is installed");
        let link =
            until(TIMEOUT, "redis-server listens", || Connection::open(at, TIMEOUT, TIMEOUT).ok());
        Self(child, link)
    }

    fn ask(&mut self, words: &[&str]) -> TextReply {
        self.1.ask(words).expect("it answers")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn items(reply: TextReply) -> Vec<TextReply> {
    match reply {
        TextReply::Many(all) => all,
        other => panic!("no array: {other:?}"),
    }
}

/// All commands of the server, with their categories.
fn commands(redis: &mut Redis) -> Commands {
    fn gather(one: TextReply, out: &mut Vec<(&'static str, &'static str)>) {
        let parts = items(one);
        let words = items(parts[6].clone());
        let words: Vec<String> =
            words.iter().map(|word| word.text().trim_start_matches('@').to_owned()).collect();
        out.push((parts[0].text().leak(), words.join(" ").leak()));
        for sub in items(parts[9].clone()) {
            gather(sub, out);
        }
    }
    let mut all = Vec::new();
    for one in items(redis.ask(&["COMMAND"])) {
        gather(one, &mut all);
    }
    assert!(all.len() > 300, "{}", all.len());
    Commands::new(all)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

const RULES: [&str; 64] = [
    "on",
    "off",
    "nopass",
    "resetpass",
    "reset",
    "allkeys",
    "~*",
    "resetkeys",
    "~a*",
    "~b",
    "%R~r",
    "%W~w",
    "%RW~x",
    "%R~b",
    "%W~b",
    "allchannels",
    "&*",
    "resetchannels",
    "&news.*",
    "&one",
    "+@all",
    "-@all",
    "allcommands",
    "nocommands",
    "+@read",
    "-@write",
    "+@dangerous",
    "-@dangerous",
    "-@slow",
    "+@pubsub",
    "-@admin",
    "+get",
    "-get",
    "+set",
    "+GET",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "+config|set",
    "+client|list",
    "-client",
    "+mset",
    "+publish",
    "+subscribe",
    "+psubscribe",
    "(+get ~s)",
    "(+set %W~t)",
    "(+@all ~u*)",
    "(+publish &sel)",
    "()",
    "(+get",
    "clearselectors",
    "sanitize-payload",
    "skip-sanitize-payload",
    "nonsense",
    "+nope",
    "+@nope",
    "#abc",
    "!ee26b0dd4af7e749aa1a8ee3c10ae9923f618980772e473f8819a5d4940e0db1",
    "+config|nope",
    "#9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "!9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "+ping",
];

/// Gives a user rules, one after the other; the first error, with which nothing is changed.
fn apply(user: &mut User, words: &[&str], commands: &Commands) -> Result<(), String> {
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let merged = merge_selectors(&bytes).map_err(|why| why.to_string())?;
    let mut changed = user.clone();
    for word in &merged {
        let rule = Rule::parse(word).map_err(|why| why.to_string())?;
        changed.apply(&[rule], commands).map_err(|(_, why)| why.to_string())?;
    }
    *user = changed;
    Ok(())
}

/// Words of a call, and which of them are keys (read, written) and channels (pattern or not).
type CallRequest =
    (&'static [&'static str], &'static [(usize, bool, bool)], &'static [(usize, bool)]);

/// Calls that both judge.
const CALLS: [CallRequest; 15] = [
    (&["get", "a1"], &[(1, true, false)], &[]),
    (&["get", "b"], &[(1, true, false)], &[]),
    (&["get", "r"], &[(1, true, false)], &[]),
    (&["get", "s"], &[(1, true, false)], &[]),
    (&["set", "b", "v"], &[(1, false, true)], &[]),
    (&["set", "w", "v"], &[(1, false, true)], &[]),
    (&["set", "t", "v"], &[(1, false, true)], &[]),
    (&["mset", "a1", "v", "w", "v"], &[(1, false, true), (3, false, true)], &[]),
    (&["append", "x", "v"], &[(1, false, true)], &[]),
    (&["ping"], &[], &[]),
    (&["config|get", "x"], &[], &[]),
    (&["publish", "news.x", "m"], &[], &[(1, false)]),
    (&["subscribe", "one", "two"], &[], &[(1, false), (2, false)]),
    (&["psubscribe", "news.*"], &[], &[(1, true)]),
    (&["client|list"], &[], &[]),
];

fn verdict(user: &User, at: usize, commands: &Commands) -> Result<(), Denied> {
    let (words, keys, channels) = CALLS[at];
    let keys: Vec<KeyUse<'_>> = keys
        .iter()
        .map(|(at, read, write)| KeyUse {
            key: words[*at].as_bytes(),
            access: KeyAccess { read: *read, write: *write },
        })
        .collect();
    let channels: Vec<ChannelUse<'_>> = channels
        .iter()
        .map(|(at, is_pattern)| ChannelUse {
            channel: words[*at].as_bytes(),
            is_pattern: *is_pattern,
        })
        .collect();
    user.check(&Call {
        command: Some(commands.find(words[0]).expect("a command")),
        keyspace: None,
        keys: &keys,
        unnamed_keys: None,
        channels: &channels,
    })
}

#[test]
fn users_and_verdicts_are_those_of_redis() {
    let mut redis = Redis::start();
    let commands = commands(&mut redis);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for round in 0..400 {
        let name = format!("user{round}");
        let mut user = User::new(name.as_bytes(), &commands);
        redis.ask(&["ACL", "SETUSER", &name]);
        let mut said = Vec::new();
        for _ in 0..8 {
            let count = 1 + random.below(4);
            let words: Vec<&str> = (0..count).map(|_| RULES[random.below(RULES.len())]).collect();
            said.extend(words.iter().copied());
            let ours = apply(&mut user, &words, &commands);
            let theirs = redis.ask(&[&["ACL", "SETUSER", &name], &words[..]].concat());
            match (&ours, &theirs) {
                (Ok(()), TextReply::Simple(_)) => {}
                (Err(why), TextReply::Error(text)) => {
                    refused += 1;
                    assert!(text.contains(why.as_str()), "{words:?}: {why:?}, in redis {text:?}");
                }
                _ => panic!("{said:?}: {ours:?}, in redis {theirs:?}"),
            }
        }
        // This version of Redis shows the shortest rules for the commands: so it is given ours, and
        // must show both users alike.
        let line = String::from_utf8(user.line()).unwrap();
        let twin = format!("twin{round}");
        let words: Vec<&str> = line.split(' ').skip(2).collect();
        redis.ask(&[&["ACL", "SETUSER", &twin, "reset"], &words[..]].concat());
        let lines = items(redis.ask(&["ACL", "LIST"]));
        let shown = |name: &str| {
            let start = format!("user {name} ");
            let mut lines = lines.iter().map(TextReply::text);
            let line = lines.find_map(|line| Some(line.strip_prefix(&start)?.to_owned()));
            line.expect("it is listed").replace(" sanitize-payload", "")
        };
        assert_eq!(shown(&name), shown(&twin), "{said:?}: {line}");
        let shown = items(redis.ask(&["ACL", "GETUSER", &name]));
        let shown: Vec<String> = shown.iter().map(TextReply::text).collect();
        assert_eq!(shown[1], user.flags().join(" "), "{said:?}");
        assert_eq!(shown[7].as_bytes(), user.own().keys_text(), "{said:?}");
        assert_eq!(shown[9].as_bytes(), user.own().channels_text(), "{said:?}");
        for (at, (words, keys, channels)) in CALLS.iter().enumerate() {
            let (first, rest) = words.split_first().unwrap();
            let mut asked = vec!["ACL", "DRYRUN", &name];
            asked.extend(first.split('|').chain(rest.iter().copied()));
            let theirs = redis.ask(&asked).text();
            let ours = match verdict(&user, at, &commands) {
                Ok(()) => "OK".to_owned(),
                Err(Denied::Command) => format!("'{first}' command"),
                Err(Denied::Key(at)) => format!("'{}' key", words[keys[at].0]),
                Err(Denied::Channel(at)) => format!("'{}' channel", words[channels[at].0]),
                Err(other) => panic!("{other:?}"),
            };
            assert!(theirs.contains(&ours), "{said:?} {words:?}: {ours}, in redis {theirs}");
        }
    }
    assert!(refused > 100, "{refused}");
}
