//! What became of transactions at keys, in as few bytes and pieces of memory as can be: a busy
//! shard keeps some ten thousands for [`AGE_MAX_MS`](super::AGE_MAX_MS), and looks at hardly one
//! of them again.
//!
//! Those of one transaction stand in one piece, in the order of their keys, each: key `bytes`, and
//! the mark as `bytes`, as [`Locks::encode`](super::Locks::encode) writes it. Few and short ones
//! need no memory beside the map they stand in.

use keyspace::codec::{Reader, put_bytes};
use smallvec::SmallVec;

use super::{Mark, put_mark, read_mark};

/// Bytes that stand in the map itself: a mark with a number for an answer, of a key of 20 bytes.
const INLINE_BYTES: usize = 48;

/// The marks of one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Marks(SmallVec<[u8; INLINE_BYTES]>);

impl Marks {
    /// Each key with its mark's bytes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut reader = Reader::new(&self.0);
        std::iter::from_fn(move || {
            let key = reader.bytes().ok()?;
            Some((key, reader.bytes().expect("a mark follows each key")))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, key: &[u8]) -> Option<Mark> {
        let (_, bytes) = self.iter().find(|(there, _)| *there == key)?;
        Some(read_mark(&mut Reader::new(bytes)).expect("it was put here"))
    }

    pub fn put(&mut self, key: &[u8], mark: &Mark) {
        let mut bytes = Vec::with_capacity(INLINE_BYTES);
        put_mark(mark, &mut bytes);
        self.put_encoded(key, &bytes);
    }

    /// As [`Self::put`], of what [`Self::iter`] has shown.
    pub fn put_encoded(&mut self, key: &[u8], mark: &[u8]) {
        let mut all = Vec::with_capacity(self.0.len() + key.len() + mark.len() + 4);
        let is_before = |(there, _): &(&[u8], &[u8])| *there < key;
        let add = |(key, mark): (&[u8], &[u8]), all: &mut Vec<u8>| {
            put_bytes(key, all);
            put_bytes(mark, all);
        };
        self.iter().take_while(is_before).for_each(|each| add(each, &mut all));
        add((key, mark), &mut all);
        let behind = self.iter().skip_while(is_before).filter(|(there, _)| *there != key);
        behind.for_each(|each| add(each, &mut all));
        self.0 = SmallVec::from_slice(&all);
    }

    /// The mark of a key: from now on that it is prevented, if there was none.
    pub fn prevent(&mut self, key: &[u8]) -> Mark {
        self.get(key).unwrap_or_else(|| {
            self.put(key, &Mark::Aborted);
            Mark::Aborted
        })
    }

    /// Takes out those of some keys.
    pub fn extract(&mut self, is_taken: impl Fn(&[u8]) -> bool) -> Self {
        let (mut taken, mut left) = (Self::default(), Self::default());
        for (key, mark) in self.iter() {
            let side = if is_taken(key) { &mut taken } else { &mut left };
            side.put_encoded(key, mark);
        }
        *self = left;
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use keyspace::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::command::Reply;

    fn mark(number: u64, long: bool) -> Mark {
        let text = Reply::Bulk(vec![b'x'; if long { 200 } else { 3 }].into());
        let (at, answers) = (Timestamp(number), vec![(1, Reply::Int(number as i64)), (2, text)]);
        if number == 0 {
            Mark::Aborted
        } else {
            Mark::Committed(at, Timestamp(number + 1), answers)
        }
    }

    proptest! {
        #[test]
        fn marks_are_a_sorted_map(
            puts in prop::collection::vec((0u8..6, 0usize..40, 0u64..4, any::<bool>()), 0..12),
            middle in 0u8..6,
        ) {
            let mut marks = Marks::default();
            let mut model = BTreeMap::new();
            for (first, len, number, long) in puts {
                let key = [&[first][..], &vec![b'k'; len]].concat();
                prop_assert_eq!(marks.get(&key), model.get(&key).cloned());
                if number == 3 {
                    let there = model.entry(key.clone()).or_insert(Mark::Aborted);
                    prop_assert_eq!(&marks.prevent(&key), &*there);
                } else {
                    marks.put(&key, &mark(number, long));
                    model.insert(key, mark(number, long));
                }
            }
            let same = |marks: &Marks, model: &BTreeMap<Vec<u8>, Mark>| {
                let read = |bytes| read_mark(&mut Reader::new(bytes)).expect("a mark");
                let all: Vec<_> = marks.iter().map(|(k, m)| (k.to_vec(), read(m))).collect();
                all == model.clone().into_iter().collect::<Vec<_>>()
            };
            prop_assert!(same(&marks, &model));
            let taken = marks.extract(|key| key[0] >= middle);
            let right = model.split_off(&vec![middle]);
            prop_assert!(same(&taken, &right) && same(&marks, &model));
            prop_assert_eq!(marks.is_empty(), model.is_empty());
        }
    }
}
