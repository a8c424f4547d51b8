//! Whole conversations, options and requests: the fuzzer's seeds, and any bytes near them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::tests::Two;
use super::*;

/// How a conversation went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    answers: Vec<u8>,
    requests: usize,
    refused: usize,
    /// Why the connection ended, if not by the client's wish.
    broken: Option<String>,
    has_ended: bool,
}

/// What comes of these bytes, given in pieces of `piece` bytes.
fn converse(bytes: &[u8], piece: usize) -> Outcome {
    let (mut negotiation, mut form) = (Negotiation::default(), None::<Transmission>);
    let mut outcome = Outcome::default();
    let (mut start, mut end, mut skip) = (0, 0, 0_u64);
    loop {
        let skipped = skip.min((end - start) as u64);
        skip -= skipped;
        start += skipped as usize;
        let used = match &form {
            _ if skip > 0 => 0,
            None => {
                let before = outcome.answers.len();
                let (used, step) = negotiation.step(&bytes[start..end], &Two, &mut outcome.answers);
                let kind = be_u32(&outcome.answers[before..], 12).unwrap_or_default();
                outcome.refused += usize::from(kind >= 0x8000_0000);
                match step {
                    Step::More => {}
                    Step::Wait | Step::StartTls => unreachable!("names are known, and no TLS"),
                    Step::Chosen(chosen) => form = Some(chosen.transmission),
                    Step::End => {
                        // An ABORT is acknowledged.
                        outcome.has_ended = true;
                        outcome.broken = (kind != 1).then(|| "negotiation".to_owned());
                        return outcome;
                    }
                }
                used
            }
            Some(form) => match parse(&bytes[start..end], form) {
                Parsed::More => 0,
                Parsed::Request(request, used) => {
                    outcome.requests += 1;
                    if request.command == Command::Disconnect {
                        outcome.has_ended = true;
                        return outcome;
                    }
                    let writer = ReplyWriter::new(form);
                    writer.done(request.cookie, request.offset, &mut outcome.answers);
                    used
                }
                Parsed::Refused(fault, used, payload) => {
                    let writer = ReplyWriter::new(form);
                    let Fault { cookie, offset, errno, why } = fault;
                    writer.error(cookie, offset, errno, why, &mut outcome.answers);
                    outcome.refused += 1;
                    skip = payload;
                    used
                }
                Parsed::Broken(why) => {
                    outcome.has_ended = true;
                    outcome.broken = Some(why.to_owned());
                    return outcome;
                }
            },
        };
        assert!(used <= end - start);
        start += used;
        if used == 0 {
            if end == bytes.len() {
                return outcome;
            }
            end = (end + piece).min(bytes.len());
        }
    }
}

/// The fuzzer's seeds: their names and bytes.
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn seeds() -> Vec<(String, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/nbd");
    let files = fs::read_dir(corpus).expect("the target has seeds");
    files
        .map(|file| file.expect("an entry").path())
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
            (name, fs::read(path).expect("a seed is a file"))
        })
        .collect()
}

#[test]
fn fuzz_corpus_is_served_refused_or_waits_and_cuts_change_nothing() {
    let seeds = seeds();
    assert!(seeds.len() >= 30, "the corpus is there");
    for (name, bytes) in seeds {
        let whole = converse(&bytes, bytes.len());
        assert_eq!(whole, converse(&bytes, 1), "{name}");
        let is_refused = whole.refused > 0 || whole.broken.is_some();
        match name.split('-').next().unwrap_or_default() {
            "good" => assert!(!is_refused && whole.has_ended, "{name}: {whole:?}"),
            "bad" => assert!(is_refused, "{name}: {whole:?}"),
            _ => assert!(!whole.has_ended, "{name}: {whole:?}"),
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_near_the_corpus_are_taken_and_cuts_change_nothing(
        number in any::<usize>(),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        end in any::<usize>(),
        piece in 1usize..40,
    ) {
        let seeds = seeds();
        let mut bytes = seeds[number % seeds.len()].1.clone();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - end % 5);
        prop_assert_eq!(converse(&bytes, bytes.len().max(1)), converse(&bytes, piece));
    }
}
