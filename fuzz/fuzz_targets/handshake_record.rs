//! Any bytes are refused by both sides of a handshake or waited for, however they are cut; nobody
//! proves the secret with them.
#![no_main]

use keyspace::{VersionRange, NodeId};
use libfuzzer_sys::fuzz_target;
use server::peer::handshake::{ExpectedPeer, Handshake, INPUT_BYTES_MAX, Progress};
use server::peer::handshake_record::{Introduction, MAC_BYTES, Parsed, Tag, parse};
use server::peer::{Cluster, Local, Refusal, Secret, VERSIONS};

fn local() -> Local {
    Local {
        versions: VERSIONS,
        supported: VersionRange::OURS,
        cluster_version: None,
        node: NodeId(1),
        process: 101,
        incarnation: 3,
        software: "0.1.0".into(),
        cluster: Some(Cluster { id: 0xc1, hash_seed: [7; 16] }),
        facts: Default::default(),
        secret: Secret::new(b"nobody knows it"),
    }
}

fn feed(mut side: Handshake, bytes: &[u8], piece: usize) -> Option<Refusal> {
    let mut out = Vec::new();
    for piece in bytes.chunks(piece) {
        match side.step(piece, &mut out) {
            Ok(Progress::More) => assert!(side.room() <= INPUT_BYTES_MAX),
            Ok(other) => panic!("proven by chance: {other:?}"),
            Err(error) => return Some(error.refusal().clone()),
        }
    }
    None
}

fuzz_target!(|bytes: &[u8]| {
    for piece in [1, 7, 500] {
        feed(Handshake::accept(local(), [2; 32]), bytes, piece);
        let any = ExpectedPeer::AnyBut(Vec::new());
        feed(Handshake::dial(local(), any, [3; 32], &mut Vec::new()), bytes, piece);
    }
    // What stands behind the MAC is read only from friends; it must be read without panic too.
    let mut rest = bytes;
    while let Parsed::Record(tag, body, consumed) = parse(rest) {
        match tag {
            Tag::Proof => {
                let said = &body[..body.len().saturating_sub(MAC_BYTES)];
                if let Some(introduction) = Introduction::decode(said) {
                    let mut again = Vec::new();
                    let software = introduction.software.chars().take(60).collect();
                    let introduction = Introduction { software, ..introduction };
                    introduction.encode(&mut again);
                    assert_eq!(Introduction::decode(&again), Some(introduction));
                }
            }
            Tag::Refusal => drop(Refusal::decode(body)),
            Tag::Hello | Tag::Commit => {}
        }
        rest = &rest[consumed..];
    }
});
