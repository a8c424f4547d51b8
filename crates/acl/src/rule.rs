//! Rules as text and as values.

use crate::RULE_BYTES_MAX;
use crate::selector::KeyAccess;
use crate::user::Password;

/// Why a rule is refused. The texts are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No such command or category.
    #[error("Unknown command or category name in ACL")]
    UnknownCommand,
    /// It is none.
    #[error("Syntax error")]
    Syntax,
    /// A pattern of keys behind the one that has all.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
         have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    /// A pattern of channels behind the one that has all.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does \
         not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    /// No such password.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// No hash.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
         characters"
    )]
    BadHash,
    /// An argument of a command.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgument,
    /// A selector without an end.
    #[error("Unmatched parenthesis in acl selector")]
    Unmatched,
    /// More than a user may have.
    #[error("a user has at most 4096 rules, 32 passwords and 64 selectors")]
    TooMany,
}

/// A password in the clear.
#[derive(Clone, PartialEq, Eq)]
pub struct ClearText(pub Box<[u8]>);

/// Nothing of it: logs may have it.
impl std::fmt::Debug for ClearText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a password")
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `on`, `off`
    Enabled(bool),
    /// `nopass`
    NoPassword,
    /// `resetpass`
    ResetPasswords,
    /// `>password`: in the clear, to be hashed before it changes a user.
    ClearPassword(ClearText),
    /// `<password`: the same.
    RemoveClearPassword(ClearText),
    /// `#hash`, or a hashed `>password`.
    Password(Password),
    /// `!hash`, or a `<password` that was found.
    RemovePassword(Password),
    /// `sanitize-payload`, `skip-sanitize-payload`
    SanitizePayload(bool),
    /// `reset`
    Reset,
    /// `clearselectors`
    ClearSelectors,
    /// `(rules)`
    AddSelector(Vec<SelectorRule>),
    /// What the user's own selector has.
    Own(SelectorRule),
}

/// One rule of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorRule {
    /// `allcommands`, `+@all`; `nocommands`, `-@all`
    AllCommands(bool),
    /// `+@category`, `-@category`
    Category(Box<str>, bool),
    /// `+command`, `-command`, `+command|subcommand`
    Command(Box<str>, bool),
    /// `allkeys`, `~*`
    AllKeys,
    /// `resetkeys`
    ResetKeys,
    /// `~pattern`, `%R~pattern`, `%W~pattern`
    Keys(KeyAccess, Box<[u8]>),
    /// `allchannels`, `&*`
    AllChannels,
    /// `resetchannels`
    ResetChannels,
    /// `&pattern`
    Channels(Box<[u8]>),
    /// `alldbs`
    AllKeyspaces,
    /// `resetdbs`
    ResetKeyspaces,
    /// `db=name,…`
    Keyspaces(Vec<Box<[u8]>>),
}

impl Rule {
    /// Reads one.
    ///
    /// # Errors
    /// It is none; that a command is not there shows when the rule changes a user.
    pub fn parse(text: &[u8]) -> Result<Self, RuleError> {
        if text.len() > RULE_BYTES_MAX {
            return Err(RuleError::Syntax);
        }
        let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
        Ok(match text {
            _ if is("on") => Self::Enabled(true),
            _ if is("off") => Self::Enabled(false),
            _ if is("nopass") => Self::NoPassword,
            _ if is("resetpass") => Self::ResetPasswords,
            _ if is("sanitize-payload") => Self::SanitizePayload(true),
            _ if is("skip-sanitize-payload") => Self::SanitizePayload(false),
            _ if is("reset") => Self::Reset,
            _ if is("clearselectors") => Self::ClearSelectors,
            [b'>', rest @ ..] => Self::ClearPassword(ClearText(rest.into())),
            [b'<', rest @ ..] => Self::RemoveClearPassword(ClearText(rest.into())),
            [b'#', rest @ ..] => Self::Password(Password::parse(rest)?),
            [b'!', rest @ ..] => Self::RemovePassword(Password::parse(rest)?),
            [b'(', rest @ .., b')'] => {
                let rules = rest.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty());
                Self::AddSelector(rules.map(SelectorRule::parse).collect::<Result<_, _>>()?)
            }
            [b'(', ..] => return Err(RuleError::Unmatched),
            _ => Self::Own(SelectorRule::parse(text)?),
        })
    }
}

impl SelectorRule {
    /// Reads one.
    ///
    /// # Errors
    /// As of [`Rule::parse`].
    pub fn parse(text: &[u8]) -> Result<Self, RuleError> {
        let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
        Ok(match text {
            _ if is("allcommands") || is("+@all") => Self::AllCommands(true),
            _ if is("nocommands") || is("-@all") => Self::AllCommands(false),
            _ if is("allkeys") || is("~*") => Self::AllKeys,
            _ if is("resetkeys") => Self::ResetKeys,
            _ if is("allchannels") || is("&*") => Self::AllChannels,
            _ if is("resetchannels") => Self::ResetChannels,
            _ if is("alldbs") => Self::AllKeyspaces,
            _ if is("resetdbs") => Self::ResetKeyspaces,
            [sign @ (b'+' | b'-'), rest @ ..] => {
                let name = std::str::from_utf8(rest).map_err(|_| RuleError::UnknownCommand)?;
                let name = name.to_ascii_lowercase();
                let adds = *sign == b'+';
                match name.strip_prefix('@') {
                    Some(category) => Self::Category(category.into(), adds),
                    None => Self::Command(name.into(), adds),
                }
            }
            [b'~', pattern @ ..] => Self::Keys(KeyAccess::BOTH, plain(pattern)?),
            [b'%', rest @ ..] => {
                let (access, pattern) = KeyAccess::parse(rest).ok_or(RuleError::Syntax)?;
                Self::Keys(access, plain(pattern)?)
            }
            [b'&', pattern @ ..] => Self::Channels(plain(pattern)?),
            [b'd' | b'D', b'b' | b'B', b'=', names @ ..] => {
                let names = names.split(|byte| *byte == b',').map(plain);
                let names: Vec<Box<[u8]>> = names.collect::<Result<_, _>>()?;
                if names.iter().any(|name| name.is_empty()) {
                    return Err(RuleError::Syntax);
                }
                Self::Keyspaces(names)
            }
            _ => return Err(RuleError::Syntax),
        })
    }
}

/// A pattern: without blanks, which stand between rules, and nothing that ends a text.
fn plain(pattern: &[u8]) -> Result<Box<[u8]>, RuleError> {
    let is_plain = |byte: &u8| !byte.is_ascii_whitespace() && *byte != 0 && *byte != 0x0b;
    match pattern.iter().all(is_plain) {
        true => Ok(pattern.into()),
        false => Err(RuleError::Syntax),
    }
}

/// Puts the arguments of a selector together that a client has sent one by one: `(+get` and
/// `~a)` are one rule.
///
/// # Errors
/// A selector has no end.
pub fn merge_selectors(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, RuleError> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for word in words {
        match &mut open {
            None if word.first() == Some(&b'(') && word.last() != Some(&b')') => {
                open = Some(word.to_vec());
            }
            None => all.push(word.to_vec()),
            Some(selector) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.last() == Some(&b')') {
                    all.extend(open.take());
                }
            }
        }
    }
    if open.is_some() { Err(RuleError::Unmatched) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_in_any_case_and_nonsense_is_refused() {
        assert_eq!(Rule::parse(b"ON"), Ok(Rule::Enabled(true)));
        assert_eq!(
            Rule::parse(b"+@Read"),
            Ok(Rule::Own(SelectorRule::Category("read".into(), true)))
        );
        assert_eq!(
            Rule::parse(b"%RW~x"),
            Ok(Rule::Own(SelectorRule::Keys(KeyAccess::BOTH, (*b"x").into())))
        );
        assert_eq!(
            Rule::parse(b"db=a,b*"),
            Ok(Rule::Own(SelectorRule::Keyspaces(vec![(*b"a").into(), (*b"b*").into()])))
        );
        for bad in ["", "x", "%~a", "%X~a", "%R", "~a b", "db=", "db=a,,b", "&a\tb", "on "] {
            assert_eq!(Rule::parse(bad.as_bytes()), Err(RuleError::Syntax), "{bad:?}");
        }
        assert_eq!(Rule::parse(b"#abc"), Err(RuleError::BadHash));
        assert_eq!(Rule::parse(b"(+get"), Err(RuleError::Unmatched));
        assert_eq!(Rule::parse(b"(on)"), Err(RuleError::Syntax));
    }

    #[test]
    fn arguments_of_a_selector_are_put_together() {
        let merged = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let merged = merge_selectors(&words)?;
            Ok(merged.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect())
        };
        let all: Result<Vec<String>, RuleError> = merged(&["on", "(+get", "~a", "~b)", "(x)"]);
        assert_eq!(all.unwrap(), ["on", "(+get ~a ~b)", "(x)"]);
        assert_eq!(merged(&["(+get", "~a"]), Err(RuleError::Unmatched));
    }
}
