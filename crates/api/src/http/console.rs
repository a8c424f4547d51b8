//! The console: the web page of a cluster, from files that are part of the program.
//!
//! `console/bundle` holds them, each compressed with gzip; [`routes`] has one route for each. The
//! page reads the HTTP API of whatever serves it, so that a simulator can serve it as well.
//!
//! | file | a browser may keep it |
//! |---|---|
//! | `assets/…`, whose names have a hash of their content | for ever |
//! | others, of which the page is one (`/`, `index.html`) | if it asks each time: 304 by the tag |
//!
//! A client that does not take gzip gets the file as it was, inflated for each request.
//!
//! [`POLICY`] keeps the page from loading or sending anything elsewhere, from scripts that are not
//! files of its own, and from being shown within another page.

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rust_embed::{Embed, EmbeddedFile};

/// What the page may do. `blob:` is for pictures that it exports.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                          img-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";

const FOR_EVER: &str = "public, max-age=31536000, immutable";
const ASK_EACH_TIME: &str = "no-cache";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// No file of the bundle is longer when it is inflated.
const FILE_BYTES_MAX: usize = 8 << 20;
/// A header of gzip without a name, as `console/scripts/bundle.mjs` writes it.
const GZIP_HEAD_BYTES: usize = 10;
/// Checksum and length behind the data.
const GZIP_TAIL_BYTES: usize = 8;

#[derive(Embed)]
#[folder = "../../console/bundle/"]
struct Bundle;

/// What the names of files in the bundle end in.
const ENDING: &str = ".gz";
/// The page.
const INDEX: &str = "index.html";

/// A route for each file, and for the page at `/`. They answer GET and HEAD.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let router = Router::new().route("/", get(|headers: HeaderMap| file(INDEX.into(), headers)));
    paths().fold(router, |router, path| {
        let route = format!("/{path}");
        router.route(&route, get(move |headers: HeaderMap| file(path, headers)))
    })
}

/// Paths of all files, without a slash before them.
pub fn paths() -> impl Iterator<Item = String> {
    Bundle::iter().filter_map(|name| name.strip_suffix(ENDING).map(str::to_owned))
}

/// The reply for a file; none if there is none at this path.
pub fn answer(path: &str, headers: &HeaderMap) -> Option<Response> {
    let path = if path.is_empty() { INDEX } else { path };
    let embedded = Bundle::get(&format!("{path}{ENDING}"))?;
    let is_compressed = takes_gzip(headers);
    let tag = tag(&embedded, is_compressed);
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|tags| names(tags, &tag));
    let mut response = Response::new(Body::empty());
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        let bytes: Bytes = match embedded.data {
            std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            std::borrow::Cow::Owned(bytes) => bytes.into(),
        };
        let bytes = if is_compressed { bytes } else { inflate(&bytes).into() };
        *response.body_mut() = bytes.into();
    }
    let mut set = |name, value: &str| {
        response.headers_mut().insert(name, HeaderValue::from_str(value).expect("it is ASCII"));
    };
    if !is_known {
        set(CONTENT_TYPE, content_type(path));
        if is_compressed {
            set(CONTENT_ENCODING, "gzip");
        }
    }
    let is_asset = path.starts_with("assets/");
    set(CACHE_CONTROL, if is_asset { FOR_EVER } else { ASK_EACH_TIME });
    set(ETAG, &tag);
    set(VARY, "accept-encoding");
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(REFERRER_POLICY, "no-referrer");
    set(OPENER_POLICY, "same-origin");
    set(RESOURCE_POLICY, "same-origin");
    Some(response)
}

async fn file(path: String, headers: HeaderMap) -> Response {
    answer(&path, &headers).expect("a route for each file of the bundle")
}

/// A strong tag: the two forms of a file have other bytes, and so other tags.
fn tag(file: &EmbeddedFile, is_compressed: bool) -> String {
    const HASH_BYTES: usize = 12;
    let hash = &file.metadata.sha256_hash()[..HASH_BYTES];
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}{}\"", if is_compressed { "" } else { "-plain" })
}

/// Whether `If-None-Match` lists a tag, weak or strong (RFC 9110, 13.1.2).
fn names(tags: &HeaderValue, tag: &str) -> bool {
    let Ok(tags) = tags.to_str() else { return false };
    tags.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// Whether a client takes gzip: it says so, or it says that it takes anything.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut named, mut any) = (None, None);
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    for one in lists.flat_map(|list| list.split(',')) {
        let mut parts = one.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let is_taken = weight.is_none_or(|q| q.trim().parse::<f32>().is_ok_and(|q| q > 0.0));
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            named = Some(is_taken);
        } else if name == "*" {
            any = Some(is_taken);
        }
    }
    named.or(any).unwrap_or(false)
}

/// The content of a file of the bundle.
fn inflate(gzip: &[u8]) -> Vec<u8> {
    let data = &gzip[GZIP_HEAD_BYTES..gzip.len() - GZIP_TAIL_BYTES];
    decompress_to_vec_with_limit(data, FILE_BYTES_MAX).expect("a test inflates each file")
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 35's bound: all files together, compressed.
    const BUNDLE_BYTES_MAX: usize = 400 << 10;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn every_file_is_small_known_and_can_be_inflated() {
        let mut sum = 0;
        for path in paths() {
            let gzip = Bundle::get(&format!("{path}{ENDING}")).unwrap().data;
            sum += gzip.len();
            assert_eq!(gzip[..4], [0x1f, 0x8b, 8, 0], "{path}: gzip without further fields");
            assert_eq!(gzip[4..8], [0; 4], "{path}: without a time");
            let length = u32::from_le_bytes(gzip[gzip.len() - 4..].try_into().unwrap());
            assert_eq!(inflate(&gzip).len(), length as usize, "{path}");
            assert_ne!(content_type(&path), "application/octet-stream", "{path}");
        }
        assert!(Bundle::iter().all(|name| name.ends_with(ENDING)));
        assert!(sum > 10_000 && sum <= BUNDLE_BYTES_MAX, "{sum} bytes");
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        for (accepted, is_taken) in [
            ("gzip", true),
            ("gzip, deflate, br", true),
            ("br;q=1, GZIP;q=0.5", true),
            ("*", true),
            ("x-gzip", true),
            ("", false),
            ("identity", false),
            ("br", false),
            ("gzip;q=0", false),
            ("*;q=0", false),
            ("*, gzip;q=0.000", false),
            ("gzip; q=1", true),
            ("gzip;q=x", false),
        ] {
            assert_eq!(takes_gzip(&headers(ACCEPT_ENCODING, accepted)), is_taken, "{accepted}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn tags_are_compared_as_lists() {
        let tag = "\"ab\"";
        for (tags, is_listed) in [
            ("\"ab\"", true),
            ("W/\"ab\"", true),
            ("\"x\", \"ab\"", true),
            ("*", true),
            ("\"ab-plain\"", false),
            ("ab", false),
            ("", false),
        ] {
            assert_eq!(names(&HeaderValue::from_static(tags), tag), is_listed, "{tags}");
        }
    }

    #[test]
    fn nothing_but_files_of_the_bundle_is_found() {
        for path in ["index.html.gz", "../README.md", "assets", "assets/", "/index.html", "x"] {
            assert!(answer(path, &HeaderMap::new()).is_none(), "{path}");
        }
        assert!(answer("", &HeaderMap::new()).is_some());
    }
}
