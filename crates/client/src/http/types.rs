//! Wire types of requests and answers.

use serde::{Deserialize, Serialize};

/// What a get found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetResult {
    /// The value.
    Value {
        /// Its bytes.
        value: Vec<u8>,
        /// When it was written, as a timestamp that `at` takes.
        timestamp: Option<u64>,
        /// When it ends, in milliseconds since 1970.
        expires_at_ms: Option<u64>,
    },
    /// There is no value.
    Nil,
    /// There was none at the time asked for, but one came later.
    NilYet,
}

/// When a put takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PutIf {
    /// Always.
    #[default]
    Always,
    /// Only if the key has no value.
    Absent,
    /// Only if it has one.
    Present,
}

/// How to put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// The value ends after so many milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether it takes place.
    pub when: PutIf,
}

impl PutOptions {
    /// As parameters of a query.
    pub(crate) fn query(&self) -> Vec<String> {
        let when = match self.when {
            PutIf::Always => None,
            PutIf::Absent => Some("if=absent".to_owned()),
            PutIf::Present => Some("if=present".to_owned()),
        };
        let ttl = self.ttl_ms.map(|millis| format!("ttl_ms={millis}"));
        when.into_iter().chain(ttl).collect()
    }
}

/// A keyspace to be made. Words the node does not know are refused by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyspaceSpec {
    /// Its name.
    pub name: String,
    /// `hashed`, `ordered` or `linear-hash`; hashed if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// `sync`, `interval` or `memory`; the node's default if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// How long replaced versions stay readable; the node's default if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// How many nodes hold each of its keys: 1, 3, 5, 7 or 9; the node's default if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// Whether a write of what a key has makes no new version; it does if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_equal_writes: Option<bool>,
    /// Makes it a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSpec>,
}

/// A volume: a keyspace that clients see as a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Its size: a whole number of blocks, at most a pebibyte.
    pub bytes: u64,
    /// The bytes of a block: 4096 to 65536, a power of two. It cannot be changed later.
    pub block_bytes: u32,
    /// Whether several clients may write to it at the same time.
    #[serde(default)]
    pub shared: bool,
}

/// A volume to be made that shares its blocks with another one as of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CloneSpec {
    /// Its name.
    pub name: String,
    /// Its time, as reads take it; now if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// How many nodes hold each of its blocks; as of its source if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// How long replaced blocks stay readable; as of its source if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
}

/// What a clone reads that it has not written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneInfo {
    /// The volume.
    pub volume: String,
    /// Its time, as digits.
    pub at: String,
    /// The same, in milliseconds since 1970.
    pub at_ms: u64,
}

/// How far a clone is flattened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flattened {
    /// Blocks that were copied.
    pub copied_blocks: u64,
    /// Whether it has all, and needs its source no more.
    pub is_done: bool,
}

/// What to change of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyspaceChange {
    /// `sync`, `interval` or `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// How long replaced versions stay readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<u64>,
    /// How many nodes hold each of its keys: not fewer than now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u8>,
    /// Whether writes of what a key has make no new version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_equal_writes: Option<bool>,
    /// The size of a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_bytes: Option<u64>,
}

/// A keyspace as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyspaceInfo {
    /// Its id, never used again.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where its keys live.
    pub placement: String,
    /// When its writes are answered.
    pub durability: String,
    /// How long replaced versions stay readable.
    pub retention_ms: u64,
    /// How many nodes are to hold each of its keys.
    pub replicas: u8,
    /// Whether writes of what a key has make no new version; nodes of older versions do not say.
    #[serde(default)]
    pub skip_equal_writes: bool,
    /// Of a volume: its size and its blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeSpec>,
    /// Of a clone: what it reads that it has not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_of: Option<CloneInfo>,
    /// How many shards it has.
    pub shards: u64,
    /// How many keys it has.
    pub keys: u64,
    /// What to know of it, as a creation or a change answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct KeyspaceList {
    pub(crate) keyspaces: Vec<KeyspaceInfo>,
}

/// Bytes as one segment of a path: everything but letters, digits, `-`, `_`, `~` and `.` becomes
/// `%XX`. Dots alone do too, for `.` and `..` would mean other paths.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let only_dots = bytes.iter().all(|byte| *byte == b'.');
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'.' if only_dots => out.push_str("%2E"),
            b'-' | b'_' | b'~' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                out.push(*byte as char);
            }
            _ => {
                out.push('%');
                let digit = |half: u8| char::from_digit(half.into(), 16).expect("4 bits");
                out.push(digit(byte >> 4).to_ascii_uppercase());
                out.push(digit(byte & 15).to_ascii_uppercase());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_one_segment() {
        assert_eq!(encode(b"a-z_0.9~"), "a-z_0.9~");
        assert_eq!(encode(b"a/b?c#\xff\0 +%"), "a%2Fb%3Fc%23%FF%00%20%2B%25");
        assert_eq!(encode(b".."), "%2E%2E");
        assert_eq!(encode(b""), "");
    }

    #[test]
    fn options_become_a_query() {
        assert!(PutOptions::default().query().is_empty());
        let all = PutOptions { ttl_ms: Some(5), when: PutIf::Absent };
        assert_eq!(all.query(), ["if=absent", "ttl_ms=5"]);
    }
}
