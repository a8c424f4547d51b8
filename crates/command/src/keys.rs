//! Which keys does a write name, and how much memory may it and its reply take?

use super::{SetReply, Write};

impl<'a> Write<'a> {
    /// Shows every key, in the order of the command. A flush or fence names none.
    #[inline]
    pub fn each_key(&self, show: &mut impl FnMut(&'a [u8])) {
        match self {
            Write::SetAllIfAbsent { pairs } => pairs.iter().for_each(|(key, _)| show(key)),
            Write::Rename { from, to, .. } | Write::Copy { from, to, .. } => {
                show(from);
                show(to);
            }
            Write::Flush { .. } | Write::Fence { .. } => {}
            Write::Transaction(transaction) => transaction.each_key(show),
            of_one_key => show(of_one_key.first_key()),
        }
    }

    /// The first key; empty for a flush or fence, which names none.
    #[inline]
    pub fn first_key(&self) -> &'a [u8] {
        match self {
            Write::Set { key, .. }
            | Write::Delete { key }
            | Write::GetDelete { key }
            | Write::GetExpire { key, .. }
            | Write::Append { key, .. }
            | Write::SetRange { key, .. }
            | Write::Increment { key, .. }
            | Write::IncrementFloat { key, .. }
            | Write::Expire { key, .. }
            | Write::Persist { key }
            | Write::Block { key, .. }
            | Write::Rename { from: key, .. }
            | Write::Copy { from: key, .. } => key,
            Write::SetAllIfAbsent { pairs } => pairs.first().map_or(&[], |(key, _)| key),
            Write::Flush { .. } | Write::Fence { .. } => &[],
            Write::Transaction(_) => self.nth_key(0),
        }
    }

    /// The key at this place among those of [`Self::each_key`]; empty if there is none.
    #[cold]
    fn nth_key(&self, place: usize) -> &'a [u8] {
        let (mut at, mut found) = (0, &[][..]);
        self.each_key(&mut |key| {
            if at == place {
                found = key;
            }
            at += 1;
        });
        found
    }

    /// The last key; empty for a flush or fence, which names none.
    pub fn last_key(&self) -> &'a [u8] {
        match self {
            Write::Rename { to, .. } | Write::Copy { to, .. } => to,
            Write::SetAllIfAbsent { pairs } => pairs.last().map_or(&[], |(key, _)| key),
            other => other.first_key(),
        }
    }

    /// The key whose value is the reply, if that is how long a value is there.
    #[inline]
    pub fn replied_key(&self) -> Option<&'a [u8]> {
        match self {
            Write::Set { key, reply: SetReply::Old, .. }
            | Write::GetDelete { key }
            | Write::GetExpire { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The key whose value another key has afterwards.
    #[inline]
    pub fn copied_key(&self) -> Option<&'a [u8]> {
        match self {
            Write::Rename { from, .. } | Write::Copy { from, .. } => Some(from),
            _ => None,
        }
    }

    /// How many bytes it has at least, nearly all of those that it has in a log.
    #[inline]
    pub fn bytes_about(&self) -> usize {
        match self {
            Write::Set { key, value, .. }
            | Write::Append { key, value, .. }
            | Write::Block { key, value: Some(value), .. }
            | Write::SetRange { key, value, .. } => key.len() + value.len(),
            other => other.bytes_of_many(),
        }
    }

    /// Of a command with several keys. Out of the way, so that the others are inlined.
    fn bytes_of_many(&self) -> usize {
        match self {
            Write::SetAllIfAbsent { pairs } => {
                pairs.iter().map(|(key, value)| key.len() + value.len() + 8).sum()
            }
            Write::Transaction(transaction) => {
                let mut bytes = 0;
                self.each_key(&mut |key| bytes += key.len() + 16);
                bytes + transaction.writes().map(Write::bytes_about).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// By how much it makes a value longer at most, by its own arguments.
    #[inline]
    pub fn growth_bytes_max(&self) -> u64 {
        match self {
            Write::Set { value, .. }
            | Write::Append { value, .. }
            | Write::Block { value: Some(value), .. } => value.len() as u64,
            // Nothing, wherever it is put, stretches nothing.
            Write::SetRange { value: [], .. } => 0,
            Write::SetRange { offset, value, .. } => offset.saturating_add(value.len() as u64),
            Write::SetAllIfAbsent { pairs } => {
                pairs.iter().map(|(_, value)| value.len() as u64).max().unwrap_or_default()
            }
            // All of it may be of one key.
            Write::Transaction(transaction) => transaction
                .writes()
                .fold(0, |sum, write| sum.saturating_add(write.growth_bytes_max())),
            _ => 0,
        }
    }

    /// Whether it may take more memory, and so is refused when there is none.
    pub fn may_grow(&self) -> bool {
        match self {
            Write::Set { .. }
            | Write::Append { .. }
            | Write::SetRange { .. }
            | Write::Increment { .. }
            | Write::IncrementFloat { .. }
            | Write::SetAllIfAbsent { .. }
            | Write::Copy { .. } => true,
            Write::Transaction(transaction) => transaction.writes().any(Write::may_grow),
            Write::Block { value, .. } => value.is_some(),
            Write::Delete { .. }
            | Write::GetDelete { .. }
            | Write::GetExpire { .. }
            | Write::Expire { .. }
            | Write::Persist { .. }
            | Write::Rename { .. }
            | Write::Flush { .. }
            | Write::Fence { .. } => false,
        }
    }
}
