//! Transactions of etcd as words of a scenario: conditions, then steps.
//!
//! ```toml
//! [op.create]
//! command = ["txn", "if-absent", "{key}", "put", "{key}", "{value}", "get", "{key}"]
//! ```

use bytes::Bytes;

use super::proto::{
    Compare, DeleteRangeRequest, EQUAL, GREATER, Op, PutRequest, RangeRequest, RequestOp,
    TxnRequest, VERSION,
};
use crate::driver::{Request, fill_word};

/// What is said of words that are none.
const FORMS: &str = "takes commands of the form [\"txn\", \"if-absent\" or \"if-present\", KEY, …, \
                     \"put\", KEY, VALUE or \"get\" or \"delete\", KEY, …]";

/// Makes a transaction of the words, with what `fill` makes of each key and value.
///
/// # Errors
/// They are no transaction.
pub fn transaction(
    words: &[String],
    fill: &mut dyn FnMut(&str) -> Bytes,
) -> Result<TxnRequest, &'static str> {
    let mut words = words.iter().map(String::as_str);
    if words.next() != Some("txn") {
        return Err(FORMS);
    }
    let mut made = TxnRequest::default();
    while let Some(verb) = words.next() {
        let key = fill(words.next().ok_or(FORMS)?);
        let op = match verb {
            "if-absent" | "if-present" if made.success.is_empty() => {
                let result = if verb == "if-absent" { EQUAL } else { GREATER };
                made.compare.push(Compare {
                    result,
                    target: VERSION,
                    key,
                    version: Some(0),
                    mod_revision: None,
                });
                continue;
            }
            "get" => Op::Range(RangeRequest { key }),
            "put" => Op::Put(PutRequest { key, value: fill(words.next().ok_or(FORMS)?) }),
            "delete" => Op::Delete(DeleteRangeRequest { key }),
            _ => return Err(FORMS),
        };
        made.success.push(RequestOp { request: Some(op) });
    }
    if made.success.is_empty() { Err(FORMS) } else { Ok(made) }
}

/// What is wrong with the words of a command, if anything is.
pub fn refusal(words: &[String]) -> Option<&'static str> {
    transaction(words, &mut |_| Bytes::new()).err()
}

/// The transaction of a request.
pub fn of_request(words: &[String], request: &Request<'_>) -> TxnRequest {
    let made = transaction(words, &mut |word| {
        let mut filled = Vec::new();
        fill_word(word, request, &mut filled);
        filled.into()
    });
    // Words that are none were refused before anything has started (`driver::refusal`).
    made.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Action;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn conditions_come_before_steps() {
        let action = Action::Get;
        let request = Request { action: &action, key: b"k", other: b"", value: b"v" };
        let made =
            of_request(&words("txn if-absent {key} put {key} {value} get a:{key}"), &request);
        assert_eq!(made.compare[0].key, "k");
        assert_eq!(made.compare[0].version, Some(0), "a member of a oneof is sent even if it is 0");
        let ops: Vec<Op> = made.success.into_iter().flat_map(|op| op.request).collect();
        let put = Op::Put(PutRequest { key: "k".into(), value: "v".into() });
        assert_eq!(ops, [put, Op::Range(RangeRequest { key: "a:k".into() })]);
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["INCR {key}", "txn", "txn put k", "txn if-absent k", "txn get k if-absent k"] {
            assert_eq!(refusal(&words(text)), Some(FORMS), "{text}");
        }
        assert_eq!(refusal(&words("txn delete {key}")), None);
    }
}
