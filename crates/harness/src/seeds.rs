//! The fuzzer's seeds, replayed by ordinary tests: those called `good-…` are read, and written
//! again as they were; all others are refused.

use std::fs;
use std::path::Path;

/// Reads all seeds of a fuzz target. `again` reads one, and writes again what it has read. Returns
/// the good ones, so that a test can say what they must hold.
///
/// # Panics
/// If a good seed is refused or changed, a bad one is read, or there is none of either kind.
#[track_caller]
pub fn replay(target: &str, again: impl Fn(&[u8]) -> Result<Vec<u8>, String>) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let (mut good, mut bad) = (Vec::new(), 0);
    for file in fs::read_dir(&corpus).expect("the target has seeds") {
        let path = file.expect("an entry").path();
        let found = fs::read(&path).expect("a seed is a file");
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        match (name.starts_with("good-"), again(&found)) {
            (true, Ok(again)) => {
                assert_eq!(again, found, "{name} is written otherwise than it was read");
                good.push(found);
            }
            (true, Err(why)) => panic!("{name} is refused: {why}"),
            (false, Ok(_)) => panic!("{name} is read"),
            (false, Err(_)) => bad += 1,
        }
    }
    assert!(!good.is_empty() && bad > 0, "{target}: {} good seeds, {bad} bad ones", good.len());
    good
}
