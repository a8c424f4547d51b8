//! Locks with fencing tokens.
//!
//! ```text
//!   acquire ──► a record that expires, "held by ann until 17:02:11"      token = its version
//!   renew   ──► the record anew, with the token in it, and a later end
//!   release ──► no record
//! ```
//!
//! The record expires by the time of the shard that has it, as every value does (SAFETY G13): no
//! client's clock matters. The token of a holder is the commit time of its first record. Commit
//! times of one key rise, so each holder's token is larger than those of all before it, and what
//! the lock protects can refuse an old holder: it keeps the largest token that it has seen.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | a lease | [`TTL_MS_MIN`] to [`TTL_MS_MAX`] | refused |
//! | names | [`LOCK_NAME_BYTES_MAX`](keys::LOCK_NAME_BYTES_MAX) | refused |

use crate::Refusal;
use crate::draft::{Draft, Stop};
use crate::keys;
use crate::record::{LockRecord, Record};

/// The shortest lease: some time longer than clocks of nodes may differ by.
pub const TTL_MS_MIN: u64 = 1000;
/// A lease, unless it says otherwise.
pub const TTL_MS_DEFAULT: u64 = 30_000;
/// The longest.
pub const TTL_MS_MAX: u64 = 86_400_000;

fn check(name: &str, ttl_ms: u64) -> Result<(), Refusal> {
    keys::check_lock_name("lock", name)?;
    if (TTL_MS_MIN..=TTL_MS_MAX).contains(&ttl_ms) {
        return Ok(());
    }
    let why = format!("ttl_ms is {ttl_ms}: it has to be from {TTL_MS_MIN} to {TTL_MS_MAX}");
    Err(Refusal::Bad { why })
}

/// Who holds a lock, with its token, if anybody does.
///
/// # Errors
/// [`Stop`].
pub fn show(draft: &mut Draft, name: &str) -> Result<Option<LockRecord>, Stop> {
    keys::check_lock_name("lock", name)?;
    let found = draft.get(name.as_bytes())?;
    let version = found.as_ref().map_or(0, |found| found.version);
    Ok(LockRecord::of(name.as_bytes(), found)?.map(|record| with_token(record, version)))
}

/// A record with the token that it means.
pub fn with_token(record: LockRecord, version: u64) -> LockRecord {
    let token = if record.token == 0 { version } else { record.token };
    LockRecord { token, ..record }
}

fn put(draft: &mut Draft, name: &str, record: LockRecord, ttl_ms: u64) -> LockRecord {
    let record = LockRecord { until_ms: draft.now_ms.saturating_add(ttl_ms), ..record };
    draft.put(name.as_bytes().to_vec(), record.encode(), Some(ttl_ms));
    record
}

/// Takes a lock for an owner; one who has it already keeps its token, and its lease is renewed. The
/// token of a new holder is 0: it is the version that the record has when it is committed
/// ([`show`]).
///
/// # Errors
/// [`Stop`]; [`Refusal::Held`] if another has it.
pub fn acquire(
    draft: &mut Draft,
    name: &str,
    owner: &str,
    ttl_ms: u64,
) -> Result<LockRecord, Stop> {
    check(name, ttl_ms)?;
    keys::check_lock_name("lock's owner", owner)?;
    let token = match show(draft, name)? {
        Some(held) if held.owner != owner => {
            return Err(Refusal::Held { name: name.to_owned(), held }.into());
        }
        Some(held) => held.token,
        None => 0,
    };
    let record = LockRecord { token, until_ms: 0, owner: owner.to_owned() };
    Ok(put(draft, name, record, ttl_ms))
}

/// The lock as its holder with this token has it.
fn held(draft: &mut Draft, name: &str, token: u64) -> Result<LockRecord, Stop> {
    let held = show(draft, name)?.filter(|held| held.token == token);
    Ok(held.ok_or_else(|| Refusal::NotHeld { name: name.to_owned(), token })?)
}

/// Has a lease last for so long from now on.
///
/// # Errors
/// [`Stop`]; [`Refusal::NotHeld`] if it has ended.
pub fn renew(draft: &mut Draft, name: &str, token: u64, ttl_ms: u64) -> Result<LockRecord, Stop> {
    check(name, ttl_ms)?;
    let record = held(draft, name, token)?;
    Ok(put(draft, name, record, ttl_ms))
}

/// Releases a lock.
///
/// # Errors
/// As [`renew`].
pub fn release(draft: &mut Draft, name: &str, token: u64) -> Result<(), Stop> {
    held(draft, name, token)?;
    draft.drop(name.as_bytes().to_vec());
    Ok(())
}
