//! A place among the events of all nodes.

use std::fmt;

use keyspace::{NodeId, Timestamp};

/// A place in the order of (time, node): behind all events up to this one. Without a node it is
/// before all events of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time of the last event before it, or of the first one behind it.
    pub at: Timestamp,
    /// The node of the last event before it.
    pub node: Option<NodeId>,
}

impl Cursor {
    /// Before everything.
    pub const START: Self = Self { at: Timestamp::ZERO, node: None };

    /// Behind this event.
    pub fn behind(at: Timestamp, node: NodeId) -> Self {
        Self { at, node: Some(node) }
    }

    /// Whether an event lies behind it.
    pub fn is_before(&self, at: Timestamp, node: NodeId) -> bool {
        *self < Self::behind(at, node)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at.0)?;
        match self.node {
            Some(node) => write!(f, "@{:016x}", node.0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[test]
fn events_lie_behind_a_cursor_by_time_and_node() {
    let at = |millis, node: u64| (Timestamp(millis), NodeId(node));
    let of = |(at, node)| Cursor::behind(at, node);
    let before = |cursor: Cursor, (time, node)| cursor.is_before(time, node);
    assert!(before(Cursor::START, at(0, 0)));
    assert!(before(of(at(5, 2)), at(5, 3)) && before(of(at(5, 2)), at(6, 1)));
    assert!(!before(of(at(5, 2)), at(5, 2)) && !before(of(at(5, 2)), at(5, 1)));
    assert!(before(Cursor { at: Timestamp(5), node: None }, at(5, 0)));
    assert_eq!(of(at(5, 0xab)).to_string(), "5@00000000000000ab");
    assert_eq!(Cursor::START.to_string(), "0");
}
