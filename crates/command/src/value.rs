//! Which type has a key's value? The one place where a record becomes a typed value.
//!
//! A store knows bytes; commands know types. [`Value::of`] reads the type of a record, the
//! commands of a type ask for their own ([`Value::string`]) and are refused another's
//! ([`Refusal::WrongType`]). Nothing is copied.
//!
//! ```text
//!   record ──► Value::of ──► String(b"5") ──► string()? ──► INCR        strings
//!                            …another type ──► WRONGTYPE
//!   record ─────────────────────────────────────────────► DEL, EXPIRE, RENAME, COPY, TTL, EXISTS
//! ```
//!
//! # To add a type
//! A variant here, of [`ValueType`] and of [`Value`]; a module beside `strings` with what its
//! commands do and read; its commands in [`Write`](crate::Write) and [`Read`](crate::Read), which
//! [`apply`](mod@crate::apply) and [`read`](crate::read) hand to it. Where the type stands in
//! bytes, `docs/format.md` says (6.2): a record without a tag is a string.

use storage::engine::Version;

use crate::Refusal;

/// The types that values have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Bytes.
    String,
    /// A type of the tests of this crate: values that begin with [`PROBE`].
    #[cfg(test)]
    Probe,
}

impl ValueType {
    /// What TYPE calls it.
    pub const fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
            #[cfg(test)]
            ValueType::Probe => "probe",
        }
    }

    /// The type that TYPE calls so, in either case.
    pub fn named(name: &[u8]) -> Option<Self> {
        name.eq_ignore_ascii_case(b"string").then_some(ValueType::String)
    }
}

/// A value by its type, borrowed from its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Bytes.
    String(&'a [u8]),
    /// A value of the tests' type.
    #[cfg(test)]
    Probe,
}

/// What values of the tests' type begin with.
#[cfg(test)]
pub(crate) const PROBE: &[u8] = b"\xffa value of the tests' type";

impl<'a> Value<'a> {
    /// What a version has.
    #[inline]
    pub fn of(version: &Version<'a>) -> Self {
        #[cfg(test)]
        if version.value.starts_with(PROBE) {
            return Value::Probe;
        }
        Value::String(version.value)
    }

    /// Its type.
    #[inline]
    pub fn value_type(self) -> ValueType {
        match self {
            Value::String(_) => ValueType::String,
            #[cfg(test)]
            Value::Probe => ValueType::Probe,
        }
    }

    /// Its bytes, if it is a string.
    ///
    /// # Errors
    /// [`Refusal::WrongType`] if it is of another type.
    #[inline]
    pub fn string(self) -> Result<&'a [u8], Refusal> {
        match self {
            Value::String(bytes) => Ok(bytes),
            #[cfg(test)]
            Value::Probe => Err(Refusal::WrongType),
        }
    }
}

#[cfg(test)]
mod tests;
