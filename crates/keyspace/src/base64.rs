//! Bytes that are no text, in JSON: base64 (RFC 4648, section 4). The encoder writes padding; the
//! decoder accepts text without it. Server and client decode alike.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// Bytes as base64.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a base64 text; none if it is not base64. Its padding is complete or missing.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let engine = if text.ends_with('=') { &STANDARD } else { &STANDARD_NO_PAD };
    engine.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_matches_rfc() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in pairs {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode("Zg").unwrap(), b"f");
        for bad in ["Z", "Zh==", "Zg=", "Zm9v=", "Zm9v====", "Zg==Zg==", "Z g=", "ü", "="] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text: String) {
            if let Some(bytes) = decode(&text) {
                let digits = |text: &str| text.trim_end_matches('=').to_owned();
                prop_assert_eq!(digits(&encode(&bytes)), digits(&text));
            }
        }
    }
}
