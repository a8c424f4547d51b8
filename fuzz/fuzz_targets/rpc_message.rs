//! A peer RPC: the decoder accepts or refuses any bytes; a decoded message that is encoded again
//! decodes to the same message.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use node::rpc::message::RpcMessage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = RpcMessage::decode(Bytes::copy_from_slice(bytes)) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert!(!RpcMessage::KINDS[message.kind()].is_empty());
        if let Some(unable) = message.no_room_reply() {
            assert_eq!(unable.shard(), message.shard());
        }
        assert_eq!(RpcMessage::decode(again.into()), Ok(message));
    }
});
