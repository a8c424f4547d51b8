//! Errors of requests, the state that they leave, and the meaning of a node's errors.
//!
//! | a node says | it is | tried again |
//! |---|---|---|
//! | `MOVED` | another node leads | there, at once |
//! | `TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `BUSY`, `ASK`, `MASTERDOWN` | nothing was done | yes |
//! | `UNKNOWN` to a read | nothing was changed | yes |
//! | `UNKNOWN` to a write | [`Error::Unknown`] | never |
//! | `CONFLICT`, to a transaction | nothing was done | the transaction, from its beginning |
//! | `OOM`, `MISCONF`, `READONLY`, other words | [`Error::NotDone`] | no |
//! | `ERR`, `WRONGTYPE`, `CROSSSLOT`, `NOAUTH`, `WRONGPASS`, `NOPERM`, `NOPROTO`, `EXECABORT` | [`Error::BadRequest`] | no |

/// Why a request failed. There are three kinds; each says whether the request was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was done, nor will be. The same request may be sent again.
    #[error("not done: {text}")]
    NotDone {
        /// Why not.
        reason: Reason,
        /// In words: the node's, if it said something.
        text: String,
    },
    /// It may be done, now or later: it was sent, and no answer came. Read what it would have
    /// changed before you send it again.
    #[error("unknown outcome of request {request} ({command}): {text}")]
    Unknown {
        /// Its number among the requests of its store.
        request: u64,
        /// Its first words.
        command: String,
        /// What happened.
        text: String,
    },
    /// Nothing was done, and it would be no different if it were sent again: the request itself is
    /// at fault.
    #[error("bad request: {text}")]
    BadRequest {
        /// What is wrong with it.
        text: String,
    },
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No node can be reached.
    NoNode,
    /// The time for the request was over. It was not sent, or it only reads.
    TimedOut,
    /// No node leads the key's shard, or too much waits for it; all the time of the request long.
    NoLeader,
    /// Another has changed what a transaction has read.
    Conflict,
    /// Data takes all the memory that it may. Reads and deletes go on.
    OutOfMemory,
    /// A disk is full. Reads go on.
    DiskFull,
    /// What was answered cannot be used: not RESP, or longer than `reply_bytes_max`.
    BadAnswer,
    /// A reason of the node's own.
    Refused,
}

impl Error {
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::BadRequest { text: text.into() }
    }

    pub(crate) fn not_done(reason: Reason, text: impl Into<String>) -> Self {
        Self::NotDone { reason, text: text.into() }
    }

    /// Whether a transaction that failed so may succeed if it runs again.
    pub(crate) fn is_passing(&self) -> bool {
        let reason = match self {
            Self::NotDone { reason, .. } => *reason,
            Self::Unknown { .. } | Self::BadRequest { .. } => return false,
        };
        match reason {
            Reason::NoNode | Reason::TimedOut | Reason::NoLeader | Reason::Conflict => true,
            Reason::OutOfMemory | Reason::DiskFull | Reason::BadAnswer | Reason::Refused => false,
        }
    }
}

/// What an error of a node means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Ask there.
    Moved {
        /// The key's slot.
        slot: u16,
        /// Empty: the host that was asked.
        host: String,
        /// The port of its Redis listener.
        port: u16,
    },
    /// Nothing was done; it may be otherwise in a moment.
    Again,
    /// It may have been done.
    Unknown,
    /// Nothing was done.
    NotDone(Reason),
    /// … nor would be if it were sent again.
    Bad,
}

/// What an error means, by its first word.
pub(crate) fn meaning(text: &[u8]) -> Meaning {
    let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    match word {
        b"MOVED" => moved(text).unwrap_or(Meaning::Again),
        b"TRYAGAIN" | b"CLUSTERDOWN" | b"LOADING" | b"BUSY" | b"ASK" | b"MASTERDOWN" => {
            Meaning::Again
        }
        b"UNKNOWN" => Meaning::Unknown,
        b"CONFLICT" => Meaning::NotDone(Reason::Conflict),
        b"OOM" => Meaning::NotDone(Reason::OutOfMemory),
        b"MISCONF" => Meaning::NotDone(Reason::DiskFull),
        b"ERR" | b"WRONGTYPE" | b"CROSSSLOT" | b"NOAUTH" | b"WRONGPASS" | b"NOPERM"
        | b"NOPROTO" | b"EXECABORT" => Meaning::Bad,
        _ => Meaning::NotDone(Reason::Refused),
    }
}

/// `MOVED slot host:port`.
fn moved(text: &[u8]) -> Option<Meaning> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ').skip(1);
    let slot = words.next()?.parse().ok().filter(|slot| *slot < keyspace::SLOTS)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some(Meaning::Moved { slot, host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_mean_what_their_first_word_says() {
        let moved = Meaning::Moved { slot: 12, host: "::1".into(), port: 6379 };
        let cases: [(&[u8], Meaning); 12] = [
            (b"MOVED 12 ::1:6379", moved),
            (b"MOVED 99999 h:1", Meaning::Again),
            (b"MOVED", Meaning::Again),
            (b"TRYAGAIN no leader", Meaning::Again),
            (b"BUSY", Meaning::Again),
            (b"UNKNOWN who knows", Meaning::Unknown),
            (b"OOM command not allowed", Meaning::NotDone(Reason::OutOfMemory)),
            (b"CONFLICT 'k' was changed", Meaning::NotDone(Reason::Conflict)),
            (b"MISCONF the disk is full", Meaning::NotDone(Reason::DiskFull)),
            (b"ERR syntax error", Meaning::Bad),
            (b"SOMETHING new", Meaning::NotDone(Reason::Refused)),
            (b"", Meaning::NotDone(Reason::Refused)),
        ];
        for (text, expected) in cases {
            assert_eq!(meaning(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }
}
