//! Any bytes are a letter between nodes or refused; what was read is written as bytes that say the
//! same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use node::rpc::request::Letter;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(letter) = Letter::decode(Bytes::copy_from_slice(bytes)) {
        let mut again = Vec::new();
        letter.encode(&mut again);
        assert!(!Letter::KINDS[letter.kind()].is_empty());
        if let Some(unable) = letter.when_unable() {
            assert_eq!(unable.shard(), letter.shard());
        }
        assert_eq!(Letter::decode(again.into()), Ok(letter));
    }
});
