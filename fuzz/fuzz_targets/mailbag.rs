//! Any bytes are items of a frame up to its end or an error; what was read is put into a bag as
//! bytes that say the same.
#![no_main]

use bytes::Bytes;
use keyspace::NodeId;
use libfuzzer_sys::fuzz_target;
use node::executor::Envelope;
use server::hub::mailbag::{Bag, Item, Mailbags, take};

/// What is read of a frame, put into a bag again.
fn again(mut frame: Bytes) -> Vec<u8> {
    let (mut bags, mut sent, node) = (Mailbags::default(), Vec::new(), NodeId(2));
    let mut send = |_: NodeId, bag: Bag<'_>| sent.extend_from_slice(bag.bytes);
    while let Ok(Some(item)) = take(&mut frame) {
        match item {
            Item::Message { shard, birth, message } => {
                let birth = birth.map(|birth| birth.to_vec());
                bags.message(&Envelope { shard, node, birth, message }, &mut send);
            }
            Item::Letter(letter) => bags.letter(node, &letter, &mut send),
        }
        // Each by itself: what is urgent would go into a bag of its own.
        bags.send(&mut send);
    }
    sent
}

fuzz_target!(|bytes: &[u8]| {
    let once = again(Bytes::copy_from_slice(bytes));
    assert_eq!(again(once.clone().into()), once);
});
