//! The password that clients must give, if there is one: from a file that its owner alone can
//! read.
//!
//! The file is looked at whenever a password is given, so a new one counts from then on; clients
//! that are in stay. A file that has become unusable is named in the log, and what was read before
//! still counts.
//!
//! A client that guesses is slowed: after [`FAILURES_FREE`] wrong passwords in a row an address
//! waits
//! between two attempts, twice as long each time up to [`WAIT_MAX`]. What comes sooner is refused
//! unread, a right one as well.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of the file | [`PASSWORD_BYTES_MAX`] | an error |
//! | addresses with failures | [`ADDRESSES_MAX`] | the one that failed longest ago is forgotten |

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::Sha256;

use crate::config::is_loopback;

/// No password is longer.
pub const PASSWORD_BYTES_MAX: u64 = 512;
/// … or shorter.
pub const PASSWORD_BYTES_MIN: usize = 8;
/// Wrong passwords in a row that cost an address nothing.
pub const FAILURES_FREE: u32 = 5;
/// The longest wait between two attempts.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// Addresses whose failures are remembered.
pub const ADDRESSES_MAX: usize = 10_000;
/// After so long without another its failures are forgotten.
const FORGET: Duration = Duration::from_secs(600);
/// How often the log says that passwords are wrong.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// Bits of a file's mode that let others than its owner at it.
const OTHERS: u32 = 0o077;

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct PasswordError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// What comes of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the one.
    Right,
    /// It is not.
    Wrong,
    /// It was not looked at: there were too many wrong ones. Ask again after this.
    Wait(Duration),
}

/// The failures of an address.
#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    last: Instant,
}

impl Failed {
    /// Until when nothing of it is looked at.
    fn until(&self) -> Instant {
        match self.count.checked_sub(FAILURES_FREE) {
            None | Some(0) => self.last,
            Some(more) => self.last + Duration::from_secs(1 << more.min(6)).min(WAIT_MAX),
        }
    }
}

/// See the front page.
pub struct PasswordGate {
    file: PathBuf,
    /// Drawn at the start: a digest is of no use elsewhere.
    key: [u8; 32],
    kept: ArcSwap<Kept>,
    failures: Mutex<BTreeMap<IpAddr, Failed>>,
    failed: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

/// The file as it was read.
struct Kept {
    digest: [u8; 32],
    state: Option<(SystemTime, u64)>,
}

impl std::fmt::Debug for PasswordGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasswordGate").field("file", &self.file).finish_non_exhaustive()
    }
}

fn state(file: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// The password in a file: its text without white space around it.
fn read(file: &Path) -> Result<Vec<u8>, PasswordError> {
    let fail = |why: String| PasswordError { file: file.to_owned(), why };
    let opened = File::open(file).map_err(|why| fail(why.to_string()))?;
    let meta = opened.metadata().map_err(|why| fail(why.to_string()))?;
    if meta.is_file() && meta.mode() & OTHERS != 0 {
        let mode = meta.mode() & 0o777;
        return Err(fail(format!(
            "the password is open to other users of this machine (mode {mode:03o}): chmod 600, and \
             make a new one if they may have read it"
        )));
    }
    let mut text = Vec::new();
    let taken = opened.take(PASSWORD_BYTES_MAX + 1).read_to_end(&mut text);
    taken.map_err(|why| fail(why.to_string()))?;
    let password = text.trim_ascii().to_vec();
    match password.len() {
        _ if text.len() as u64 > PASSWORD_BYTES_MAX => {
            Err(fail(format!("a password has at most {PASSWORD_BYTES_MAX} bytes")))
        }
        bytes if bytes < PASSWORD_BYTES_MIN => Err(fail(format!(
            "the password has {bytes} bytes, and needs at least {PASSWORD_BYTES_MIN}: make one \
            with \
             `(umask 077; head -c 18 /dev/urandom | base64 > FILE)`"
        ))),
        _ => Ok(password),
    }
}

impl PasswordGate {
    /// Reads the file; `key` was drawn at random.
    ///
    /// # Errors
    /// It holds no password that can be used.
    pub fn load(file: PathBuf, key: [u8; 32]) -> Result<Self, PasswordError> {
        let state = state(&file);
        let digest = digest(&key, &read(&file)?);
        Ok(Self {
            file,
            key,
            kept: ArcSwap::from_pointee(Kept { digest, state }),
            failures: Mutex::default(),
            failed: AtomicU64::new(0),
            logged: Mutex::default(),
        })
    }

    /// Wrong passwords since the start.
    pub fn failures(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Reads the file again if it has changed.
    fn refresh(&self) {
        let state = state(&self.file);
        if state.is_none() || self.kept.load().state == state {
            return;
        }
        match read(&self.file) {
            Ok(password) => {
                let digest = digest(&self.key, &password);
                self.kept.store(std::sync::Arc::new(Kept { digest, state }));
                tracing::info!("a new password counts from now on");
            }
            Err(error) => {
                tracing::error!("the new password is not used, the old one is: {error}");
                // Said once for each change.
                let digest = self.kept.load().digest;
                self.kept.store(std::sync::Arc::new(Kept { digest, state }));
            }
        }
    }

    /// Judges a password that somebody at an address has given.
    pub fn check(&self, address: IpAddr, password: &[u8], now: Instant) -> Verdict {
        let address = counted(address);
        let mut failures = self.failures.lock();
        let known = failures.get(&address).copied();
        let known = known.filter(|failed| now.duration_since(failed.last) < FORGET);
        if let Some(until) = known.map(|failed| failed.until()).filter(|until| *until > now) {
            return Verdict::Wait(until - now);
        }
        self.refresh();
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length");
        mac.update(password);
        // Compares in constant time.
        if mac.verify_slice(&self.kept.load().digest).is_ok() {
            failures.remove(&address);
            return Verdict::Right;
        }
        if known.is_none() && failures.len() >= ADDRESSES_MAX {
            let oldest = failures.iter().min_by_key(|(_, failed)| failed.last);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                failures.remove(&oldest);
            }
        }
        let count = known.map_or(0, |failed| failed.count) + 1;
        failures.insert(address, Failed { count, last: now });
        drop(failures);
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.log(address, count, now);
        Verdict::Wrong
    }

    fn log(&self, address: IpAddr, count: u32, now: Instant) {
        let mut logged = self.logged.lock();
        if logged.is_none_or(|at| now.duration_since(at) >= LOG_EVERY) {
            *logged = Some(now);
            tracing::warn!(%address, "wrong password, the {count}. in a row from there");
        }
    }
}

impl api::http::Passwords for PasswordGate {
    fn check(&self, address: IpAddr, password: &[u8]) -> api::http::PasswordVerdict {
        match Self::check(self, address, password, Instant::now()) {
            Verdict::Right => api::http::PasswordVerdict::Right,
            Verdict::Wrong => api::http::PasswordVerdict::Wrong,
            Verdict::Wait(wait) => api::http::PasswordVerdict::Wait(wait.as_secs() + 1),
        }
    }
}

/// What counts as one address: of IPv6, what one host may choose of.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !is_loopback(IpAddr::V6(v6)) => {
            IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into())
        }
        other => other,
    }
}

fn digest(key: &[u8; 32], password: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(password);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt;

    fn file(name: &str, text: &str, mode: u32) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("carillon-password-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        let _none = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn who_guesses_waits_and_others_do_not() {
        let gate = PasswordGate::load(file("guess", "a good one\n", 0o600), [7; 32]).unwrap();
        let mut now = Instant::now();
        for _ in 0..FAILURES_FREE {
            assert_eq!(gate.check(HERE, b"wrong", now), Verdict::Wrong);
        }
        let mut waits = Vec::new();
        for _ in 0..8 {
            now += WAIT_MAX;
            assert_eq!(gate.check(HERE, b"wrong", now), Verdict::Wrong);
            let Verdict::Wait(wait) = gate.check(HERE, b"a good one", now) else { panic!() };
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(gate.check(other, b"a good one", now), Verdict::Right);
        assert_eq!(gate.check(HERE, b"a good one", now + WAIT_MAX), Verdict::Right);
        assert_eq!(gate.check(HERE, b"wrong", now + WAIT_MAX), Verdict::Wrong);
        assert_eq!(gate.failures(), 14);
    }

    #[test]
    fn failures_of_many_addresses_take_bounded_memory() {
        let gate = PasswordGate::load(file("many", "a good one\n", 0o600), [7; 32]).unwrap();
        let now = Instant::now();
        for n in 0..ADDRESSES_MAX as u32 + 5 {
            let address = IpAddr::V4(Ipv4Addr::from_bits(n));
            gate.check(address, b"wrong", now + Duration::from_nanos(n.into()));
        }
        assert_eq!(gate.failures.lock().len(), ADDRESSES_MAX);
        let one = |bits: u128| counted(IpAddr::V6(bits.into()));
        assert_eq!(one(5 << 64 | 1), one(5 << 64 | 2), "one host has all of these");
        assert_ne!(one(5 << 64), one(6 << 64));
    }

    #[test]
    fn only_its_owners_file_is_taken_and_a_new_one_counts_at_once() {
        let load = |path: &PathBuf| PasswordGate::load(path.clone(), [1; 32]);
        let text = |path: &PathBuf| load(path).unwrap_err().to_string();
        assert!(text(&file("open", "a good one", 0o644)).contains("chmod 600"));
        assert!(text(&file("short", " x \n", 0o600)).contains("at least 8"));
        assert!(text(&file("long", &"x".repeat(600), 0o600)).contains("at most 512"));
        let path = file("new", "a good one", 0o600);
        let gate = load(&path).unwrap();
        let now = Instant::now();
        assert_eq!(gate.check(HERE, b"a good one", now), Verdict::Right);
        fs::write(&path, "another good one").unwrap();
        assert_eq!(gate.check(HERE, b"a good one", now), Verdict::Wrong);
        assert_eq!(gate.check(HERE, b"another good one", now), Verdict::Right);
        fs::write(&path, "bad").unwrap();
        assert_eq!(gate.check(HERE, b"another good one", now), Verdict::Right);
        fs::remove_file(&path).unwrap();
        assert_eq!(gate.check(HERE, b"another good one", now), Verdict::Right);
    }
}
