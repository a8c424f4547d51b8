//! Access control: the only place that decides which client may do what.
//!
//! A connection gets a [`Principal`] when it is accepted, and every request carries it. Every
//! command of the table, and every operation of native frames, has an [`Access`].
//! [`Principal::may`] compares them. A client who must give a password may do nothing before.

/// The client of a connection, for access control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Principal {
    /// A client on this machine.
    #[default]
    Local,
    /// A client on another machine, without authentication.
    Anonymous,
    /// A client that has given the password, or shown a certificate.
    Authenticated,
    /// A client that must give the password first.
    Stranger,
}

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The connection itself and its transaction, whose commands are judged one by one.
    Connection,
    /// To look at the server and its cluster.
    Inspect,
    /// To read keys.
    Read,
    /// To change keys.
    Write,
    /// To change what others see of the server: its settings, its keyspaces, its connections.
    Admin,
}

impl Principal {
    /// The name that users of RESP know all of these by.
    pub const USER: &'static str = "default";

    /// Whether it may.
    #[inline]
    pub fn may(self, access: Access) -> bool {
        match (self, access) {
            (
                Principal::Local | Principal::Anonymous | Principal::Authenticated,
                Access::Connection | Access::Inspect | Access::Read | Access::Write | Access::Admin,
            ) => true,
            (Principal::Stranger, _) => false,
        }
    }

    /// Its user name.
    pub fn user(self) -> &'static str {
        Self::USER
    }
}

impl Access {
    /// The class of a RESP command, by its flags and its ACL categories.
    pub(crate) const fn parse_class(flags: &str, categories: &str) -> Self {
        // Before `write`, which EXEC has: the commands of a transaction are judged as they come.
        if has_word(categories, "transaction") || has_word(categories, "connection") {
            return if has_word(flags, "admin") { Access::Admin } else { Access::Connection };
        }
        if has_word(flags, "admin") {
            Access::Admin
        } else if has_word(flags, "write") {
            Access::Write
        } else if has_word(flags, "readonly") {
            Access::Read
        } else {
            Access::Inspect
        }
    }
}

/// Whether a word stands in a text with spaces between its words.
pub(crate) const fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let mut at = 0;
    while at + word.len() <= text.len() {
        let mut same = 0;
        while same < word.len() && text[at + same] == word[same] {
            same += 1;
        }
        let end = at + word.len();
        let is_whole =
            (at == 0 || text[at - 1] == b' ') && (end == text.len() || text[end] == b' ');
        if same == word.len() && is_whole {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole() {
        assert!(has_word("write fast", "write") && has_word("no write", "write"));
        assert!(!has_word("writes", "write") && !has_word("nowrite", "write"));
        assert!(!has_word("", "write"));
    }
}
