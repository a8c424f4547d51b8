//! A selector: a set of commands, keys, channels and keyspaces.

use command::glob;

use crate::commands::{CommandId, Commands, category};
use crate::rule::{RuleError, SelectorRule};

/// What may be done with keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyAccess {
    /// What they hold may be returned or copied.
    pub read: bool,
    /// They may be set, changed or deleted.
    pub write: bool,
}

impl KeyAccess {
    /// Both.
    pub const BOTH: Self = Self { read: true, write: true };

    /// Whether all that is asked for is there.
    pub fn allows(self, asked: Self) -> bool {
        (self.read || !asked.read) && (self.write || !asked.write)
    }

    /// What stands behind `%`, up to and without `~`; and the rest.
    pub(crate) fn parse(text: &[u8]) -> Option<(Self, &[u8])> {
        let end = text.iter().position(|byte| *byte == b'~')?;
        let mut access = Self::default();
        for letter in &text[..end] {
            match letter.to_ascii_uppercase() {
                b'R' if !access.read => access.read = true,
                b'W' if !access.write => access.write = true,
                _ => return None,
            }
        }
        (access != Self::default()).then_some((access, &text[end + 1..]))
    }

    /// What stands before a pattern.
    pub(crate) fn prefix(self) -> &'static str {
        match (self.read, self.write) {
            (true, true) => "~",
            (true, false) => "%R~",
            (false, _) => "%W~",
        }
    }
}

/// See the front page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// A bit for each command.
    allowed: Vec<u64>,
    /// Whether its rules of commands begin with all of them: then those that come with later
    /// versions are allowed as well.
    pub(crate) begins_with_all: bool,
    /// The rules since all commands were allowed or forbidden, each once: `+get`, `-@dangerous`.
    pub(crate) command_rules: Vec<Box<str>>,
    /// Patterns of keys; none: all.
    pub(crate) keys: Option<Vec<(KeyAccess, Box<[u8]>)>>,
    /// Patterns of channels; none: all.
    pub(crate) channels: Option<Vec<Box<[u8]>>>,
    /// Patterns of keyspaces' names; none: all.
    pub(crate) keyspaces: Option<Vec<Box<[u8]>>>,
}

impl Selector {
    /// Nothing but all keyspaces.
    pub fn nothing(commands: &Commands) -> Self {
        Self {
            allowed: vec![0; commands.len().div_ceil(64)],
            begins_with_all: false,
            command_rules: Vec::new(),
            keys: Some(Vec::new()),
            channels: Some(Vec::new()),
            keyspaces: None,
        }
    }

    /// Everything.
    pub fn everything(commands: &Commands) -> Self {
        Self {
            allowed: vec![u64::MAX; commands.len().div_ceil(64)],
            begins_with_all: true,
            keys: None,
            channels: None,
            ..Self::nothing(commands)
        }
    }

    /// How many rules it has.
    pub(crate) fn rules(&self) -> usize {
        self.command_rules.len()
            + self.keys.as_ref().map_or(0, Vec::len)
            + self.channels.as_ref().map_or(0, Vec::len)
            + self.keyspaces.as_ref().map_or(0, Vec::len)
    }

    /// Whether a command is allowed.
    #[inline]
    pub fn has_command(&self, id: CommandId) -> bool {
        let (word, bit) = (usize::from(id.0 / 64), id.0 % 64);
        self.allowed.get(word).is_some_and(|bits| bits >> bit & 1 == 1)
    }

    /// Whether a key may be used so, by one pattern.
    pub fn has_key(&self, key: &[u8], access: KeyAccess) -> bool {
        let allows = |(pattern_access, pattern): &(KeyAccess, Box<[u8]>)| {
            pattern_access.allows(access) && glob::matches(pattern, key)
        };
        self.keys.as_ref().is_none_or(|patterns| patterns.iter().any(allows))
    }

    /// Whether a channel may be used; a pattern of channels only if a rule is the same pattern.
    pub fn has_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let allows = |pattern: &[u8]| match is_pattern {
            true => *pattern == *channel,
            false => glob::matches(pattern, channel),
        };
        self.channels.as_ref().is_none_or(|patterns| patterns.iter().any(|each| allows(each)))
    }

    /// Whether a keyspace may be used.
    pub fn has_keyspace(&self, name: &[u8]) -> bool {
        let allows = |pattern: &[u8]| glob::matches(pattern, name);
        self.keyspaces.as_ref().is_none_or(|patterns| patterns.iter().any(|each| allows(each)))
    }

    fn set(&mut self, id: CommandId, allow: bool) {
        let (word, bit) = (usize::from(id.0 / 64), id.0 % 64);
        match allow {
            true => self.allowed[word] |= 1 << bit,
            false => self.allowed[word] &= !(1 << bit),
        }
    }

    /// A command with its subcommands.
    fn set_family(&mut self, id: CommandId, allow: bool, commands: &Commands) {
        for one in commands.family(id) {
            self.set(one, allow);
        }
    }

    /// Puts a rule behind the others, in the place of those that it makes needless.
    fn note(&mut self, name: &str, allow: bool) {
        let is_same = |rule: &str| {
            let rest = rule[1..].strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        };
        self.command_rules.retain(|rule| !is_same(rule));
        let sign = if allow { '+' } else { '-' };
        self.command_rules.push(format!("{sign}{name}").into());
    }

    /// Changes it.
    ///
    /// # Errors
    /// The rule is refused, and it is as it was.
    pub fn apply(&mut self, rule: &SelectorRule, commands: &Commands) -> Result<(), RuleError> {
        match rule {
            SelectorRule::AllCommands(allow) => {
                let bits = if *allow { u64::MAX } else { 0 };
                self.allowed.fill(bits);
                self.begins_with_all = *allow;
                self.command_rules.clear();
            }
            SelectorRule::Category(name, allow) => {
                let bit = category(name).ok_or(RuleError::UnknownCommand)?;
                let of_it: Vec<CommandId> = commands.of_category(bit).map(|(id, _)| id).collect();
                of_it.into_iter().for_each(|id| self.set_family(id, *allow, commands));
                self.note(&format!("@{name}"), *allow);
            }
            SelectorRule::Command(name, allow) => {
                match (commands.find(name), name.split_once('|')) {
                    (Some(id), _) => self.set_family(id, *allow, commands),
                    (None, Some((parent, _))) if commands.find(parent).is_some() => {
                        let parent = commands.find(parent).ok_or(RuleError::UnknownCommand)?;
                        let is_alone = commands.family(parent).count() == 1;
                        return Err(match is_alone {
                            true => RuleError::FirstArgument,
                            false => RuleError::UnknownCommand,
                        });
                    }
                    (None, _) => return Err(RuleError::UnknownCommand),
                }
                self.note(name, *allow);
            }
            SelectorRule::AllKeys => self.keys = None,
            SelectorRule::ResetKeys => self.keys = Some(Vec::new()),
            SelectorRule::Keys(access, pattern) => {
                let patterns = self.keys.as_mut().ok_or(RuleError::AllKeys)?;
                match patterns.iter_mut().find(|(_, known)| known == pattern) {
                    Some((known, _)) => {
                        *known = KeyAccess {
                            read: known.read || access.read,
                            write: known.write || access.write,
                        };
                    }
                    None => patterns.push((*access, pattern.clone())),
                }
            }
            SelectorRule::AllChannels => self.channels = None,
            SelectorRule::ResetChannels => self.channels = Some(Vec::new()),
            SelectorRule::Channels(pattern) => {
                let patterns = self.channels.as_mut().ok_or(RuleError::AllChannels)?;
                if !patterns.contains(pattern) {
                    patterns.push(pattern.clone());
                }
            }
            SelectorRule::AllKeyspaces => self.keyspaces = None,
            SelectorRule::ResetKeyspaces => self.keyspaces = Some(Vec::new()),
            SelectorRule::Keyspaces(names) => {
                // A user begins with all of them: the first rule says which it keeps.
                let patterns = self.keyspaces.get_or_insert_default();
                for name in names {
                    if !patterns.contains(name) {
                        patterns.push(name.clone());
                    }
                }
            }
        }
        Ok(())
    }
}
