//! Keeps pages of other sites from changing anything, and from reading streams.
//!
//! A browser lets any page send requests; it says with them where they come from. `Sec-Fetch-Site`
//! says whether the page is of another site, and `Origin`, with all but plain requests to the
//! page's own origin, which origin that is. Programs that are no browsers send neither.
//!
//! Only the request's own `Host` with its port is allowed, for another port of this machine may be
//! anybody's. The scheme may differ: a proxy before the node may speak TLS. A development server
//! that passes requests on leaves `Origin` out.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};

use super::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request that a page of another site has sent, if it would change something or if it
/// is for one of `streams`.
pub(super) fn foreign_origin(request: &Request, streams: &[&str]) -> Option<Problem> {
    let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if is_read && !streams.contains(&request.uri().path()) {
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
    let is_own = authority(origin.as_bytes())
        .is_some_and(|authority| host.is_some_and(|host| host.eq_ignore_ascii_case(authority)));
    (!is_own).then(|| refused("the header Origin names another host than the header Host"))
}

fn authority(origin: &[u8]) -> Option<&[u8]> {
    origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"))
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

    fn is_refused(method: &str, path: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        foreign_origin(&request, &["/v1/events", "/v1/feed"]).is_some()
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "127.0.0.1:7480");
        for (origin, is_foreign) in [
            ("http://127.0.0.1:7480", false),
            ("https://127.0.0.1:7480", false),
            ("http://127.0.0.1:9999", true),
            ("http://localhost:7480", true),
            ("http://127.0.0.2:7480", true),
            ("http://[::1]:7480", true),
            ("http://127.0.0.1", true),
            ("http://evil.example", true),
            ("http://localhost.evil.example", true),
            ("null", true),
            ("127.0.0.1:7480", true),
            ("", true),
        ] {
            let headers = [host, ("origin", origin)];
            assert_eq!(is_refused("GET", "/v1/events", &headers), is_foreign, "{origin:?}");
            assert_eq!(is_refused("POST", "/v1/txn", &headers), is_foreign, "{origin:?}");
            assert!(!is_refused("GET", "/v1/status", &headers), "a read that nobody can read");
        }
        let cross = [host, ("sec-fetch-site", "cross-site")];
        assert!(is_refused("GET", "/v1/events", &cross));
        assert!(is_refused("GET", "/v1/feed", &cross));
        assert!(is_refused("DELETE", "/v1/kv/0/k", &cross));
        for site in ["same-origin", "same-site", "none"] {
            assert!(!is_refused("GET", "/v1/events", &[host, ("sec-fetch-site", site)]));
        }
        assert!(!is_refused("GET", "/v1/events", &[host]), "no browser");
        let named = [("host", "Node:7480"), ("origin", "https://node:7480")];
        assert!(!is_refused("GET", "/v1/events", &named));
    }
}
