//! Any bytes are a letter between nodes or refused; what was read is written as bytes that say the
//! same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use node::rpc::message::RpcMessage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(letter) = RpcMessage::decode(Bytes::copy_from_slice(bytes)) {
        let mut again = Vec::new();
        letter.encode(&mut again);
        assert!(!RpcMessage::KINDS[letter.kind()].is_empty());
        if let Some(unable) = letter.no_room_reply() {
            assert_eq!(unable.shard(), letter.shard());
        }
        assert_eq!(RpcMessage::decode(again.into()), Ok(letter));
    }
});
