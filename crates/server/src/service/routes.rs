//! Routes to the owner of a key: for `/v1/route`, and for requests that name a lookup.

use std::sync::Arc;

use keyspace::is_made_on_use;
use parking_lot::Mutex;

use super::NodeApi;
use crate::cluster::MemberInfo;
use crate::runtime::lookups;
use api::{Done, RouteStatus};
use overlay::LookupChoice;

use crate::runtime::lookups::Trace;
use crate::runtime::survey::name_of;

/// Routes that are looked up, in the order of the request.
struct GatheredRoutes {
    found: Vec<Option<RouteStatus>>,
    done: Option<Done<Vec<RouteStatus>>>,
}

impl NodeApi {
    pub(super) fn ask_route(
        &self,
        keyspace: &str,
        key: &[u8],
        ways: &[LookupChoice],
        is_traced: bool,
        done: Done<Vec<RouteStatus>>,
    ) {
        let routes = self.runtime.routing.routes();
        let Some(route) = routes.get(keyspace) else {
            return match is_made_on_use(keyspace)
                && self.runtime.routing.routes().iter().next().is_some()
            {
                // It will be made by the request itself.
                true => done(Ok(Vec::new())),
                false => done(Err(self.no_keyspace(keyspace))),
            };
        };
        let id = route.keyspace.id;
        let position = route.keyspace.options.placement.position(id, key);
        let members = Arc::new(self.runtime.members());
        let (found, done) = (vec![None; ways.len()], Some(done));
        let gathered = Arc::new(Mutex::new(GatheredRoutes { found, done }));
        for (index, way) in ways.iter().enumerate() {
            let (later, names) = (gathered.clone(), members.clone());
            let told =
                Box::new(move |trace: Trace| add_route(&later, index, shown(&trace, &names)));
            let point = (&position).into();
            if let Some(trace) = lookups::look_up(&self.runtime, *way, point, is_traced, told) {
                add_route(&gathered, index, shown(&trace, &members));
            }
        }
    }
}

/// Adds a route that was found; the last one completes the request.
fn add_route(gathered: &Mutex<GatheredRoutes>, index: usize, route: RouteStatus) {
    let told = {
        let mut gathered = gathered.lock();
        gathered.found[index] = Some(route);
        match gathered.found.iter().all(Option::is_some) {
            true => {
                let found = std::mem::take(&mut gathered.found);
                gathered.done.take().map(|done| (done, found))
            }
            false => None,
        }
    };
    if let Some((done, found)) = told {
        done(Ok(found.into_iter().flatten().collect()));
    }
}

fn shown(trace: &Trace, members: &[MemberInfo]) -> RouteStatus {
    RouteStatus::of(trace, &|node| name_of(node, members))
}
