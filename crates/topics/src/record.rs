//! The bytes of topics, messages, groups and locks, in the forms of [`keyspace::codec`].
//!
//! | record | bytes |
//! |---|---|
//! | names | `u8` 1, `varint` count, then each name as `bytes`, rising |
//! | head | `u8` 1, `u8` 1 if it is being deleted, `varint` each: first, next, total, first offset, kept_ms, messages_max, bytes_max |
//! | message | `u8` 1, `varint` offset, origin, then the message to the end |
//! | origin | `u8` 0: none; `u8` 1: topic and group as `bytes`, number and deliveries as `varint` |
//! | group | `u8` 1, `varint` each: next, missed, ack_ms, deliveries_max; dead-letter topic as `bytes`, empty: none; `varint` count, then what is handed out |
//! | handed out | `varint` each: number less the one before, until_ms, deliveries |
//! | lock | `u8` 1, `varint` token (0: the version of this record), `varint` until_ms, owner as `bytes` |

use keyspace::codec::{DecodeError, Reader, put_bytes, put_varint};

use crate::{Found, Refusal};

/// The version of all records.
const VERSION: u8 = 1;

/// A value of a key.
pub trait Record: Sized {
    /// Its bytes.
    fn encode(&self) -> Vec<u8>;

    /// From its bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// What a key has.
    ///
    /// # Errors
    /// [`Refusal::Foreign`]: it is no such record.
    fn of(key: &[u8], found: Option<Found>) -> Result<Option<Self>, Refusal> {
        let Some(found) = found else { return Ok(None) };
        let record = Self::decode(&found.value);
        record
            .map(Some)
            .map_err(|why| Refusal::Foreign { key: key.escape_ascii().to_string(), why })
    }
}

fn begin<'a>(bytes: &'a [u8], what: &'static str) -> Result<Reader<'a>, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.u8()? {
        VERSION => Ok(reader),
        found => Err(DecodeError::Version { what, found }),
    }
}

fn text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, DecodeError> {
    let bytes = reader.bytes()?.to_vec();
    String::from_utf8(bytes).map_err(|_| DecodeError::Field { what })
}

fn put_all(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| put_varint(*number, out));
}

/// Names, rising.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Adds a name. Whether it was not there.
    pub fn add(&mut self, name: &str) -> bool {
        match self.0.binary_search_by(|known| known.as_str().cmp(name)) {
            Ok(_) => false,
            Err(place) => {
                self.0.insert(place, name.to_owned());
                true
            }
        }
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|known| known != name);
    }
}

impl Record for Names {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(self.0.len() as u64, &mut out);
        self.0.iter().for_each(|name| put_bytes(name.as_bytes(), &mut out));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "list of names")?;
        let count = reader.varint_max(bytes.len() as u64, "count of names")?;
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(text(&mut reader, "name")?);
        }
        reader.end()?;
        let rises = names.windows(2).all(|pair| pair[0] < pair[1]);
        if rises { Ok(Self(names)) } else { Err(DecodeError::Field { what: "order of names" }) }
    }
}

/// How long a topic keeps messages: a message goes when one of these is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// For so long, in ms.
    pub kept_ms: u64,
    /// So many.
    pub messages_max: u64,
    /// So many bytes.
    pub bytes_max: u64,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whether it is being deleted.
    pub is_leaving: bool,
    /// The number of the oldest message that may be there.
    pub first: u64,
    /// The number of the next message.
    pub next: u64,
    /// Bytes of all messages that were published.
    pub total: u64,
    /// … before `first`, at most.
    pub first_offset: u64,
    /// How long it keeps messages.
    pub settings: TopicSettings,
}

impl Head {
    /// A topic without messages.
    pub fn new(settings: TopicSettings) -> Self {
        Self { is_leaving: false, first: 1, next: 1, total: 0, first_offset: 0, settings }
    }

    /// How many messages may be there.
    pub fn messages(&self) -> u64 {
        self.next - self.first
    }

    /// Their bytes, at most.
    pub fn bytes(&self) -> u64 {
        self.total - self.first_offset
    }
}

impl Record for Head {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.is_leaving)];
        let TopicSettings { kept_ms, messages_max, bytes_max } = self.settings;
        let Self { first, next, total, first_offset, .. } = *self;
        put_all(&[first, next, total, first_offset, kept_ms, messages_max, bytes_max], &mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "topic")?;
        let is_leaving = match reader.u8()? {
            0 => false,
            1 => true,
            found => return Err(DecodeError::Tag { what: "state of a topic", found }),
        };
        let (first, next) = (reader.varint()?, reader.varint()?);
        let (total, first_offset) = (reader.varint()?, reader.varint()?);
        let settings = TopicSettings {
            kept_ms: reader.varint()?,
            messages_max: reader.varint()?,
            bytes_max: reader.varint()?,
        };
        reader.end()?;
        if first > next || first_offset > total {
            return Err(DecodeError::Field { what: "numbers of a topic" });
        }
        Ok(Self { is_leaving, first, next, total, first_offset, settings })
    }
}

/// Where a message was before it came to a dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its topic.
    pub topic: String,
    /// The group that did not acknowledge it.
    pub group: String,
    /// Its number there.
    pub number: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes that the topic had published before it.
    pub offset: u64,
    /// Where it was before.
    pub origin: Option<Origin>,
    /// What was published.
    pub body: Vec<u8>,
}

impl Record for Message {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 12);
        out.push(VERSION);
        put_varint(self.offset, &mut out);
        out.push(u8::from(self.origin.is_some()));
        if let Some(origin) = &self.origin {
            put_bytes(origin.topic.as_bytes(), &mut out);
            put_bytes(origin.group.as_bytes(), &mut out);
            put_all(&[origin.number, origin.deliveries], &mut out);
        }
        out.extend_from_slice(&self.body);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "message")?;
        let offset = reader.varint()?;
        let origin = match reader.u8()? {
            0 => None,
            1 => Some(Origin {
                topic: text(&mut reader, "name")?,
                group: text(&mut reader, "name")?,
                number: reader.varint()?,
                deliveries: reader.varint()?,
            }),
            found => return Err(DecodeError::Tag { what: "origin of a message", found }),
        };
        Ok(Self { offset, origin, body: reader.rest().to_vec() })
    }
}

/// How a group is delivered to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Time to acknowledge a message, in ms; then it is delivered again.
    pub ack_ms: u64,
    /// After so many deliveries it goes to the dead-letter topic; 0: never.
    pub deliveries_max: u64,
    /// That topic.
    pub dead_letter: Option<String>,
}

/// A message that was handed out and is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its number.
    pub number: u64,
    /// From then on it is delivered again, in ms since 1970.
    pub until_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A group of subscribers, which share its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How it is delivered to.
    pub settings: GroupSettings,
    /// The number of the next message to be handed out for the first time.
    pub next: u64,
    /// Messages that were gone before they were handed out, or acknowledged.
    pub missed: u64,
    /// By rising number.
    pub pending: Vec<Pending>,
}

impl Record for Group {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let GroupSettings { ack_ms, deliveries_max, dead_letter } = &self.settings;
        put_all(&[self.next, self.missed, *ack_ms, *deliveries_max], &mut out);
        put_bytes(dead_letter.as_deref().unwrap_or_default().as_bytes(), &mut out);
        put_varint(self.pending.len() as u64, &mut out);
        let mut before = 0;
        for Pending { number, until_ms, deliveries } in &self.pending {
            put_all(&[number - before, *until_ms, *deliveries], &mut out);
            before = *number;
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "group")?;
        let (next, missed) = (reader.varint()?, reader.varint()?);
        let (ack_ms, deliveries_max) = (reader.varint()?, reader.varint()?);
        let dead_letter = Some(text(&mut reader, "name")?).filter(|topic| !topic.is_empty());
        let count = reader.varint_max(bytes.len() as u64, "count of what is handed out")?;
        let (mut pending, mut before) = (Vec::new(), 0u64);
        for _ in 0..count {
            let step = reader.varint()?;
            let number = before.checked_add(step).filter(|_| step > 0);
            before = number.ok_or(DecodeError::Field { what: "order of what is handed out" })?;
            let (until_ms, deliveries) = (reader.varint()?, reader.varint()?);
            pending.push(Pending { number: before, until_ms, deliveries });
        }
        reader.end()?;
        let settings = GroupSettings { ack_ms, deliveries_max, dead_letter };
        Ok(Self { settings, next, missed, pending })
    }
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// The token of its holder; 0 in a record that is the holder's first: its version is the token.
    pub token: u64,
    /// When its lease ends, in ms since 1970.
    pub until_ms: u64,
    /// By whom.
    pub owner: String,
}

impl Record for LockRecord {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_all(&[self.token, self.until_ms], &mut out);
        put_bytes(self.owner.as_bytes(), &mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = begin(bytes, "lock")?;
        let (token, until_ms) = (reader.varint()?, reader.varint()?);
        let owner = text(&mut reader, "name")?;
        reader.end()?;
        Ok(Self { token, until_ms, owner })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn again<R: Record + PartialEq + std::fmt::Debug>(record: &R) {
        let bytes = record.encode();
        assert_eq!(R::decode(&bytes).as_ref(), Ok(record));
        for end in 0..bytes.len() {
            // A message may end anywhere behind its head.
            let _any = R::decode(&bytes[..end]);
        }
    }

    #[test]
    fn records_are_read_as_they_are_written() {
        again(&Names(vec!["a".into(), "b".into()]));
        let settings = TopicSettings { kept_ms: 1000, messages_max: 7, bytes_max: 900 };
        let head = Head { first: 3, next: 300, total: 70, first_offset: 9, ..Head::new(settings) };
        again(&head);
        again(&Message { offset: 7, origin: None, body: b"hello".to_vec() });
        let origin = Origin { topic: "t".into(), group: "g".into(), number: 7, deliveries: 3 };
        again(&Message { offset: 7, origin: Some(origin), body: Vec::new() });
        let of = |number| Pending { number, until_ms: 1_795_712_437_800, deliveries: 2 };
        let dead_letter = Some("dead".to_owned());
        let settings = GroupSettings { ack_ms: 30_000, deliveries_max: 5, dead_letter };
        again(&Group { settings, next: 9, missed: 1, pending: vec![of(3), of(8)] });
        again(&LockRecord { token: 9, until_ms: 10, owner: "me".into() });
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Names::decode(&[1, 2, 1, b'b', 1, b'a']).is_err(), "not in order");
        assert!(Head::decode(&[1, 0, 3, 2, 0, 0, 0, 0, 0]).is_err(), "first behind next");
        assert!(Group::decode(&[1, 1, 0, 1, 0, 0, 1, 0, 1, 1]).is_err(), "number 0");
        assert!(LockRecord::decode(b"text").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok(names) = Names::decode(&bytes) {
                prop_assert_eq!(names.encode(), bytes.clone());
            }
            if let Ok(head) = Head::decode(&bytes) {
                prop_assert_eq!(head.encode(), bytes.clone());
            }
            if let Ok(group) = Group::decode(&bytes) {
                prop_assert_eq!(group.encode(), bytes.clone());
            }
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes.clone());
            }
            if let Ok(lock) = LockRecord::decode(&bytes) {
                prop_assert_eq!(lock.encode(), bytes);
            }
        }
    }
}
