//! What nodes ask each other about themselves: any bytes are a question, an answer or an error;
//! what was read is read again from its own bytes.
#![no_main]

use api::inquiry::{Answer, Question};
use libfuzzer_sys::fuzz_target;
use server::runtime::inquiries::{QUESTION, read};

fuzz_target!(|bytes: &[u8]| {
    let Ok((tag, _, json)) = read(bytes) else { return };
    if tag == QUESTION {
        if let Ok(question) = Question::from_json(json) {
            assert_eq!(Question::from_json(&question.to_json()), Ok(question));
        }
    } else if let Ok(answer) = Answer::from_json(json) {
        // Fractions may be rounded once more.
        assert!(Answer::from_json(&answer.to_json()).is_ok());
    }
});
