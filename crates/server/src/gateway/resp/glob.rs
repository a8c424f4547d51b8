//! Does a text match a pattern? The globs of KEYS, SCAN and CONFIG GET, as Redis reads them.
//!
//! `*` any text, `?` any byte, `[abc]`, `[a-z]`, `[^abc]` one of or none of these, `\x` x itself.
//! A set that is not closed ends with the pattern. Matching never takes more than
//! pattern × text steps, whatever the stars.

/// Whether all of `text` matches `pattern`.
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    matches(pattern, text, false)
}

/// As [`glob_matches`], whatever the case of ASCII letters.
pub fn glob_matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    matches(pattern, text, true)
}

fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let mut p = 0;
    let mut t = 0;
    // Where to go on if what follows the last star does not match here: it takes one byte more.
    // An earlier star need not be tried again, for this one can take whatever that would.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        if t < text.len()
            && p < pattern.len()
            && let Some(len) = matches_one(&pattern[p..], text[t], nocase)
        {
            p += len;
            t += 1;
            continue;
        }
        match retry {
            Some((after_star, from)) if from < text.len() => {
                p = after_star;
                t = from + 1;
                retry = Some((after_star, t));
            }
            _ => return false,
        }
    }
}

/// If the first element of `pattern` (not empty, no star) matches `byte`: the element's length.
fn matches_one(pattern: &[u8], byte: u8, nocase: bool) -> Option<usize> {
    let fold = |byte: u8| if nocase { byte.to_ascii_lowercase() } else { byte };
    let (hit, len) = match pattern {
        [b'?', ..] => (true, 1),
        [b'[', ..] => set_contains(pattern, byte, fold),
        [b'\\', escaped, ..] => (fold(*escaped) == fold(byte), 2),
        [plain, ..] => (fold(*plain) == fold(byte), 1),
        [] => (false, 0),
    };
    hit.then_some(len)
}

/// Whether the set at the beginning of `pattern` has the byte, and the set's length.
fn set_contains(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let byte = fold(byte);
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    loop {
        match &pattern[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= fold(*escaped) == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [a, b'-', b, ..] => {
                let (low, high) = (fold(*a.min(b)), fold(*a.max(b)));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= fold(*plain) == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a*c", "ac"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("[b-a]", "b"),
            ("h\\*", "h*"),
            ("*ab*ab", "xababab"),
            ("[\\]]", "]"),
            ("[a", "a"),
            ("a\\", "a\\"),
            ("user:*:name", "user:1:2:name"),
            ("**", "x"),
            ("?", "*"),
        ];
        for (pattern, text) in yes {
            assert!(glob_matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("h[^e]llo", "hello"),
            ("a*c", "acb"),
            ("A", "a"),
            ("h\\*", "hx"),
            ("*ab", "abx"),
            ("[a-c]", "d"),
            ("[", "["),
        ];
        for (pattern, text) in no {
            assert!(!glob_matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        assert!(glob_matches_nocase(b"MAX*", b"maxmemory"));
        assert!(glob_matches_nocase(b"[A-C]", b"b"));
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!glob_matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }
}
