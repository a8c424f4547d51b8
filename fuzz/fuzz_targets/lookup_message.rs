//! Any bytes are a message of a lookup or an error; what was read is written the same, and tables
//! that handle it stay whole.
#![no_main]

use std::sync::Arc;

use keyspace::NodeId;
use libfuzzer_sys::fuzz_target;
use overlay::{Chord, ChordSharp, FullTable, Linear, Lookup, Message};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, bytes);
        if let Message::Ring { to, from, .. } = &message {
            // To a member that might be meant, after the one that speaks.
            let mut descriptor = from.descriptor().clone();
            descriptor.shard = *to;
            let me = Arc::new(overlay::KnownShard::new(descriptor, 0));
            let list = [from.clone()];
            let mut linear = Linear::join(me.clone(), from.clone(), &list, 2);
            let mut chord = Chord::join(me.clone(), from.clone(), &list, 2);
            let mut sharp = ChordSharp::join(me, from.clone(), &list, 2, 2);
            for table in [&mut linear as &mut dyn Lookup, &mut chord, &mut sharp] {
                let mut out = Vec::new();
                table.tick(&mut out);
                table.step(NodeId(2), message.clone(), &mut out);
                table.tick(&mut out);
                out.into_iter().for_each(|(_, message)| message.encode(&mut again));
            }
        }
        let (mut full, mut out) = (FullTable::new(7), Vec::new());
        full.peers(&[NodeId(2)]);
        full.step(NodeId(2), message, &mut out);
        full.tick(&mut out);
        out.into_iter().for_each(|(_, message)| message.encode(&mut again));
    }
});
