//! What became of transactions at keys, in as few bytes and pieces of memory as can be: a busy
//! shard keeps some ten thousands for [`AGE_MAX_MS`](super::AGE_MAX_MS), and looks at hardly one
//! of them again.
//!
//! Those of one transaction stand in one piece, in the order of their keys, each: key `bytes`, and
//! the mark as `bytes`, as [`Locks::encode`](super::Locks::encode) writes it. Few and short ones
//! need no memory beside the map they stand in.

use keyspace::codec::{Reader, put_bytes, put_counted};
use smallvec::SmallVec;

use super::Mark;
use super::codec::{put_mark, read_mark};

/// Bytes that stand in the map itself: a mark with a number for an answer, of a key of 20 bytes.
const INLINE_BYTES: usize = 56;

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

    /// All of them, to look for many keys: see [`find`].
    pub fn sorted(&self) -> Vec<(&[u8], &[u8])> {
        self.iter().collect()
    }

    /// Adds marks of keys that have none yet.
    pub fn put_all<K: AsRef<[u8]>>(&mut self, news: &mut [(K, Mark)]) {
        news.sort_by(|(one, _), (other, _)| one.as_ref().cmp(other.as_ref()));
        let mut all = Vec::with_capacity(self.0.len() + INLINE_BYTES);
        let mut there = self.iter().peekable();
        for (key, mark) in news.chunk_by(same_key).filter_map(|same| same.first()) {
            let key = key.as_ref();
            while let Some(before) = there.next_if(|(other, _)| *other < key) {
                put(before, &mut all);
            }
            if there.peek().is_none_or(|(other, _)| *other != key) {
                put_bytes(key, &mut all);
                put_counted(&mut all, |out| put_mark(mark, out));
            }
        }
        there.for_each(|behind| put(behind, &mut all));
        self.0 = SmallVec::from_slice(&all);
    }

    /// Takes out those of some keys.
    pub fn extract(&mut self, is_taken: impl Fn(&[u8]) -> bool) -> Self {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for each in self.iter() {
            put(each, if is_taken(each.0) { &mut taken } else { &mut left });
        }
        self.0 = SmallVec::from_slice(&left);
        Self(SmallVec::from_slice(&taken))
    }
}

fn same_key<K: AsRef<[u8]>>((one, _): &(K, Mark), (other, _): &(K, Mark)) -> bool {
    one.as_ref() == other.as_ref()
}

fn put((key, mark): (&[u8], &[u8]), out: &mut Vec<u8>) {
    put_bytes(key, out);
    put_bytes(mark, out);
}

/// The mark of a key, among sorted ones.
pub(super) fn find(sorted: &[(&[u8], &[u8])], key: &[u8]) -> Option<Mark> {
    let place = sorted.binary_search_by(|(there, _)| (*there).cmp(key)).ok()?;
    Some(read(sorted[place].1))
}

/// What [`Marks::iter`] has shown.
pub(super) fn read(mark: &[u8]) -> Mark {
    read_mark(&mut Reader::new(mark)).expect("the bytes were written by put_mark")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use keyspace::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use command::Reply;

    fn mark(number: u64, long: bool) -> Mark {
        let text = Reply::Bulk(vec![b'x'; if long { 200 } else { 3 }].into());
        let answers = [(1, Reply::Int(number as i64)), (2, text)].into_iter().collect();
        let locked_at = Timestamp(number);
        if number == 0 {
            Mark::Aborted
        } else {
            Mark::Committed { locked_at, commit_time: Timestamp(number + 1), answers }
        }
    }

    proptest! {
        #[test]
        fn marks_behave_as_sorted_map(
            puts in prop::collection::vec(
                prop::collection::vec((0u8..6, 0usize..40, 0u64..4, any::<bool>()), 0..5), 0..6),
            middle in 0u8..6,
        ) {
            let mut marks = Marks::default();
            let mut model = BTreeMap::new();
            for all in puts {
                let mut news = Vec::new();
                for (first, len, number, long) in all {
                    let key = [&[first][..], &vec![b'k'; len]].concat();
                    prop_assert_eq!(find(&marks.sorted(), &key), model.get(&key).cloned());
                    news.push((key, mark(number, long)));
                }
                marks.put_all(&mut news.clone());
                for (key, mark) in news {
                    model.entry(key).or_insert(mark);
                }
            }
            let same = |marks: &Marks, model: &BTreeMap<Vec<u8>, Mark>| {
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
