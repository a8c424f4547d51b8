//! The types of events, by the names that viewers filter by.

use super::EventKind;

macro_rules! event_types {
    ($($name:ident $text:literal,)+) => {
        /// The type of an event. `docs/events.md` has a section for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum EventType {
            $(#[doc = concat!("`", $text, "`.")] $name,)+
        }

        impl EventType {
            /// All of them, in the order of `docs/events.md`.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name on the wire: never changed.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

event_types! {
    NodeStarted "node-started",
    NodeStopping "node-stopping",
    Member "member",
    Link "link",
    AdminState "admin-state",
    VersionRaising "version-raising",
    VersionBlocked "version-blocked",
    Checkpointed "checkpointed",
    NoSpaceForCheckpoint "no-space-for-checkpoint",
    CatalogueUnreadable "catalogue-unreadable",
    LeaderElected "leader-elected",
    ReplicaStarted "replica-started",
    ReplicaEnded "replica-ended",
    LeftoverReplicaEnded "leftover-replica-ended",
    ReplicasChanged "replicas-changed",
    ReplicasCompared "replicas-compared",
    Split "split",
    Merged "merged",
    MergeRelocating "merge-relocating",
    MergeLeaderMoved "merge-leader-moved",
    MergeGivenUp "merge-given-up",
    TableGrowing "table-growing",
    TableShrinking "table-shrinking",
    Decision "decision",
    DecisionEnded "decision-ended",
    SnapshotStarted "snapshot-started",
    SnapshotSent "snapshot-sent",
    SnapshotNotSent "snapshot-not-sent",
    SnapshotInstalled "snapshot-installed",
    SnapshotGivenUp "snapshot-given-up",
    BootstrapUnreadable "bootstrap-unreadable",
    Request "request",
    Transaction "transaction",
}

impl EventType {
    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

impl EventKind {
    /// Its type.
    pub fn event_type(&self) -> EventType {
        match self {
            EventKind::NodeStarted { .. } => EventType::NodeStarted,
            EventKind::NodeStopping => EventType::NodeStopping,
            EventKind::Member { .. } => EventType::Member,
            EventKind::Link { .. } => EventType::Link,
            EventKind::AdminState { .. } => EventType::AdminState,
            EventKind::VersionRaising { .. } => EventType::VersionRaising,
            EventKind::VersionBlocked { .. } => EventType::VersionBlocked,
            EventKind::Checkpointed { .. } => EventType::Checkpointed,
            EventKind::NoSpaceForCheckpoint => EventType::NoSpaceForCheckpoint,
            EventKind::UnreadableCatalogue { .. } => EventType::CatalogueUnreadable,
            EventKind::LeaderElected { .. } => EventType::LeaderElected,
            EventKind::ReplicaStarted { .. } => EventType::ReplicaStarted,
            EventKind::ReplicaEnded { .. } => EventType::ReplicaEnded,
            EventKind::LeftoverReplicaEnded { .. } => EventType::LeftoverReplicaEnded,
            EventKind::ReplicasChanged { .. } => EventType::ReplicasChanged,
            EventKind::ReplicasCompared { .. } => EventType::ReplicasCompared,
            EventKind::Split { .. } => EventType::Split,
            EventKind::Merged { .. } => EventType::Merged,
            EventKind::MergeRelocating { .. } => EventType::MergeRelocating,
            EventKind::MergeLeaderMoved { .. } => EventType::MergeLeaderMoved,
            EventKind::MergeGivenUp { .. } => EventType::MergeGivenUp,
            EventKind::TableGrowing { .. } => EventType::TableGrowing,
            EventKind::TableShrinking { .. } => EventType::TableShrinking,
            EventKind::DecisionMade(_) => EventType::Decision,
            EventKind::DecisionEnded { .. } => EventType::DecisionEnded,
            EventKind::SnapshotStarted { .. } => EventType::SnapshotStarted,
            EventKind::SnapshotSent { .. } => EventType::SnapshotSent,
            EventKind::SnapshotNotSent { .. } => EventType::SnapshotNotSent,
            EventKind::SnapshotInstalled { .. } => EventType::SnapshotInstalled,
            EventKind::SnapshotGivenUp { .. } => EventType::SnapshotGivenUp,
            EventKind::UnreadableBootstrapRecord { .. } => EventType::BootstrapUnreadable,
            EventKind::Request(_) => EventType::Request,
            EventKind::Transaction(_) => EventType::Transaction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case_and_unique() {
        let is_kebab = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        for (place, one) in EventType::ALL.iter().enumerate() {
            assert!(is_kebab(one.name()), "{}", one.name());
            assert_eq!(EventType::named(one.name()), Some(*one));
            assert_eq!(*one as usize, place);
        }
        assert!(EventType::ALL.len() < 64, "filters hold types in 64 bits");
        assert_eq!(EventType::named("hello"), None);
    }
}
