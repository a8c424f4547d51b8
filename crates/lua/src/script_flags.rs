//! The first line of a script, `#!lua flags=no-writes,allow-stale`.

/// What a script or function says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScriptFlags {
    /// Does it have a line of flags at all? Scripts without one are treated as Redis always has.
    pub has_shebang: bool,
    /// `no-writes`.
    pub no_writes: bool,
    /// `allow-oom`.
    pub allow_oom: bool,
    /// `allow-stale`.
    pub allow_stale: bool,
    /// `no-cluster`.
    pub no_cluster: bool,
    /// `allow-cross-slot-keys`.
    pub allow_cross_slot_keys: bool,
}

impl ScriptFlags {
    /// The names, in the order in which Redis lists them.
    pub const NAMES: [&'static str; 5] =
        ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// Sets the flag of this name; false if there is none.
    pub fn set(&mut self, name: &[u8]) -> bool {
        match name {
            b"no-writes" => self.no_writes = true,
            b"allow-oom" => self.allow_oom = true,
            b"allow-stale" => self.allow_stale = true,
            b"no-cluster" => self.no_cluster = true,
            b"allow-cross-slot-keys" => self.allow_cross_slot_keys = true,
            _ => return false,
        }
        true
    }

    /// The names of the flags that are set.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let set = [
            self.no_writes,
            self.allow_oom,
            self.allow_stale,
            self.no_cluster,
            self.allow_cross_slot_keys,
        ];
        Self::NAMES.into_iter().zip(set).filter_map(|(name, is_set)| is_set.then_some(name))
    }

    /// The flags of a script's text. The error is Redis's, with its code.
    pub fn parse(source: &[u8]) -> Result<Self, String> {
        let mut flags = Self::default();
        if !source.starts_with(b"#!") {
            return Ok(flags);
        }
        flags.has_shebang = true;
        let Some(end) = memchr::memchr(b'\n', source) else {
            return Err("ERR Invalid script shebang".to_owned());
        };
        let Some(words) = split_words(&source[..end]).filter(|words| !words.is_empty()) else {
            return Err("ERR Invalid engine in script shebang".to_owned());
        };
        if words[0] != b"#!lua" {
            let engine = String::from_utf8_lossy(&words[0]);
            return Err(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        for word in &words[1..] {
            let Some(list) = word.strip_prefix(b"flags=") else {
                let word = String::from_utf8_lossy(word);
                return Err(format!("ERR Unknown lua shebang option: {word}"));
            };
            for name in list.split(|byte| *byte == b',').filter(|_| !list.is_empty()) {
                if !flags.set(name) {
                    let name = String::from_utf8_lossy(name);
                    return Err(format!("ERR Unexpected flag in script shebang: {name}"));
                }
            }
        }
        Ok(flags)
    }
}

/// The words of a line. Words in quotes may hold blanks; in double quotes also escapes. `None` if
/// quotes are not closed, or are followed by something else than a blank.
pub(crate) fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' | b'\'' => {
                    rest = quoted(byte, rest, &mut word)?;
                    if rest.first().is_some_and(|byte| !is_blank(*byte)) {
                        return None;
                    }
                    break;
                }
                byte if is_blank(byte) || byte == 0 => break,
                byte => word.push(byte),
            }
        }
        words.push(word);
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13)
}

/// Reads up to the closing quote; returns what follows it.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match (quote, rest) {
            (_, [byte, after @ ..]) if *byte == quote => return Some(after),
            (b'"', [b'\\', b'x', high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) * 16 + digit(*low));
                rest = after;
            }
            (b'"', [b'\\', byte, after @ ..]) => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            (b'\'', [b'\\', b'\'', after @ ..]) => {
                word.push(b'\'');
                rest = after;
            }
            (_, [byte, after @ ..]) => {
                word.push(*byte);
                rest = after;
            }
            (_, []) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let flags = ScriptFlags::parse(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert_eq!(flags.names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
        assert_eq!(ScriptFlags::parse(b"return 1"), Ok(ScriptFlags::default()));
        let error = ScriptFlags::parse(b"#!lua flags=a,,b\n").unwrap_err();
        assert_eq!(error, "ERR Unexpected flag in script shebang: a");
    }

    #[test]
    fn words_may_be_quoted() {
        let words = split_words(br#" a "b c\n\x41" 'd\'e' "#).unwrap();
        assert_eq!(words, [b"a".to_vec(), b"b c\nA".to_vec(), b"d'e".to_vec()]);
        assert_eq!(split_words(b"'a"), None);
        assert_eq!(split_words(b"\"a\"b"), None);
    }
}
