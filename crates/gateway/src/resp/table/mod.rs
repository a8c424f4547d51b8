//! The command table: names, arity, access, and places of keys.
//!
//! [`lookup`] finds a command by its name in any case, without allocation: the name's letters
//! become two words of 64 bits, which are looked up in a hash table built at compile time. The rest
//! of an entry is what COMMAND tells clients.

mod generic;
mod pubsub;
mod scripting;
mod server;
mod strings;
mod tools;
mod transactions;

use std::ops::Range;

use super::args::Args;
use super::commands::Handler;
use super::error::{self, CommandError};
use super::number::parse_i64;
use crate::access::Access;

/// A command, or a subcommand.
#[derive(Debug)]
pub struct CommandSpec {
    /// In small letters; of a subcommand `command|subcommand`.
    pub name: &'static str,
    /// Arguments, the name included; negative: at least so many.
    pub arity: i8,
    /// As COMMAND INFO gives them, with spaces between.
    pub flags: &'static str,
    /// What it is for: by `flags` and `categories`.
    pub access: Access,
    /// Whether it takes the same short time whatever its keys hold (`fast`).
    pub is_fast: bool,
    /// ACL categories, with spaces between.
    pub categories: &'static str,
    /// The first argument that is a key; 0 if there are none.
    pub first_key: i8,
    /// The last one; negative from the end.
    pub last_key: i8,
    /// From one key to the next.
    pub key_step: i8,
    /// The argument that counts the keys behind it (`numkeys`); 0 if none does.
    pub key_count: u8,
    /// The same in more detail.
    pub key_specs: &'static [KeySpec],
    /// Hints for proxies.
    pub tips: &'static [&'static str],
    /// What kind of command it is.
    pub group: &'static str,
    /// The version of Redis it appeared in.
    pub since: &'static str,
    /// What it costs.
    pub complexity: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Since when, and what stands in its place.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Recognised, to be refused clearly, but not listed by COMMAND.
    pub hidden: bool,
    /// Its subcommands.
    pub subcommands: &'static [CommandSpec],
    /// Its meaning.
    pub run: Handler,
}

/// Where some keys of a command are, and what becomes of them.
#[derive(Debug)]
pub struct KeySpec {
    /// The first argument.
    pub index: i8,
    /// The last one, counted from the first; negative from the end.
    pub last: i8,
    /// From one to the next.
    pub step: i8,
    /// Whether the argument at `index` counts them, and they follow it.
    pub is_counted: bool,
    /// What becomes of them, with spaces between.
    pub flags: &'static str,
    /// Of a call whose arguments decide what becomes of its keys: what does, in place of `flags`.
    pub flags_of_call: Option<fn(Args<'_>) -> &'static str>,
    /// A remark.
    pub notes: &'static str,
}

impl KeySpec {
    const fn new(index: i8, last: i8, step: i8, flags: &'static str) -> Self {
        Self { index, last, step, is_counted: false, flags, flags_of_call: None, notes: "" }
    }

    /// Keys behind an argument that counts them.
    const fn counted(index: i8, flags: &'static str) -> Self {
        Self { is_counted: true, ..Self::new(index, 0, 1, flags) }
    }

    const fn varies(self, flags_of_call: fn(Args<'_>) -> &'static str) -> Self {
        Self { flags_of_call: Some(flags_of_call), ..self }
    }

    const fn notes(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// What becomes of the keys in this call, with spaces between.
    pub fn flags_in(&self, call: Args<'_>) -> &'static str {
        self.flags_of_call.map_or(self.flags, |flags| flags(call))
    }
}

/// The sentences by which the tables are written.
impl CommandSpec {
    const fn new(name: &'static str, arity: i8, run: Handler) -> Self {
        Self {
            name,
            arity,
            flags: "",
            access: Access::Inspect,
            is_fast: false,
            categories: "",
            first_key: 0,
            last_key: 0,
            key_step: 0,
            key_count: 0,
            key_specs: &[],
            tips: &[],
            group: "",
            since: "",
            complexity: "",
            summary: "",
            deprecated: None,
            hidden: false,
            subcommands: &[],
            run,
        }
    }

    const fn flags(self, flags: &'static str, categories: &'static str) -> Self {
        let is_fast = crate::access::has_word(categories, "fast");
        let access = Access::parse_class(flags, categories);
        Self { flags, categories, access, is_fast, ..self }
    }

    const fn keys(self, first: i8, last: i8, step: i8, specs: &'static [KeySpec]) -> Self {
        Self { first_key: first, last_key: last, key_step: step, key_specs: specs, ..self }
    }

    /// The argument at `count` counts the keys that follow it, beside those that [`Self::keys`]
    /// names.
    const fn counted_keys(self, count: u8, specs: &'static [KeySpec]) -> Self {
        Self { key_count: count, key_specs: specs, ..self }
    }

    /// It writes, though its flags do not say so: what it calls decides.
    const fn may_write(self) -> Self {
        Self { access: Access::Write, ..self }
    }

    const fn tips(self, tips: &'static [&'static str]) -> Self {
        Self { tips, ..self }
    }

    const fn docs(
        self,
        group: &'static str,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        Self { group, since, complexity, summary, ..self }
    }

    const fn deprecated(self, since: &'static str, by: &'static str) -> Self {
        Self { deprecated: Some((since, by)), ..self }
    }

    const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    const fn subcommands(self, subcommands: &'static [CommandSpec]) -> Self {
        Self { subcommands, ..self }
    }
}

impl CommandSpec {
    /// Whether it may be called with so many arguments, its name included.
    #[inline]
    pub fn fits(&self, args: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity >= 0 { args == arity } else { args >= arity }
    }

    /// Which of so many arguments are keys.
    #[inline]
    pub fn key_indexes(&self, args: usize) -> impl Iterator<Item = usize> + use<> {
        let last = match self.last_key {
            last if last < 0 => args.saturating_sub(usize::from(last.unsigned_abs())),
            last => last as usize,
        };
        let (first, step) = (self.first_key as usize, self.key_step as usize);
        let next = (first > 0).then_some(first);
        // Not `step_by`, which divides.
        std::iter::successors(next, move |index| Some(index + step))
            .take_while(move |index| *index <= last && *index < args)
    }

    /// Which arguments of a call are keys, those that one of its arguments counts included. Nothing
    /// if that argument counts more than there are, or is no number.
    #[inline]
    pub fn keys_in(&self, call: Args<'_>) -> Option<impl Iterator<Item = usize> + use<>> {
        let counted = if self.key_count == 0 { 0..0 } else { self.counted_in(call)? };
        Some(self.key_indexes(call.len()).chain(counted))
    }

    fn counted_in(&self, call: Args<'_>) -> Option<Range<usize>> {
        let first = usize::from(self.key_count) + 1;
        let count = usize::try_from(parse_i64(call.get(first - 1)?)?).ok()?;
        (count <= call.len() - first).then(|| first..first + count)
    }

    /// Whether a call of it may name keys.
    pub fn has_keys(&self) -> bool {
        let are_none = self.key_specs.iter().all(|keys| keys.flags == "not_key");
        self.key_count != 0 || (self.first_key != 0 && !are_none)
    }

    /// The subcommands that COMMAND lists.
    pub fn shown_subcommands(&self) -> impl Iterator<Item = &'static CommandSpec> + Clone + use<> {
        self.subcommands.iter().filter(|spec| !spec.hidden)
    }

    fn subcommand(&self, name: &[u8]) -> Option<&'static CommandSpec> {
        let matches = |spec: &&CommandSpec| {
            let own = &spec.name.as_bytes()[self.name.len() + 1..];
            own.eq_ignore_ascii_case(name)
        };
        self.subcommands.iter().find(matches)
    }
}

/// All commands that COMMAND lists.
pub fn shown_commands() -> impl Iterator<Item = &'static CommandSpec> + Clone {
    GROUPS.iter().flat_map(|group| group.iter()).filter(|spec| !spec.hidden)
}

/// The command, or the subcommand, that these arguments call.
#[inline]
pub fn lookup(args: Args<'_>) -> Result<&'static CommandSpec, CommandError> {
    let Some(spec) = find(args.at(0)) else { return Err(error::unknown_command(args)) };
    match args.get(1) {
        Some(name) if !spec.subcommands.is_empty() => {
            spec.subcommand(name).ok_or_else(|| error::unknown_subcommand(spec.name, name))
        }
        _ => Ok(spec),
    }
}

/// The command that these arguments call, if it is one whose calls may take long.
#[inline]
pub fn lookup_slow(args: Args<'_>) -> Option<&'static CommandSpec> {
    /// A fast command takes its short time for each of its keys.
    const FAST_ARGS_MAX: usize = 16;
    let spec = lookup(args).ok()?;
    (!spec.is_fast || args.len() > FAST_ARGS_MAX).then_some(spec)
}

/// A command by its full name (`get`, `client|id`), in any case; hidden ones are not found.
pub fn find_shown(full_name: &[u8]) -> Option<&'static CommandSpec> {
    let spec = match full_name.iter().position(|byte| *byte == b'|') {
        Some(bar) => find(&full_name[..bar])?.subcommand(&full_name[bar + 1..])?,
        None => find(full_name)?,
    };
    (!spec.hidden).then_some(spec)
}

static GROUPS: [&[CommandSpec]; 7] = [
    strings::COMMANDS,
    generic::COMMANDS,
    server::COMMANDS,
    tools::COMMANDS,
    transactions::COMMANDS,
    pubsub::COMMANDS,
    scripting::COMMANDS,
];

/// Names are shorter.
const NAME_BYTES_MAX: usize = 16;
/// Four times as many as there are commands, or nearly: most are found at once.
const TABLE_LEN: usize = 256;

/// A name as two words, its letters small. Setting bit 5 takes a capital to its small letter, and
/// of all bytes only those two become that letter; so two names of letters are equal if length and
/// words are. An underscore stands for the byte 0x7f as well, which no client sends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NameKey {
    low: u64,
    high: u64,
    len: usize,
}

const SMALL_LETTERS: u64 = 0x2020_2020_2020_2020;

#[inline]
const fn name_key(name: &[u8]) -> Option<NameKey> {
    let len = name.len();
    let (low, high) = match len {
        0 => return None,
        1..=3 => {
            let (first, middle, last) = (name[0], name[len / 2], name[len - 1]);
            (first as u64 | (middle as u64) << 8 | (last as u64) << 16, 0)
        }
        4..=7 => (four(name, 0) | four(name, len - 4) << 32, 0),
        8..=NAME_BYTES_MAX => {
            (four(name, 0) | four(name, 4) << 32, four(name, len - 8) | four(name, len - 4) << 32)
        }
        _ => return None,
    };
    Some(NameKey { low: low | SMALL_LETTERS, high: high | SMALL_LETTERS, len })
}

#[inline]
const fn four(name: &[u8], at: usize) -> u64 {
    u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]) as u64
}

#[inline]
const fn home(key: NameKey) -> usize {
    let mixed = key.low ^ key.high.rotate_left(23) ^ key.len as u64;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

type Slot = Option<(NameKey, &'static CommandSpec)>;

static TABLE: [Slot; TABLE_LEN] = {
    let mut table: [Slot; TABLE_LEN] = [None; TABLE_LEN];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut index = 0;
        while index < GROUPS[group].len() {
            let spec = &GROUPS[group][index];
            let Some(key) = name_key(spec.name.as_bytes()) else { panic!("no name") };
            let mut at = home(key);
            while table[at].is_some() {
                at = (at + 1) % TABLE_LEN;
            }
            table[at] = Some((key, spec));
            index += 1;
        }
        group += 1;
    }
    table
};

#[inline]
fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let key = name_key(name)?;
    let mut at = home(key);
    // Ends: the table is never full.
    while let Some((there, spec)) = TABLE[at] {
        if there == key {
            return Some(spec);
        }
        at = (at + 1) % TABLE_LEN;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_alone() {
        let all = || GROUPS.iter().flat_map(|group| group.iter());
        for spec in all() {
            let is_of_names = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(spec.name.bytes().all(is_of_names), "{}", spec.name);
            let capitals = spec.name.to_ascii_uppercase();
            assert!(std::ptr::eq(find(capitals.as_bytes()).unwrap(), spec));
            assert!(find(format!("{}x", spec.name).as_bytes()).is_none());
            assert!(
                find(spec.name.replace('e', "3").as_bytes())
                    .is_none_or(|_| { !spec.name.contains('e') })
            );
            for sub in spec.subcommands {
                assert!(sub.name.starts_with(&format!("{}|", spec.name)));
            }
        }
        assert!(all().count() * 2 < TABLE_LEN);
        assert!(find(b"").is_none());
        assert!(find(&[b'x'; 100]).is_none());
    }

    #[test]
    fn every_command_has_the_class_of_what_it_does() {
        let class = |name: &str| find_shown(name.as_bytes()).expect("the command is shown").access;
        for (access, names) in [
            (Access::Read, &["get", "mget", "scan", "ttl", "object|encoding", "dbsize"][..]),
            (Access::Write, &["set", "del", "expire", "flushall", "flushdb", "copy"]),
            (Access::Connection, &["ping", "hello", "auth", "multi", "exec", "client|id"]),
            (Access::Admin, &["client|kill", "client|list", "config|set", "slowlog|get"]),
            (Access::Inspect, &["info", "time", "cluster|slots"]),
        ] {
            names.iter().for_each(|name| assert_eq!(class(name), access, "{name}"));
        }
        // Who may only read must not change a key, whatever words a command has.
        let all = shown_commands().flat_map(|s| std::iter::once(s).chain(s.shown_subcommands()));
        for spec in all.filter(|spec| spec.key_specs.iter().any(|k| k.flags.contains("RW"))) {
            assert_eq!(spec.access, Access::Write, "{}", spec.name);
        }
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |name: &[u8], args| find(name).unwrap().key_indexes(args).collect::<Vec<_>>();
        assert_eq!(keys(b"get", 2), [1]);
        assert_eq!(keys(b"mset", 5), [1, 3]);
        assert_eq!(keys(b"del", 4), [1, 2, 3]);
        assert_eq!(keys(b"copy", 5), [1, 2]);
        assert_eq!(keys(b"ping", 2), Vec::<usize>::new());
        let encoding = find_shown(b"OBJECT|encoding").unwrap();
        assert_eq!(encoding.key_indexes(3).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn an_argument_counts_the_keys_behind_it() {
        static COUNTED: CommandSpec =
            CommandSpec::new("counted", -3, super::super::commands::string::get)
                .counted_keys(2, &[KeySpec::counted(2, "RW access update")]);
        let keys = |line: &[u8]| {
            let mut ranges = crate::resp::ArgRanges::new();
            crate::resp::parse(line, &Default::default(), &mut ranges).unwrap();
            COUNTED.keys_in(ranges.args(line)).map(Iterator::collect::<Vec<_>>)
        };
        assert_eq!(keys(b"counted x 2 a b c\r\n"), Some(vec![3, 4]));
        assert_eq!(keys(b"counted x 0 a\r\n"), Some(vec![]));
        assert_eq!(keys(b"counted x 1 a\r\n"), Some(vec![3]));
        for line in ["x 3 a b", "x -1 a", "x y a", "x 99999999999999999999 a"] {
            assert_eq!(keys(format!("counted {line}\r\n").as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn keys_whose_flags_vary_say_so() {
        for keys in shown_commands().flat_map(|spec| spec.key_specs) {
            let told = keys.flags.split(' ').any(|flag| flag == "variable_flags");
            assert_eq!(keys.flags_of_call.is_some(), told, "{keys:?}");
        }
    }

    #[test]
    fn listed_commands_have_summary_and_complexity() {
        for spec in shown_commands().chain(shown_commands().flat_map(|s| s.shown_subcommands())) {
            for text in [spec.summary, spec.since, spec.group, spec.complexity] {
                assert!(!text.is_empty(), "{}", spec.name);
            }
        }
    }
}
