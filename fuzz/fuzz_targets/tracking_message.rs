//! What a leader and a node that tracks keys send each other: any bytes are one or an error; what
//! was read is written the same.
#![no_main]

use keyspace::codec::Reader;
use libfuzzer_sys::fuzz_target;
use node::tracking::message::TrackingMessage;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = Reader::new(bytes);
    if let Ok(message) = TrackingMessage::decode(&mut reader) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, bytes[..bytes.len() - reader.rest().len()]);
    }
});
