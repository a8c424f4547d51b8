//! Errors of commands that are refused before anything is done, with their reply texts.

/// A refusal in Redis's words, its code first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// Always the same words.
    Fixed(&'static str),
    /// Words with something from the client within, which may be any bytes.
    Formatted(Vec<u8>),
}

impl CommandError {
    /// A text put together for this case.
    pub fn formatted(text: String) -> Self {
        Self::Formatted(text.into_bytes())
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        match self {
            Self::Fixed(text) => text.as_bytes(),
            Self::Formatted(text) => text,
        }
    }
}

/// A command that writes, and that no other node does in a replica's place.
pub const READ_ONLY_REPLICA: CommandError =
    CommandError::Fixed("READONLY You can't write against a read only replica.");
/// Options that do not fit together, or are none.
pub const SYNTAX: CommandError = CommandError::Fixed("ERR syntax error");
/// The keys of one command lie on several nodes of a Redis Cluster.
pub const CROSS_SLOT: CommandError =
    CommandError::Fixed("CROSSSLOT Keys in request don't hash to the same slot");
/// Not an integer of 64 bits where one is needed.
pub const NOT_INTEGER: CommandError =
    CommandError::Fixed("ERR value is not an integer or out of range");
/// Not a float where one is needed.
pub const NOT_FLOAT: CommandError = CommandError::Fixed("ERR value is not a valid float");
/// A value would be longer than `value_bytes_max`.
pub const TOO_LONG: CommandError =
    CommandError::Fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
/// SELECT or COPY of a keyspace number that is none.
const DB_OUT_OF_RANGE: CommandError = CommandError::Fixed("ERR DB index is out of range");

/// The number of a keyspace that is no C `int`.
const NOT_INT: CommandError =
    CommandError::Fixed("ERR value is out of range, value must between -2147483648 and 2147483647");

/// A number that names a keyspace, but none of those from 0 to 15.
pub fn no_numbered_keyspace(index: i64) -> CommandError {
    if i32::try_from(index).is_ok() { DB_OUT_OF_RANGE } else { NOT_INT }
}

/// Too few or too many arguments.
pub fn arity(command: &str) -> CommandError {
    CommandError::formatted(format!("ERR wrong number of arguments for '{command}' command"))
}

/// An expiry that is not above zero, or leaves 64 bits.
pub fn expire_time(command: &str) -> CommandError {
    CommandError::formatted(format!("ERR invalid expire time in '{command}' command"))
}

/// A key longer than `key_bytes_max`.
pub fn key_too_long(key_bytes_max: usize) -> CommandError {
    CommandError::formatted(format!("ERR key is longer than {key_bytes_max} bytes (key_bytes_max)"))
}

/// How much of a client's words is repeated to it.
const PREVIEW_BYTES_MAX: usize = 128;

/// A command that its user may not run.
pub fn no_permission(user: &str, command: &str) -> CommandError {
    let text = format!("NOPERM User {user} has no permissions to run the '{command}' command");
    CommandError::formatted(text)
}

/// A command before the password.
pub const NO_AUTH: CommandError = CommandError::Fixed("NOAUTH Authentication required.");

/// A command other than those for a client of RESP2 that subscribes.
pub fn not_for_subscribers(command: &str) -> CommandError {
    CommandError::formatted(format!(
        "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
         RESET are allowed in this context"
    ))
}

/// An unknown command, with the beginning of its arguments.
pub fn unknown_command(args: super::Args<'_>) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(preview(args.at(0), PREVIEW_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut shown = 0;
    for arg in args.from(1).iter() {
        if shown >= PREVIEW_BYTES_MAX {
            break;
        }
        let part = preview(arg, PREVIEW_BYTES_MAX - shown);
        text.push(b'\'');
        text.extend_from_slice(part);
        text.extend_from_slice(b"' ");
        shown += part.len() + 3;
    }
    CommandError::Formatted(text)
}

/// An unknown subcommand of a known command.
pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> CommandError {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(preview(subcommand, PREVIEW_BYTES_MAX));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(command.to_ascii_uppercase().as_bytes());
    text.extend_from_slice(b" HELP.");
    CommandError::Formatted(text)
}

/// The beginning of a text; as in Redis, not beyond a zero byte.
fn preview(text: &[u8], bytes_max: usize) -> &[u8] {
    let text = &text[..text.len().min(bytes_max)];
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}
