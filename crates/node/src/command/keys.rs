//! Which keys does a write name, and may it take more memory?

use super::Write;

impl<'a> Write<'a> {
    /// Shows every key, in the order of the command. A flush names none.
    #[inline]
    pub fn each_key(&self, show: &mut impl FnMut(&'a [u8])) {
        match self {
            Write::SetAllIfAbsent { pairs } => pairs.iter().for_each(|(key, _)| show(key)),
            Write::Rename { from, to, .. } | Write::Copy { from, to, .. } => {
                show(from);
                show(to);
            }
            Write::Flush => {}
            of_one_key => show(of_one_key.first_key()),
        }
    }

    /// The first key; empty for a flush, which names none.
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
            | Write::Rename { from: key, .. }
            | Write::Copy { from: key, .. } => key,
            Write::SetAllIfAbsent { pairs } => pairs.first().map_or(&[], |(key, _)| key),
            Write::Flush => &[],
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
            Write::Delete { .. }
            | Write::GetDelete { .. }
            | Write::GetExpire { .. }
            | Write::Expire { .. }
            | Write::Persist { .. }
            | Write::Rename { .. }
            | Write::Flush => false,
        }
    }
}
