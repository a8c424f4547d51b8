//! What nodes send each other about events: any bytes are a message or an error; what was read is
//! read again from its own bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use node::event::stream::EventMessage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = EventMessage::decode(bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(EventMessage::decode(&again), Ok(message));
    }
});
