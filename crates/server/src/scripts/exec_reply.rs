//! The reply of an EXEC whose commands are not all answered yet when its keys are committed.
//!
//! ```text
//!   run on copies ──► *3 :1 ▁ :2     ▁ a gap: FUNCTION LOAD, CLIENT GETNAME …
//!   commit ──► changes of libraries, in order ──► the connection's own commands ──► whole
//! ```
//!
//! If the transaction is not done, its reply is another one, and nothing that stands in a gap is
//! done either.

use std::sync::Arc;

use super::cache::ExecProgram;
use super::exec_changes::Change;

/// A command without its reply, and where that belongs.
#[derive(Debug)]
pub struct Gap {
    /// Before this byte.
    pub at: usize,
    /// What is known of it.
    pub filling: Filling,
}

/// What comes into a gap.
#[derive(Debug)]
pub enum Filling {
    /// This.
    Reply(Vec<u8>),
    /// What the catalogue, or other nodes, say of this.
    Change(Box<Change>),
    /// What the connection says of the command with this number.
    Connection(usize),
}

/// The gaps of a reply.
#[derive(Debug)]
pub struct Gaps {
    /// The commands.
    pub exec: Arc<ExecProgram>,
    /// In the order of their places.
    pub all: Vec<Gap>,
}

impl Gaps {
    /// None yet.
    pub fn of(exec: &Arc<ExecProgram>) -> Self {
        Self { exec: exec.clone(), all: Vec::new() }
    }

    /// The reply, when all gaps are filled.
    pub fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut whole, mut from) = (Vec::with_capacity(bytes.len() + 64 * self.all.len()), 0);
        for gap in &self.all {
            let Filling::Reply(reply) = &gap.filling else {
                unreachable!("every gap is filled before the reply is sent")
            };
            whole.extend_from_slice(&bytes[from..gap.at]);
            whole.extend_from_slice(reply);
            from = gap.at;
        }
        whole.extend_from_slice(&bytes[from..]);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::resp::Queue;

    #[test]
    fn replies_come_where_their_commands_stand() {
        let (queue, watched) = (Queue::default(), Box::default());
        let mut gaps = Gaps::of(&Arc::new(ExecProgram { is_alone: false, queue, watched }));
        let gap = |at, reply: &[u8]| Gap { at, filling: Filling::Reply(reply.to_vec()) };
        gaps.all = vec![gap(4, b"+a\r\n"), gap(4, b"+b\r\n"), gap(8, b"+c\r\n")];
        assert_eq!(gaps.fill(b"*5\r\n:1\r\n:2\r\n"), b"*5\r\n+a\r\n+b\r\n:1\r\n+c\r\n:2\r\n");
    }
}
