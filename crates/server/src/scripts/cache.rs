//! The sources of scripts by their SHA1, those used last.
//!
//! An index by last use finds what to forget, since any client may fill the cache with scripts of
//! ten bytes.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of sources, and [`SCRIPT_BYTES`] for each | `script_cache_bytes` | those not used for longest are forgotten |
//! | bytes of one source | [`SOURCE_BYTES_MAX`] | an error |

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use command::ObservedVersion;
use gateway::resp::{Queue, ScriptName};
use lua::{ScriptFlags, Sha1Hex};
use parking_lot::Mutex;

use super::libraries::FunctionProgram;

/// What a script takes besides its source: itself, and its places in the map and the index.
pub const SCRIPT_BYTES: u64 = 320;

/// Bytes of a script's source. To compile so many takes some ten milliseconds, in which other
/// scripts of its shard wait.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;

/// A script or a function, ready to run.
#[derive(Clone, Debug)]
pub enum Program {
    /// A script.
    Script(Arc<Script>),
    /// A function of a library.
    Function(FunctionProgram),
    /// A script that is compiled, and not run (SCRIPT LOAD).
    Load(Arc<Script>),
    /// EXEC of commands among which are scripts, or which name keys of several keyspaces.
    Exec(Arc<ExecProgram>),
}

/// EXEC, or one command that needs keys of several keyspaces, as a script of its own.
#[derive(Debug)]
pub struct ExecProgram {
    /// Whether it is one command, whose reply is no list.
    pub is_alone: bool,
    /// Its commands.
    pub queue: Queue,
    /// Keys that were watched, and what they had.
    pub watched: Box<[(Box<[u8]>, ObservedVersion)]>,
}

impl Program {
    /// What its source says of it.
    pub fn flags(&self) -> ScriptFlags {
        match self {
            Program::Script(script) => script.flags,
            Program::Function(function) => function.flags,
            Program::Load(_) | Program::Exec(_) => ScriptFlags::default(),
        }
    }

    /// Bytes that it may read and write in a keyspace.
    pub fn bytes_max(&self) -> u64 {
        // A value that a shard may have locked, twice.
        if self.is_alone() { 256 << 20 } else { super::BYTES_MAX }
    }

    /// Whether it is one command, and no script.
    pub fn is_alone(&self) -> bool {
        matches!(self, Program::Exec(exec) if exec.is_alone)
    }

    /// Whether it is a function of a library.
    pub fn is_function(&self) -> bool {
        matches!(self, Program::Function(_))
    }
}

/// A script.
#[derive(Debug)]
pub struct Script {
    /// Its name.
    pub sha: Sha1Hex,
    /// Its source.
    pub source: Box<[u8]>,
    /// What its first line says of it.
    pub flags: ScriptFlags,
}

/// Why there is no such script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoScript {
    /// Nothing of this name is known here.
    Unknown(Option<Sha1Hex>),
    /// Its first line is wrong, or it is too long: the error.
    Malformed(String),
}

/// See the front page.
pub struct ScriptCache {
    all: Mutex<Sources>,
    bytes_max: u64,
}

#[derive(Default)]
struct Sources {
    scripts: HashMap<Sha1Hex, (Arc<Script>, u64)>,
    /// Each by its last use.
    by_use: BTreeMap<u64, Sha1Hex>,
    bytes: u64,
    /// Counts uses.
    clock: u64,
    /// Raised by each SCRIPT FLUSH of the cluster.
    epoch: u64,
}

impl ScriptCache {
    /// A cache for so many bytes, those of sources and `SCRIPT_BYTES` for each.
    pub fn new(bytes_max: u64) -> Self {
        Self { all: Mutex::default(), bytes_max }
    }

    /// The script that a call names. One named by its source is remembered.
    ///
    /// # Errors
    /// [`NoScript`].
    pub fn find(&self, name: ScriptName<'_>) -> Result<Program, NoScript> {
        match name {
            ScriptName::Source(source) => self.add(source).map(Program::Script),
            ScriptName::Sha(sha) => {
                let sha = Sha1Hex::parse(sha).ok_or(NoScript::Unknown(None))?;
                self.get(&sha).map(Program::Script).ok_or(NoScript::Unknown(Some(sha)))
            }
            ScriptName::Function(_) => Err(NoScript::Unknown(None)),
        }
    }

    /// The script of this SHA1.
    pub fn get(&self, sha: &Sha1Hex) -> Option<Arc<Script>> {
        self.all.lock().used(sha)
    }

    /// Remembers a script.
    ///
    /// # Errors
    /// [`NoScript::Malformed`].
    pub fn add(&self, source: &[u8]) -> Result<Arc<Script>, NoScript> {
        let (script, is_new) = self.known_or_new(source)?;
        if is_new {
            self.put(&script);
        }
        Ok(script)
    }

    /// The script of this source, which is not remembered for that.
    ///
    /// # Errors
    /// [`NoScript::Malformed`].
    pub fn of(&self, source: &[u8]) -> Result<Arc<Script>, NoScript> {
        self.known_or_new(source).map(|(script, _)| script)
    }

    fn known_or_new(&self, source: &[u8]) -> Result<(Arc<Script>, bool), NoScript> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(NoScript::Malformed(format!(
                "ERR the script has {} bytes, and at most {SOURCE_BYTES_MAX} are compiled; nothing \
                 was done. Pass data as arguments",
                source.len()
            )));
        }
        let sha = Sha1Hex::of(source);
        if let Some(script) = self.get(&sha) {
            return Ok((script, false));
        }
        let flags = ScriptFlags::parse(source).map_err(NoScript::Malformed)?;
        Ok((Arc::new(Script { sha, source: source.into(), flags }), true))
    }

    /// Remembers a script.
    pub fn put(&self, script: &Arc<Script>) {
        self.all.lock().add(script, self.bytes_max);
    }

    /// Forgets a script: it does not compile.
    pub fn forget(&self, sha: &Sha1Hex) {
        self.all.lock().forget(sha);
    }

    /// How many scripts it has, and the bytes that count towards its bound.
    pub fn size(&self) -> (usize, u64) {
        let all = self.all.lock();
        (all.scripts.len(), all.bytes)
    }

    /// How often the cluster has flushed its scripts, as far as is known here.
    pub fn epoch(&self) -> u64 {
        self.all.lock().epoch
    }

    /// The cluster has flushed its scripts so often: if that is news, forgets all.
    pub fn flushed(&self, epoch: u64) {
        let mut all = self.all.lock();
        if epoch > all.epoch {
            let before = std::mem::replace(&mut *all, Sources::of(epoch));
            drop(all);
            // They may be many: nobody waits for that.
            drop(before);
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        let mut all = self.all.lock();
        let epoch = all.epoch;
        let before = std::mem::replace(&mut *all, Sources::of(epoch));
        drop(all);
        drop(before);
    }
}

impl Sources {
    /// None, in this epoch.
    fn of(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// A script, which is used now.
    fn used(&mut self, sha: &Sha1Hex) -> Option<Arc<Script>> {
        let (script, used) = self.scripts.get_mut(sha)?;
        if *used < self.clock {
            self.by_use.remove(used);
            self.clock += 1;
            *used = self.clock;
            self.by_use.insert(self.clock, *sha);
        }
        Some(script.clone())
    }

    /// Adds a script, and forgets others for it.
    fn add(&mut self, script: &Arc<Script>, bytes_max: u64) {
        // Another thread may have added it meanwhile.
        if self.used(&script.sha).is_some() {
            return;
        }
        self.clock += 1;
        self.scripts.insert(script.sha, (script.clone(), self.clock));
        self.by_use.insert(self.clock, script.sha);
        self.bytes += bytes_of(script);
        while self.bytes > bytes_max && self.scripts.len() > 1 {
            let (_, oldest) = self.by_use.first_key_value().expect("each stands in it");
            let oldest = *oldest;
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, sha: &Sha1Hex) {
        if let Some((script, used)) = self.scripts.remove(sha) {
            self.by_use.remove(&used);
            self.bytes -= bytes_of(&script);
        }
    }
}

fn bytes_of(script: &Script) -> u64 {
    script.source.len() as u64 + SCRIPT_BYTES
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn shas(cache: &ScriptCache, sources: &[&str]) -> Vec<bool> {
        let has = |source: &&str| {
            let sha = Sha1Hex::of(source.as_bytes());
            cache.all.lock().scripts.contains_key(&sha)
        };
        sources.iter().map(has).collect()
    }

    #[test]
    fn scripts_not_used_for_longest_are_forgotten() {
        let cache = ScriptCache::new(3 * (SCRIPT_BYTES + 8));
        let all = ["return 1", "return 2", "return 3", "return 4"];
        for source in &all[..3] {
            cache.add(source.as_bytes()).unwrap();
        }
        assert!(cache.get(&Sha1Hex::of(b"return 1")).is_some());
        cache.add(b"return 4").unwrap();
        assert_eq!(shas(&cache, &all), [true, false, true, true]);
        cache.forget(&Sha1Hex::of(b"return 3"));
        assert_eq!(cache.size(), (2, 2 * (SCRIPT_BYTES + 8)));
        cache.add(b"return 2").unwrap();
        assert_eq!(shas(&cache, &all), [true, true, false, true]);
        cache.flushed(1);
        assert_eq!((cache.size(), cache.epoch()), ((0, 0), 1));
        assert!(cache.all.lock().by_use.is_empty());
    }

    #[test]
    fn too_long_a_script_is_refused() {
        let cache = ScriptCache::new(16 << 20);
        let longest = [b"return 1".as_slice(), &vec![b' '; SOURCE_BYTES_MAX - 8]].concat();
        assert!(cache.add(&longest).is_ok());
        let Err(NoScript::Malformed(text)) = cache.add(&[&longest[..], b" "].concat()) else {
            panic!("it is too long");
        };
        assert!(
            text.starts_with("ERR the script has 1048577 bytes, and at most 1048576"),
            "{text}"
        );
        assert_eq!(cache.size().0, 1);
    }

    /// Each takes more than its ten bytes, and to forget one must not take longer the more there
    /// are.
    #[test]
    fn many_small_scripts_are_bounded_and_cheap_to_forget() {
        let cache = ScriptCache::new(16 << 20);
        let add = |number: u32| _ = cache.add(format!("return {number}").as_bytes()).unwrap();
        (0..100_000).for_each(add);
        let (count, bytes) = cache.size();
        assert!(count < 60_000 && bytes <= 16 << 20, "{count} {bytes}");
        let began = Instant::now();
        (100_000..120_000).for_each(add);
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(cache.size().0, cache.all.lock().by_use.len());
    }
}
