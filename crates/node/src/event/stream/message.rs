//! What nodes say to each other about events, and its bytes.
//!
//! Tag `u8`, then the fields in their order; words as in [`keyspace::codec`]. One message is the
//! body of one frame. A *place* is a time u64, then `u8` 0, or 1 and a node u64.
//!
//! Events go as the text that viewers get. It is looked at only as far as that a stream of lines
//! stays one: it is one line of text in braces.

use std::sync::Arc;

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{DecodeError, NodeId, Timestamp};

use super::{Cursor, EVENT_BYTES_MAX, Filter, Gap, GapReason, GroupStep, Item, SampleGroup};
use crate::event::EventType;

/// About the most bytes of items in one frame.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// The longest name of a type, or of a keyspace.
const NAME_BYTES_MAX: usize = 1 << 10;
/// The most types that a message may name.
const TYPES_MAX: u64 = 256;
/// The most items that a frame may have: each takes some bytes.
const ITEMS_MAX: u64 = 1 << 16;

/// What a node wants of another one for one of its viewers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchMessage {
    /// The asking node's number for it: `varint`.
    pub watch: u64,
    /// How often that node has begun it anew: `varint`.
    pub restart: u64,
    /// If it begins with this: behind this place.
    pub cursor: Cursor,
    /// What is wanted: `u8` 0 for all types, or 1, a `varint` count of names of types, and these,
    /// `bytes` each; then `u8` 0, or 1 and the name of a keyspace, `bytes`.
    pub filter: Filter,
    /// At most so many samples a second: `varint`.
    pub samples: u32,
    /// How many bytes of items may be sent in all since it was begun anew: `varint`.
    pub credit: u64,
}

/// A message about events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// 1: send events from now on; repeated, for else it ends.
    Watch(WatchMessage),
    /// 2: send no more.
    Unwatch {
        /// The asking node's number: `varint`.
        watch: u64,
    },
    /// 3: events.
    Events {
        /// The asking node's number: `varint`.
        watch: u64,
        /// What it was begun with: `varint`.
        restart: u64,
        /// The number of this frame since then, from 0: `varint`.
        sequence: u64,
        /// Nothing at or below this time will follow: u64.
        promise: Timestamp,
        /// A `varint` count. Of each: `u8` 0 an event or 1 a sample, then its time u64 and its text
        /// `bytes`; or 2, then why events are missing `u8`, a `varint` 0 or their number and 1,
        /// whether that is exact `u8`, a `varint` of samples, and the times of both ends, u64 each;
        /// or 3 a sample that is one of several, then time and text as 1, the group u64 and which
        /// step of it `u8`.
        items: Vec<Item>,
    },
    /// 4: too many watch.
    Refused {
        /// The asking node's number: `varint`.
        watch: u64,
    },
}

impl EventMessage {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            EventMessage::Watch(watch) => {
                out.push(1);
                watch.encode(out);
            }
            EventMessage::Unwatch { watch } => {
                out.push(2);
                put_varint(*watch, out);
            }
            EventMessage::Events { watch, restart, sequence, promise, items } => {
                out.push(3);
                put_varint(*watch, out);
                put_varint(*restart, out);
                put_varint(*sequence, out);
                out.extend_from_slice(&promise.0.to_le_bytes());
                put_varint(items.len() as u64, out);
                items.iter().for_each(|item| put_item(item, out));
            }
            EventMessage::Refused { watch } => {
                out.push(4);
                put_varint(*watch, out);
            }
        }
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let read = match reader.u8()? {
            1 => EventMessage::Watch(WatchMessage::decode(&mut reader)?),
            2 => EventMessage::Unwatch { watch: reader.varint()? },
            3 => {
                let (watch, restart) = (reader.varint()?, reader.varint()?);
                let (sequence, promise) = (reader.varint()?, Timestamp(reader.u64()?));
                // Nothing is allocated for a count that is only said.
                let mut items = Vec::new();
                for _ in 0..reader.varint_max(ITEMS_MAX, "count of events")? {
                    items.push(read_item(&mut reader)?);
                }
                EventMessage::Events { watch, restart, sequence, promise, items }
            }
            4 => EventMessage::Refused { watch: reader.varint()? },
            found => return Err(DecodeError::Tag { what: "message about events", found }),
        };
        reader.end()?;
        Ok(read)
    }
}

impl WatchMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.watch, out);
        put_varint(self.restart, out);
        out.extend_from_slice(&self.cursor.at.0.to_le_bytes());
        out.push(u8::from(self.cursor.node.is_some()));
        if let Some(node) = self.cursor.node {
            out.extend_from_slice(&node.0.to_le_bytes());
        }
        let types = self.filter.types().map(Iterator::collect::<Vec<_>>);
        out.push(u8::from(types.is_some()));
        if let Some(types) = types {
            put_varint(types.len() as u64, out);
            types.iter().for_each(|one| put_bytes(one.name().as_bytes(), out));
        }
        let keyspace = self.filter.keyspace();
        out.push(u8::from(keyspace.is_some()));
        if let Some(keyspace) = keyspace {
            put_bytes(keyspace.as_bytes(), out);
        }
        put_varint(self.samples.into(), out);
        put_varint(self.credit, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (watch, restart, at) = (reader.varint()?, reader.varint()?, Timestamp(reader.u64()?));
        let node = read_flag(reader)?.then(|| reader.u64().map(NodeId)).transpose()?;
        let mut filter = Filter::default();
        if read_flag(reader)? {
            let mut types = Vec::new();
            for _ in 0..reader.varint_max(TYPES_MAX, "count of types")? {
                // A newer node may know types that this one never tells.
                types.extend(EventType::named(read_name(reader)?));
            }
            filter = Filter::of_types(types);
        }
        let keyspace = read_flag(reader)?.then(|| read_name(reader)).transpose()?;
        let filter = filter.in_keyspace(keyspace.map(Into::into));
        let samples = reader.varint_max(u32::MAX.into(), "samples a second")? as u32;
        let (credit, cursor) = (reader.varint()?, Cursor { at, node });
        Ok(Self { watch, restart, cursor, filter, samples, credit })
    }
}

fn read_flag(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(DecodeError::Tag { what: "flag of a message about events", found }),
    }
}

fn read_name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let name = reader.bytes()?;
    let text = std::str::from_utf8(name).ok().filter(|name| name.len() <= NAME_BYTES_MAX);
    text.ok_or(DecodeError::Field { what: "name in a message about events" })
}

fn put_item(item: &Item, out: &mut Vec<u8>) {
    let text = |out: &mut Vec<u8>, tag: u8, at: &Timestamp, body: &str| {
        out.push(tag);
        out.extend_from_slice(&at.0.to_le_bytes());
        put_bytes(body.as_bytes(), out);
    };
    match item {
        Item::Event(at, body) => text(out, 0, at, body),
        Item::Sample(at, body, None) => text(out, 1, at, body),
        Item::Sample(at, body, Some(group)) => {
            text(out, 3, at, body);
            out.extend_from_slice(&group.id.to_le_bytes());
            out.push(group.step as u8);
        }
        Item::Gap(gap) => {
            out.extend_from_slice(&[2, gap.reason as u8]);
            put_varint(gap.events.map_or(0, |events| events.saturating_add(1)), out);
            out.push(u8::from(gap.is_exact));
            put_varint(gap.samples, out);
            out.extend_from_slice(&gap.from.0.to_le_bytes());
            out.extend_from_slice(&gap.to.0.to_le_bytes());
        }
    }
}

fn read_item(reader: &mut Reader<'_>) -> Result<Item, DecodeError> {
    Ok(match reader.u8()? {
        0 => Item::Event(Timestamp(reader.u64()?), read_body(reader)?),
        1 => Item::Sample(Timestamp(reader.u64()?), read_body(reader)?, None),
        2 => {
            let reason = match reader.u8()? {
                0 => GapReason::Kept,
                1 => GapReason::Restart,
                2 => GapReason::Slow,
                found => return Err(DecodeError::Tag { what: "reason of a gap", found }),
            };
            let events = reader.varint()?.checked_sub(1);
            let (is_exact, samples) = (read_flag(reader)?, reader.varint()?);
            let (from, to) = (Timestamp(reader.u64()?), Timestamp(reader.u64()?));
            Item::Gap(Gap { reason, events, is_exact, samples, from, to })
        }
        3 => {
            let (at, body) = (Timestamp(reader.u64()?), read_body(reader)?);
            let id = reader.u64()?;
            let step = match reader.u8()? {
                0 => GroupStep::First,
                1 => GroupStep::Takeover,
                2 => GroupStep::Middle,
                3 => GroupStep::Last,
                found => return Err(DecodeError::Tag { what: "step of a sample", found }),
            };
            Item::Sample(at, body, Some(SampleGroup { id, step }))
        }
        found => return Err(DecodeError::Tag { what: "event of another node", found }),
    })
}

/// The text of an event: one line in braces.
fn read_body(reader: &mut Reader<'_>) -> Result<Arc<str>, DecodeError> {
    let text = std::str::from_utf8(reader.bytes()?).ok().filter(|text| {
        text.len() <= EVENT_BYTES_MAX
            && text.len() >= 2
            && text.starts_with('{')
            && text.ends_with('}')
            && !text.bytes().any(|byte| byte < b' ')
    });
    text.map(Into::into).ok_or(DecodeError::Field { what: "text of an event" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn watch(filter: Filter) -> EventMessage {
        let cursor = Cursor::behind(Timestamp(5), NodeId(7));
        EventMessage::Watch(WatchMessage {
            watch: 3,
            restart: 1,
            cursor,
            filter,
            samples: 1000,
            credit: 1 << 20,
        })
    }

    fn all() -> Vec<EventMessage> {
        let gap = Gap {
            reason: GapReason::Slow,
            events: None,
            is_exact: false,
            samples: 3,
            from: Timestamp(1),
            to: Timestamp(9),
        };
        let items = vec![
            Item::Event(Timestamp(8), r#"{"type":"split"}"#.into()),
            Item::Sample(Timestamp(9), "{}".into(), None),
            Item::Sample(
                Timestamp(9),
                "{}".into(),
                Some(SampleGroup { id: 1 << 60, step: GroupStep::Last }),
            ),
            Item::Gap(gap),
            Item::Gap(Gap { events: Some(0), reason: GapReason::Kept, ..gap }),
        ];
        let some = Filter::of_types([EventType::Split, EventType::Request]);
        vec![
            watch(Filter::default()),
            watch(some.in_keyspace(Some("a".into()))),
            EventMessage::Unwatch { watch: 300 },
            EventMessage::Events {
                watch: 3,
                restart: 1,
                sequence: 0,
                promise: Timestamp(10),
                items,
            },
            EventMessage::Refused { watch: 1 },
        ]
    }

    #[test]
    fn every_message_is_read_as_it_was_written() {
        for message in all() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(EventMessage::decode(&bytes), Ok(message));
            bytes.push(0);
            assert!(EventMessage::decode(&bytes).is_err(), "something is left");
        }
    }

    /// The fuzzer's seeds: the good ones are messages, the bad ones are refused.
    #[test]
    fn fuzz_corpus_roundtrips_and_bad_seeds_are_refused() {
        let seeds = harness::seeds::replay("event_message", |bytes| {
            let message = EventMessage::decode(bytes).map_err(|error| error.to_string())?;
            let mut again = Vec::new();
            message.encode(&mut again);
            Ok(again)
        });
        let has_tag = |tag: u8| seeds.iter().any(|seed| seed[0] == tag);
        assert!((1..5).all(has_tag), "a tag without a seed");
    }

    #[test]
    fn text_that_would_break_the_stream_is_refused() {
        for (body, is_read) in [
            ("{}", true),
            ("{\"a\":\"ü\"}", true),
            ("", false),
            ("{", false),
            ("{\n}", false),
            ("{\r}", false),
            ("{}x", false),
        ] {
            let items = vec![Item::Event(Timestamp(1), body.into())];
            let (watch, restart, sequence, promise) = (1, 0, 0, Timestamp(1));
            let message = EventMessage::Events { watch, restart, sequence, promise, items };
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(EventMessage::decode(&bytes).is_ok(), is_read, "{body:?}");
        }
    }

    #[test]
    fn types_of_newer_nodes_are_left_out() {
        let mut bytes = Vec::new();
        watch(Filter::of_types([EventType::Split])).encode(&mut bytes);
        let place = bytes.windows(5).position(|word| word == b"split").unwrap();
        bytes[place..place + 5].copy_from_slice(b"newer");
        let Ok(EventMessage::Watch(read)) = EventMessage::decode(&bytes) else { panic!() };
        assert_eq!(read.filter, Filter::of_types([]), "it wants nothing of this node");
    }

    proptest! {
        /// Whatever comes is refused, or can be written again.
        #[test]
        fn any_bytes_are_read_or_refused(
            tag in 0u8..6,
            rest in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let bytes = [&[tag][..], &rest].concat();
            if let Ok(message) = EventMessage::decode(&bytes) {
                let mut again = Vec::new();
                message.encode(&mut again);
                prop_assert_eq!(EventMessage::decode(&again), Ok(message));
            }
        }
    }
}
