//! What does a read answer? It reads stored values and writes straight into the client's buffer.
//!
//! [`answer`] reads keys as of one moment from a [`View`] and writes the answer to a [`Sink`] piece
//! by piece, so that a value goes from the store to the wire with one copy. Answers are those of
//! Redis 7.0.15.
//!
//! # What it does not know
//! Shards and guards: the view ensures that all keys are read at one moment, and that this moment
//! may be read (SAFETY G1).
//!
//! # Caveats
//! OBJECT ENCODING answers from the value alone what Redis would hold after a SET of it; Redis
//! itself remembers that a value was appended to (`raw`) or summed as a float (`embstr`). OBJECT
//! REFCOUNT is always 1 and IDLETIME always 0, for neither is counted.

use keyspace::Timestamp;
use storage::engine::Version;

use super::{Read, Sink, Value, strings};

/// The values of keys at one moment.
pub trait View {
    /// What a key has then: nothing if it never had a value, or that was deleted or has expired.
    fn newest(&self, key: &[u8]) -> Option<Version<'_>>;
}

/// Gives a read's answer to the sink. `now` is the view's moment.
#[inline]
pub fn answer(view: &impl View, read: &Read<'_>, now: Timestamp, sink: &mut impl Sink) {
    let refused = match read {
        // Of strings.
        Read::Get(_)
        | Read::GetMany(_)
        | Read::GetRange { .. }
        | Read::Length(_)
        | Read::Lcs { .. } => strings::answer(view, read, sink),
        // Of keys, whatever they hold.
        Read::Exists(keys) => {
            let there = keys.iter().filter(|key| view.newest(key).is_some());
            sink.int(there.count() as i64);
            Ok(())
        }
        Read::Type(key) => {
            let value = view.newest(key).map(|version| Value::of(&version));
            sink.status(value.map_or("none", |value| value.value_type().name()));
            Ok(())
        }
        Read::Ttl { key, millis, absolute } => {
            sink.int(time_to_live(view.newest(key), now, *millis, *absolute));
            Ok(())
        }
        Read::Encoding(key) => {
            match view.newest(key).map(|version| Value::of(&version)) {
                Some(value) => sink.bulk(encoding(value).as_bytes()),
                None => sink.nil(),
            }
            Ok(())
        }
        Read::RefCount(key) | Read::IdleTime(key) => {
            match view.newest(key) {
                Some(_) => sink.int(i64::from(matches!(read, Read::RefCount(_)))),
                None => sink.nil(),
            }
            Ok(())
        }
    };
    if let Err(why) = refused {
        sink.refused(why);
    }
}

fn encoding(value: Value<'_>) -> &'static str {
    match value {
        Value::String(bytes) => strings::encoding(bytes),
        #[cfg(test)]
        Value::Probe => "probe",
    }
}

fn time_to_live(version: Option<Version<'_>>, now: Timestamp, millis: bool, absolute: bool) -> i64 {
    let time = match version {
        None => return -2,
        Some(Version { expiry_ms: 0, .. }) => return -1,
        Some(Version { expiry_ms, .. }) if absolute => expiry_ms,
        Some(Version { expiry_ms, .. }) => expiry_ms.saturating_sub(now.millis()),
    };
    let time = if millis { time } else { time.saturating_add(500) / 1000 };
    i64::try_from(time).unwrap_or(i64::MAX)
}
