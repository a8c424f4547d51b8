//! Which features may a cluster use whose nodes run different software versions?
//!
//! Nodes are upgraded one after the other, so versions N and N−1 run together for a while. No entry
//! may come into a log that an older node cannot read. So the catalogue holds a **cluster
//! version**. An entry of the system shard's log raises it by one, once all nodes support the next
//! one, and it never falls (SAFETY G3). New features are used from their cluster version on.
//!
//! | cluster version | adds |
//! |---|---|
//! | 1 | all that there was before cluster versions; a catalogue that names none has this one |
//! | 2 | the catalogue's op 6 and its version 4; merges and flushes of a part of a shard ([`Feature::Merges`]), cuts at keys ([`Feature::OrderedSplits`]), requests a second in gossip, and ports for clients that ask for replicas beside them ([`Feature::Rates`]), transactions within a shard ([`Feature::Transactions`]), appends that say how long the value may become ([`Feature::AppendLimits`]), long messages in pieces ([`Feature::LongMessages`]), requests to be told of changed keys ([`Feature::Tracking`]), messages to subscribers on other nodes ([`Feature::EphemeralMessages`]), what members of rings and requests on their way say ([`Feature::Rings`]), keyspaces of linear hashing ([`Feature::LinearHash`]), op 8 and version 5 of the catalogue, and frames that ask for scripts or have them stopped ([`Feature::Functions`]), frames with events ([`Feature::Events`]), requests for a key's changes ([`Feature::History`]), questions to nodes about themselves ([`Feature::Inquiries`]), op 9 of the catalogue, and requests for keys at a past time ([`Feature::Snapshots`]), keyspaces where a write of what a key has makes no version ([`Feature::SkippedWrites`]), questions of feeds ([`Feature::Feeds`]), safe points with pins ([`Feature::Pins`]), keyspaces that are volumes ([`Feature::Volumes`]), blocks and fences of writers, and volumes of several ([`Feature::VolumeWriters`]) |
//!
//! A program supports several cluster versions ([`VersionRange`]): its newest, and the one before,
//! so that it runs beside version N−1. It does not join a cluster whose version is not among them:
//! above, it cannot read what others write; below, it no longer knows how to do without new
//! features.
//!
//! No software with cluster version 2 has been released. So features added since have no version of
//! their own: the deadline of a PREPARE (flag 8, `txn::locks::step`), for one, and an append of op
//! 18 that one node sends to another. Once version 2 is released, every change needs version 3.
//!
//! To add a version: a row above, a [`Feature`], [`ClusterVersion::NEWEST`] one higher. New code
//! asks [`ClusterVersion::allows`] before it proposes anything, and
//! `node::replica::entry::Kind::since` names the version of new kinds of entries.

use std::fmt;

/// The version of a cluster, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterVersion(u8);

/// A feature that needs a cluster version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Two neighbouring shards become one; so flushes say where they begin.
    Merges,
    /// Shards of ordered keyspaces are split.
    OrderedSplits,
    /// Gossip tells how often a node's shards are asked.
    Rates,
    /// Several commands of one shard are one.
    Transactions,
    /// Nodes keep rings of shards, and look for owners by them.
    Rings,
    /// Keyspaces whose shards are the buckets of a file of linear hashing.
    LinearHash,
    /// An append names the longest value that may come of it.
    AppendLimits,
    /// Nodes send each other long messages in pieces.
    LongMessages,
    /// Nodes tell each other which keys have changed, for clients that cache them.
    Tracking,
    /// Nodes send each other ephemeral messages.
    EphemeralMessages,
    /// The catalogue has libraries of functions; nodes ask each other for scripts.
    Functions,
    /// Nodes tell each other their events, for who watches the cluster.
    Events,
    /// A node asks a shard's leader for the changes of a key.
    History,
    /// Nodes ask each other about themselves and the shards that they lead.
    Inquiries,
    /// Leases hold past times; nodes ask leaders for keys at one.
    Snapshots,
    /// Entries say that writes of what a key has make no version.
    SkippedWrites,
    /// Nodes ask leaders what has changed.
    Feeds,
    /// Leases pin times; entries and messages with safe points name them.
    Pins,
    /// Keyspaces that are volumes.
    Volumes,
    /// Blocks of volumes name their writer, and shards obey one.
    VolumeWriters,
}

impl Feature {
    /// The cluster version from which on it may be used.
    pub const fn since(self) -> ClusterVersion {
        match self {
            Feature::Merges
            | Feature::OrderedSplits
            | Feature::Rates
            | Feature::Transactions
            | Feature::Rings
            | Feature::LinearHash
            | Feature::AppendLimits
            | Feature::LongMessages
            | Feature::Tracking
            | Feature::EphemeralMessages
            | Feature::Functions
            | Feature::Events
            | Feature::History
            | Feature::Inquiries
            | Feature::Snapshots
            | Feature::SkippedWrites
            | Feature::Feeds
            | Feature::Pins
            | Feature::Volumes
            | Feature::VolumeWriters => ClusterVersion(2),
        }
    }
}

impl ClusterVersion {
    /// The version of all clusters before there were cluster versions.
    pub const FIRST: Self = Self(1);
    /// The newest that this program knows.
    pub const NEWEST: Self = Self(2);

    /// The cluster version of this number; none for 0.
    pub const fn new(number: u8) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The one after it.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// Whether a cluster of this version may use a feature.
    pub fn allows(self, feature: Feature) -> bool {
        self >= feature.since()
    }
}

impl Default for ClusterVersion {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The cluster versions that a program supports: it can be a node of a cluster of any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    lowest: ClusterVersion,
    highest: ClusterVersion,
}

impl VersionRange {
    /// Those that this program supports: the newest, and the one before.
    pub const OURS: Self = Self { lowest: ClusterVersion::FIRST, highest: ClusterVersion::NEWEST };
    /// Those of programs from before there were cluster versions, which name none.
    pub const BEFORE: Self = Self { lowest: ClusterVersion::FIRST, highest: ClusterVersion::FIRST };

    /// From one to another; none if they are not in that order.
    pub fn new(lowest: ClusterVersion, highest: ClusterVersion) -> Option<Self> {
        (lowest <= highest).then_some(Self { lowest, highest })
    }

    /// Ours, but none above this; none if nothing is left, or there is nothing to leave out.
    pub fn up_to(highest: ClusterVersion) -> Option<Self> {
        let ours = Self::OURS;
        if highest > ours.highest { None } else { Self::new(ours.lowest, highest) }
    }

    /// The lowest.
    pub const fn lowest(self) -> ClusterVersion {
        self.lowest
    }

    /// The highest.
    pub const fn highest(self) -> ClusterVersion {
        self.highest
    }

    /// Whether it is among them.
    pub fn supports(self, version: ClusterVersion) -> bool {
        (self.lowest..=self.highest).contains(&version)
    }
}

impl Default for VersionRange {
    fn default() -> Self {
        Self::BEFORE
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "{} only", self.lowest),
            false => write!(f, "{} to {}", self.lowest, self.highest),
        }
    }
}

/// A program takes no part in a cluster whose version it does not support. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster is at cluster version {version}, and this program supports {supported}{}. Nothing \
     was changed: {}",
    if *.held { " because of cluster_version_max" } else { "" },
    self.remedy()
)]
pub struct UnsupportedVersion {
    /// The cluster's.
    pub version: ClusterVersion,
    /// The program's.
    pub supported: VersionRange,
    /// Whether its settings hold it to this version, though it supports higher ones.
    pub held: bool,
}

impl UnsupportedVersion {
    /// If these do not include it.
    pub fn of(version: ClusterVersion, supported: VersionRange) -> Option<Self> {
        let held = version > supported.highest && VersionRange::OURS.supports(version);
        (!supported.supports(version)).then_some(Self { version, supported, held })
    }

    fn remedy(&self) -> String {
        let Self { version, supported, held } = self;
        if *held {
            return "take cluster_version_max away; a cluster version is never lowered".into();
        }
        if version > &supported.highest {
            return format!(
                "start the version of carillon that ran here, or a newer one that supports version \
                 {version}; a cluster version is never lowered"
            );
        }
        format!(
            "upgrade one version at a time. First a version that supports version {version}; when \
             it runs on all nodes, and the cluster version has risen, this one"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u8) -> ClusterVersion {
        ClusterVersion::new(number).unwrap()
    }

    #[test]
    fn ours_are_the_newest_and_the_one_before() {
        let VersionRange { lowest, highest } = VersionRange::OURS;
        assert_eq!(highest, ClusterVersion::NEWEST);
        assert!(lowest.next() == Some(highest), "N and N-1 run together");
        assert_eq!(VersionRange::up_to(highest), Some(VersionRange::OURS));
        assert_eq!(VersionRange::up_to(lowest), VersionRange::new(lowest, lowest));
        assert_eq!(VersionRange::up_to(highest.next().unwrap()), None, "it knows nothing of that");
        assert_eq!(VersionRange::new(version(3), version(2)), None);
    }

    #[test]
    fn a_feature_may_be_used_from_its_cluster_version_on() {
        assert!(!ClusterVersion::FIRST.allows(Feature::Merges));
        assert!(version(2).allows(Feature::Merges) && version(3).allows(Feature::Merges));
    }

    #[test]
    fn unsupported_version_error_has_a_remedy() {
        let supported = VersionRange::new(version(2), version(3)).unwrap();
        assert_eq!(UnsupportedVersion::of(version(2), supported), None);
        let words = |at| UnsupportedVersion::of(at, supported).unwrap().to_string();
        assert!(
            words(version(1)).contains("upgrade one version at a time"),
            "{}",
            words(version(1))
        );
        assert!(
            words(version(4)).contains("supports version 4; a cluster version is never"),
            "{}",
            words(version(4))
        );
        let held = UnsupportedVersion::of(version(2), VersionRange::up_to(version(1)).unwrap())
            .unwrap()
            .to_string();
        assert!(held.contains("supports 1 only because of cluster_version_max"), "{held}");
    }
}
