//! The names that clients choose volumes by.

use std::cell::RefCell;

use gateway::nbd::{Export, Exports, Found};
use keyspace::VolumeOptions;
use node::control::Routes;
use node::routing::route::Route;

use super::past::{PastExport, Wanted};

/// Why a name stands for nothing.
pub(super) const NO_VOLUME: &str = "no volume has this name";

/// The volumes among keyspaces.
pub(super) struct Volumes<'a> {
    pub(super) routes: &'a Routes,
    /// The one of a past time that the client has named last.
    pub(super) past: Option<&'a PastExport>,
    /// One of a past time that must be looked at.
    pub(super) wanted: RefCell<Option<Wanted>>,
}

impl<'a> Volumes<'a> {
    /// Those of these routes.
    pub fn new(routes: &'a Routes, past: Option<&'a PastExport>) -> Self {
        Self { routes, past, wanted: RefCell::new(None) }
    }

    fn all(&self) -> impl Iterator<Item = Export> {
        self.routes.iter().filter_map(|route| export(route))
    }
}

impl Exports for Volumes<'_> {
    fn find(&self, name: &str) -> Found {
        // No keyspace has this letter in its name.
        if let Some((volume, time)) = name.split_once('@') {
            return self.find_past(name, volume, time);
        }
        let mut all = self.all();
        let found = match name.is_empty() {
            // The only one.
            true => all.next().filter(|_| all.next().is_none()),
            false => self.routes.get(name).and_then(|route| export(route)),
        };
        found.map_or_else(|| Found::Refused(NO_VOLUME.to_owned()), Found::Export)
    }

    fn names(&self) -> Vec<String> {
        self.all().map(|export| export.name).collect()
    }
}

/// A volume as it is now; nothing for other keyspaces.
pub(super) fn export(route: &Route) -> Option<Export> {
    let VolumeOptions { bytes, block_bytes, .. } = route.keyspace.options.volume?;
    Some(Export {
        name: route.keyspace.name.to_string(),
        description: format!("a volume of {bytes} bytes in blocks of {block_bytes}"),
        size: bytes,
        block: block_bytes,
        is_read_only: false,
        has_multi_conn: true,
    })
}
