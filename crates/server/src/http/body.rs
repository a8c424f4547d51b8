//! Reading a request's body within its limits; and what it holds, if that is JSON.

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
use crate::api::ApiError;

/// A body, and the room that it takes until this is dropped.
pub struct Held<'a> {
    /// The bytes.
    pub bytes: Bytes,
    _room: SemaphorePermit<'a>,
}

/// The whole body, if it is no longer than `bytes_max` and comes in time.
///
/// `too_long` is what to say if it is longer: its bytes, and how many it may have.
pub async fn read(
    context: &Context,
    body: Body,
    bytes_max: u64,
    too_long: fn(u64, u64) -> Problem,
) -> Result<Held<'_>, Problem> {
    timeout(context.options.body_timeout, read_all(context, body, bytes_max, too_long))
        .await
        .unwrap_or_else(|_| Err(late()))
}

async fn read_all(
    context: &Context,
    mut body: Body,
    bytes_max: u64,
    too_long: fn(u64, u64) -> Problem,
) -> Result<Held<'_>, Problem> {
    // A length that is not announced may turn out to be any.
    let announced = body.size_hint().exact();
    let bytes = announced.unwrap_or(bytes_max);
    if bytes > bytes_max {
        return Err(too_long(bytes, bytes_max));
    }
    let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).expect("room has 32 bits of pieces");
    let room = context.room.acquire_many(pieces).await.expect("the semaphore is never closed");

    let mut out = Vec::with_capacity(announced.unwrap_or(0) as usize);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame =
            frame.map_err(|why| Problem::bad_request(format!("the body broke off: {why}")))?;
        // Frames that are no data are trailers, which nothing here asks for.
        let Ok(data) = frame.into_data() else { continue };
        let bytes = (out.len() + data.len()) as u64;
        if bytes > bytes_max {
            return Err(too_long(bytes, bytes_max));
        }
        out.extend_from_slice(&data);
    }
    Ok(Held { bytes: out.into(), _room: room })
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

fn late() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "body-timeout",
        "Body too slow",
        "the body was not there in time, or there was no room for it beside other requests' bodies",
        "Send it again, faster or when fewer large requests are under way.",
    )
}
