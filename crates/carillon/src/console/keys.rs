//! Keys of a simulation, and routes to their owners, as nodes' API shows them. It only looks.

use api::{
    Answer, ApiError, Condition, History, HistoryQuery, KeyChange, KeysPage, KeysQuery, RouteStatus,
};
use keyspace::Timestamp;
use overlay::LookupChoice;
use sim::live::{KeyView, Simulation};

use super::service::{NO_LEADER, keyspace_named};
use super::views;

/// Whether the version that a key has meets a condition.
///
/// # Errors
/// If nobody can tell.
pub fn meets(
    sim: &Simulation,
    keyspace: &str,
    key: &[u8],
    when: &Condition,
) -> Result<bool, ApiError> {
    if *when == Condition::ALWAYS {
        return Ok(true);
    }
    match sim.key(keyspace, key, None) {
        KeyView::Value(version) => Ok(when.holds(Some(version.timestamp))),
        KeyView::NoLeader => Err(ApiError::Busy { why: NO_LEADER }),
        KeyView::Nil | KeyView::NilYet | KeyView::TooOld(_) => Ok(when.holds(None)),
    }
}

/// The value of a key, now or as of a time.
///
/// # Errors
/// Why there is no answer.
pub fn get(
    sim: &Simulation,
    keyspace: &str,
    key: &[u8],
    at: Option<Timestamp>,
) -> Result<Answer, ApiError> {
    keyspace_named(sim, keyspace)?;
    let now = Timestamp::from_millis(sim.wall_ms());
    // Clocks may be ahead: what is written carries their time.
    if let Some(at) = at.filter(|at| at.millis() > now.millis() + 86_400_000) {
        return Err(ApiError::InFuture { at, now });
    }
    Ok(match sim.key(keyspace, key, at) {
        KeyView::Value(version) => Answer::Value {
            value: version.value.into(),
            timestamp: version.timestamp,
            expires_at_ms: (version.expiry_ms > 0).then_some(version.expiry_ms),
        },
        KeyView::Nil => Answer::Nil,
        KeyView::NilYet => Answer::NilYet,
        KeyView::TooOld(safe_point) => {
            return Err(ApiError::BelowSafePoint { at: at.unwrap_or(now), safe_point });
        }
        KeyView::NoLeader => return Err(ApiError::Busy { why: NO_LEADER }),
    })
}

/// A page of keys: its cursor is the last key of the one before, in hexadecimal.
///
/// # Errors
/// Why there is none.
pub fn keys(sim: &Simulation, keyspace: &str, asked: &KeysQuery) -> Result<KeysPage, ApiError> {
    let keyspace = keyspace_named(sim, keyspace)?;
    if asked.at.is_some() {
        let why = "a simulation lists the keys of now alone".to_owned();
        return Err(ApiError::SnapshotRefused { why });
    }
    let after = match &asked.cursor {
        None => None,
        Some(cursor) => {
            let wrong = || ApiError::BadCursor { cursor: cursor.clone() };
            Some(cursor.strip_prefix("after-").and_then(bytes_of).ok_or_else(wrong)?)
        }
    };
    let found = sim.keys(&keyspace, &asked.prefix, after.as_deref(), asked.limit);
    let mut keys = found.ok_or(ApiError::Busy { why: NO_LEADER })?;
    let has_more = keys.len() > asked.limit;
    keys.truncate(asked.limit);
    let next = keys.last().filter(|_| has_more).map(|last| {
        let digits: String = last.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("after-{digits}")
    });
    Ok(KeysPage { keys: keys.into_iter().map(Into::into).collect(), next })
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            let is_hex = pair.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(pair, 16).ok().filter(|_| is_hex)
        })
        .collect()
}

/// Routes to the owner of a key, as the API shows them.
///
/// # Errors
/// Why there are none.
pub fn routes(
    sim: &Simulation,
    keyspace: &str,
    key: &[u8],
    from: Option<&str>,
    ways: &[LookupChoice],
    is_traced: bool,
) -> Result<Vec<RouteStatus>, String> {
    let (_, traces) = sim.look_up(keyspace, key, from, ways).map_err(|why| why.to_string())?;
    let nodes = sim.nodes();
    let name_of = |node| {
        let found = nodes.iter().find(|one| one.id == node);
        found.map_or_else(|| views::id(node), |one| one.name.clone())
    };
    let shown = traces.iter().map(|trace| {
        let mut route = RouteStatus::of(trace, &name_of);
        if !is_traced {
            route.steps.clear();
        }
        route
    });
    Ok(shown.collect())
}

/// What has become of a key.
///
/// # Errors
/// Why there is no answer.
pub fn history(
    sim: &Simulation,
    keyspace: &str,
    key: &[u8],
    asked: HistoryQuery,
) -> Result<History, ApiError> {
    keyspace_named(sim, keyspace)?;
    let found = sim.history(keyspace, key, asked.upto(), asked.limit);
    let (found, at) = found.ok_or(ApiError::Busy { why: NO_LEADER })?;
    let writes = found.changes.into_iter().map(KeyChange::from);
    Ok(History::new(writes, found.has_more, found.safe_point, at))
}
