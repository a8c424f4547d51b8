//! The leader's side of a fetch: it reads from the shard's state.

use storage::engine::Change;

use super::*;

/// What a change takes beside its value, about.
const CHANGE_BYTES: usize = 32;

/// Whether all that is wanted is this shard's.
pub(crate) fn is_owned(state: &ShardState, want: &FetchRequest) -> bool {
    match (state.engine(), want) {
        (None, FetchRequest::Catalogue { .. } | FetchRequest::SafePoints) => true,
        (None, _) | (Some(_), FetchRequest::Catalogue { .. } | FetchRequest::SafePoints) => false,
        (Some(_), FetchRequest::Keys { keys, .. } | FetchRequest::Track { keys, .. })
            if keys.len() > KEYS_MAX =>
        {
            false
        }
        (Some(_), want) => want.is_of(&state.descriptor.arc),
    }
}

/// What a shard that may be read at `now` holds of what is wanted, which is its own. `None`: it
/// must be asked first, for something has expired that an entry under way may still find alive, or
/// time is beyond what is logged ([`crate::replica::read`]).
///
/// Of what is locked it tells what is to be written, if `committed` knows when that was committed.
pub(crate) fn find(
    state: &ShardState,
    want: &FetchRequest,
    now: Timestamp,
    committed: impl Fn(TxnId) -> Option<Timestamp>,
) -> Option<FetchResult> {
    if let (FetchRequest::Catalogue { known }, Content::System(system)) = (want, &state.content) {
        let index = state.applied_index;
        let encoded = || {
            let mut bytes = Vec::new();
            system.catalogue.encode(&mut bytes);
            bytes.into_boxed_slice()
        };
        return Some(FetchResult::Catalogue { index, bytes: (index != *known).then(encoded) });
    }
    if let (FetchRequest::SafePoints, Content::System(system)) = (want, &state.content) {
        let safe_points = system.safe_points.iter().map(|(id, at)| (*id, *at)).collect();
        let leases = system.leases.live(now.millis()).cloned().collect();
        return Some(FetchResult::SafePoints(HeldSafePoints { now, safe_points, leases }));
    }
    let engine = state.engine()?;
    match want {
        // It gets a time of its own among the readers ([`crate::feed`]).
        FetchRequest::Changes(_) => return None,
        FetchRequest::Past { at, want } => return past(state, engine, *at, want),
        FetchRequest::Keys { keys, .. } => return versions(state, engine, keys, now, committed),
        FetchRequest::At { key, at } | FetchRequest::History { key, at, .. }
            if state.locks.hides_at(key, *at) =>
        {
            return None;
        }
        FetchRequest::History { key, at, changes_max } => {
            let changes_max = usize::try_from(*changes_max).unwrap_or(usize::MAX);
            return Some(FetchResult::History(history(engine, key, *at, changes_max)));
        }
        FetchRequest::At { key, at } => return Some(FetchResult::Then(then(engine, key, *at))),
        _ if state.locks.writes_by(now) => return None,
        _ => {}
    }
    // A transaction may have been committed by a leader whose clock is ahead, and acknowledged: its
    // writes here lie above `now`, and below the entry that resolved its locks.
    let now = now.max(state.last);
    if !crate::replica::scan::is_settled(state, now) {
        return None;
    }
    Some(match want {
        // No transaction with a lock here by then is undecided: what it wrote here has its time.
        FetchRequest::Newest { .. } => FetchResult::Newest(now),
        FetchRequest::Size { .. } => FetchResult::Size(engine.len(now)),
        FetchRequest::Random { number, .. } => {
            let key = engine.random_key(number.rotate_left(32), now).map(Box::from);
            FetchResult::Random { size: engine.len(now), key }
        }
        // The replica registers interest ([`crate::tracking`]): there is nothing to be found. All
        // the others but pieces are answered above.
        want => return piece(engine, want, now),
    })
}

/// A piece of a shard's keys at a time. `None`: the question is not about one.
fn piece(engine: &MemoryEngine, want: &FetchRequest, time: Timestamp) -> Option<FetchResult> {
    match want {
        FetchRequest::Scan { cursor, end, keys_max } => {
            Some(scan(engine, *cursor, *end, *keys_max, time))
        }
        FetchRequest::Numbers { from, end, keys_max } => {
            Some(numbers(engine, *from, *end, *keys_max, time))
        }
        FetchRequest::Range { low, high, reverse, keys_max, with_values } => {
            let range = Range {
                start: low.as_ref().map(|key| &**key),
                end: high.as_ref().map(|key| &**key),
                reverse: *reverse,
                visited_max: usize::try_from(*keys_max).unwrap_or(usize::MAX),
                examined_max: PIECE_KEYS,
            };
            Some(pairs(engine, &range, *with_values, time))
        }
        FetchRequest::Keys { .. }
        | FetchRequest::At { .. }
        | FetchRequest::History { .. }
        | FetchRequest::Past { .. }
        | FetchRequest::Newest { .. }
        | FetchRequest::SafePoints
        | FetchRequest::Catalogue { .. }
        | FetchRequest::Size { .. }
        | FetchRequest::Random { .. }
        | FetchRequest::Track { .. }
        | FetchRequest::Changes(_) => None,
    }
}

/// What the replica here has for an answer at a past time, whether it leads or not. `None`: its
/// leader must be asked, also where a key has nothing: it may have something by now (M6).
///
/// A leader has promised that nothing comes at or below `closed` any more, and all that came is
/// applied here (SAFETY G2, G17). The promise outlives that leader only up to the logged horizon.
pub fn past_here(
    route: &Route,
    place: usize,
    at: Timestamp,
    want: &FetchRequest,
) -> Option<FetchResult> {
    let state: &ShardState = &route.views[place].read();
    let engine = state.engine()?;
    let is_closed = at <= state.serving.closed() && at <= state.horizon;
    if !is_closed || state.descriptor.shard != route.shard(place) || state.merged_away {
        return None;
    }
    let found = want.is_of(&state.descriptor.arc).then(|| past(state, engine, at, want)).flatten();
    // Whether there is something later, of a key that has nothing here, its leader alone knows.
    let is_unsure = |found: &FetchResult| {
        let FetchResult::Past(values) = found else { return false };
        values.contains(&PastValue::Nil)
    };
    found.filter(|found| !is_unsure(found))
}

/// What a question has for an answer at a past time. `None`: a transaction may write something here
/// by then.
fn past(
    state: &ShardState,
    engine: &MemoryEngine,
    at: Timestamp,
    want: &FetchRequest,
) -> Option<FetchResult> {
    let safe_point = engine.safe_point();
    if !engine.is_readable(at) {
        return Some(FetchResult::BelowSafePoint(safe_point));
    }
    let FetchRequest::Keys { keys, .. } = want else {
        return match want {
            _ if state.locks.writes_by(at) => None,
            FetchRequest::Newest { .. } => Some(FetchResult::Newest(at)),
            _ => piece(engine, want, at),
        };
    };
    if keys.iter().any(|key| state.locks.hides_at(key, at)) {
        return None;
    }
    let (mut values, mut bytes) = (Vec::with_capacity(keys.len().min(PIECE_KEYS)), 0);
    for key in keys {
        let value = then(engine, key, at);
        bytes += match &value {
            PastValue::Value(held) => held.value.len(),
            _ => 0,
        };
        if bytes > ANSWER_BYTES_MAX && !values.is_empty() {
            break;
        }
        values.push(value);
    }
    Some(FetchResult::Past(values))
}

fn versions(
    state: &ShardState,
    engine: &MemoryEngine,
    keys: &[Box<[u8]>],
    now: Timestamp,
    committed: impl Fn(TxnId) -> Option<Timestamp>,
) -> Option<FetchResult> {
    let mut found = Vec::with_capacity(keys.len().min(PIECE_KEYS));
    let mut bytes = 0;
    for key in keys {
        let key = engine.hasher().key(key);
        let version = match crate::replica::read::newest(state, &key, now) {
            Ok(version) => version,
            Err(UnknownValue::Locked) => {
                Some(to_be_written(state.locks.get(key.bytes)?, &committed)?)
            }
            Err(_) => return None,
        };
        bytes += key.bytes.len() + version.map_or(0, |version| version.value.len());
        if bytes > ANSWER_BYTES_MAX && !found.is_empty() {
            break;
        }
        let held = version.as_ref().map(HeldVersion::of);
        found.push(held.ok_or_else(|| crate::replica::read::nothing_since(engine, &key)));
    }
    Some(FetchResult::Versions(found))
}

/// What a lock writes, if that is sure and has no end.
fn to_be_written(
    lock: &Lock,
    committed: impl Fn(TxnId) -> Option<Timestamp>,
) -> Option<Version<'_>> {
    let Intent::Put(value, 0) = &lock.intent else { return None };
    let timestamp = committed(lock.id)?;
    Some(Version { value, expiry_ms: 0, timestamp })
}

fn then(engine: &MemoryEngine, key: &[u8], at: Timestamp) -> PastValue {
    let safe_point = engine.safe_point();
    if !engine.is_readable(at) {
        return PastValue::BelowSafePoint(safe_point);
    }
    match engine.at(&engine.hasher().key(key), at) {
        ReadResult::Value(version) => PastValue::Value(HeldVersion::of(&version)),
        ReadResult::Nil => PastValue::Nil,
        ReadResult::NilYet => PastValue::NilYet,
    }
}

/// The changes of a key up to a time: at least one if there is any, then as many as fit.
pub fn history(engine: &MemoryEngine, key: &[u8], at: Timestamp, changes_max: usize) -> History {
    let (mut changes, mut bytes) = (Vec::new(), 0);
    let is_all = engine.history(&engine.hasher().key(key), at, &mut |change| {
        let more = match &change {
            Change::Put(version) => version.value.len(),
            Change::Deleted(_) => 0,
        } + CHANGE_BYTES;
        if !changes.is_empty() && (changes.len() >= changes_max || bytes + more > ANSWER_BYTES_MAX)
        {
            return false;
        }
        bytes += more;
        changes.push(match &change {
            Change::Put(version) => HeldChange::Put(HeldVersion::of(version)),
            Change::Deleted(at) => HeldChange::Deleted(*at),
        });
        true
    });
    History { changes, has_more: !is_all, safe_point: engine.safe_point() }
}

fn scan(
    engine: &MemoryEngine,
    cursor: u64,
    end: Slot,
    keys_max: u64,
    now: Timestamp,
) -> FetchResult {
    let keys_max = usize::try_from(keys_max).unwrap_or(usize::MAX).clamp(1, PIECE_KEYS);
    let (mut keys, mut bytes, mut seen) = (Vec::new(), 0, 0);
    let mut next = Some(place_of_cursor(cursor));
    while let Some(from) = next.filter(|_| seen < keys_max && bytes < ANSWER_BYTES_MAX) {
        let step = SCAN_STEP.min(keys_max - seen);
        seen += step;
        let scanned = engine.scan(from, step, now, &mut |key: &[u8], _| {
            if end >= keyspace::SLOTS || slot_of(key) < end {
                bytes += key.len();
                keys.push(Box::from(key));
            }
        });
        // In a keyspace without slots there is nothing to find.
        next = scanned.unwrap_or(None).filter(|next| next.slot < end);
    }
    FetchResult::Keys { keys, next: next.map(|at: ScanCursor| cursor_of(at)) }
}

/// As [`scan`], of linear hashing.
fn numbers(
    engine: &MemoryEngine,
    from: u64,
    end: u64,
    keys_max: u64,
    now: Timestamp,
) -> FetchResult {
    let keys_max = usize::try_from(keys_max).unwrap_or(usize::MAX).clamp(1, PIECE_KEYS);
    let is_before_end = |number: u64| end == 0 || number < end;
    let (mut keys, mut bytes, mut seen) = (Vec::new(), 0, 0);
    let mut next = Some(from);
    while let Some(from) = next.filter(|_| seen < keys_max && bytes < ANSWER_BYTES_MAX) {
        let step = SCAN_STEP.min(keys_max - seen);
        seen += step;
        let scanned = engine.scan_numbers(from, step, now, &mut |key: &[u8], _| {
            if end == 0 || is_before_end(bit_reversed_hash(key)) {
                bytes += key.len();
                keys.push(Box::from(key));
            }
        });
        // In a keyspace without linear hashing there is nothing to find.
        next = scanned.unwrap_or(None).filter(|next| is_before_end(*next));
    }
    FetchResult::Keys { keys, next }
}

fn pairs(
    engine: &MemoryEngine,
    range: &Range<'_>,
    with_values: bool,
    now: Timestamp,
) -> FetchResult {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut bytes = 0;
    let mut is_cut = false;
    let walked = engine.range(range, now, &mut |key, version| {
        // One larger value is allowed, so that every piece makes progress.
        if bytes >= ANSWER_BYTES_MAX || is_cut {
            is_cut = true;
            return;
        }
        let value = if with_values { version.value } else { &[] };
        bytes += key.len() + value.len();
        pairs.push((key.into(), value.into()));
    });
    let walked = walked.unwrap_or(None).map(Box::from);
    let reached = if is_cut { pairs.last().map(|(key, _)| key.clone()) } else { walked };
    FetchResult::Pairs { pairs, reached }
}

#[cfg(test)]
mod tests {
    use keyspace::{Descriptor, Generation, KeyHasher, ShardId};
    use storage::engine::Layout;

    use super::*;

    /// The leader of another shard, a little ahead, commits a transaction that deletes a key here.
    #[test]
    fn scan_shows_what_is_committed_by_clock_ahead() {
        let hasher = KeyHasher::new([7; 16]);
        let mut engine = Box::new(MemoryEngine::new(Layout::Ordered, hasher));
        engine.put(&hasher.key(b"k"), &[b"v"], 0, Timestamp::from_millis(100));
        assert!(engine.delete(&hasher.key(b"k"), Timestamp::from_millis(300)));
        let arc = keyspace::Arc::whole(keyspace::KeyspaceId(1));
        let (generation, replicas) = (Generation(1), Vec::new());
        let descriptor = Descriptor { shard: ShardId(1), arc, replicas, generation, leader: None };
        let mut state = ShardState::new(descriptor, Content::Keys(engine));
        state.last = Timestamp::from_millis(310);
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let range =
            FetchRequest::Range { low, high, reverse: false, keys_max: 10, with_values: true };
        let found = find(&state, &range, Timestamp::from_millis(250), |_| None);
        let Some(FetchResult::Pairs { pairs, .. }) = found else { panic!("{found:?}") };
        assert!(pairs.is_empty(), "{pairs:?}");
    }
}
