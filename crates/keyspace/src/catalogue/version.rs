//! How does the cluster's level rise? By one at a time, and never back (see
//! [`crate::cluster_version`]).
//!
//! Whether all nodes speak the next level is not known here: who asks has looked. That a level is
//! not skipped is judged here, so that two who ask at the same time raise it once.

use super::{Catalogue, CatalogueError, CatalogueOp};
use crate::cluster_version::{ClusterVersion, Feature};

impl Catalogue {
    /// The cluster's level: what may be used.
    pub fn level(&self) -> ClusterVersion {
        self.level
    }

    /// Raises the level by one. Where it is already may be asked for again, and below.
    ///
    /// # Errors
    /// `LevelSkipped`.
    pub fn raise_version(&mut self, to: ClusterVersion) -> Result<ClusterVersion, CatalogueError> {
        let from = self.level;
        if Some(to) > from.next() {
            return Err(CatalogueError::VersionSkipped { from, to });
        }
        self.level = from.max(to);
        Ok(self.level)
    }
}

impl CatalogueOp<'_> {
    /// The level that all nodes must speak before it may be in a log.
    pub fn since(&self) -> ClusterVersion {
        match self {
            CatalogueOp::RaiseVersion { to } => *to,
            CatalogueOp::Create { options, .. } => options.placement.since(),
            CatalogueOp::LinearHash { .. } => Feature::LinearHash.since(),
            CatalogueOp::Alter { .. }
            | CatalogueOp::Drop { .. }
            | CatalogueOp::Shard { .. }
            | CatalogueOp::Node { .. } => ClusterVersion::FIRST,
        }
    }
}
