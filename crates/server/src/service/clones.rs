//! Clones of volumes: made at a time of their source, and flattened piece by piece.
//!
//! ```text
//!   clone    snapshot of the source ─► keyspace whose catalogue entry names source and time: a
//!            pin ─► release the snapshot
//!   flatten  page of the source's keys as of then ─► SET … NX of each in the clone ─► next page …
//!            after the last: the newest time of the clone ─► catalogue: it has had all since then
//! ```
//!
//! The snapshot sees to it that nothing is written to the source at or below the clone's time any
//! more. `NX` is judged where the block is written: so a copy never replaces what a client has
//! written meanwhile, and a client's zeroes are an empty value, which stays, too.
//!
//! How far a clone is flattened only the node knows that does it, not the client that asks for the
//! next piece: else a client could have it end too early. Another node begins anew, and so does
//! this one after a restart; what is there is not written again.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | clones of a volume, volumes that a read looks at | `CLONES_MAX`, `CLONE_DEPTH_MAX` | refused |
//! | bytes and keys that one request copies | [`PIECE_BYTES`], [`PIECE_KEYS`] | the next one |
//! | memory of the node full | `memory_max` | refused; goes on when there is room |

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{
    Answer, ApiError, CloneSpec, Done, Flattened, KeysQuery, KeyspaceInfo, RequestId, SnapshotSpec,
};
use bytes::Bytes;
use command::{Expiry, SetIf, SetReply, Write};
use keyspace::{
    CatalogueOp, KeyspaceAlteration, KeyspaceId, KeyspaceOptions, LeaseKind, Placement, Timestamp,
    VolumeOptions, VolumeOrigin,
};
use node::routing::route::Route;
use parking_lot::Mutex;

use super::reads::renewed;
use super::{NodeApi, keys, past, snapshots};
use crate::event_loop::volumes::sources::{Source, sources_of};

/// How long the snapshot is kept if this node dies before the clone is made.
const SNAPSHOT_MS: u64 = 60_000;
/// Bytes of blocks that one request copies.
const PIECE_BYTES: u64 = 1 << 20;
/// The key of a block.
const KEY_BYTES: usize = size_of::<u64>();
/// Keys that one request looks at.
const PIECE_KEYS: u64 = 1000;

/// How far clones are flattened by this node.
#[derive(Default)]
pub(super) struct Flattening(Mutex<BTreeMap<KeyspaceId, Progress>>);

#[derive(Clone, Default)]
struct Progress {
    /// Which of the sources is copied.
    source: usize,
    /// Where its next page begins.
    cursor: Option<String>,
    copied: u64,
    /// A request is doing a piece.
    is_busy: bool,
}

/// A piece that is being copied.
struct Piece {
    api: NodeApi,
    id: RequestId,
    clone: Arc<Route>,
    from: Source,
    progress: Progress,
    done: Done<Flattened>,
}

/// The answers of a piece's writes.
struct Copies {
    left: usize,
    written: u64,
    failed: Option<ApiError>,
    piece: Option<(Piece, Option<String>)>,
}

impl NodeApi {
    pub(super) fn clone_volume(&self, source: &str, spec: CloneSpec, done: Done<KeyspaceInfo>) {
        let routes = self.runtime.routing.routes();
        let Some(route) = routes.get(source) else { return done(Err(self.no_keyspace(source))) };
        let of = &route.keyspace;
        let Some(volume) = of.options.volume else {
            let why = format!("keyspace {source} is not a volume; nothing was done");
            return done(Err(ApiError::BadKeyspace { why }));
        };
        if let Some(Err(error)) = spec.at.map(|at| past::check(&self.runtime, at)) {
            return done(Err(error));
        }
        let CloneSpec { name, at, replicas, retention_ms } = spec;
        let mut options = KeyspaceOptions {
            placement: Placement::LinearHash,
            replicas: replicas.unwrap_or(of.options.replicas),
            retention_ms: retention_ms.unwrap_or(of.options.retention_ms),
            skips_equal: false,
            ..of.options
        };
        let (this, id) = (self.again(), of.id);
        let then = move |taken: Result<api::SnapshotInfo, ApiError>| {
            let (taken, at) = match taken.map(|taken| (taken.id, taken.at.parse())) {
                Ok((taken, Ok(at))) => (taken, Timestamp(at)),
                Ok(_) => unreachable!("the time of a snapshot is a number"),
                Err(error) => return done(Err(error)),
            };
            options.volume =
                Some(VolumeOptions { origin: VolumeOrigin::Clone { source: id, at }, ..volume });
            let again = this.again();
            let made = move |made: Result<KeyspaceInfo, ApiError>| {
                // It ends by itself if this fails: the clone keeps its time.
                again.release(taken, Box::new(|_| done(made)));
            };
            this.change(&CatalogueOp::Create { name: &name, options }, Box::new(made));
        };
        let taken = SnapshotSpec { keyspaces: vec![source.to_owned()], at, ttl_ms: SNAPSHOT_MS };
        self.take_snapshot(LeaseKind::Pin, taken, Box::new(then));
    }

    pub(super) fn flatten_volume(&self, id: RequestId, name: &str, done: Done<Flattened>) {
        let routes = self.runtime.routing.routes();
        let Some(clone) = routes.get(name).cloned() else {
            return done(Err(self.no_keyspace(name)));
        };
        let volume = clone.keyspace.options.volume;
        let Some(volume) = volume.filter(VolumeOptions::marks_zeroes) else {
            let why = format!("keyspace {name} is not a clone of a volume; nothing was done");
            return done(Err(ApiError::BadKeyspace { why }));
        };
        if volume.source().is_none() {
            return done(Ok(Flattened { copied_blocks: 0, is_done: true }));
        }
        let sources = match sources_of(&routes, volume) {
            Ok(sources) => sources,
            Err(why) => return done(Err(ApiError::Busy { why })),
        };
        let progress = {
            let mut all = self.flattening.0.lock();
            all.retain(|id, _| routes.by_id(*id).is_some());
            let progress = all.entry(clone.keyspace.id).or_default();
            if progress.is_busy {
                let why = "another request copies a piece of the clone";
                return done(Err(ApiError::Busy { why }));
            }
            progress.is_busy = true;
            progress.clone()
        };
        let api = self.again();
        match sources.into_iter().nth(progress.source) {
            Some(from) => Piece { api, id, clone, from, progress, done }.look(volume),
            None => self.end_flattening(clone, progress.copied, done),
        }
    }

    /// All is copied: the clone needs its source no more.
    fn end_flattening(&self, clone: Arc<Route>, copied_blocks: u64, done: Done<Flattened>) {
        let this = self.again();
        let id = clone.keyspace.id;
        let done = move |result: Result<(), ApiError>| {
            let mut all = this.flattening.0.lock();
            match result {
                Ok(()) => drop(all.remove(&id)),
                Err(_) => all.entry(id).or_default().is_busy = false,
            }
            drop(all);
            done(result.map(|()| Flattened { copied_blocks, is_done: true }));
        };
        let this = self.again();
        let name = clone.keyspace.name.clone();
        // All copies are at or below it, wherever they were written.
        let then = move |newest: Result<Timestamp, ApiError>| match newest {
            Ok(at) => {
                let change =
                    KeyspaceAlteration { flattened_at: Some(at), ..KeyspaceAlteration::default() };
                let op = CatalogueOp::Alter { name: &name, change };
                this.change(&op, Box::new(|changed| done(changed.map(|_info| ()))));
            }
            Err(error) => done(Err(error)),
        };
        snapshots::newest_time(&self.runtime, &[clone], Box::new(then));
    }
}

impl Piece {
    /// Looks at a page of the source.
    fn look(self, volume: VolumeOptions) {
        let limit = (PIECE_BYTES / u64::from(volume.block_bytes)).clamp(1, PIECE_KEYS) as usize;
        let (route, at) = self.from.clone();
        let runtime = self.api.runtime.clone();
        let cursor = self.progress.cursor.clone();
        let asked = KeysQuery { prefix: Bytes::new(), cursor, limit, at: Some(at) };
        let then = move |page: Result<api::KeysPage, ApiError>| match page {
            Ok(page) => self.read(page),
            Err(error) => self.end(Err(error)),
        };
        keys::page(&runtime, &renewed(&runtime, route), asked, Box::new(then));
    }

    fn read(self, page: api::KeysPage) {
        let (route, at) = self.from.clone();
        let runtime = self.api.runtime.clone();
        let keys = page.keys.clone();
        let then = move |values: Result<Vec<Answer>, ApiError>| match values {
            Ok(values) => self.write(page, values),
            Err(error) => self.end(Err(error)),
        };
        past::get_many(&runtime, &renewed(&runtime, route), keys, at, Box::new(then));
    }

    /// Gives the clone what it does not have.
    fn write(self, page: api::KeysPage, values: Vec<Answer>) {
        let found = page.keys.into_iter().zip(values).filter_map(|(key, answer)| match answer {
            // What is no block stays where somebody has put it.
            Answer::Value { value, .. } if key.len() == KEY_BYTES => Some((key, value)),
            _ => None,
        });
        let found: Vec<(Bytes, Bytes)> = found.collect();
        if found.is_empty() {
            return self.end(Ok((0, page.next)));
        }
        let (api, id, clone) = (self.api.again(), self.id, self.clone.clone());
        let clone = renewed(&api.runtime, clone);
        let piece = Some((self, page.next));
        let all = Copies { left: found.len(), written: 0, failed: None, piece };
        let all = Arc::new(Mutex::new(all));
        for (key, value) in &found {
            let write = Write::Set {
                key,
                value,
                when: SetIf::Absent,
                expiry: Expiry::Never,
                reply: SetReply::Flag,
            };
            let all = all.clone();
            let copied = move |result| Copies::answered(&all, result);
            api.write(id, &clone, &write, Answer::ConditionFailed, Box::new(copied));
        }
    }

    /// So many blocks were copied, and the next page begins there; or why not.
    fn end(self, result: Result<(u64, Option<String>), ApiError>) {
        let Self { api, clone, mut progress, done, .. } = self;
        progress.is_busy = false;
        let answer = result.map(|(copied, next)| {
            progress.copied += copied;
            progress.source += usize::from(next.is_none());
            progress.cursor = next;
            Flattened { copied_blocks: progress.copied, is_done: false }
        });
        api.flattening.0.lock().insert(clone.keyspace.id, progress);
        done(answer);
    }
}

impl Copies {
    fn answered(all: &Mutex<Self>, result: Result<Answer, ApiError>) {
        let mut this = all.lock();
        this.left -= 1;
        match result {
            Ok(Answer::ConditionFailed) => {}
            Ok(_) => this.written += 1,
            Err(error) => this.failed = Some(error),
        }
        if this.left > 0 {
            return;
        }
        let Some((piece, next)) = this.piece.take() else { return };
        let result = match this.failed.take() {
            Some(error) => Err(error),
            None => Ok((this.written, next)),
        };
        drop(this);
        piece.end(result);
    }
}
