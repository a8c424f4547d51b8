//! Handshakes byte for byte, refusals, and forged records.

#![allow(clippy::disallowed_methods, reason = "golden and corpus are files")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::handshake_record::{Hello, Parsed, Tag, parse};

const CLUSTER: Cluster = Cluster { id: 0xc1, hash_seed: [7; 16] };

fn local(node: u64) -> Local {
    Local {
        versions: VERSIONS,
        node: NodeId(node),
        process: node + 100,
        incarnation: 3,
        software: "0.1.0".into(),
        cluster: Some(CLUSTER),
        facts: Bytes::from(format!("facts of {node}")),
        supported: VersionRange::BEFORE,
        cluster_version: None,
        secret: Secret::new(b" a secret\n"),
    }
}

/// What one side has come to.
type Outcome = Result<(PeerHello, u64), HandshakeError>;

/// Both sides until they end or wait; what went over the wire, by who sent it.
struct Run {
    dialler: Option<Outcome>,
    acceptor: Option<Outcome>,
    wire: Vec<(&'static str, Vec<u8>)>,
}

/// Lets two sides speak, in pieces of `piece` bytes; `forge` may change what is sent.
fn run(
    (dialler, expected): (Local, Option<u64>),
    acceptor: Local,
    piece: usize,
    mut forge: impl FnMut(&'static str, &mut Vec<u8>),
) -> Run {
    let mut hello = Vec::new();
    let any = ExpectedPeer::AnyBut(vec![(NodeId(77), 1), (NodeId(78), 178)]);
    let expected = expected.map_or(any, |node| ExpectedPeer::Node(NodeId(node)));
    let dialler = Handshake::dial(dialler, expected, [0xd1; 32], &mut hello);
    let mut sides = [("dialler", dialler), ("acceptor", Handshake::accept(acceptor, [0xac; 32]))];
    let mut run = Run { dialler: None, acceptor: None, wire: Vec::new() };
    let mut outcomes: [Option<Outcome>; 2] = [None, None];
    let mut peers: [Option<PeerHello>; 2] = [None, None];
    let mut from = 0;
    let mut bytes = hello;
    let mut silent = 0;
    while silent < 2 {
        silent = if bytes.is_empty() { silent + 1 } else { 0 };
        if !bytes.is_empty() {
            forge(sides[from].0, &mut bytes);
            run.wire.push((sides[from].0, bytes.clone()));
        }
        let to = 1 - from;
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            if outcomes[to].is_some() {
                break;
            }
            let side = &mut sides[to].1;
            let mut progress = side.step(piece, &mut out);
            if let Ok(Progress::Proven(peer)) = progress {
                peers[to] = Some(peer.clone());
                progress = side.proceed(&peer, 40 + to as u64, &mut out);
            }
            outcomes[to] = match progress {
                Ok(Progress::Linked { commit }) => Some(Ok((peers[to].clone().unwrap(), commit))),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            };
        }
        from = to;
        bytes = out;
    }
    [run.dialler, run.acceptor] = outcomes;
    run
}

fn no_forger(_: &'static str, _: &mut Vec<u8>) {}

fn refusals(dialler: (Local, Option<u64>), acceptor: Local) -> [HandshakeError; 2] {
    let run = run(dialler, acceptor, 9, no_forger);
    [run.dialler.unwrap().unwrap_err(), run.acceptor.unwrap().unwrap_err()]
}

#[test]
fn golden_conversations_stay_as_they_are() {
    let joiner = Local { cluster: None, ..local(2) };
    let stranger = Local { secret: Secret::new(b"guess"), ..local(2) };
    let later = Local { versions: Versions { lowest: 7, highest: 8 }, ..local(2) };
    let versioned = Local {
        supported: VersionRange::OURS,
        cluster_version: Some(ClusterVersion::FIRST),
        ..local(2)
    };
    let stories = [
        ("the smaller id dials and commits", local(1), local(2)),
        ("the smaller id is dialled and commits", local(2), local(1)),
        ("a node without a cluster is told the hash seed", joiner, local(1)),
        ("a wrong secret", stranger, local(1)),
        ("no version in common", later, local(1)),
        ("cluster versions, with the cluster's known to the dialling node", versioned, local(1)),
    ];
    let mut text = String::new();
    for (title, dialler, acceptor) in stories {
        writeln!(text, "# {title}").unwrap();
        for (who, bytes) in run((dialler, None), acceptor, usize::MAX, no_forger).wire {
            let mut rest = &bytes[..];
            while let Parsed::Record(tag, body, consumed) = parse(rest) {
                writeln!(text, "{who} {tag:?}").unwrap();
                for row in rest[..consumed].chunks(32) {
                    let hex: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
                    writeln!(text, "  {hex}").unwrap();
                }
                assert_eq!(body.len() + handshake_record::HEAD_BYTES, consumed);
                rest = &rest[consumed..];
            }
            assert!(rest.is_empty());
        }
        text.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/handshake.golden");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap(), text, "UPDATE_GOLDENFILES=1 writes it anew");
}

#[test]
fn both_sides_learn_who_the_other_is_and_the_judge_gives_the_number() {
    for (dialler, acceptor, number) in [(1, 2, 40), (2, 1, 41)] {
        let run = run((local(dialler), Some(acceptor)), local(acceptor), 5, no_forger);
        let (peer, commit) = run.dialler.unwrap().unwrap();
        assert_eq!((peer.node, peer.process, peer.version), (NodeId(acceptor), acceptor + 100, 2));
        assert_eq!(peer.facts, format!("facts of {acceptor}"));
        assert_eq!((peer.cluster_id, peer.join), (Some(CLUSTER.id), None));
        let (peer, same) = run.acceptor.unwrap().unwrap();
        assert_eq!((peer.node, peer.incarnation), (NodeId(dialler), 3));
        assert_eq!((commit, same), (40 + u64::from(dialler == 2), number));
    }
}

#[test]
fn joining_node_learns_cluster_from_dialled_peer() {
    let joiner = Local { cluster: None, ..local(9) };
    let run = run((joiner.clone(), None), local(1), 64, no_forger);
    assert_eq!(run.dialler.unwrap().unwrap().0.join, Some(CLUSTER));
    assert_eq!(run.acceptor.unwrap().unwrap().0.cluster_id, None);
    let other = Local { cluster: None, ..local(1) };
    assert!(refusals((joiner, None), other).iter().all(|e| *e.refusal() == Refusal::NoCluster));
}

#[test]
fn hash_seed_is_sent_only_after_proof_of_secret() {
    let joiner = Local { cluster: None, secret: Secret::default(), ..local(9) };
    let run = run((joiner, None), local(1), 64, no_forger);
    let seed = CLUSTER.hash_seed;
    for (_, bytes) in &run.wire {
        assert!(!bytes.windows(seed.len()).any(|window| window == seed));
    }
    let refused = HandshakeError::RefusedByPeer(Refusal::WrongSecret);
    assert_eq!(run.dialler.unwrap().unwrap_err(), refused);
}

#[test]
fn refusals_name_both_sides_on_both_sides() {
    let other = Local { cluster: Some(Cluster { id: 0xc2, ..CLUSTER }), ..local(2) };
    let [dialler, acceptor] = refusals((other, None), local(1));
    let text = "wrong cluster: the node that refuses belongs to 00000000000000c1, the other to \
                00000000000000c2. Check the addresses, or start the other with an empty directory";
    assert_eq!(dialler.to_string(), format!("the other node refuses: {text}"));
    assert_eq!(acceptor.to_string(), format!("refused: {text}"));

    let later = Local { versions: Versions { lowest: 3, highest: 4 }, ..local(2) };
    let [dialler, _] = refusals((later, None), local(1));
    assert!(dialler.to_string().contains("speaks 1 to 2, the other 3 to 4"), "{dialler}");

    let [dialler, acceptor] = refusals((local(1), Some(5)), local(2));
    let wrong = Refusal::WrongNode { expected: NodeId(5), found: NodeId(2) };
    assert_eq!(dialler, HandshakeError::Refused(wrong.clone()));
    assert_eq!(acceptor, HandshakeError::RefusedByPeer(wrong));

    let [dialler, _] = refusals((local(1), None), local(1));
    assert_eq!(*dialler.refusal(), Refusal::OwnAddress { node: NodeId(1) });
    let [dialler, _] = refusals((local(1), None), local(78));
    assert_eq!(dialler, HandshakeError::Refused(Refusal::Linked));
    let copy = Local { process: 555, ..local(1) };
    let [dialler, _] = refusals((copy, None), local(1));
    assert_eq!(*dialler.refusal(), Refusal::SameNodeTwice { node: NodeId(1) });
}

/// Node 2 dials or is dialled, proves itself and is expelled by node 1; what it makes of that.
fn expelled(dials: bool, nonce: u8, forge: impl FnOnce(&mut Vec<u8>)) -> HandshakeError {
    ended(dials, nonce, forge, |one, peer, out| one.refuse_removed(peer.node, out))
}

/// As [`expelled`], by `end`.
fn ended(
    dials: bool,
    nonce: u8,
    forge: impl FnOnce(&mut Vec<u8>),
    end: impl Fn(&Handshake, &PeerHello, &mut Vec<u8>) -> HandshakeError,
) -> HandshakeError {
    let (mut to_1, mut to_2) = (Vec::new(), Vec::new());
    let any = ExpectedPeer::AnyBut(Vec::new());
    let (mut one, mut two) = match dials {
        true => {
            let two = Handshake::dial(local(2), any, [nonce; 32], &mut to_1);
            (Handshake::accept(local(1), [0xac; 32]), two)
        }
        false => {
            let one = Handshake::dial(local(1), any, [0xac; 32], &mut to_2);
            (one, Handshake::accept(local(2), [nonce; 32]))
        }
    };
    for _ in 0..4 {
        if let Ok(Progress::Proven(peer)) = one.step(&std::mem::take(&mut to_1), &mut to_2) {
            assert_eq!(peer.node, NodeId(2));
            to_2.clear();
            let refused = end(&one, &peer, &mut to_2);
            assert!(matches!(refused, HandshakeError::Refused(_)), "{refused}");
            forge(&mut to_2);
            return two.step(&to_2, &mut to_1).unwrap_err();
        }
        if let Ok(Progress::Proven(peer)) = two.step(&std::mem::take(&mut to_2), &mut to_1) {
            two.proceed(&peer, 1, &mut to_1).unwrap();
        }
    }
    panic!("nobody has proven anything");
}

#[test]
fn only_a_member_can_tell_a_node_that_it_does_not_support_the_cluster_version() {
    let outgrown = |dials, nonce, forge: &mut dyn FnMut(&mut Vec<u8>)| {
        ended(dials, nonce, forge, |one, peer, out| {
            one.refuse_version(ClusterVersion::NEWEST, peer.supported, out)
        })
    };
    for dials in [true, false] {
        let mut sealed = Vec::new();
        let error = outgrown(dials, 1, &mut |record| sealed.clone_from(record));
        let Refusal::UnsupportedVersion { version, supported, .. } = error.refusal() else {
            panic!("{error}")
        };
        assert_eq!((*version, *supported), (ClusterVersion::NEWEST, VersionRange::BEFORE));
        // Neither for another version, nor with the seal of another handshake.
        let other = outgrown(dials, 1, &mut |record| record[handshake_record::HEAD_BYTES + 1] += 1);
        let replayed = outgrown(dials, 2, &mut |record| record.clone_from(&sealed));
        for error in [other, replayed] {
            assert!(matches!(error.refusal(), Refusal::Other { code: 12, .. }), "{error}");
        }
    }
}

#[test]
fn only_a_member_can_tell_a_node_that_it_was_removed() {
    for dials in [true, false] {
        let mut sealed = Vec::new();
        let error = expelled(dials, 1, |record| sealed.clone_from(record));
        let Refusal::Removed { node, .. } = error.refusal() else { panic!("{error}") };
        assert_eq!(*node, NodeId(2));
        // Neither what anybody can write, nor what was said another time.
        let guessed = expelled(dials, 1, |record| record[handshake_record::HEAD_BYTES + 9] ^= 1);
        let replayed = expelled(dials, 2, |record| *record = sealed);
        for error in [guessed, replayed] {
            assert!(matches!(error.refusal(), Refusal::Other { code: 11, .. }), "{error}");
        }
    }
}

/// A node that names no cluster versions supports the first: so did programs that knew of none.
#[test]
fn both_learn_which_cluster_versions_the_other_supports() {
    let versioned = Local {
        supported: VersionRange::OURS,
        cluster_version: Some(ClusterVersion::FIRST),
        ..local(2)
    };
    let run = run((versioned, None), local(1), 7, no_forger);
    let peer = run.acceptor.unwrap().unwrap().0;
    assert_eq!(
        (peer.supported, peer.cluster_version),
        (VersionRange::OURS, Some(ClusterVersion::FIRST))
    );
    let peer = run.dialler.unwrap().unwrap().0;
    assert_eq!((peer.supported, peer.cluster_version), (VersionRange::BEFORE, None));
}

#[test]
fn neighbouring_versions_speak_the_older() {
    for (lowest, highest, common) in [(1, 1, 1), (2, 3, 2)] {
        let neighbour = Local { versions: Versions { lowest, highest }, ..local(2) };
        let run = run((neighbour, None), local(1), 64, no_forger);
        assert_eq!(run.dialler.unwrap().unwrap().0.version, common);
        assert_eq!(run.acceptor.unwrap().unwrap().0.version, common);
    }
}

#[test]
fn replayed_handshake_is_refused() {
    // An acceptor without the secret sends the dialler's own proof back.
    let mut proof = Vec::new();
    let run = run((local(1), None), local(2), usize::MAX, |who, bytes| {
        if let Parsed::Record(Tag::Proof, ..) = parse(bytes) {
            match who {
                "dialler" => proof.clone_from(bytes),
                _ => bytes.clone_from(&proof),
            }
        }
    });
    assert_eq!(run.dialler.unwrap().unwrap_err().refusal(), &Refusal::WrongSecret);
}

#[test]
fn handshake_ignores_records_after_refusal_or_out_of_order() {
    let mut side = Handshake::accept(local(1), [0; 32]);
    let mut commit = Vec::new();
    handshake_record::write(&mut commit, Tag::Commit, |out| out.extend_from_slice(&[0; 8]));
    let error = side.step(&commit, &mut Vec::new()).unwrap_err();
    assert_eq!(error, HandshakeError::Refused(Refusal::Malformed));
    let mut side = Handshake::accept(local(1), [0; 32]);
    let error = side.step(b"GET / HTTP/1.1\r\n\r\n", &mut Vec::new()).unwrap_err();
    assert_eq!(error.refusal(), &Refusal::Malformed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_changed_bit_never_makes_a_link_of_both(
        record in 0..5usize, at in any::<usize>(), bit in 0..8
    ) {
        let mut count = 0;
        let mut number = false;
        let run = run((local(1), None), local(2), 50, |_, bytes| {
            if count == record {
                let at = at % bytes.len();
                bytes[at] ^= 1u8 << bit;
                // The commit's number is no secret and not proven.
                number = record == 4 && at >= handshake_record::HEAD_BYTES;
            }
            count += 1;
        });
        let linked = |outcome: &Option<Outcome>| matches!(outcome, Some(Ok(_)));
        let forged = record < count && !number;
        let both = linked(&run.dialler) && linked(&run.acceptor);
        prop_assert!(!(forged && both));
    }

    #[test]
    fn garbage_is_refused_or_waited_for(
        garbage in vec(prop_oneof![1 => 0u8..5, 1 => any::<u8>()], 0..300), piece in 1..50usize
    ) {
        let mut side = Handshake::accept(local(1), [1; 32]);
        let mut out = Vec::new();
        for piece in garbage.chunks(piece) {
            match side.step(piece, &mut out) {
                Ok(Progress::More) => prop_assert!(side.room() <= INPUT_BYTES_MAX),
                Ok(other) => prop_assert!(false, "{other:?}"),
                Err(_) => break,
            }
        }
    }
}

#[test]
fn rpc_corpus_decodes_without_panic_and_round_trips() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/handshake_record");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        let conversation = run((local(2), None), local(1), usize::MAX, no_forger).wire;
        for (number, (who, bytes)) in conversation.into_iter().enumerate() {
            fs::write(corpus.join(format!("{number}-{who}")), bytes).unwrap();
        }
        let stranger = Local { secret: Secret::default(), ..local(2) };
        let (who, bytes) = run((stranger, None), local(1), 99, no_forger).wire.pop().unwrap();
        fs::write(corpus.join(format!("refused-by-{who}")), bytes).unwrap();
        fs::write(corpus.join("http"), "GET / HTTP/1.1\r\n\r\n").unwrap();
        fs::write(corpus.join("half"), b"\x01\x30\0carillon").unwrap();
        fs::write(corpus.join("too-long"), b"\x01\xff\xffcarillon").unwrap();
    }
    let mut records = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let stream = fs::read(file.unwrap().path()).unwrap();
        let mut rest = &stream[..];
        while let Parsed::Record(tag, body, consumed) = parse(rest) {
            if tag == Tag::Hello {
                let mut again = Vec::new();
                Hello::decode(body).unwrap().encode(&mut again);
                assert_eq!(again, body);
            }
            records += 1;
            rest = &rest[consumed..];
        }
        let mut side = Handshake::accept(local(1), [1; 32]);
        let _refused = side.step(&stream, &mut Vec::new());
    }
    assert!(records >= 5, "the corpus is there: {records} records");
}

#[test]
fn a_proof_is_of_no_use_on_another_connection() {
    let proven = |keys: [[u8; 32]; 2]| {
        let (mut hello, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
        let expected = ExpectedPeer::Node(NodeId(2));
        let mut dialler = Handshake::dial(local(1), expected, [1; 32], &mut hello);
        let mut acceptor = Handshake::accept(local(2), [2; 32]);
        dialler.bind(keys[0]);
        acceptor.bind(keys[1]);
        acceptor.step(&hello, &mut back).unwrap();
        dialler.step(&back, &mut there).unwrap();
        acceptor.step(&there, &mut Vec::new())
    };
    assert!(matches!(proven([[5; 32]; 2]), Ok(Progress::Proven(_))));
    let refused = HandshakeError::Refused(Refusal::WrongSecret);
    assert_eq!(proven([[5; 32], [6; 32]]), Err(refused));
}
