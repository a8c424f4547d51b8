//! Asks clients for the password, if the node has one.
//!
//! A request carries it as `Authorization: Basic` with the user `default`, or as
//! `Authorization: Bearer`. Whether the node lives and is ready is said to everybody.

use std::net::IpAddr;

use axum::http::header::AUTHORIZATION;
use axum::http::{Request, StatusCode};

use super::context::Context;
use super::problem::Problem;

/// The user whose password it is.
const USER: &[u8] = b"default";
/// What is said to everybody.
const OPEN: [&str; 2] = ["/health/live", "/health/ready"];

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// What comes of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// It is the one.
    Right,
    /// It is not.
    Wrong,
    /// It was not looked at, after too many wrong ones: ask again after so many seconds.
    Wait(u64),
}

/// Judges passwords.
pub trait Passwords: std::fmt::Debug + Send + Sync {
    /// Judges one that somebody at an address has given.
    fn check(&self, address: IpAddr, password: &[u8]) -> PasswordVerdict;
}

/// The refusal of a request without the password.
pub(super) fn stranger<B>(context: &Context, request: &Request<B>) -> Option<Problem> {
    let passwords = context.options.passwords.as_ref()?;
    if OPEN.contains(&request.uri().path()) {
        return None;
    }
    let Some(given) = request.headers().get(AUTHORIZATION) else {
        return Some(refusal("the request has no password"));
    };
    let Some(password) = password_in(given.as_bytes()) else {
        return Some(refusal(
            "the header Authorization is neither Basic, with the user default, nor Bearer",
        ));
    };
    let address = request.extensions().get::<ClientAddress>();
    let address = address.map_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), |one| one.0);
    match passwords.check(address, &password) {
        PasswordVerdict::Right => None,
        PasswordVerdict::Wrong => Some(refusal("the password is wrong")),
        PasswordVerdict::Wait(seconds) => Some(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-passwords",
            "Too many wrong passwords",
            format!(
                "too many wrong passwords came from this address: none is looked at for another \
                 {seconds} s"
            ),
            "Wait so long, and then give the right one.",
        )),
    }
}

fn refusal(detail: &str) -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "no-password",
        "No password",
        detail,
        "Give the node's password: Authorization: Basic with the user default, or Bearer.",
    )
}

/// The password in the header.
fn password_in(header: &[u8]) -> Option<Vec<u8>> {
    let blank = header.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = (&header[..blank], header[blank..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let both = keyspace::base64::decode(std::str::from_utf8(rest).ok()?)?;
    let colon = both.iter().position(|byte| *byte == b':')?;
    (&both[..colon] == USER).then(|| both[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_both_forms() {
        // default:a secret
        assert_eq!(password_in(b"Basic ZGVmYXVsdDphIHNlY3JldA=="), Some(b"a secret".to_vec()));
        assert_eq!(password_in(b"bearer  a secret "), Some(b"a secret".to_vec()));
        // ann:a
        for bad in [&b"Basic YW5uOmE="[..], b"Basic", b"Basic ??", b"Digest x", b"", b"Basic YQ=="]
        {
            assert_eq!(password_in(bad), None);
        }
    }
}
