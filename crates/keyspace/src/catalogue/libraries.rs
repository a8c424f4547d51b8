//! Libraries of functions (FUNCTION, FCALL), and how often all scripts were forgotten.
//!
//! The catalogue holds the code of each library, and what it registers: the interpreter has found
//! that out before the library was proposed. So apply judges names and sizes, and runs no code.
//!
//! ```text
//!   load "#!lua name=a …", functions f, g ──► a: f, g
//!   load "#!lua name=b …", functions G    ──► refused: function G exists
//!   restore flush [c]                     ──► c alone
//!   flush scripts                         ──► script epoch 1: every node forgets its scripts
//! ```
//!
//! All names of functions share one space. They are compared without case, as Redis does; only
//! within a library may two differ by case alone.
//!
//! # Bytes
//!
//! | thing | form |
//! |---|---|
//! | op 8 | `u8`: 1 load: replace `u8` 0 or 1, library; 2 delete: name `bytes`; 3 flush; 4 restore: `u8` 0 append, 1 replace, 2 flush, count `varint`, libraries by rising name; 5 flush scripts |
//! | library | name `bytes`, code `bytes`, count `varint`, at least 1, functions by rising name |
//! | function | name `bytes`, flags `u8`: bit 0 no writes, 1 allow out-of-memory, 2 allow stale, 3 no cluster, 4 allow cross-slot keys; description: `u8` 0, or 1 and `bytes` |
//! | in the catalogue, version 5 | script epoch `varint`, count `varint`, libraries by rising name; not both 0 |

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalogue, CatalogueError};
use crate::cluster_version::Feature;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};

/// The most bytes that all libraries may take: nodes copy the catalogue as a whole.
pub const LIBRARIES_BYTES_MAX: usize = 1 << 20;

const LOAD: u8 = 1;
const DELETE: u8 = 2;
const FLUSH: u8 = 3;
const RESTORE: u8 = 4;
const FLUSH_SCRIPTS: u8 = 5;

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: Box<str>,
    /// What it does and may do.
    pub flags: FunctionFlags,
    /// What people are told about it.
    pub description: Option<Box<[u8]>>,
}

/// What a function declares of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags(u8);

impl FunctionFlags {
    /// It only reads.
    pub const NO_WRITES: Self = Self(1);
    /// It may run while memory is full.
    pub const ALLOW_OOM: Self = Self(2);
    /// It may run on old data.
    pub const ALLOW_STALE: Self = Self(4);
    /// It does not run in a cluster.
    pub const NO_CLUSTER: Self = Self(8);
    /// Its keys may lie in several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: Self = Self(16);
    const ALL: u8 = 31;

    /// Those of these bits, in the order above; none if there are others.
    pub const fn of_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ALL == 0 { Some(Self(bits)) } else { None }
    }

    /// Those of one set and of another.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has all of these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A named piece of code, and the functions that it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its name.
    pub name: Box<str>,
    /// Its source.
    pub code: Box<[u8]>,
    /// Its functions, by rising name.
    pub functions: Vec<Function>,
}

impl Library {
    /// How many bytes it takes, as [`LIBRARIES_BYTES_MAX`] counts.
    pub fn bytes(&self) -> usize {
        let described = |function: &Function| function.description.as_ref().map_or(0, |d| d.len());
        let functions = self.functions.iter().map(|f| f.name.len() + described(f) + 4);
        self.name.len() + self.code.len() + functions.sum::<usize>()
    }

    /// Its function of this name; one that differs by case if there is no other.
    pub fn function(&self, name: &str) -> Option<&Function> {
        let exact = self.functions.iter().find(|function| *function.name == *name);
        exact.or_else(|| self.functions.iter().find(|f| f.name.eq_ignore_ascii_case(name)))
    }
}

/// All libraries, and how often all scripts were forgotten. Cheap to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    by_name: Arc<BTreeMap<Box<str>, Arc<Library>>>,
    /// By their functions' names, in lower case.
    by_function: Arc<BTreeMap<Box<str>, Arc<Library>>>,
    script_epoch: u64,
}

impl Libraries {
    /// The library of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// All libraries, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How often all scripts were forgotten.
    pub fn script_epoch(&self) -> u64 {
        self.script_epoch
    }

    /// The function of a name, and its library.
    pub fn function(&self, name: &str) -> Option<(&Arc<Library>, &Function)> {
        let library = self.by_function.get(&*name.to_ascii_lowercase())?;
        Some((library, library.function(name)?))
    }

    /// How many bytes all libraries take.
    pub fn bytes(&self) -> usize {
        self.iter().map(|library| library.bytes()).sum()
    }

    /// Whether the catalogue says nothing of libraries and scripts.
    fn says_nothing(&self) -> bool {
        self.is_empty() && self.script_epoch == 0
    }

    fn add(&mut self, library: &Library) -> Result<(), CatalogueError> {
        if self.by_name.contains_key(&library.name) {
            return Err(CatalogueError::LibraryExists { name: library.name.clone() });
        }
        let library = Arc::new(library.clone());
        let by_function = Arc::make_mut(&mut self.by_function);
        for function in &library.functions {
            let name = function.name.to_ascii_lowercase().into_boxed_str();
            let before = by_function.insert(name, library.clone());
            if before.is_some_and(|before| before.name != library.name) {
                return Err(CatalogueError::FunctionExists { name: function.name.clone() });
            }
        }
        Arc::make_mut(&mut self.by_name).insert(library.name.clone(), library);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), CatalogueError> {
        let removed = Arc::make_mut(&mut self.by_name).remove(name);
        let library = removed.ok_or_else(|| CatalogueError::NoLibrary { name: name.into() })?;
        let by_function = Arc::make_mut(&mut self.by_function);
        for function in &library.functions {
            by_function.remove(&*function.name.to_ascii_lowercase());
        }
        Ok(())
    }

    /// None, at the same script epoch.
    fn emptied(&self) -> Self {
        Self { script_epoch: self.script_epoch, ..Self::default() }
    }

    /// What a change makes of them.
    ///
    /// # Errors
    /// `LibraryExists`, `FunctionExists`, `NoLibrary`, `LibrariesTooLarge`.
    pub fn changed(&self, op: &LibraryOp<'_>) -> Result<Self, CatalogueError> {
        let mut changed = self.clone();
        match op {
            LibraryOp::Load { library, replace } => {
                if *replace && changed.get(&library.name).is_some() {
                    changed.remove(&library.name)?;
                }
                changed.add(library)?;
            }
            LibraryOp::Delete { name } => changed.remove(name)?,
            LibraryOp::Flush => changed = changed.emptied(),
            LibraryOp::Restore { policy, libraries } => {
                if *policy == RestorePolicy::Flush {
                    changed = changed.emptied();
                }
                // First all that make room for names of functions.
                let replaced = libraries.iter().filter(|_| *policy == RestorePolicy::Replace);
                for library in replaced {
                    if changed.get(&library.name).is_some() {
                        changed.remove(&library.name)?;
                    }
                }
                libraries.iter().try_for_each(|library| changed.add(library))?;
            }
            LibraryOp::FlushScripts => changed.script_epoch += 1,
        }
        let bytes = changed.bytes();
        if bytes > LIBRARIES_BYTES_MAX && bytes > self.bytes() {
            return Err(CatalogueError::LibrariesTooLarge { bytes: bytes as u64 });
        }
        Ok(changed)
    }
}

/// What becomes of libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// They stay, and none is replaced.
    Append,
    /// Those of the same names are replaced.
    Replace,
    /// All are deleted.
    Flush,
}

/// A change of the libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryOp<'a> {
    /// Creates a library.
    Load {
        /// Which.
        library: Library,
        /// Whether it may take the place of one of its name.
        replace: bool,
    },
    /// Deletes a library.
    Delete {
        /// Its name.
        name: &'a str,
    },
    /// Deletes all.
    Flush,
    /// Creates several, or none if one is refused.
    Restore {
        /// What becomes of those that are there.
        policy: RestorePolicy,
        /// By rising name.
        libraries: Vec<Library>,
    },
    /// Has all nodes forget their scripts.
    FlushScripts,
}

impl Catalogue {
    /// The libraries.
    pub fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// Changes the libraries.
    ///
    /// # Errors
    /// `VersionTooLow`, `LibraryExists`, `FunctionExists`, `NoLibrary`, `LibrariesTooLarge`.
    pub fn apply_library(&mut self, op: &LibraryOp<'_>) -> Result<(), CatalogueError> {
        let needs = Feature::Functions.since();
        if self.cluster_version < needs {
            return Err(CatalogueError::VersionTooLow { version: self.cluster_version, needs });
        }
        self.libraries = self.libraries.changed(op)?;
        Ok(())
    }
}

impl<'a> LibraryOp<'a> {
    /// Whether it may be proposed: what is too large whatever the catalogue has need not be in a
    /// log.
    ///
    /// # Errors
    /// `LibrariesTooLarge`.
    pub fn check_proposal(&self) -> Result<(), CatalogueError> {
        let bytes = match self {
            LibraryOp::Load { library, .. } => library.bytes(),
            LibraryOp::Restore { libraries, .. } => libraries.iter().map(Library::bytes).sum(),
            LibraryOp::Delete { .. } | LibraryOp::Flush | LibraryOp::FlushScripts => 0,
        };
        match bytes > LIBRARIES_BYTES_MAX {
            true => Err(CatalogueError::LibrariesTooLarge { bytes: bytes as u64 }),
            false => Ok(()),
        }
    }

    /// Appends its bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            LibraryOp::Load { library, replace } => {
                out.extend([LOAD, u8::from(*replace)]);
                library.encode(out);
            }
            LibraryOp::Delete { name } => {
                out.push(DELETE);
                put_bytes(name.as_bytes(), out);
            }
            LibraryOp::Flush => out.push(FLUSH),
            LibraryOp::Restore { policy, libraries } => {
                let policy = match policy {
                    RestorePolicy::Append => 0,
                    RestorePolicy::Replace => 1,
                    RestorePolicy::Flush => 2,
                };
                out.extend([RESTORE, policy]);
                put_varint(libraries.len() as u64, out);
                libraries.iter().for_each(|library| library.encode(out));
            }
            LibraryOp::FlushScripts => out.push(FLUSH_SCRIPTS),
        }
    }

    /// Reads one value from the front of the reader.
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            LOAD => {
                let replace = read_flag(reader, "replace")?;
                Ok(LibraryOp::Load { replace, library: Library::decode(reader)? })
            }
            DELETE => Ok(LibraryOp::Delete { name: super::codec::read_name(reader)? }),
            FLUSH => Ok(LibraryOp::Flush),
            RESTORE => {
                let policy = match reader.u8()? {
                    0 => RestorePolicy::Append,
                    1 => RestorePolicy::Replace,
                    2 => RestorePolicy::Flush,
                    found => return Err(DecodeError::Tag { what: "restore policy", found }),
                };
                Ok(LibraryOp::Restore { policy, libraries: read_libraries(reader)? })
            }
            FLUSH_SCRIPTS => Ok(LibraryOp::FlushScripts),
            found => Err(DecodeError::Tag { what: "library op", found }),
        }
    }
}

impl Libraries {
    /// Whether the catalogue's bytes must have them.
    pub(super) fn is_encoded(&self) -> bool {
        !self.says_nothing()
    }

    /// Appends their bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(self.script_epoch, out);
        put_varint(self.len() as u64, out);
        self.iter().for_each(|library| library.encode(out));
    }

    /// Reads them from the front of the reader.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut all = Self { script_epoch: reader.varint()?, ..Self::default() };
        for library in read_libraries(reader)? {
            let added = all.add(&library);
            added.map_err(|_| DecodeError::Field { what: "libraries: a function of two" })?;
        }
        match all.says_nothing() {
            true => Err(DecodeError::Field { what: "libraries: none, at script epoch 0" }),
            false => Ok(all),
        }
    }
}

impl Library {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(self.name.as_bytes(), out);
        put_bytes(&self.code, out);
        put_varint(self.functions.len() as u64, out);
        for Function { name, flags, description } in &self.functions {
            put_bytes(name.as_bytes(), out);
            out.extend([flags.0, u8::from(description.is_some())]);
            description.iter().for_each(|description| put_bytes(description, out));
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = read_script_name(reader)?;
        let code = reader.bytes()?.into();
        let count = reader.varint_max(LIBRARIES_BYTES_MAX as u64, "count of functions")?;
        let mut functions: Vec<Function> = Vec::new();
        for _ in 0..count {
            let name = read_script_name(reader)?;
            if functions.last().is_some_and(|last| last.name >= name) {
                return Err(DecodeError::Field { what: "functions: not by rising name" });
            }
            let bits = reader.u8()?;
            let bad = DecodeError::Tag { what: "flags of a function", found: bits };
            let flags = FunctionFlags::of_bits(bits).ok_or(bad)?;
            let description = match read_flag(reader, "description")? {
                true => Some(reader.bytes()?.into()),
                false => None,
            };
            functions.push(Function { name, flags, description });
        }
        match functions.is_empty() {
            true => Err(DecodeError::Field { what: "functions: none" }),
            false => Ok(Self { name, code, functions }),
        }
    }
}

fn read_libraries(reader: &mut Reader<'_>) -> Result<Vec<Library>, DecodeError> {
    let count = reader.varint_max(LIBRARIES_BYTES_MAX as u64, "count of libraries")?;
    let mut libraries: Vec<Library> = Vec::new();
    for _ in 0..count {
        let library = Library::decode(reader)?;
        if libraries.last().is_some_and(|last| last.name >= library.name) {
            return Err(DecodeError::Field { what: "libraries: not by rising name" });
        }
        libraries.push(library);
    }
    Ok(libraries)
}

/// Whether a library or a function may have this name.
pub fn is_script_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn read_script_name(reader: &mut Reader<'_>) -> Result<Box<str>, DecodeError> {
    let name = super::codec::read_name(reader)?;
    match is_script_name(name) {
        true => Ok(name.into()),
        false => Err(DecodeError::Field { what: "name of a library or function" }),
    }
}

fn read_flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(DecodeError::Tag { what, found }),
    }
}
