//! The commands that rules name, and their categories.

/// The categories, in Redis's order.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The bit of a category, by its name in any case.
pub fn category(name: &str) -> Option<u32> {
    let place = CATEGORIES.iter().position(|one| one.eq_ignore_ascii_case(name))?;
    Some(1 << place)
}

/// The place of a command in [`Commands`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub u16);

/// A command, or a subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// In small letters; of a subcommand `command|subcommand`.
    pub name: &'static str,
    /// The bits of its categories.
    pub categories: u32,
    /// The command that it is a subcommand of.
    pub parent: Option<CommandId>,
}

/// All commands, sorted by name. A subcommand stands somewhere behind its command.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    all: Vec<Command>,
}

impl Commands {
    /// Of names and their categories, with blanks between; the command of each subcommand must be
    /// among them.
    pub fn new(all: impl IntoIterator<Item = (&'static str, &'static str)>) -> Self {
        let mut named: Vec<(&'static str, u32)> = all
            .into_iter()
            .map(|(name, words)| {
                let bits = words.split(' ').filter_map(category);
                (name, bits.fold(0, |all, bit| all | bit))
            })
            .collect();
        named.sort_unstable();
        named.dedup_by_key(|(name, _)| *name);
        assert!(named.len() < usize::from(u16::MAX), "ids have 16 bits");
        let place = |name: &str| named.binary_search_by_key(&name, |(name, _)| name).ok();
        let all = named.iter().map(|(name, categories)| {
            let parent = name.split_once('|').map(|(parent, _)| {
                let place = place(parent).expect("the command of a subcommand is known");
                CommandId(place as u16)
            });
            Command { name, categories: *categories, parent }
        });
        Self { all: all.collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One of them.
    pub fn get(&self, id: CommandId) -> &Command {
        &self.all[usize::from(id.0)]
    }

    /// The one of a name, in any case.
    pub fn find(&self, name: &str) -> Option<CommandId> {
        let name = name.to_ascii_lowercase();
        let place = self.all.binary_search_by_key(&name.as_str(), |command| command.name).ok()?;
        Some(CommandId(place as u16))
    }

    /// All of them, with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (CommandId, &Command)> {
        self.all.iter().enumerate().map(|(place, command)| (CommandId(place as u16), command))
    }

    /// A command and its subcommands.
    pub fn family(&self, id: CommandId) -> impl Iterator<Item = CommandId> + '_ {
        let of_it =
            move |(one, command): &(CommandId, &Command)| *one == id || command.parent == Some(id);
        self.iter().filter(of_it).map(|(one, _)| one)
    }

    /// The commands of a category, without subcommands that their commands stand for.
    pub fn of_category(&self, bit: u32) -> impl Iterator<Item = (CommandId, &Command)> {
        self.iter().filter(move |(_, command)| command.categories & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_any_case_with_their_subcommands() {
        let all = Commands::new([
            ("get", "read string fast"),
            ("config|set", "admin slow dangerous"),
            ("config", "slow"),
            ("config|get", "admin slow dangerous"),
        ]);
        let config = all.find("CONFIG").unwrap();
        let family: Vec<&str> = all.family(config).map(|id| all.get(id).name).collect();
        assert_eq!(family, ["config", "config|get", "config|set"]);
        assert_eq!(all.find("config|nope"), None);
        let read: Vec<&str> =
            all.of_category(category("READ").unwrap()).map(|(_, c)| c.name).collect();
        assert_eq!(read, ["get"]);
        assert_eq!(category("nope"), None);
    }
}
