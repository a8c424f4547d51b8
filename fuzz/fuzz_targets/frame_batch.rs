//! Any bytes are items of a frame up to its end or an error; what was read is batched as bytes that
//! say the same.
#![no_main]

use bytes::Bytes;
use keyspace::NodeId;
use libfuzzer_sys::fuzz_target;
use node::executor::Envelope;
use node::rpc::frame_batch::{Frame, FrameBatch, Item, take};

/// What is read of a frame, batched again.
fn again(mut frame: Bytes) -> Vec<u8> {
    let (mut batch, mut sent, node) = (FrameBatch::default(), Vec::new(), NodeId(2));
    let mut send = |_: NodeId, frame: Frame<'_>| sent.extend_from_slice(frame.bytes);
    while let Ok(Some(item)) = take(&mut frame) {
        match item {
            Item::Message { shard, bootstrap, message } => {
                let bootstrap = bootstrap.map(|bootstrap| bootstrap.to_vec());
                batch.message(&Envelope { shard, node, bootstrap, message }, &mut send);
            }
            Item::Rpc(message) => batch.rpc(node, &message, &mut send),
        }
        // Each by itself: what is urgent would go into a frame of its own.
        batch.send(&mut send);
    }
    sent
}

fuzz_target!(|bytes: &[u8]| {
    let once = again(Bytes::copy_from_slice(bytes));
    assert_eq!(again(once.clone().into()), once);
});
