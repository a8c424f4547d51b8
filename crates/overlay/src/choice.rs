//! Which lookup a request uses, and how it goes from hop to hop.
//!
//! Clients choose it: `LOOKUP chord recursive` (RESP), `?lookup=chord+recursive` (HTTP).

use std::fmt;

use crate::lookup::Kind;
use crate::request::Form;

/// The lookup, form and use of cached routes that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupChoice {
    /// By which lookup.
    pub kind: Kind,
    /// How it goes from hop to hop.
    pub form: Form,
    /// Whether nodes may also use the routes they have cached, not only the lookup's own table.
    pub cached: bool,
}

impl LookupChoice {
    /// Reads a lookup, a form, and `images` or `noimages`, in any order, each at most once. What is
    /// missing is `full`, `iterative` and `images`.
    ///
    /// # Errors
    /// What is wrong, as an error reply.
    pub fn parse<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Result<Self, String> {
        let (mut kind, mut form, mut cached) = (None, None, None);
        for word in words {
            let before = if let Some(named) = Kind::named(word) {
                kind.replace(named).map(|kind| kind.name())
            } else if let Some(named) = Form::named(word) {
                form.replace(named).map(Form::name)
            } else if word.eq_ignore_ascii_case(b"images") {
                cached.replace(true).map(images_word)
            } else if word.eq_ignore_ascii_case(b"noimages") {
                cached.replace(false).map(images_word)
            } else {
                let word = String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
                return Err(format!(
                    "ERR {word:?} is no lookup (full, chord, chord-sharp, linear, lh), form \
                     (iterative, recursive, semi-recursive), cached or noimages"
                ));
            };
            if let Some(before) = before {
                let word = String::from_utf8_lossy(word);
                return Err(format!("ERR {word:?} is one too many: {before} was named before"));
            }
        }
        let first = Self::default();
        Ok(Self {
            kind: kind.unwrap_or(first.kind),
            form: form.unwrap_or(first.form),
            cached: cached.unwrap_or(first.cached),
        })
    }

    /// As [`Self::parse`], for requests that compare lookups: all of them, unless one is named.
    ///
    /// # Errors
    /// What is wrong, as an error reply.
    pub fn parse_all(words: &[&[u8]]) -> Result<Vec<Self>, String> {
        let is_all = |word: &[u8]| word.eq_ignore_ascii_case(b"all");
        let first = Self::parse(words.iter().copied().filter(|word| !is_all(word)))?;
        let named = words.iter().find_map(|word| Kind::named(word));
        match (named, words.iter().any(|word| is_all(word))) {
            (Some(kind), true) => {
                Err(format!("ERR \"all\" is one too many: {} was named, too", kind.name()))
            }
            (Some(_), false) => Ok(vec![first]),
            (None, _) => Ok(Kind::ALL.into_iter().map(|kind| Self { kind, ..first }).collect()),
        }
    }
}

fn images_word(cached: bool) -> &'static str {
    if cached { "images" } else { "noimages" }
}

impl fmt::Display for LookupChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images = if self.cached { "" } else { " noimages" };
        write!(f, "{} {}{images}", self.kind.name(), self.form.name())
    }
}

impl Default for LookupChoice {
    fn default() -> Self {
        Self { kind: Kind::Full, form: Form::Iterative, cached: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_may_be_named_once() {
        let way = |words: &str| LookupChoice::parse(words.split(' ').map(str::as_bytes));
        let found = way("NoImages lh Recursive").unwrap();
        assert_eq!(found.to_string(), "lh recursive noimages");
        for twice in ["chord linear", "chord chord", "full recursive iterative", "noimages images"]
        {
            assert!(way(twice).is_err_and(|why| why.contains("one too many")), "{twice}");
        }
        assert!(way("all").is_err_and(|why| why.contains("is no lookup")));
        let all = |words: &str| {
            let words: Vec<_> = words.split_ascii_whitespace().map(str::as_bytes).collect();
            LookupChoice::parse_all(&words)
                .map(|ways| ways.iter().map(LookupChoice::to_string).collect::<Vec<_>>())
        };
        assert_eq!(all("linear"), Ok(vec!["linear iterative".to_owned()]));
        for words in ["", "all", "iterative ALL", "images"] {
            assert_eq!(all(words).unwrap().len(), Kind::ALL.len(), "{words:?}");
        }
        assert_eq!(all("recursive").unwrap()[1], "chord recursive");
        assert!(all("all chord").is_err() && all("alllinear").is_err());
    }
}
