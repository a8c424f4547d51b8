//! Which keys does a write name, and may it take more memory?

use super::Write;

impl<'a> Write<'a> {
    /// Shows every key, in the order of the command. A flush names none.
    pub fn each_key(&self, show: &mut impl FnMut(&'a [u8])) {
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
            | Write::Persist { key } => show(key),
            Write::SetAllIfAbsent { pairs } => pairs.iter().for_each(|(key, _)| show(key)),
            Write::Rename { from, to, .. } | Write::Copy { from, to, .. } => {
                show(from);
                show(to);
            }
            Write::Flush => {}
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
