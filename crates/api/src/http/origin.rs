//! Keeps pages of other sites from changing anything, and from reading the stream of events.
//!
//! A browser lets any page send requests; it says with them where they come from. `Sec-Fetch-Site`
//! says whether the page is of another site, and `Origin`, with all but plain requests to the
//! page's own origin, which origin that is. Programs that are no browsers send neither.
//!
//! | the listener | origins that are allowed |
//! |---|---|
//! | any | the request's own `Host` |
//! | loopback | also any on a loopback address: a development server that passes requests on |

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};

use super::handlers::host_name;
use super::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request that a page of another site has sent, if it would change something or if it
/// is for `stream`.
pub(super) fn foreign_origin(
    request: &Request,
    is_loopback: bool,
    stream: &str,
) -> Option<Problem> {
    let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if is_read && request.uri().path() != stream {
        return None;
    }
    let headers = request.headers();
    if headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site") {
        return Some(refused("a page of another site has sent this request"));
    }
    let origin = headers.get(ORIGIN)?;
    let host = headers.get(HOST).map(HeaderValue::as_bytes).or_else(|| {
        let authority = request.uri().authority()?;
        Some(authority.as_str().as_bytes())
    });
    let is_own = authority(origin.as_bytes()).is_some_and(|authority| {
        host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
            || (is_loopback && names_loopback(authority))
    });
    (!is_own).then(|| refused("the header Origin names another host than the header Host"))
}

fn authority(origin: &[u8]) -> Option<&[u8]> {
    origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"))
}

/// Whether a host, with or without a port, is this machine.
fn names_loopback(host: &[u8]) -> bool {
    let Some(name) = host_name(host) else { return false };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn refused(why: &'static str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "foreign-origin",
        "Foreign origin",
        why,
        "Open the console at the node's own address. A proxy in front of it has to pass the header \
         Host on as it came.",
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_refused(method: &str, path: &str, headers: &[(&str, &str)], loopback: bool) -> bool {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        foreign_origin(&request, loopback, "/v1/events").is_some()
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:7480");
        for (origin, loopback, outside) in [
            ("http://127.0.0.1:7480", false, false),
            ("http://localhost:5173", false, true),
            ("http://[::1]:5173", false, true),
            ("http://evil.example", true, true),
            ("http://localhost.evil.example", true, true),
            ("http://6.6.6.6", true, true),
            ("null", true, true),
            ("127.0.0.1:7480", true, true),
            ("", true, true),
        ] {
            let headers = [host, ("origin", origin)];
            assert_eq!(is_refused("GET", "/v1/events", &headers, true), loopback, "{origin:?}");
            assert_eq!(is_refused("GET", "/v1/events", &headers, false), outside, "{origin:?}");
            assert_eq!(is_refused("POST", "/v1/txn", &headers, true), loopback, "{origin:?}");
            assert!(
                !is_refused("GET", "/v1/status", &headers, true),
                "a read that nobody can read"
            );
        }
        let cross = [host, ("sec-fetch-site", "cross-site")];
        assert!(is_refused("GET", "/v1/events", &cross, true));
        assert!(is_refused("DELETE", "/v1/kv/0/k", &cross, true));
        for site in ["same-origin", "same-site", "none"] {
            assert!(!is_refused("GET", "/v1/events", &[host, ("sec-fetch-site", site)], true));
        }
        assert!(!is_refused("GET", "/v1/events", &[host], false), "no browser");
        let named = [("host", "Node:7480"), ("origin", "https://node:7480")];
        assert!(!is_refused("GET", "/v1/events", &named, false));
    }
}
