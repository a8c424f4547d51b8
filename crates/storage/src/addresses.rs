//! Where did this node last reach the other members of its cluster?
//!
//! **The idea.** One small file beside the manifest, replaced as a whole when it changes. After a
//! power cut of all nodes, or when the join seed has left, a node dials these addresses. They are
//! hints: a member's present gossip record counts more, and a damaged file costs only the hints.
//!
//! The bytes: docs/format.md §4.1.

use std::io;

use keyspace::NodeId;

use crate::Error;
use crate::disk::Disk;
use crate::log::layout::{crc, put, u32_at, u64_at};
use crate::replace::replace;

/// The file's name.
pub const ADDRESSES_NAME: &str = "ADDRESSES";
/// Its name while it is written.
const TEMPORARY_NAME: &str = "ADDRESSES.tmp";
/// The first eight bytes.
pub const ADDRESSES_MAGIC: [u8; 8] = *b"CARIADDR";
/// The only version that is read.
pub const ADDRESSES_VERSION: u32 = 1;
/// No more members are listed.
pub const ADDRESSES_MAX: usize = 1024;
/// The longest name or address, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// The largest file; bounds what a reader allocates.
pub const ADDRESSES_BYTES_MAX: usize =
    FIXED_BYTES + ADDRESSES_MAX * (ENTRY_BYTES + 2 * TEXT_BYTES_MAX);

const FIXED_BYTES: usize = 32;
const ENTRY_BYTES: usize = 12;

mod at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const CRC: usize = 12;
    pub const FILE_BYTES: usize = 16;
    pub const ENTRIES: usize = 20;
    pub const CLUSTER: usize = 24;
}

/// Where a member was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// The member.
    pub node: NodeId,
    /// Its name, for people.
    pub name: String,
    /// `HOST:PORT` of its peer listener.
    pub peer: String,
}

/// Reads the stored addresses; none if there is no file.
///
/// # Errors
/// [`Error::Rot`], [`Error::Version`], [`Error::Foreign`]: a node does without. [`Error::Io`].
pub fn load(disk: &dyn Disk, cluster: u64) -> Result<Vec<NodeAddress>, Error> {
    let file = match disk.open(ADDRESSES_NAME) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("open", ADDRESSES_NAME, e)),
    };
    let file_bytes = file.len().map_err(|e| Error::io("measure", ADDRESSES_NAME, e))?;
    if file_bytes > ADDRESSES_BYTES_MAX as u64 {
        return Err(Error::rot(ADDRESSES_NAME, 0, "the file is too long"));
    }
    let mut bytes = vec![0; file_bytes as usize];
    let read = file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", ADDRESSES_NAME, e))?;
    decode(&bytes[..read], cluster)
}

/// Replaces the file, durably. At most [`ADDRESSES_MAX`] are stored, the first; one whose name or
/// address is longer than [`TEXT_BYTES_MAX`] is left out.
///
/// # Errors
/// [`Error::Full`]: the old one counts, try again later. [`Error::Io`]: either counts; stop the
/// node.
pub fn store(disk: &dyn Disk, cluster: u64, addresses: &[NodeAddress]) -> Result<(), Error> {
    replace(disk, ADDRESSES_NAME, TEMPORARY_NAME, &encode(cluster, addresses))
}

fn encode(cluster: u64, addresses: &[NodeAddress]) -> Vec<u8> {
    let mut out = vec![0; FIXED_BYTES];
    let fits = |text: &String| text.len() <= TEXT_BYTES_MAX;
    let addresses = addresses.iter().filter(|one| fits(&one.name) && fits(&one.peer));
    let mut count = 0u32;
    for address in addresses.take(ADDRESSES_MAX) {
        out.extend_from_slice(&address.node.0.to_le_bytes());
        for text in [&address.name, &address.peer] {
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        count += 1;
    }
    let file_bytes = out.len() as u32;
    put(&mut out, at::MAGIC, &ADDRESSES_MAGIC);
    put(&mut out, at::VERSION, &ADDRESSES_VERSION.to_le_bytes());
    put(&mut out, at::FILE_BYTES, &file_bytes.to_le_bytes());
    put(&mut out, at::ENTRIES, &count.to_le_bytes());
    put(&mut out, at::CLUSTER, &cluster.to_le_bytes());
    let crc = file_crc(&out);
    put(&mut out, at::CRC, &crc.to_le_bytes());
    out
}

/// Over everything but itself.
fn file_crc(bytes: &[u8]) -> u32 {
    crc(crc(0, &bytes[..at::CRC]), &bytes[at::FILE_BYTES..])
}

fn decode(bytes: &[u8], cluster: u64) -> Result<Vec<NodeAddress>, Error> {
    let rot = |offset: usize, what| Error::rot(ADDRESSES_NAME, offset as u64, what);
    if bytes.len() < FIXED_BYTES {
        return Err(rot(bytes.len(), "the file is cut short"));
    }
    if bytes[..8] != ADDRESSES_MAGIC || u32_at(bytes, at::CRC) != file_crc(bytes) {
        return Err(rot(0, "the file does not match its checksum"));
    }
    let found = u32_at(bytes, at::VERSION);
    if found != ADDRESSES_VERSION {
        let (file, supported) = (ADDRESSES_NAME.to_owned(), ADDRESSES_VERSION);
        return Err(Error::Version { file, found, supported });
    }
    if u32_at(bytes, at::FILE_BYTES) as usize != bytes.len() {
        return Err(rot(at::FILE_BYTES, "the file's length is wrong"));
    }
    let found = u64_at(bytes, at::CLUSTER);
    if found != cluster {
        let file = ADDRESSES_NAME.to_owned();
        return Err(Error::Foreign { file, found, expected: cluster });
    }
    let mut rest = &bytes[FIXED_BYTES..];
    let count = u32_at(bytes, at::ENTRIES) as usize;
    let mut addresses = Vec::with_capacity(count.min(ADDRESSES_MAX));
    let short = || rot(at::ENTRIES, "the entries do not add up");
    for _ in 0..count {
        let node = u64::from_le_bytes(*take(&mut rest).ok_or_else(short)?);
        let name = text(&mut rest).ok_or_else(short)?;
        let peer = text(&mut rest).ok_or_else(short)?;
        addresses.push(NodeAddress { node: NodeId(node), name, peer });
    }
    if rest.is_empty() && count <= ADDRESSES_MAX { Ok(addresses) } else { Err(short()) }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(taken)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let bytes = usize::from(u16::from_le_bytes(*take(rest)?));
    let (text, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    let fits = bytes <= TEXT_BYTES_MAX;
    fits.then(|| std::str::from_utf8(text).ok().map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::{Crash, FaultyDisk};

    fn member(node: u64) -> NodeAddress {
        NodeAddress {
            node: NodeId(node),
            name: format!("n{node}"),
            peer: format!("10.0.0.{node}:7600"),
        }
    }

    #[test]
    fn the_format_is_as_documented() {
        let bytes = encode(0x0102_0304, &[member(7)]);
        assert_eq!(bytes.len(), 32 + 12 + 2 + 13);
        assert_eq!(&bytes[..12], b"CARIADDR\x01\0\0\0");
        assert_eq!(&bytes[16..32], [59, 0, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(&bytes[32..44], [7, 0, 0, 0, 0, 0, 0, 0, 2, 0, b'n', b'7']);
        assert_eq!(&bytes[44..], b"\x0d\x0010.0.0.7:7600");
    }

    #[test]
    fn addresses_are_read_as_stored_and_every_flipped_bit_is_found() {
        let disk = FaultyDisk::new(1);
        assert_eq!(load(&disk, 5).expect("no file"), []);
        let all = [member(1), member(2)];
        store(&disk, 5, &[member(3)]).expect("room");
        store(&disk, 5, &all).expect("room");
        assert_eq!(load(&disk, 5).expect("readable"), all);
        assert!(matches!(load(&disk, 6), Err(Error::Foreign { found: 5, expected: 6, .. })));
        let bytes = encode(5, &all);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad, 5).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end], 5).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn the_file_is_bounded() {
        let text = |bytes| "x".repeat(bytes);
        let long = |node| NodeAddress {
            node: NodeId(node),
            name: text(TEXT_BYTES_MAX),
            peer: text(TEXT_BYTES_MAX),
        };
        let many: Vec<NodeAddress> = (0..=ADDRESSES_MAX as u64).map(long).collect();
        let bytes = encode(5, &many);
        assert_eq!(bytes.len(), ADDRESSES_BYTES_MAX);
        assert_eq!(decode(&bytes, 5).expect("readable"), many[..ADDRESSES_MAX]);
        let too_long = NodeAddress { name: text(TEXT_BYTES_MAX + 1), ..member(1) };
        assert_eq!(decode(&encode(5, &[too_long, member(2)]), 5).expect("readable"), [member(2)]);
    }

    #[test]
    fn a_crash_at_any_moment_leaves_the_old_or_the_new_addresses() {
        for mode in [Crash::LoseUnsynced, Crash::KeepUnsynced, Crash::Shuffle] {
            for writes in 0.. {
                let disk = FaultyDisk::new(writes);
                let (old, new) = (vec![member(1)], vec![member(1), member(2)]);
                store(&disk, 5, &old).expect("room");
                disk.crash_after_writes(writes);
                let stored = store(&disk, 5, &new);
                disk.crash(mode);
                let found = load(&disk, 5).expect("readable");
                assert!(found == new || (found == old && stored.is_err()), "{mode:?} {writes}");
                if stored.is_ok() {
                    break;
                }
            }
        }
    }
}
