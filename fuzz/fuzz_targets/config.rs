//! Any text is a configuration or an error that can be shown, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = server::config::parse(&text) {
        assert!(!error.to_string().is_empty());
    }
});
