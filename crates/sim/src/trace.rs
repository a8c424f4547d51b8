//! The events of a run, as bytes: the same for the same seed, in every process (R13).

use std::fmt;

/// The row of events of a run: always its hash, and the text if it is wanted.
pub struct Trace {
    hash: u64,
    line: String,
    text: Option<String>,
    /// Put before every line of the text.
    pub step: u32,
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: no secrets here, only differences.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

impl Trace {
    /// An empty one.
    pub fn new(keep_text: bool) -> Self {
        Self { hash: FNV_START, line: String::new(), text: keep_text.then(String::new), step: 0 }
    }

    /// One event.
    pub fn event(&mut self, what: fmt::Arguments<'_>) {
        use fmt::Write as _;
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        writeln!(line, "{:>5} {what}", self.step).expect("a String takes everything");
        self.bytes(line.as_bytes());
        if let Some(text) = &mut self.text {
            text.push_str(&line);
        }
        self.line = line;
    }

    /// Bytes that no line shows: records of the log, contents of files.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, if the trace retains them.
    pub fn into_text(self) -> Option<String> {
        self.text
    }
}
