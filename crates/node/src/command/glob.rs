//! Does a key fit a pattern? The patterns of KEYS and SCAN MATCH, as Redis reads them.
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
//! pattern; a range may be written backwards; bytes in ranges count as signed; and the empty key fits
//! only `*` and the empty pattern, not `**`.
//!
//! After a mismatch only the last `*` takes one byte more, since whatever an earlier one could take
//! the last one can too. So the work is at most key length × pattern length, never exponential.

/// Whether a key fits a pattern.
pub fn matches(pattern: &[u8], key: &[u8]) -> bool {
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
        let Some((&byte, key_rest)) = key.split_first() else {
            // Nothing is left to give to a `*`, and what stands here needs a byte.
            return pattern.is_empty();
        };
        match fit_one(pattern, byte) {
            Some(rest) => (pattern, key) = (rest, key_rest),
            None => {
                let Some((after, [_, tried @ ..])) = retry else { return false };
                retry = Some((after, tried));
                (pattern, key) = (after, tried);
            }
        }
    }
}

/// What of the pattern is left when its first part, not a `*`, fits a byte.
fn fit_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => {
            let (fits, rest) = fit_brackets(rest, byte);
            fits.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Whether a byte is among those in brackets, and what follows these.
fn fit_brackets(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (others, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        let next;
        (found, next) = match rest {
            [] => return (found != others, rest),
            [b']', rest @ ..] => return (found != others, rest),
            [b'\\', literal, rest @ ..] => (found | (*literal == byte), rest),
            [from, b'-', to, rest @ ..] => (found | in_range(*from, *to, byte), rest),
            [literal, rest @ ..] => (found | (*literal == byte), rest),
        };
        rest = next;
    }
}

fn in_range(from: u8, to: u8, byte: u8) -> bool {
    let [from, to, byte] = [from, to, byte].map(|byte| byte as i8);
    (from.min(to)..=from.max(to)).contains(&byte)
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
    fn evil_patterns_end() {
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
            (_, [byte, key @ ..]) => fit_one(pattern, *byte).is_some_and(|rest| model(rest, key)),
        }
    }

    proptest! {
        #[test]
        fn stars_mean_what_they_should(pattern in "[ab*?\\[\\]\\\\^-]{0,9}", key in "[ab*-]{1,9}") {
            let (pattern, key) = (pattern.as_bytes(), key.as_bytes());
            prop_assert_eq!(matches(pattern, key), model(pattern, key));
        }
    }
}
