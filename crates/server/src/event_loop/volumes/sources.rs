//! Blocks of a clone that it does not have: they are read from its source as of the clone's time,
//! or from the source of that, on the way that past times are read.

use std::sync::Arc;

use api::ApiError;
use bytes::Bytes;
use keyspace::{Timestamp, VolumeOptions};
use node::control::Routes;
use node::routing::route::Route;

use super::blocks::FoundBlocks;
use crate::runtime::NodeRuntime;
use crate::service::past;

/// A volume as of a time.
pub(crate) type Source = (Arc<Route>, Timestamp);

/// The volumes that a clone's absent blocks are looked for in, the nearest first; none of them for
/// a volume that is no clone.
///
/// # Errors
/// One is not known here: a clone is never without its source, so this node is behind.
pub(crate) fn sources_of(
    routes: &Routes,
    volume: VolumeOptions,
) -> Result<Vec<Source>, &'static str> {
    let (mut all, mut next) = (Vec::new(), volume.source());
    while let Some((source, at)) = next {
        let route = routes.by_id(source).ok_or("the source of the clone is not known here yet")?;
        next = route.keyspace.source();
        all.push((route.clone(), at));
    }
    Ok(all)
}

/// Fills what was not found from the nearest of these volumes that has it.
pub(super) fn fill(
    runtime: &Arc<NodeRuntime>,
    sources: Vec<Source>,
    mut found: FoundBlocks,
    done: Box<dyn FnOnce(Result<FoundBlocks, ApiError>) + Send>,
) {
    let missing = found.missing();
    let mut rest = sources.into_iter();
    let Some((route, at)) = rest.next().filter(|_| !missing.is_empty()) else {
        return done(Ok(found));
    };
    let key = |number: &u64| Bytes::copy_from_slice(&VolumeOptions::key(*number));
    let keys: Vec<Bytes> = missing.iter().map(key).collect();
    let again = runtime.clone();
    let then = move |answers: Result<Vec<api::Answer>, ApiError>| match answers {
        Ok(answers) => {
            for (number, answer) in missing.into_iter().zip(answers) {
                if let api::Answer::Value { value, .. } = answer {
                    found.fill(number, &value);
                }
            }
            fill(&again, rest.collect(), found, done);
        }
        Err(error) => done(Err(error)),
    };
    past::get_many(runtime, &route, keys, at, Box::new(then));
}
