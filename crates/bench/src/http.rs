//! The few HTTP requests a benchmark needs, by hand.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::Outcome;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Sends one request to this machine and returns the status. `body` is JSON, or empty.
pub fn request(port: u16, method: &str, path: &str, body: &str) -> Outcome<u16> {
    Ok(ask((Ipv4Addr::LOCALHOST, port).into(), ANSWER_MAX, method, path, body)?.0)
}

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
    let mut stream = TcpStream::connect_timeout(&at, answer_max)?;
    stream.set_read_timeout(Some(answer_max))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    let Some((status, (_, body))) = status.zip(answer.split_once("\r\n\r\n")) else {
        return Err(format!("{method} {path}: no HTTP answer: {answer:.100}").into());
    };
    Ok((status, body.to_owned()))
}
