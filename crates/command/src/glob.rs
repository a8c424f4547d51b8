//! Does a key fit a pattern? The patterns of KEYS, SCAN and CONFIG GET, as Redis reads them.
//!
//! | pattern | fits |
//! |---|---|
//! | `*` | any bytes, also none |
//! | `?` | any one byte |
//! | `[a-c_]`, `[^a-c]` | one byte of these; one of the others |
//! | `\x` | the byte `x`, whatever it would mean else; within brackets too |
//! | anything else | itself |
//!
//! Oddities kept because clients may rest on them: brackets that are never closed end with the
//! pattern; a range may be written backwards; bytes in ranges count as signed; and the empty key
//! fits only `*` and the empty pattern, not `**`.
//!
//! After a mismatch only the last `*` takes one byte more, since whatever an earlier one could take
//! the last one can too. So the work is at most key length × pattern length, never exponential.

/// Whether a key fits a pattern.
pub fn matches(pattern: &[u8], key: &[u8]) -> bool {
    matches_as(pattern, key, |byte| byte)
}

/// Whether a word matches a pattern; upper and lower case of ASCII count as the same.
pub fn matches_nocase(pattern: &[u8], word: &[u8]) -> bool {
    matches_as(pattern, word, |byte| byte.to_ascii_lowercase())
}

/// As [`matches`], where bytes are equal if `fold` makes them so.
fn matches_as(pattern: &[u8], key: &[u8], fold: impl Fn(u8) -> u8 + Copy) -> bool {
    if pattern == b"*" || key.is_empty() {
        return pattern == b"*" || pattern.is_empty();
    }
    let (mut pattern, mut key) = (pattern, key);
    // Pattern after the last `*`, and the key from where it was tried last.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            if rest.is_empty() {
                return true;
            }
            retry = Some((rest, key));
            pattern = rest;
            continue;
        }
        let fits = match key.split_first() {
            Some((&byte, key_rest)) => fit_one(pattern, byte, fold).map(|rest| (rest, key_rest)),
            None if pattern.is_empty() => return true,
            // A `*` that took more would leave even less to the rest of the pattern.
            None => return false,
        };
        match (fits, retry) {
            (Some(rests), _) => (pattern, key) = rests,
            (None, Some((after, [_, tried @ ..]))) => {
                retry = Some((after, tried));
                (pattern, key) = (after, tried);
            }
            (None, _) => return false,
        }
    }
}

/// What of the pattern is left when its first part, not a `*`, fits a byte.
fn fit_one(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8 + Copy) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => {
            let (fits, rest) = fit_brackets(rest, byte, fold);
            fits.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            (fold(*literal) == fold(byte)).then_some(rest)
        }
    }
}

/// Whether a byte is among those in brackets, and what follows these.
fn fit_brackets(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8 + Copy) -> (bool, &[u8]) {
    let (others, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let is = |literal: u8| fold(literal) == fold(byte);
    let in_range = |from: u8, to: u8| {
        let (from, to) = (from as i8, to as i8);
        let [low, high] = [from.min(to), from.max(to)].map(|end| fold(end as u8) as i8);
        (low..=high).contains(&(fold(byte) as i8))
    };
    let mut found = false;
    loop {
        let next;
        (found, next) = match rest {
            [] => return (found != others, rest),
            [b']', rest @ ..] => return (found != others, rest),
            [b'\\', literal, rest @ ..] => (found | is(*literal), rest),
            [from, b'-', to, rest @ ..] => (found | in_range(*from, *to), rest),
            [literal, rest @ ..] => (found | is(*literal), rest),
        };
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_by_example() {
        for (pattern, fit, others) in [
            ("*", &["", "a", "abc"][..], &[][..]),
            ("", &[""], &["a"]),
            ("**", &["a", "ab"], &[""]),
            ("a*", &["a", "ab"], &["", "ba"]),
            ("*a", &["a", "ba", "aa", "aba"], &["ab"]),
            ("a*b*c", &["abc", "axbxc", "abcbc"], &["abcx", "acb"]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("?*", &["x", "xy"], &[""]),
            ("*?", &["x", "xy"], &[""]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo", "h[llo"]),
            ("h[^e]llo", &["hallo"], &["hello", "hllo"]),
            ("[a-c]", &["a", "b", "c"], &["d", "-", "ab"]),
            ("[c-a]", &["b"], &["d"]),
            ("[a-]", &["a", "]", "^"], &["-", "b"]),
            ("[]", &[], &["", "a", "]"]),
            ("[^]", &["a", "]"], &["", "aa"]),
            ("[", &[], &["[", "a"]),
            ("[^", &["a", "["], &["aa"]),
            ("[ab", &["a", "b"], &["c", "ab"]),
            ("[a-", &["a", "-"], &["b"]),
            ("[\\]]", &["]"], &["\\", "a"]),
            ("[\\", &["\\"], &["a"]),
            ("[a-\\]]", &["a]", "_]"], &["\\", "]", "a"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("\\", &["\\"], &["a"]),
            ("a\\", &["a\\"], &["a"]),
        ] {
            for key in fit {
                assert!(matches(pattern.as_bytes(), key.as_bytes()), "{pattern} fits {key}");
            }
            for key in others {
                assert!(
                    !matches(pattern.as_bytes(), key.as_bytes()),
                    "{pattern} does not fit {key}"
                );
            }
        }
        assert!(matches(b"[a-\xff]", b"\0") && !matches(b"[a-\xff]", b"\xfe"), "signed");
    }

    #[test]
    fn case_may_be_ignored() {
        assert!(matches_nocase(b"MAX*", b"maxmemory") && matches_nocase(b"max*", b"MAXMEMORY"));
        assert!(matches_nocase(b"[A-C]x", b"bX") && !matches_nocase(b"[A-C]", b"d"));
        assert!(!matches(b"MAX*", b"maxmemory"));
    }

    #[test]
    fn adversarial_glob_patterns_terminate() {
        let (pattern, key) = ("a*".repeat(50) + "b", "a".repeat(10_000));
        assert!(!matches(pattern.as_bytes(), key.as_bytes()));
        assert!(matches(&pattern.as_bytes()[..99], key.as_bytes()));
    }

    /// The plain definition, which may take exponential time.
    fn model(pattern: &[u8], key: &[u8]) -> bool {
        match (pattern, key) {
            ([b'*', rest @ ..], _) => (0..=key.len()).any(|taken| model(rest, &key[taken..])),
            ([], _) => key.is_empty(),
            (_, []) => false,
            (_, [byte, key @ ..]) => {
                fit_one(pattern, *byte, |byte| byte).is_some_and(|rest| model(rest, key))
            }
        }
    }

    proptest! {
        #[test]
        fn patterns_agree_with_model(pattern in "[ab*?\\[\\]\\\\^-]{0,9}", key in "[ab*-]{1,9}") {
            let (pattern, key) = (pattern.as_bytes(), key.as_bytes());
            prop_assert_eq!(matches(pattern, key), model(pattern, key));
        }
    }
}
