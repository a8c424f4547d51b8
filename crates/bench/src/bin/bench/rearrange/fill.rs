//! The bulk of the data: written before anything happens, read back when all is over.
//!
//! Key `n` of a keyspace holds its own number, over and over, so what is read back proves itself.

use std::net::SocketAddr;
use std::thread;

use crate::Outcome;
use crate::resp::{Connection, encode};

/// Commands in flight on each connection.
const PIPELINE: usize = 500;

/// What is there beside the clients' own keys.
#[derive(Clone, Debug)]
pub struct BulkData {
    /// Where it lies.
    pub keyspaces: Vec<String>,
    /// Keys in each keyspace.
    pub keys: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
}

impl BulkData {
    /// About so many bytes of keys and values, all keyspaces together.
    pub fn of(keyspaces: &[String], bytes: u64, value_bytes: usize) -> Self {
        let keys = bytes as usize / (value_bytes + key(0).len()) / keyspaces.len();
        Self { keyspaces: keyspaces.to_vec(), keys, value_bytes }
    }

    /// Keys of all keyspaces.
    pub fn keys_all(&self) -> u64 {
        (self.keys * self.keyspaces.len()) as u64
    }

    /// Writes it all, each keyspace through another of these nodes.
    pub fn write(&self, nodes: &[SocketAddr]) -> Outcome<()> {
        let written = self.in_parallel(nodes, |open, mut part| {
            let mut out = Vec::new();
            for number in part.clone() {
                encode(&mut out, &["SET", &key(number), &self.value(number)]);
            }
            open.send(&out)?;
            part.try_for_each(|_| open.reply().map(drop))?;
            Ok(0)
        });
        written.map(drop)
    }

    /// Reads it all, and returns how many keys do not hold what they must.
    pub fn read_back(&self, nodes: &[SocketAddr]) -> Outcome<u64> {
        self.in_parallel(nodes, |open, part| {
            let mut out = Vec::new();
            for number in part.clone() {
                encode(&mut out, &["GET", &key(number)]);
            }
            open.send(&out)?;
            let mut lost = 0;
            for number in part {
                lost += u64::from(open.reply()? != self.value(number));
            }
            Ok(lost)
        })
    }

    /// Does something with all keys, part by part; the sum of what comes of it.
    fn in_parallel(
        &self,
        nodes: &[SocketAddr],
        work: impl Fn(&mut Connection, std::ops::Range<usize>) -> Outcome<u64> + Sync,
    ) -> Outcome<u64> {
        let of = |place: usize| -> Result<u64, String> {
            let run = || -> Outcome<u64> {
                let mut open = Connection::open_for_bulk(nodes[place % nodes.len()])?;
                open.call(&["SELECT", &self.keyspaces[place]])?;
                let firsts = (0..self.keys).step_by(PIPELINE);
                firsts.map(|n| work(&mut open, n..(n + PIPELINE).min(self.keys))).sum()
            };
            run().map_err(|error| format!("keyspace {}: {error}", self.keyspaces[place]))
        };
        thread::scope(|scope| {
            let places = 0..self.keyspaces.len();
            let threads: Vec<_> = places.map(|place| scope.spawn(move || of(place))).collect();
            let sums =
                threads.into_iter().map(|thread| thread.join().expect("the thread does not panic"));
            Ok(sums.sum::<Result<u64, String>>()?)
        })
    }

    fn value(&self, number: usize) -> String {
        let mut value = format!("{number:08}").repeat(self.value_bytes / 8 + 1);
        value.truncate(self.value_bytes);
        value
    }
}

fn key(number: usize) -> String {
    format!("fill-{number:010}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_large_as_asked_for_and_values_differ() {
        let fill = BulkData::of(&["0".into(), "a".into()], 1 << 20, 1_009);
        assert_eq!((fill.keys, fill.keys_all()), (512, 1_024));
        assert_eq!((fill.value(7).len(), &fill.value(7)[..16]), (1_009, "0000000700000007"));
        assert_ne!(fill.value(7), fill.value(8));
    }
}
