//! The few HTTP requests a benchmark needs, by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Outcome;

/// Sends one request and returns the status. `body` is JSON, or empty.
pub fn request(port: u16, method: &str, path: &str, body: &str) -> Outcome<u16> {
    let answer = exchange(port, method, path, body)?;
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| format!("{method} {path}: no HTTP answer: {answer:.100}").into())
}

/// The body of what a GET answers.
pub fn body(port: u16, path: &str) -> Outcome<String> {
    let answer = exchange(port, "GET", path, "")?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    body.ok_or_else(|| format!("GET {path}: no HTTP answer: {answer:.100}").into())
}

fn exchange(port: u16, method: &str, path: &str, body: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
