//! The rise of the cluster version: by one at a time, and never back (see
//! [`crate::cluster_version`]).
//!
//! The proposer has checked that all nodes support the next version; that is not known here. Apply
//! checks that no version is skipped, so that two proposers at the same time raise it once.

use super::{Catalogue, CatalogueError, CatalogueOp, KeyspaceAlteration};
use crate::cluster_version::{ClusterVersion, Feature};

impl Catalogue {
    /// The cluster version.
    pub fn cluster_version(&self) -> ClusterVersion {
        self.cluster_version
    }

    /// Raises it by one. A version that it has, or had, may be asked for again.
    ///
    /// # Errors
    /// `VersionSkipped`.
    pub fn raise_version(&mut self, to: ClusterVersion) -> Result<ClusterVersion, CatalogueError> {
        let from = self.cluster_version;
        if Some(to) > from.next() {
            return Err(CatalogueError::VersionSkipped { from, to });
        }
        self.cluster_version = from.max(to);
        Ok(self.cluster_version)
    }
}

impl CatalogueOp<'_> {
    /// The cluster version that all nodes must support before it may be in a log.
    pub fn since(&self) -> ClusterVersion {
        match self {
            CatalogueOp::RaiseVersion { to } => *to,
            CatalogueOp::Create { options, .. } => options.since(),
            CatalogueOp::Alter {
                change: KeyspaceAlteration { skips_equal: Some(_), .. }, ..
            } => Feature::SkippedWrites.since(),
            CatalogueOp::Alter {
                change:
                    KeyspaceAlteration { volume_bytes: Some(_), .. }
                    | KeyspaceAlteration { flattened_at: Some(_), .. },
                ..
            } => Feature::Volumes.since(),
            CatalogueOp::LinearHash { .. } => Feature::LinearHash.since(),
            CatalogueOp::Library(_) => Feature::Functions.since(),
            CatalogueOp::Lease(_) => Feature::Snapshots.since(),
            CatalogueOp::Alter { .. }
            | CatalogueOp::Drop { .. }
            | CatalogueOp::Shard { .. }
            | CatalogueOp::Node { .. } => ClusterVersion::FIRST,
        }
    }
}
