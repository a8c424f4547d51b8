//! Finds the known name that is nearest to a misspelt one.

/// The candidate closest to `name`, if one is close enough to be worth suggesting: at most a third
/// of its letters (and at least one) have to change. Case and `-` against `_` cost nothing.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = plain(name);
    candidates
        .into_iter()
        .map(|candidate| (distance(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Longer names are cut: nobody's typing error is this long, and the distance costs n².
const CHARS_MAX: usize = 64;

fn plain(name: &str) -> Vec<char> {
    name.chars()
        .take(CHARS_MAX)
        .map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() })
        .collect()
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut table = vec![0usize; (a.len() + 1) * width];
    for (j, first_row) in table[..width].iter_mut().enumerate() {
        *first_row = j;
    }
    for i in 1..=a.len() {
        table[i * width] = i;
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            let mut best = table[(i - 1) * width + j - 1] + usize::from(!same);
            best = best.min(table[(i - 1) * width + j] + 1).min(table[i * width + j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(table[(i - 2) * width + j - 2] + 1);
            }
            table[i * width + j] = best;
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_what_was_meant() {
        let names = ["dir", "memory_max", "retention_ms", "resp", "native"];
        assert_eq!(nearest("memry-max", names), Some("memory_max"));
        assert_eq!(nearest("Memory_Max", names), Some("memory_max"));
        assert_eq!(nearest("rsep", names), Some("resp"));
        assert_eq!(nearest("dri", names), Some("dir"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), names), None);
    }

    #[test]
    fn distances() {
        let of = |a: &str, b: &str| distance(&plain(a), &plain(b));
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("kitten", "sitting"), 3);
        assert_eq!(of("ab", "ba"), 1);
        assert_eq!(of("same", "same"), 0);
    }
}
