//! The commands that most programs need, and the parsing of their answers. They are the same on a
//! [`Store`](super::Store) and in a [`Transaction`](super::Transaction).

use std::time::Duration;

use bytes::Bytes;

use super::range::KeyRange;
use super::reply::Reply;
use super::request::Request;
use super::{Error, Reason};

/// The error text for an answer that does not fit the request.
pub(crate) const UNEXPECTED_REPLY: &str = "the answer is of another kind than such a command has";

/// When a set takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Always.
    #[default]
    Always,
    /// Only if the key has no value.
    Absent,
    /// Only if it has one.
    Present,
}

/// How long a value that is set lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// For ever.
    #[default]
    Never,
    /// So long from now; in whole milliseconds, at least one.
    After(Duration),
    /// As long as the value before it would have.
    Keep,
}

/// How to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetOptions {
    /// Whether it takes place.
    pub when: When,
    /// How long the value lives.
    pub expiry: Expiry,
}

/// How long a key's value still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is none.
    NoValue,
    /// For ever.
    Forever,
    /// So long.
    Left(Duration),
}

/// Has single commands done.
pub(crate) trait Runs: Copy + Send {
    /// Does one.
    fn run(self, request: Request<'_>) -> impl Future<Output = Result<Reply, Error>> + Send;

    /// The error if the answer does not fit a command that writes.
    fn unexpected_reply(self, request: &Request<'_>) -> Error;
}

pub(crate) async fn get(on: impl Runs, key: &[u8]) -> Result<Option<Bytes>, Error> {
    value(on.run(Request::of_key(&[b"GET", key], key, true)).await?)
}

pub(crate) async fn set(on: impl Runs, key: &[u8], value: &[u8]) -> Result<(), Error> {
    on.run(Request::of_key(&[b"SET", key, value], key, false)).await.map(drop)
}

pub(crate) async fn set_with(
    on: impl Runs,
    key: &[u8],
    value: &[u8],
    options: SetOptions,
) -> Result<bool, Error> {
    let mut args: Vec<&[u8]> = vec![b"SET", key, value];
    match options.when {
        When::Always => {}
        When::Absent => args.push(b"NX"),
        When::Present => args.push(b"XX"),
    }
    let millis;
    match options.expiry {
        Expiry::Never => {}
        Expiry::Keep => args.push(b"KEEPTTL"),
        Expiry::After(time) => {
            millis = time.as_millis().to_string();
            args.extend([b"PX".as_slice(), millis.as_bytes()]);
        }
    }
    let reply = on.run(Request::of_key(&args, key, false)).await?;
    Ok(reply != Reply::Nil)
}

pub(crate) async fn del(on: impl Runs, key: &[u8]) -> Result<bool, Error> {
    Ok(number(on, Request::of_key(&[b"DEL", key], key, false)).await? > 0)
}

pub(crate) async fn exists(on: impl Runs, key: &[u8]) -> Result<bool, Error> {
    Ok(number(on, Request::of_key(&[b"EXISTS", key], key, true)).await? > 0)
}

pub(crate) async fn incr_by(on: impl Runs, key: &[u8], by: i64) -> Result<i64, Error> {
    let by = by.to_string();
    number(on, Request::of_key(&[b"INCRBY", key, by.as_bytes()], key, false)).await
}

pub(crate) async fn ttl(on: impl Runs, key: &[u8]) -> Result<Ttl, Error> {
    let millis = number(on, Request::of_key(&[b"PTTL", key], key, true)).await?;
    Ok(match u64::try_from(millis) {
        Ok(millis) => Ttl::Left(Duration::from_millis(millis)),
        Err(_) if millis == -1 => Ttl::Forever,
        Err(_) => Ttl::NoValue,
    })
}

pub(crate) async fn expire(on: impl Runs, key: &[u8], after: Duration) -> Result<bool, Error> {
    let millis = after.as_millis().to_string();
    let args: [&[u8]; 3] = [b"PEXPIRE", key, millis.as_bytes()];
    Ok(number(on, Request::of_key(&args, key, false)).await? > 0)
}

pub(crate) async fn persist(on: impl Runs, key: &[u8]) -> Result<bool, Error> {
    Ok(number(on, Request::of_key(&[b"PERSIST", key], key, false)).await? > 0)
}

pub(crate) async fn mget<K: AsRef<[u8]>>(
    on: impl Runs,
    keys: &[K],
) -> Result<Vec<Option<Bytes>>, Error> {
    let Some(first) = keys.first() else { return Ok(Vec::new()) };
    let mut args: Vec<&[u8]> = vec![b"MGET"];
    args.extend(keys.iter().map(AsRef::as_ref));
    let reply = on.run(Request::of_key(&args, first.as_ref(), true)).await?;
    let Reply::Array(items) = reply else { return Err(unexpected_reply()) };
    if items.len() != keys.len() {
        return Err(unexpected_reply());
    }
    items.into_iter().map(value).collect()
}

pub(crate) async fn mset<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    on: impl Runs,
    pairs: &[(K, V)],
) -> Result<(), Error> {
    let Some((first, _)) = pairs.first() else { return Ok(()) };
    let mut args: Vec<&[u8]> = vec![b"MSET"];
    args.extend(pairs.iter().flat_map(|(key, value)| [key.as_ref(), value.as_ref()]));
    on.run(Request::of_key(&args, first.as_ref(), false)).await.map(drop)
}

pub(crate) async fn range(on: impl Runs, keys: &KeyRange) -> Result<Vec<(Bytes, Bytes)>, Error> {
    let words = keys.words();
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    pairs(on.run(Request { args: &args, slot: None, reads: true }).await?)
}

/// Runs a command whose answer is a number.
async fn number(on: impl Runs, request: Request<'_>) -> Result<i64, Error> {
    let reply = on.run(request).await?;
    match reply.integer() {
        Some(number) => Ok(number),
        None if request.reads => Err(unexpected_reply()),
        None => Err(on.unexpected_reply(&request)),
    }
}

fn value(reply: Reply) -> Result<Option<Bytes>, Error> {
    match reply {
        Reply::Bulk(bytes) => Ok(Some(bytes)),
        Reply::Nil => Ok(None),
        _ => Err(unexpected_reply()),
    }
}

/// Keys and values: as pairs (RESP3), or one behind the other (RESP2).
fn pairs(reply: Reply) -> Result<Vec<(Bytes, Bytes)>, Error> {
    let Reply::Array(items) = reply else { return Err(unexpected_reply()) };
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Reply::Array(pair) if pair.len() == 2 => flat.extend(pair),
            Reply::Bulk(_) => flat.push(item),
            _ => return Err(unexpected_reply()),
        }
    }
    let mut pairs = Vec::with_capacity(flat.len() / 2);
    let mut flat = flat.into_iter();
    while let Some(key) = flat.next() {
        match (key, flat.next()) {
            (Reply::Bulk(key), Some(Reply::Bulk(value))) => pairs.push((key, value)),
            _ => return Err(unexpected_reply()),
        }
    }
    Ok(pairs)
}

/// The error if the answer does not fit a read: the server is no node of Carillon.
pub(crate) fn unexpected_reply() -> Error {
    Error::not_done(Reason::BadAnswer, UNEXPECTED_REPLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_in_both_protocols() {
        let bulk = |text: &'static str| Reply::Bulk(text.into());
        let expected = vec![("a".into(), "1".into()), ("b".into(), "2".into())];
        let flat = Reply::Array(["a", "1", "b", "2"].map(bulk).into());
        assert_eq!(pairs(flat), Ok(expected.clone()));
        let nested = [["a", "1"], ["b", "2"]].map(|pair| Reply::Array(pair.map(bulk).into()));
        assert_eq!(pairs(Reply::Array(nested.into())), Ok(expected));
        for odd in [vec![bulk("a")], vec![Reply::Nil, Reply::Nil], vec![Reply::Array(vec![])]] {
            assert_eq!(pairs(Reply::Array(odd)), Err(unexpected_reply()));
        }
    }
}
