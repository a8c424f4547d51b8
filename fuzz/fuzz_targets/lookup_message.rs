//! Any bytes are a message of a lookup or an error; what was read is written the same, and a table
//! that handles it stays whole.
#![no_main]

use keyspace::NodeId;
use libfuzzer_sys::fuzz_target;
use overlay::{Full, Lookup, Message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, bytes);
        let (mut full, mut out) = (Full::new(7), Vec::new());
        full.peers(&[NodeId(2)]);
        full.step(NodeId(2), message, &mut out);
        full.tick(&mut out);
        out.into_iter().for_each(|(_, message)| message.encode(&mut again));
    }
});
