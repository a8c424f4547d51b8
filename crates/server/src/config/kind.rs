//! Kinds of settings: each parses a setting's text into a value, and bounds it.
//!
//! One parser per kind serves the command line, the environment and the file, so that
//! `--memory-max 2GiB`, `CARILLON_MEMORY_MAX=2GiB` and `memory_max = "2GiB"` cannot differ.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use gateway::nbd::TlsOffer;

/// How a TOML file may write a value, beside as a string, which every kind takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toml {
    /// Only as a string.
    Text,
    /// Also as a whole number.
    Number,
    /// Also as `true` or `false`.
    Switch,
}

/// A kind of value.
pub trait Kind {
    /// What it becomes.
    type Value;
    /// How TOML may write it.
    const TOML: Toml;
    /// Parses a value. The error names what is accepted (it follows the word "expected").
    ///
    /// # Errors
    /// The words.
    fn parse(&self, text: &str) -> Result<Self::Value, String>;
    /// What is accepted, in words; the same that [`Kind::parse`] complains with.
    fn accepts(&self) -> String;
}

/// Any text on one line of at most so many bytes.
pub struct Text(pub usize);

impl Kind for Text {
    type Value = String;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<String, String> {
        let fits = text.len() <= self.0 && !text.chars().any(char::is_control);
        if fits { Ok(text.to_owned()) } else { Err(self.accepts()) }
    }

    fn accepts(&self) -> String {
        format!("text on one line, at most {} bytes", self.0)
    }
}

/// A path that is not empty.
pub struct Path;

impl Kind for Path {
    type Value = PathBuf;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<PathBuf, String> {
        if text.is_empty() || text.contains('\0') { Err(self.accepts()) } else { Ok(text.into()) }
    }

    fn accepts(&self) -> String {
        "a path".into()
    }
}

/// `true` or `false`.
pub struct Switch;

impl Kind for Switch {
    type Value = bool;
    const TOML: Toml = Toml::Switch;

    fn parse(&self, text: &str) -> Result<bool, String> {
        match text {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(self.accepts()),
        }
    }

    fn accepts(&self) -> String {
        "true or false".into()
    }
}

/// A whole number within bounds.
pub struct Number(pub RangeInclusive<u64>);

impl Kind for Number {
    type Value = u64;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<u64, String> {
        text.parse().ok().filter(|n| self.0.contains(n)).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        format!("a number from {} to {}", self.0.start(), self.0.end())
    }
}

const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// Bytes within bounds: a number with an optional unit. `KiB`, `MiB`, `GiB`, `TiB` (and `K`, `M`,
/// `G`, `T`) count by 1024; `kb`, `mb`, `gb`, `tb` by 1000; case does not matter.
pub struct Size(pub RangeInclusive<u64>);

impl Kind for Size {
    type Value = u64;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<u64, String> {
        number_with_unit(text, SIZE_UNITS)
            .filter(|n| self.0.contains(n))
            .ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        let (low, high) = (size_text(*self.0.start()), size_text(*self.0.end()));
        format!("a size such as 4096, 64KiB, 512MiB or 2GB, from {low} to {high}")
    }
}

/// Bytes, written as a [`Size`] within bounds, and in what; `off` or 0: as many as there can be.
pub struct Bytes(pub RangeInclusive<u64>, pub &'static str);

impl Kind for Bytes {
    type Value = Option<NonZeroU64>;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<Option<NonZeroU64>, String> {
        if matches!(text, "off" | "0") {
            return Ok(None);
        }
        let rate = Size(self.0.clone()).parse(text).ok().and_then(NonZeroU64::new);
        rate.map(Some).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        let (low, high) = (size_text(*self.0.start()), size_text(*self.0.end()));
        format!("bytes{} such as 64MiB or 10MB, from {low} to {high}, or off", self.1)
    }
}

/// A count within bounds, with its unit; `off` or 0: no limit.
pub struct Limit(pub RangeInclusive<u64>, pub &'static str);

impl Kind for Limit {
    type Value = Option<NonZeroU64>;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<Option<NonZeroU64>, String> {
        if matches!(text, "off" | "0") {
            return Ok(None);
        }
        let rate = Number(self.0.clone()).parse(text).ok().and_then(NonZeroU64::new);
        rate.map(Some).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        format!("a number{} from {} to {}, or off", self.1, self.0.start(), self.0.end())
    }
}

const TIME_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Milliseconds within bounds: a number with an optional unit `ms`, `s`, `m`, `h` or `d`.
pub struct Millis(pub RangeInclusive<u64>);

impl Kind for Millis {
    type Value = u64;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<u64, String> {
        number_with_unit(text, TIME_UNITS)
            .filter(|n| self.0.contains(n))
            .ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        let (low, high) = (time_text(*self.0.start()), time_text(*self.0.end()));
        format!("a time in milliseconds or such as 250ms, 10s, 5m, 1h, 7d, from {low} to {high}")
    }
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = text[digits..].trim_start().to_ascii_lowercase();
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// A size as a person writes it, exact: `64KiB`, `1500`.
pub fn size_text(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(factor, _)| bytes >= *factor && bytes.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

fn time_text(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(factor, _)| millis >= *factor && millis.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", millis / factor),
        None => millis.to_string(),
    }
}

/// Where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// At this address; port 0 lets the system choose.
    On(SocketAddr),
}

impl Listen {
    /// The address, if it listens at all.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Listen::Off => None,
            Listen::On(address) => Some(address),
        }
    }
}

/// `IP:PORT`, `localhost:PORT` or `off`. Other names are refused: their addresses could change
/// between two starts, and so expose the node to others.
pub struct Address;

impl Kind for Address {
    type Value = Listen;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<Listen, String> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
            return Ok(Listen::On((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse().map(Listen::On).map_err(|_| self.accepts())
    }

    fn accepts(&self) -> String {
        "an address such as 127.0.0.1:7480 or [::1]:7480, or off".into()
    }
}

/// How much memory data may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMax {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of what the machine, or the cgroup, has.
    Percent(u8),
}

impl MemoryMax {
    /// In bytes, of a machine or cgroup with `total_bytes`.
    pub fn bytes(self, total_bytes: u64) -> u64 {
        match self {
            MemoryMax::Bytes(bytes) => bytes,
            MemoryMax::Percent(percent) => total_bytes / 100 * u64::from(percent),
        }
    }
}

/// A size of at least 16 MiB, or a share of the memory there is as `1%` to `95%`.
pub struct Memory;

impl Memory {
    const BYTES: Size = Size(16 << 20..=1 << 50);
}

impl Kind for Memory {
    type Value = MemoryMax;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<MemoryMax, String> {
        let value = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim_end()
                .parse()
                .ok()
                .filter(|percent| (1..=95).contains(percent))
                .map(MemoryMax::Percent),
            None => Self::BYTES.parse(text).ok().map(MemoryMax::Bytes),
        };
        value.ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        "a size of at least 16MiB such as 512MiB or 4GiB, or a share such as 60%".into()
    }
}

/// One of a few words.
pub struct OneOf<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy> Kind for OneOf<T> {
    type Value = T;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<T, String> {
        let found = self.0.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| *word).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }
}

/// Whether clients of volumes may or must begin TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NbdTls {
    /// It is not offered.
    Off,
    /// Who asks for it gets it.
    On,
    /// Nothing else is done for who has not begun it.
    Required,
}

impl NbdTls {
    /// What a client is offered.
    pub fn offer(self) -> TlsOffer {
        match self {
            NbdTls::Off => TlsOffer::None,
            NbdTls::On => TlsOffer::Optional,
            NbdTls::Required => TlsOffer::Required,
        }
    }
}
