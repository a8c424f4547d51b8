//! Reads links and keeps them alive.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::time::Instant;

use super::READ_BYTES_MAX;
use crate::peer::frame::{Decoder, Frame, KIND_OWN_MIN};
use crate::peer::links::{Link, PeerHandler, Shared, wall_millis};
use crate::peer::pieces::{Assembly, PIECE};

/// Kinds of the links' own frames.
const PING: u8 = KIND_OWN_MIN;
const PONG: u8 = KIND_OWN_MIN + 1;

/// An answer that took longer says little about the peer's clock.
const RTT_NANOS_MAX: u64 = 200_000_000;

/// A link, as the peer thread has it.
pub(super) struct Linked {
    pub(super) link: Arc<Link>,
    pub(super) decoder: Decoder,
    pub(super) assembly: Assembly,
    /// When bytes came last, and when a ping was sent last.
    pub(super) heard: Instant,
    pub(super) pinged: Instant,
    /// The other side sends no more: what is there is read to the end.
    pub(super) read_closed: bool,
    pub(super) queued: bool,
    /// This side sends no more.
    pub(super) shut: bool,
}

impl Linked {
    /// Reads and delivers what is there. Whether there may be more.
    pub(super) fn read(
        &mut self,
        now: Instant,
        began: Instant,
        shared: &Shared,
        handler: &dyn PeerHandler,
        delivered: &mut bool,
    ) -> io::Result<bool> {
        let mut total = 0;
        let mut is_all = false;
        loop {
            while let Some(frame) = self.decoder.take().map_err(io::Error::other)? {
                let whole = match frame.kind {
                    PIECE => self.assembly.take(frame.body).map_err(io::Error::other)?,
                    KIND_OWN_MIN.. => {
                        self.own(&frame, began, shared);
                        None
                    }
                    _ => Some(frame),
                };
                if let Some(frame) = whole {
                    *delivered = true;
                    self.link.counters.frames_in.add(1);
                    handler.frame(self.link.node, frame.kind, frame.body);
                }
            }
            // The socket is empty; what comes now makes a new edge. But its end made one already.
            if is_all && !self.read_closed {
                return Ok(false);
            }
            if total >= READ_BYTES_MAX {
                return Ok(true);
            }
            let space = self.decoder.space();
            let count = match (&self.link.wire).read(space) {
                Ok(0) => return Err(io::Error::other("closed by the peer")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            is_all = count < space.len();
            self.decoder.filled(count);
            self.link.counters.bytes_in.add(count as u64);
            self.heard = now;
            total += count;
        }
    }

    fn own(&self, frame: &Frame, began: Instant, shared: &Shared) {
        match (frame.kind, frame.body.first_chunk()) {
            // If there is no room, bytes are on their way that tell as much.
            (PING, _) => {
                let mut body = frame.body.to_vec();
                body.extend_from_slice(&shared.millis().to_le_bytes());
                let _full = shared.send_own(&self.link, PONG, &body);
            }
            (PONG, Some(sent)) => {
                let now = began.elapsed().as_nanos() as u64;
                let rtt = now.saturating_sub(u64::from_le_bytes(*sent));
                self.link.counters.rtt_nanos.set(rtt);
                // A slow answer says little about the time.
                if let Some(theirs) = frame.body.get(8..16)
                    && rtt < RTT_NANOS_MAX
                {
                    let theirs = u64::from_le_bytes(theirs.try_into().expect("eight bytes"));
                    let there = theirs.saturating_add(rtt / 2_000_000);
                    let ahead = there.wrapping_sub(wall_millis());
                    self.link.counters.ahead_millis.set(ahead);
                    self.link.counters.time_reports.add(1);
                }
            }
            // A later version's.
            _ => {}
        }
    }

    pub(super) fn ping(&mut self, now: Instant, began: Instant, shared: &Shared) {
        self.pinged = now;
        // A peer that has not taken what was sent before is not sent more.
        if self.link.outbox.bytes() == 0 {
            let sent = began.elapsed().as_nanos() as u64;
            let _full = shared.send_own(&self.link, PING, &sent.to_le_bytes());
        }
    }
}
