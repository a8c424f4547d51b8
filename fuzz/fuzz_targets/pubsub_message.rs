//! What nodes send each other about ephemeral messages: any bytes are one or an error; what was
//! read is written the same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use node::pubsub::message::PubSubMessage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = PubSubMessage::decode(&Bytes::copy_from_slice(bytes)) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, bytes);
    }
});
