//! A user, which rules change.

use std::fmt;

use crate::commands::Commands;
use crate::rule::{Rule, RuleError};
use crate::selector::Selector;
use crate::{NAME_BYTES_MAX, PASSWORDS_MAX, RULES_MAX, SELECTORS_MAX};

/// Bytes of a SHA-256.
const SHA256_BYTES: usize = 32;
/// The longest hash of another kind.
const PHC_BYTES_MAX: usize = 256;

/// A password, hashed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Password {
    /// SHA-256 of it, as in Redis.
    Sha256([u8; SHA256_BYTES]),
    /// Argon2id with its salt and costs, as a PHC string: `$argon2id$v=19$…`.
    Argon2(Box<str>),
}

impl Password {
    /// Reads 64 hexadecimal digits, or a PHC string.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &[u8]) -> Result<Self, RuleError> {
        if text.starts_with(b"$argon2id$") && text.len() <= PHC_BYTES_MAX {
            let is_plain = |byte: &u8| byte.is_ascii_graphic();
            let text = text.iter().all(is_plain).then(|| std::str::from_utf8(text).ok()).flatten();
            return Ok(Self::Argon2(text.ok_or(RuleError::BadHash)?.into()));
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(RuleError::BadHash),
        };
        if text.len() != 2 * SHA256_BYTES {
            return Err(RuleError::BadHash);
        }
        let mut hash = [0; SHA256_BYTES];
        for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self::Sha256(hash))
    }
}

/// As in a rule, without `#`.
impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(hash) => hash.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Argon2(text) => f.write_str(text),
        }
    }
}

/// Nothing of it: logs may have it.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hashed password")
    }
}

/// See the front page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name, for ever.
    pub name: Box<[u8]>,
    /// Whether it may authenticate.
    pub is_on: bool,
    /// Whether it needs no password.
    pub no_password: bool,
    /// Whether what RESTORE gets is looked at in full, if a rule says so. It is only shown.
    pub sanitizes: Option<bool>,
    /// Its passwords.
    pub passwords: Vec<Password>,
    /// What it may do; the first is its own.
    pub selectors: Vec<Selector>,
}

impl User {
    /// Whether a user may be called so: no blanks, no zero, not too long.
    pub fn is_name(name: &[u8]) -> bool {
        let is_plain = |byte: &u8| !byte.is_ascii_whitespace() && *byte != 0 && *byte != 0x0b;
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.iter().all(is_plain)
    }

    /// One that may do nothing, and is off.
    pub fn new(name: &[u8], commands: &Commands) -> Self {
        Self {
            name: name.into(),
            is_on: false,
            no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![Selector::nothing(commands)],
        }
    }

    /// The user of clients that have not authenticated: it may do everything, until rules close it.
    pub fn default_user(commands: &Commands) -> Self {
        Self {
            is_on: true,
            no_password: true,
            selectors: vec![Selector::everything(commands)],
            ..Self::new(b"default", commands)
        }
    }

    /// Its own selector.
    pub fn own(&self) -> &Selector {
        &self.selectors[0]
    }

    /// Changes it by these rules, one after the other.
    ///
    /// # Errors
    /// The place of the first rule that is refused, and why; nothing is changed.
    pub fn apply(&mut self, rules: &[Rule], commands: &Commands) -> Result<(), (usize, RuleError)> {
        let mut changed = self.clone();
        for (at, rule) in rules.iter().enumerate() {
            changed.apply_one(rule, commands).map_err(|why| (at, why))?;
        }
        *self = changed;
        Ok(())
    }

    fn apply_one(&mut self, rule: &Rule, commands: &Commands) -> Result<(), RuleError> {
        match rule {
            Rule::Enabled(is_on) => self.is_on = *is_on,
            Rule::NoPassword => (self.no_password, self.passwords) = (true, Vec::new()),
            Rule::ResetPasswords => (self.no_password, self.passwords) = (false, Vec::new()),
            // They come as hashes.
            Rule::ClearPassword(_) | Rule::RemoveClearPassword(_) => {
                return Err(RuleError::BadHash);
            }
            Rule::Password(password) => {
                if !self.passwords.contains(password) {
                    self.passwords.push(password.clone());
                }
                self.no_password = false;
            }
            Rule::RemovePassword(password) => {
                let place = self.passwords.iter().position(|known| known == password);
                self.passwords.remove(place.ok_or(RuleError::NoSuchPassword)?);
            }
            Rule::SanitizePayload(sanitizes) => self.sanitizes = Some(*sanitizes),
            Rule::Reset => {
                *self = Self { sanitizes: Some(true), ..Self::new(&self.name, commands) };
            }
            Rule::ClearSelectors => self.selectors.truncate(1),
            Rule::AddSelector(rules) => {
                let mut selector = Selector::nothing(commands);
                rules.iter().try_for_each(|rule| selector.apply(rule, commands))?;
                self.selectors.push(selector);
            }
            Rule::Own(rule) => self.selectors[0].apply(rule, commands)?,
        }
        let rules: usize = self.selectors.iter().map(Selector::rules).sum();
        let is_too_many = rules > RULES_MAX
            || self.passwords.len() > PASSWORDS_MAX
            || self.selectors.len() > SELECTORS_MAX + 1;
        if is_too_many { Err(RuleError::TooMany) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_rule_changes_nothing_of_those_with_it() {
        let commands = Commands::new([("get", "read"), ("set", "write")]);
        let mut user = User::new(b"ann", &commands);
        let rules = |words: &[&str]| {
            let words = words.iter().map(|word| Rule::parse(word.as_bytes()).unwrap());
            words.collect::<Vec<_>>()
        };
        let before = user.clone();
        let failed = user.apply(&rules(&["on", "+get", "+nope"]), &commands);
        assert_eq!((failed, &user), (Err((2, RuleError::UnknownCommand)), &before));
        let failed = user.apply(&rules(&["~*", "~a"]), &commands);
        assert_eq!((failed, &user), (Err((1, RuleError::AllKeys)), &before));
        let failed = user.apply(&rules(&["on", ">secret"]), &commands);
        assert_eq!((failed, &user), (Err((1, RuleError::BadHash)), &before));
        assert_eq!(user.apply(&rules(&["+set|x"]), &commands), Err((0, RuleError::FirstArgument)));
        let many: Vec<String> = (0..=RULES_MAX).map(|n| format!("~{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let failed = user.apply(&rules(&many), &commands);
        assert_eq!((failed, &user), (Err((RULES_MAX, RuleError::TooMany)), &before));
    }

    #[test]
    fn passwords_are_hashes_and_show_nothing() {
        let hash = "a".repeat(64);
        let password = Password::parse(hash.as_bytes()).unwrap();
        assert_eq!(password.to_string(), hash);
        assert_eq!(format!("{password:?}"), "a hashed password");
        for bad in ["", "a", &"A".repeat(64), &"g".repeat(64), "$argon2id$ x"] {
            assert_eq!(Password::parse(bad.as_bytes()), Err(RuleError::BadHash), "{bad}");
        }
        let phc = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA";
        assert_eq!(Password::parse(phc.as_bytes()).unwrap().to_string(), phc);
    }

    #[test]
    fn names_have_no_blanks() {
        assert!(User::is_name(b"ann") && User::is_name("\u{e4}".as_bytes()));
        for bad in [&b""[..], b"a b", b"a\0", b"a\n", &[b'x'; NAME_BYTES_MAX + 1]] {
            assert!(!User::is_name(bad));
        }
    }
}
