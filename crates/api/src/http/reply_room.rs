//! Bounds the memory of values that are being sent, over all replies.
//!
//! The server holds a copy of a value until a slow client has read it, or until its connection has
//! stalled for too long. All such copies share one memory budget, the *room*. If it is used up, the
//! client gets 503 and may ask again. The first [`FREE_BYTES`] of each value need no room.

use std::sync::Arc;

use axum::http::StatusCode;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::FREE_BYTES;
use super::context::PIECE_BYTES;
use super::problem::Problem;

/// The room of all values that are being sent.
pub struct ReplyRoom {
    pieces: usize,
    left: Arc<Semaphore>,
}

impl ReplyRoom {
    /// Of so many pieces of [`PIECE_BYTES`].
    pub fn new(pieces: usize) -> Self {
        Self { pieces, left: Arc::new(Semaphore::new(pieces)) }
    }
}

/// A value, and its room until it is sent.
struct RoomedBody {
    value: Bytes,
    _room: OwnedSemaphorePermit,
}

/// A value as the body of a reply, with the room that it takes until its last byte has left.
///
/// # Errors
/// There is no room.
pub fn sent(value: Bytes, room: &ReplyRoom) -> Result<Bytes, Problem> {
    let pieces = (value.len().saturating_sub(FREE_BYTES) as u64).div_ceil(PIECE_BYTES);
    if pieces == 0 {
        return Ok(value);
    }
    // A value that is longer than all the room, from before a limit was lowered, is sent alone.
    let pieces = pieces.min(room.pieces as u64);
    let pieces = u32::try_from(pieces).expect("room has 32 bits of pieces");
    let room = room.left.clone().try_acquire_many_owned(pieces).map_err(|_| no_room())?;
    Ok(Bytes::from_owner(RoomedBody { value, _room: room }))
}

fn no_room() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "Busy",
        "replies that other clients have not read yet use all the memory for replies",
        "Send it again when fewer large replies are under way, and read the replies to your \
         requests.",
    )
}

impl AsRef<[u8]> for RoomedBody {
    fn as_ref(&self) -> &[u8] {
        &self.value
    }
}
