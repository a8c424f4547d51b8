//! Erlang terms as text: keys and values of command files, with their types.
//!
//! ```text
//!   term    = atom | integer | float | string | binary | list | tuple
//!   atom    = letter { letter | digit | _ | @ }         the first letter is a small one
//!           | ' { character } '
//!   integer = [ - | + ] digit { digit }
//!   float   = integer . digit { digit } [ (e | E) integer ]
//!   string  = " { character } "
//!   binary  = << >> | << string >> | << byte { , byte } >>
//!   list    = [ ] | [ term { , term } ]
//!   tuple   = { } | { term { , term } }
//! ```
//!
//! In quotes, a backslash takes away the meaning of the character behind it; `\n`, `\r`, `\t`, `\s`
//! (a blank) and `\xHH` (a character below 256) are as in Erlang. A string is no list here: it was
//! written as text, and is printed so.

use std::fmt;

/// Terms that lie within each other.
const DEPTH_MAX: usize = 64;

/// A term. Its text is what is stored: so a value keeps its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `foo`, `'two words'`.
    Atom(String),
    /// `-17`, as its digits.
    Integer(String),
    /// `1.5e3`, as it was written.
    Float(String),
    /// `"text"`.
    Text(String),
    /// `<<"bytes">>`, `<<255,0>>`.
    Binary(Vec<u8>),
    /// `[1,2]`.
    List(Vec<Term>),
    /// `{a,1}`.
    Tuple(Vec<Term>),
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What was expected.
    pub why: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.why)
    }
}

fn is_plain_atom(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(is_word)
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '@')
}

fn quoted(text: &str, quote: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{quote}")?;
    for character in text.chars() {
        match character {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote || c == '\\' => write!(f, "\\{c}")?,
            c if c.is_control() && (c as u32) < 256 => write!(f, "\\x{:02x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    write!(f, "{quote}")
}

fn list(items: &[Term], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            f.write_str(",")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Atom(text) if is_plain_atom(text) => f.write_str(text),
            Term::Atom(text) => quoted(text, '\'', f),
            Term::Integer(text) | Term::Float(text) => f.write_str(text),
            Term::Text(text) => quoted(text, '"', f),
            Term::Binary(bytes) => {
                f.write_str("<<")?;
                match std::str::from_utf8(bytes) {
                    Ok(text) if !text.is_empty() && !text.contains(char::is_control) => {
                        quoted(text, '"', f)?;
                    }
                    _ => {
                        let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
                        f.write_str(&bytes.join(","))?;
                    }
                }
                f.write_str(">>")
            }
            Term::List(items) => {
                f.write_str("[")?;
                list(items, f)?;
                f.write_str("]")
            }
            Term::Tuple(items) => {
                f.write_str("{")?;
                list(items, f)?;
                f.write_str("}")
            }
        }
    }
}

impl Term {
    /// The term that some bytes stand for: that which is stored as these bytes; what no command
    /// file has written is a binary.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let term = std::str::from_utf8(bytes).ok().and_then(|text| {
            let mut parser = Parser::new(text);
            let term = parser.term().ok()?;
            (parser.rest().is_empty() && term.to_string() == text).then_some(term)
        });
        term.unwrap_or_else(|| Term::Binary(bytes.to_vec()))
    }

    /// The bytes that stand for it as a key or value. A binary stands for itself, unless it would
    /// be read as another term.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Term::Binary(bytes) if Term::of_bytes(bytes) == *self => bytes.clone(),
            other => other.to_string().into_bytes(),
        }
    }
}

/// Reads terms from a text.
pub struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    /// At the beginning of a text.
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Where it is, in bytes.
    pub fn place(&self) -> usize {
        self.at
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Goes over a character, if it is the next.
    pub fn takes(&mut self, character: char) -> bool {
        let is_next = self.peek() == Some(character);
        if is_next {
            self.at += character.len_utf8();
        }
        is_next
    }

    /// Goes over blanks and comments; over ends of lines, too, if `lines`.
    pub fn skip_blanks(&mut self, lines: bool) {
        while let Some(next) = self.peek() {
            match next {
                '%' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                '\n' if !lines => return,
                c if c.is_whitespace() => self.at += c.len_utf8(),
                _ => return,
            }
        }
    }

    /// What is wrong here.
    pub fn error(&self, why: impl Into<String>) -> SyntaxError {
        self.error_at(self.at, why)
    }

    /// What is wrong at a place.
    pub fn error_at(&self, at: usize, why: impl Into<String>) -> SyntaxError {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let begin = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[begin..].chars().count() + 1;
        SyntaxError { line, column, why: why.into() }
    }

    /// That something else was expected here.
    pub fn expected(&self, what: &str) -> SyntaxError {
        let found = match self.peek() {
            None => "the file ends".to_owned(),
            Some('\n') => "the line ends".to_owned(),
            Some(other) => format!("'{}' stands", other.escape_debug()),
        };
        self.error(format!("expected {what}, and {found} here"))
    }

    /// A word of letters, digits, `_` and `@`; empty if none stands here.
    pub fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A term.
    pub fn term(&mut self) -> Result<Term, SyntaxError> {
        let begin = self.at;
        match self.peek() {
            Some('\'') => Ok(Term::Atom(self.quoted('\'')?)),
            Some('"') => Ok(Term::Text(self.quoted('"')?)),
            Some('[') => Ok(Term::List(self.items('[', ']')?)),
            Some('{') => Ok(Term::Tuple(self.items('{', '}')?)),
            Some('<') => self.binary(),
            Some('-' | '+' | '0'..='9') => self.number(),
            Some('a'..='z') => Ok(Term::Atom(self.word().to_owned())),
            Some('A'..='Z' | '_') => {
                let name = self.word();
                let why = format!("{name} is a variable, and has no value here; write '{name}'");
                Err(self.error_at(begin, why))
            }
            _ => Err(self.expected("a term")),
        }
    }

    fn items(&mut self, open: char, close: char) -> Result<Vec<Term>, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(format!("more than {DEPTH_MAX} terms within each other")));
        }
        let mut items = Vec::new();
        self.takes(open);
        self.skip_blanks(true);
        while !self.takes(close) {
            if !items.is_empty() {
                if !self.takes(',') {
                    return Err(self.expected(&format!("',' or '{close}'")));
                }
                self.skip_blanks(true);
            }
            items.push(self.term()?);
            self.skip_blanks(true);
        }
        self.depth -= 1;
        Ok(items)
    }

    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let begin = self.at;
        self.takes(quote);
        let mut text = String::new();
        loop {
            match self.peek() {
                None => return Err(self.error_at(begin, format!("this {quote} is never closed"))),
                Some(c) if c == quote => {
                    self.takes(c);
                    return Ok(text);
                }
                Some('\\') => {
                    self.takes('\\');
                    text.push(self.escaped()?);
                }
                Some(c) => {
                    self.takes(c);
                    text.push(c);
                }
            }
        }
    }

    /// The character that stands behind a backslash.
    fn escaped(&mut self) -> Result<char, SyntaxError> {
        let Some(next) = self.peek() else { return Err(self.expected("a character")) };
        if next == 'x' {
            let digits = self.rest().get(1..3);
            let digits = digits.filter(|d| d.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let code =
                code.ok_or_else(|| self.error("expected two hexadecimal digits behind \\x"))?;
            self.at += 3;
            return Ok(char::from(code));
        }
        self.takes(next);
        Ok(match next {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            's' => ' ',
            other => other,
        })
    }

    fn binary(&mut self) -> Result<Term, SyntaxError> {
        let begin = self.at;
        if !self.rest().starts_with("<<") {
            return Err(self.expected("a term"));
        }
        self.at += 2;
        self.skip_blanks(true);
        let bytes = match self.peek() {
            Some('"') => self.quoted('"')?.into_bytes(),
            _ => {
                let mut bytes = Vec::new();
                while self.peek() != Some('>') {
                    if !bytes.is_empty() {
                        if !self.takes(',') {
                            return Err(self.expected("',' or '>>'"));
                        }
                        self.skip_blanks(true);
                    }
                    let at = self.at;
                    let byte = match self.number()? {
                        Term::Integer(digits) => digits.parse().ok(),
                        _ => None,
                    };
                    let byte = byte.ok_or_else(|| self.error_at(at, "expected a byte, 0 to 255"));
                    bytes.push(byte?);
                    self.skip_blanks(true);
                }
                bytes
            }
        };
        self.skip_blanks(true);
        if !self.rest().starts_with(">>") {
            return Err(self.error_at(begin, "this << is never closed"));
        }
        self.at += 2;
        Ok(Term::Binary(bytes))
    }

    fn digits(&mut self) -> Result<&'t str, SyntaxError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected("a digit"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn number(&mut self) -> Result<Term, SyntaxError> {
        let begin = self.at;
        let is_negative = self.takes('-');
        if !is_negative {
            self.takes('+');
        }
        let whole = self.digits()?;
        let has_fraction = self
            .rest()
            .strip_prefix('.')
            .is_some_and(|behind| behind.starts_with(|first: char| first.is_ascii_digit()));
        if has_fraction {
            self.takes('.');
            self.digits()?;
            if self.takes('e') || self.takes('E') {
                let _is_signed = self.takes('-') || self.takes('+');
                self.digits()?;
            }
        }
        // `12ab` is neither a number nor an atom.
        if self.peek().is_some_and(is_word) {
            return Err(self.expected("the end of the number"));
        }
        if has_fraction {
            return Ok(Term::Float(self.text[begin..self.at].trim_start_matches('+').to_owned()));
        }
        let digits = match whole.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let sign = if is_negative && digits != "0" { "-" } else { "" };
        Ok(Term::Integer(format!("{sign}{digits}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Term, SyntaxError> {
        let mut parser = Parser::new(text);
        let term = parser.term()?;
        match parser.rest() {
            "" => Ok(term),
            _ => Err(parser.expected("the end")),
        }
    }

    #[test]
    fn terms_are_printed_as_they_are_read() {
        for (text, shown) in [
            ("foo", "foo"),
            ("'foo'", "foo"),
            ("'two words'", "'two words'"),
            ("'A'", "'A'"),
            ("007", "7"),
            ("-0", "0"),
            ("+1.50e-3", "1.50e-3"),
            ("[100]", "[100]"),
            ("\"d\"", "\"d\""),
            ("[ 1 , {a, \"b\\\"c\\n\"} ]", "[1,{a,\"b\\\"c\\n\"}]"),
            ("<<\"bytes\">>", "<<\"bytes\">>"),
            ("<<255, 0>>", "<<255,0>>"),
            ("<<>>", "<<>>"),
            ("{}", "{}"),
        ] {
            assert_eq!(read(text).map(|term| term.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    /// A list of numbers that are letters was printed as text by the document's store.
    #[test]
    fn stored_terms_keep_their_types() {
        let far =
            ["foo", "[100]", "\"d\"", "<<\"foo\">>", "<<\"two words\">>", "<<255>>", "1.0", "1"];
        for text in far {
            let term = read(text).unwrap();
            assert_eq!(Term::of_bytes(&term.to_bytes()), term, "{text}");
        }
        assert_eq!(read("foo").unwrap().to_bytes(), b"foo");
        assert_eq!(read("<<\"two words\">>").unwrap().to_bytes(), b"two words");
        // What another client has written is no term, or none that would be written so.
        assert_eq!(Term::of_bytes(b"Hello, World").to_string(), "<<\"Hello, World\">>");
        assert_eq!(Term::of_bytes(b"[1, 2]").to_string(), "<<\"[1, 2]\">>");
        assert_eq!(Term::of_bytes(&[0xff, 0]).to_string(), "<<255,0>>");
    }

    #[test]
    fn bad_terms_are_refused_where_they_are_bad() {
        for (text, column, why) in [
            ("", 1, "expected a term, and the file ends here"),
            ("Key", 1, "Key is a variable, and has no value here; write 'Key'"),
            ("[1,2", 5, "expected ',' or ']', and the file ends here"),
            ("[1 2]", 4, "expected ',' or ']', and '2' stands here"),
            ("\"abc", 1, "this \" is never closed"),
            ("12ab", 3, "expected the end of the number, and 'a' stands here"),
            ("<<256>>", 3, "expected a byte, 0 to 255"),
            ("<<1", 4, "expected ',' or '>>', and the file ends here"),
            ("\"\\xzz\"", 3, "expected two hexadecimal digits behind \\x"),
            ("- 1", 2, "expected a digit, and ' ' stands here"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.line, error.column, &*error.why), (1, column, why), "{text}");
        }
        let deep = "[".repeat(DEPTH_MAX + 1);
        assert!(read(&deep).unwrap_err().why.starts_with("more than 64 terms"));
    }
}
