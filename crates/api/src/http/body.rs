//! Reads a request's body within its limits, and parses JSON.
//!
//! Bodies of all requests share one memory budget, the *room*. A body takes room as its bytes
//! arrive, not for the length that it announces. The first [`FREE_BYTES`] of each need no room, so
//! that small bodies never wait for large ones.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | time for a whole body | `Options::body_timeout` | 408 |
//! | time without a byte of it | `Options::body_stall_timeout` | 408 |
//! | time to wait for room | `Options::room_timeout` | 503 |

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::context::{Context, PIECE_BYTES};
use super::problem::Problem;
use crate::ApiError;

/// So much of each body needs no room: there are at most `http_connections_max` of them.
pub const FREE_BYTES: usize = 64 << 10;

/// A body, and the room that it takes until this is dropped.
pub struct HeldBody<'a> {
    /// The bytes.
    pub bytes: Bytes,
    _room: Option<SemaphorePermit<'a>>,
}

/// The whole body, if it is no longer than `bytes_max` and comes in time.
///
/// `too_long` is what to say if it is longer: its bytes, and how many it may have.
pub async fn read(
    context: &Context,
    body: Body,
    bytes_max: u64,
    too_long: fn(u64, u64) -> Problem,
) -> Result<HeldBody<'_>, Problem> {
    let limit = context.options.body_timeout;
    timeout(limit, read_all(context, body, bytes_max, too_long)).await.unwrap_or_else(|_| {
        Err(late(format!("the body did not arrive within {} ms", limit.as_millis())))
    })
}

async fn read_all(
    context: &Context,
    mut body: Body,
    bytes_max: u64,
    too_long: fn(u64, u64) -> Problem,
) -> Result<HeldBody<'_>, Problem> {
    // A length that is not announced may turn out to be any.
    let announced = body.size_hint().exact().unwrap_or(bytes_max);
    if announced > bytes_max {
        return Err(too_long(announced, bytes_max));
    }
    let mut out =
        GrowingBody { context, bytes: Vec::new(), bytes_max: announced as usize, room: None };
    let stall = context.options.body_stall_timeout;
    loop {
        let next = timeout(stall, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await;
        let next = next.map_err(|_| {
            late(format!("no byte of the body has arrived for {} ms", stall.as_millis()))
        })?;
        let Some(frame) = next else { break };
        let frame =
            frame.map_err(|why| Problem::bad_request(format!("the body broke off: {why}")))?;
        // Frames that are no data are trailers, which nothing here asks for.
        let Ok(data) = frame.into_data() else { continue };
        let bytes = (out.bytes.len() + data.len()) as u64;
        if bytes > bytes_max {
            return Err(too_long(bytes, bytes_max));
        }
        out.add(&data).await?;
    }
    Ok(HeldBody { bytes: out.bytes.into(), _room: out.room })
}

/// A body that grows, and the room that it has by now.
struct GrowingBody<'a> {
    context: &'a Context,
    bytes: Vec<u8>,
    /// It grows no longer than this.
    bytes_max: usize,
    room: Option<SemaphorePermit<'a>>,
}

impl GrowingBody<'_> {
    /// Adds bytes, when there is room for them.
    async fn add(&mut self, data: &[u8]) -> Result<(), Problem> {
        let wanted = self.bytes.len() + data.len();
        if wanted > self.bytes.capacity() {
            // Twice as much each time, so that few bytes are copied.
            let capacity = (2 * self.bytes.capacity()).min(self.bytes_max).max(wanted);
            self.take_room(capacity).await?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    async fn take_room(&mut self, capacity: usize) -> Result<(), Problem> {
        let pieces = (capacity.saturating_sub(FREE_BYTES) as u64).div_ceil(PIECE_BYTES) as usize;
        let more = pieces - self.room.as_ref().map_or(0, SemaphorePermit::num_permits);
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).expect("room has 32 bits of pieces");
        let context = self.context;
        let taken = timeout(context.options.room_timeout, context.room.acquire_many(more)).await;
        let taken = taken.map_err(|_| no_room())?.expect("the semaphore is never closed");
        match &mut self.room {
            Some(room) => room.merge(taken),
            None => self.room = Some(taken),
        }
        Ok(())
    }
}

/// A value that is a JSON object: its members have names, and do not go by their order.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// For the value of a key.
pub fn value_too_long(bytes: u64, bytes_max: u64) -> Problem {
    ApiError::ValueTooLong { bytes, bytes_max }.into()
}

fn late(detail: String) -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "body-timeout",
        "Body too slow",
        detail,
        "Send it again, faster or in smaller requests.",
    )
}

fn no_room() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "Busy",
        "the bodies of other requests use all the memory for bodies",
        "Send it again when fewer large requests are under way.",
    )
}
