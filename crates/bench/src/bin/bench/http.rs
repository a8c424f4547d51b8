//! The few HTTP requests a benchmark needs.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use client::http::{Client, Request};

use crate::Outcome;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The body of what a GET answers.
pub fn body(port: u16, path: &str) -> Outcome<String> {
    Ok(ask((Ipv4Addr::LOCALHOST, port).into(), ANSWER_MAX, "GET", path, "")?.1)
}

/// Sends one request to an address and returns status and body of the answer, each part of which
/// may take so long.
pub fn ask(
    at: SocketAddr,
    answer_max: Duration,
    method: &str,
    path: &str,
    body: &str,
) -> Outcome<(u16, String)> {
    let client = Client::new(&at.to_string())?.with_timeout(answer_max);
    let is_write = method != "GET";
    let body = body.as_bytes();
    let request = Request { method, body, json: true, is_write, ..Request::get(path) };
    let reply = client.send(&request)?;
    Ok((reply.status, reply.text()))
}
