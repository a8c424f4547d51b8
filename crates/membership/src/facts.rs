//! What a node reports about itself, and which of two reports is newer.
//!
//! | record | bytes |
//! |---|---|
//! | node | u64 |
//! | stamp | `varint` incarnation, `varint` version |
//! | body | `00` then facts: at work · `01` then facts: left · `02`: forgotten |
//!
//! | facts | bytes |
//! |---|---|
//! | texts | `bytes` × 5: name, peer address, advertised host, failure domain, software version |
//! | ports | `varint` × 3: RESP, native, HTTP; 0 = off |
//! | protocol versions | `varint` lowest, `varint` highest: 8 bits each, and above them 8 bits of the lowest and highest cluster version, less 1 |
//! | joined at | `varint` ms |
//! | load | `varint` shards, leaders (beside them bit 31: the disk is slow; bit 30: requests follow; bits 29 and 28: a port, and reads, follow these), data bytes, requests a second, port of replica readers, reads a second of followers |
//! | clock offset | `varint`, zigzag: 0, −1, 1, −2 … as 0, 1, 2, 3 … |

use keyspace::codec::{Reader, put_bytes, put_varint};
use keyspace::{ClusterVersion, DecodeError, NodeId, VersionRange};

/// The longest name of a node, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest host name or address (RFC 1035's limit on names, and a little), in bytes.
pub const HOST_BYTES_MAX: usize = 255;
/// The longest `host:port`, in bytes.
pub const ADDRESS_BYTES_MAX: usize = HOST_BYTES_MAX + 6;
/// The longest name of a failure domain, in bytes.
pub const DOMAIN_BYTES_MAX: usize = 128;
/// The longest software version, in bytes.
pub const SOFTWARE_BYTES_MAX: usize = 64;
/// No record is longer than this, in bytes: the texts, and 10 for each of 18 numbers.
pub const RECORD_BYTES_MAX: usize = NAME_BYTES_MAX
    + HOST_BYTES_MAX
    + ADDRESS_BYTES_MAX
    + DOMAIN_BYTES_MAX
    + SOFTWARE_BYTES_MAX
    + 18 * 10
    + 16;

/// No incarnation is higher: there is always room to outbid one.
pub const INCARNATION_MAX: u64 = u64::MAX >> 1;

/// Stands beside the leaders that a node counts if its disk is slow. Who does not know of that
/// takes it for one with more leaders than any other, and gives it none.
const SLOW: u32 = 1 << 31;
/// Stands there as well if requests a second follow the bytes. Only in clusters in which all know
/// of that.
const RATED: u32 = 1 << 30;
/// … and if the port for clients that ask for replicas follows these. Only beside [`RATED`].
const HAS_REPLICA_PORT: u32 = 1 << 29;
/// … and if reads a second follow all of these. Only beside [`RATED`].
const HAS_FOLLOWER_READS: u32 = 1 << 28;
/// … and if the ports for TLS follow all of these. Only beside [`RATED`].
const HAS_TLS_PORTS: u32 = 1 << 27;
/// All that stands beside the leaders.
const FLAGS: u32 = SLOW | RATED | HAS_REPLICA_PORT | HAS_FOLLOWER_READS | HAS_TLS_PORTS;

/// How much a node carries; leaders of shards place replicas by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Replicas the node holds.
    pub shards: u32,
    /// Of these, the ones that lead their shard: below 2²⁷.
    pub leaders: u32,
    /// Keys and values, in bytes.
    pub data_bytes: u64,
    /// Requests a second for the shards it leads; not told below the cluster version of
    /// [`Feature::Rates`](keyspace::Feature).
    pub requests: Option<u32>,
    /// Reads a second from its other replicas; told beside `requests` only.
    pub follower_reads: u32,
    /// Whether its disk is slow, so that it should lead nothing.
    pub is_slow: bool,
}

/// What a node tells about itself. Only its owner changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// For people; not unique.
    pub name: String,
    /// `host:port` where the other nodes reach it.
    pub peer: String,
    /// The host that clients are told, for every port below.
    pub advertised: String,
    /// Where it stands: replicas of a shard avoid sharing one. Empty: unknown.
    pub domain: String,
    /// The version of the program.
    pub software: String,
    /// The port of RESP, if it listens.
    pub resp: Option<u16>,
    /// The port of RESP for clients that ask for replicas, if it listens; told beside
    /// [`Load::requests`] only.
    pub resp_replica: Option<u16>,
    /// The port of the native protocol, if it listens.
    pub native: Option<u16>,
    /// The port of HTTP, if it listens.
    pub http: Option<u16>,
    /// The port of RESP by TLS, if it listens; told beside [`Load::requests`] only.
    pub resp_tls: Option<u16>,
    /// The port of HTTP by TLS, if it listens; told beside [`Load::requests`] only.
    pub http_tls: Option<u16>,
    /// The lowest version of the peer protocol that it supports.
    pub protocol_lowest: u8,
    /// The highest version of the peer protocol that it supports.
    pub protocol_highest: u8,
    /// The cluster versions that it supports. They stand above the protocol versions: a node that
    /// does not know of them reads odd versions there, and ignores them. A node that names none
    /// supports the first.
    pub supported: VersionRange,
    /// When it first joined, wall clock, ms since 1970; kept in its directory. Gives the order of
    /// joining.
    pub joined_at: u64,
    /// What it carries.
    pub load: Load,
    /// Its wall clock less its peers' median, in ms, as it measured it (SAFETY G12).
    pub clock_offset_ms: i64,
}

impl Facts {
    /// Whether every text keeps its limit, and the protocol versions their order.
    ///
    /// # Errors
    /// [`DecodeError::Field`] names the first field that does not.
    pub fn check(&self) -> Result<(), DecodeError> {
        for (text, bytes_max, what) in self.texts() {
            if text.len() > bytes_max || text.chars().any(char::is_control) {
                return Err(DecodeError::Field { what });
            }
        }
        let ordered = self.protocol_lowest <= self.protocol_highest;
        let ports = [self.resp, self.resp_replica, self.native, self.http];
        let ports = [&ports[..], &[self.resp_tls, self.http_tls]].concat();
        match (ordered, ports.contains(&Some(0))) {
            (true, false) => Ok(()),
            (false, _) => Err(DecodeError::Field { what: "protocol versions" }),
            (true, true) => Err(DecodeError::Field { what: "port" }),
        }
    }

    /// Whether `other` differs in more than load and clock, which change all the time.
    pub(crate) fn differs_in_substance(&self, other: &Self) -> bool {
        let same =
            Self { load: other.load, clock_offset_ms: other.clock_offset_ms, ..self.clone() };
        same != *other
    }

    fn texts(&self) -> [(&str, usize, &'static str); 5] {
        [
            (&self.name, NAME_BYTES_MAX, "name of a node"),
            (&self.peer, ADDRESS_BYTES_MAX, "peer address"),
            (&self.advertised, HOST_BYTES_MAX, "advertised host"),
            (&self.domain, DOMAIN_BYTES_MAX, "failure domain"),
            (&self.software, SOFTWARE_BYTES_MAX, "software version"),
        ]
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for (text, _, _) in self.texts() {
            put_bytes(text.as_bytes(), out);
        }
        for port in [self.resp, self.native, self.http] {
            put_varint(u64::from(port.unwrap_or(0)), out);
        }
        put_varint(versions(self.protocol_lowest, self.supported.lowest()), out);
        put_varint(versions(self.protocol_highest, self.supported.highest()), out);
        put_varint(self.joined_at, out);
        put_varint(u64::from(self.load.shards), out);
        let slow = if self.load.is_slow { SLOW } else { 0 };
        let rated = if self.load.requests.is_some() { RATED } else { 0 };
        let replica_port = self.resp_replica.filter(|_| self.load.requests.is_some());
        let has_port = if replica_port.is_some() { HAS_REPLICA_PORT } else { 0 };
        let reads = self.load.follower_reads;
        let has_reads = rated > 0 && reads > 0;
        let has_tls = rated > 0 && (self.resp_tls.is_some() || self.http_tls.is_some());
        let mut flags = slow | rated | has_port;
        flags |= if has_reads { HAS_FOLLOWER_READS } else { 0 };
        flags |= if has_tls { HAS_TLS_PORTS } else { 0 };
        put_varint(u64::from(self.load.leaders & !FLAGS | flags), out);
        put_varint(self.load.data_bytes, out);
        if let Some(requests) = self.load.requests {
            put_varint(u64::from(requests), out);
        }
        if let Some(port) = replica_port {
            put_varint(u64::from(port), out);
        }
        if has_reads {
            put_varint(u64::from(reads), out);
        }
        if has_tls {
            for port in [self.resp_tls, self.http_tls] {
                put_varint(u64::from(port.unwrap_or(0)), out);
            }
        }
        let offset = self.clock_offset_ms;
        put_varint(((offset << 1) ^ (offset >> 63)) as u64, out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = text(reader, "name of a node")?;
        let peer = text(reader, "peer address")?;
        let advertised = text(reader, "advertised host")?;
        let domain = text(reader, "failure domain")?;
        let software = text(reader, "software version")?;
        let [resp, native, http] = [port(reader)?, port(reader)?, port(reader)?];
        let (protocol_lowest, lowest) = read_versions(reader)?;
        let (protocol_highest, highest) = read_versions(reader)?;
        let supported = VersionRange::new(lowest, highest);
        let supported = supported.ok_or(DecodeError::Field { what: "cluster versions" })?;
        let joined_at = reader.varint()?;
        let (load, ports) = load(reader)?;
        let facts = Self {
            name,
            peer,
            advertised,
            domain,
            software,
            resp,
            resp_replica: ports.resp_replica,
            native,
            http,
            resp_tls: ports.resp_tls,
            http_tls: ports.http_tls,
            protocol_lowest,
            protocol_highest,
            supported,
            joined_at,
            load,
            clock_offset_ms: {
                let zigzag = reader.varint()?;
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            },
        };
        facts.check()?;
        Ok(facts)
    }
}

/// Ports that may follow the load.
struct MorePorts {
    resp_replica: Option<u16>,
    resp_tls: Option<u16>,
    http_tls: Option<u16>,
}

/// The load, and the ports that may follow it.
fn load(reader: &mut Reader<'_>) -> Result<(Load, MorePorts), DecodeError> {
    let shards = reader.varint_max(u32::MAX.into(), "shards")? as u32;
    let leaders = reader.varint_max(u32::MAX.into(), "leaders")? as u32;
    let data_bytes = reader.varint()?;
    let rate = |reader: &mut Reader<'_>| reader.varint_max(u32::MAX.into(), "requests a second");
    let requests = match leaders & RATED {
        0 => None,
        _ => Some(rate(reader)? as u32),
    };
    let resp_replica = match (leaders & HAS_REPLICA_PORT, requests) {
        (0, _) => None,
        (_, Some(_)) => port(reader)?,
        (_, None) => return Err(DecodeError::Field { what: "flags of a load" }),
    };
    let follower_reads = match (leaders & HAS_FOLLOWER_READS, requests) {
        (0, _) => 0,
        (_, Some(_)) => rate(reader)? as u32,
        (_, None) => return Err(DecodeError::Field { what: "flags of a load" }),
    };
    let (resp_tls, http_tls) = match (leaders & HAS_TLS_PORTS, requests) {
        (0, _) => (None, None),
        (_, Some(_)) => (port(reader)?, port(reader)?),
        (_, None) => return Err(DecodeError::Field { what: "flags of a load" }),
    };
    let (is_slow, leaders) = (leaders & SLOW != 0, leaders & !FLAGS);
    let load = Load { shards, leaders, data_bytes, requests, follower_reads, is_slow };
    Ok((load, MorePorts { resp_replica, resp_tls, http_tls }))
}

fn text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, DecodeError> {
    let bytes = reader.bytes()?;
    if bytes.len() > ADDRESS_BYTES_MAX {
        return Err(DecodeError::Field { what });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Field { what })?;
    Ok(text.to_owned())
}

fn small(reader: &mut Reader<'_>, what: &'static str) -> Result<u16, DecodeError> {
    Ok(reader.varint_max(u16::MAX.into(), what)? as u16)
}

/// A version of the protocol, and above it a cluster version.
fn versions(protocol: u8, version: ClusterVersion) -> u64 {
    u64::from(protocol) | u64::from(version.number() - 1) << 8
}

fn read_versions(reader: &mut Reader<'_>) -> Result<(u8, ClusterVersion), DecodeError> {
    let [protocol, version] = small(reader, "protocol version")?.to_le_bytes();
    let version = version.checked_add(1).and_then(ClusterVersion::new);
    Ok((protocol, version.ok_or(DecodeError::Field { what: "cluster version" })?))
}

fn port(reader: &mut Reader<'_>) -> Result<Option<u16>, DecodeError> {
    let port = small(reader, "port")?;
    Ok((port != 0).then_some(port))
}

/// Which telling is the newer: compared by incarnation, then by version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// The node's incarnation when it wrote this.
    pub incarnation: u64,
    /// Counts within the incarnation. [`Stamp::FORGOTTEN`] is above all that owners give.
    pub version: u64,
}

impl Stamp {
    /// The version of "forgotten", above every version that the node writes in that incarnation.
    pub const FORGOTTEN: u64 = u64::MAX;
}

/// What is said of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordBody {
    /// It works, as far as it knows itself.
    Active(Facts),
    /// It has left on purpose.
    Left(Facts),
    /// An operator had it struck from the list when it was down.
    Forgotten,
}

/// One telling about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) node: NodeId,
    pub(crate) stamp: Stamp,
    pub(crate) body: RecordBody,
}

impl Record {
    pub(crate) fn facts(&self) -> Option<&Facts> {
        match &self.body {
            RecordBody::Active(facts) | RecordBody::Left(facts) => Some(facts),
            RecordBody::Forgotten => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.node.0.to_le_bytes());
        put_varint(self.stamp.incarnation, out);
        put_varint(self.stamp.version, out);
        let (tag, facts) = match &self.body {
            RecordBody::Active(facts) => (0, Some(facts)),
            RecordBody::Left(facts) => (1, Some(facts)),
            RecordBody::Forgotten => (2, None),
        };
        out.push(tag);
        if let Some(facts) = facts {
            facts.encode(out);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let node = NodeId(reader.u64()?);
        let incarnation = reader.varint_max(INCARNATION_MAX, "incarnation")?;
        let stamp = Stamp { incarnation, version: reader.varint()? };
        let body = match reader.u8()? {
            0 => RecordBody::Active(Facts::decode(reader)?),
            1 => RecordBody::Left(Facts::decode(reader)?),
            2 => RecordBody::Forgotten,
            found => return Err(DecodeError::Tag { what: "body of a record", found }),
        };
        if matches!(body, RecordBody::Forgotten) != (stamp.version == Stamp::FORGOTTEN) {
            return Err(DecodeError::Field { what: "version of a record" });
        }
        Ok(Self { node, stamp, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written_and_limits_hold() {
        let facts = Facts {
            name: "n".repeat(NAME_BYTES_MAX),
            peer: "p".repeat(ADDRESS_BYTES_MAX),
            advertised: "a".repeat(HOST_BYTES_MAX),
            domain: "d".repeat(DOMAIN_BYTES_MAX),
            software: "s".repeat(SOFTWARE_BYTES_MAX),
            resp: Some(u16::MAX),
            resp_replica: Some(u16::MAX),
            native: None,
            http: Some(1),
            resp_tls: None,
            http_tls: Some(u16::MAX),
            protocol_lowest: 1,
            protocol_highest: u8::MAX,
            supported: VersionRange::new(
                ClusterVersion::FIRST,
                ClusterVersion::new(u8::MAX).unwrap(),
            )
            .unwrap(),
            joined_at: u64::MAX,
            load: Load {
                shards: u32::MAX,
                leaders: HAS_TLS_PORTS - 1,
                data_bytes: u64::MAX,
                requests: Some(u32::MAX),
                follower_reads: u32::MAX,
                is_slow: true,
            },
            clock_offset_ms: i64::MIN,
        };
        let stamp = Stamp { incarnation: INCARNATION_MAX, version: u64::MAX - 1 };
        let record =
            Record { node: NodeId(u64::MAX), stamp, body: RecordBody::Left(facts.clone()) };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert!(bytes.len() <= RECORD_BYTES_MAX, "{} bytes", bytes.len());
        assert_eq!(Record::decode(&mut Reader::new(&bytes)), Ok(record));

        // It is told only where all can read it.
        let load = Load { requests: None, ..facts.load };
        let untold = Facts { load, ..facts.clone() };
        let record = Record { node: NodeId(1), stamp, body: RecordBody::Active(untold.clone()) };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let read = Record::decode(&mut Reader::new(&bytes)).unwrap();
        let load = Load { follower_reads: 0, ..load };
        assert_eq!(
            read.facts(),
            Some(&Facts { resp_replica: None, http_tls: None, load, ..untold })
        );

        let long = Facts { name: "n".repeat(NAME_BYTES_MAX + 1), ..facts.clone() };
        assert_eq!(long.check(), Err(DecodeError::Field { what: "name of a node" }));
        let torn = Facts { domain: "a\nb".into(), ..facts.clone() };
        assert_eq!(torn.check(), Err(DecodeError::Field { what: "failure domain" }));
        let turned = Facts { protocol_highest: 0, ..facts };
        assert_eq!(turned.check(), Err(DecodeError::Field { what: "protocol versions" }));
    }

    /// A node that knows of no cluster versions reads protocol versions there, and passes them on
    /// unchanged.
    #[test]
    fn cluster_versions_stand_above_protocol_versions() {
        let version = |number| ClusterVersion::new(number).unwrap();
        let told = |supported| {
            let facts =
                Facts { protocol_lowest: 1, protocol_highest: 3, supported, ..Facts::default() };
            let mut bytes = Vec::new();
            facts.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(Facts::decode(&mut reader).unwrap().supported, supported);
            // Five texts and three ports come before, all empty.
            let mut reader = Reader::new(&bytes[8..]);
            (reader.varint().unwrap(), reader.varint().unwrap())
        };
        assert_eq!(
            told(VersionRange::BEFORE),
            (1, 3),
            "as it was before there were cluster versions"
        );
        assert_eq!(told(VersionRange::new(version(1), version(2)).unwrap()), (1, 256 + 3));
        assert_eq!(told(VersionRange::new(version(2), version(3)).unwrap()), (256 + 1, 512 + 3));
        let mut turned = vec![0; 8];
        put_varint(256 + 1, &mut turned);
        put_varint(1, &mut turned);
        let decoded = Facts::decode(&mut Reader::new(&turned));
        assert_eq!(decoded, Err(DecodeError::Field { what: "cluster versions" }));
    }
}
