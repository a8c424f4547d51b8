//! A transfer between two keys of etcd: both are read in one transaction, and written in another if
//! neither has changed since; else both are read again.

use bytes::Bytes;
use prost::Message;

use super::proto::{
    Compare, EQUAL, MOD, Op, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use crate::driver::Request;
use crate::load::values::number_of;

/// One transfer.
pub struct Transfer {
    keys: [Bytes; 2],
    /// What each key gets more.
    amounts: [i64; 2],
}

impl Transfer {
    /// That of a request.
    pub fn new(request: &Request<'_>) -> Self {
        let amount = number_of(request.value).unwrap_or(1);
        let keys = [request.key, request.other].map(Bytes::copy_from_slice);
        Self { keys, amounts: [-amount, amount] }
    }

    /// Reads both keys.
    pub fn read(&self) -> TxnRequest {
        let read = |key: &Bytes| Op::Range(RangeRequest { key: key.clone() });
        let steps = self.keys.iter().map(|key| RequestOp { request: Some(read(key)) });
        TxnRequest { compare: Vec::new(), success: steps.collect() }
    }

    /// Writes both, if they are as they were read.
    ///
    /// # Errors
    /// What was read are no two numbers.
    pub fn write(&self, read: &[u8]) -> Result<TxnRequest, &'static str> {
        let read = TxnResponse::decode(read).map_err(|_| "no message of etcd")?;
        let found = read.responses.into_iter().filter_map(|response| response.response);
        let mut found = found.filter_map(|range| range.into_range().kvs.pop());
        let mut made = TxnRequest::default();
        for (key, amount) in self.keys.iter().zip(self.amounts) {
            let pair = found.next().ok_or("a key holds no number")?;
            let held = number_of(&pair.value).ok_or("a key holds no number")?;
            let value = held.wrapping_add(amount).to_string().into();
            let put = Op::Put(PutRequest { key: key.clone(), value });
            made.success.push(RequestOp { request: Some(put) });
            made.compare.push(Compare {
                result: EQUAL,
                target: MOD,
                key: key.clone(),
                version: None,
                mod_revision: Some(pair.mod_revision),
            });
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::{KeyValue, RangeResponse, ResponseOp, Returned};
    use super::*;
    use crate::scenario::{Action, TransferMethod};

    fn transfer() -> Transfer {
        let action = Action::Transfer(TransferMethod::Watch);
        Transfer::new(&Request { action: &action, key: b"a", other: b"b", value: b"4" })
    }

    fn read(values: &[&'static str]) -> Vec<u8> {
        let response = |value: &&'static str| {
            let pair = KeyValue { key: "k".into(), mod_revision: 9, value: (*value).into() };
            ResponseOp { response: Some(Returned::Range(RangeResponse { kvs: vec![pair] })) }
        };
        let responses = values.iter().map(response).collect();
        TxnResponse { succeeded: true, responses }.encode_to_vec()
    }

    #[test]
    fn what_was_read_is_written_if_it_has_not_changed() {
        let transfer = transfer();
        assert_eq!(transfer.read().success.len(), 2);
        let made = transfer.write(&read(&["7", "8"])).unwrap();
        let puts = made.success.into_iter().map(|step| match step.request {
            Some(Op::Put(put)) => (put.key, put.value),
            other => panic!("{other:?}"),
        });
        let expected = [("a", "3"), ("b", "12")].map(|(k, v)| (Bytes::from(k), Bytes::from(v)));
        assert_eq!(puts.collect::<Vec<_>>(), expected);
        let compared = made.compare.iter().map(|one| (one.target, one.mod_revision));
        assert_eq!(compared.collect::<Vec<_>>(), [(MOD, Some(9)); 2]);
    }

    #[test]
    fn keys_without_numbers_are_refused() {
        for values in [&["7"][..], &["7", "x"], &[]] {
            assert_eq!(transfer().write(&read(values)), Err("a key holds no number"));
        }
        assert!(transfer().write(b"\xff").is_err());
    }
}
