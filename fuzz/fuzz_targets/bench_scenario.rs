//! Any text is a scenario of `carillon bench` or an error that names a line of it, never a panic.
#![no_main]

use bench::scenario::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Plan::parse("s.toml", &text, &[]) {
        Ok(mut plan) => {
            assert!(!plan.cells.is_empty());
            plan.shorten(std::time::Duration::from_millis(10));
        }
        Err(error) => {
            assert!(error.line <= text.lines().count() + 1);
            assert!(!error.to_string().is_empty());
        }
    }
});
