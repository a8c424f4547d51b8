//! The console as a browser opens it: the page at `/` of a real node, and the files that it names.

use client::http::{Reply, Request};
use harness::node::Node;

const BINARY: &str = env!("CARGO_BIN_EXE_carillon");

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

fn ask(node: &Node, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    node.client().send(&Request { headers, ..Request::write(method, path) }).unwrap()
}

/// Relative addresses that a page loads.
fn links(page: &str) -> Vec<String> {
    let parts = page.split(['"']).filter_map(|part| part.strip_prefix("./"));
    parts.map(|path| format!("/{path}")).collect()
}

#[test]
fn a_node_serves_the_console() {
    let node = Node::alone_and_ready(BINARY, "console", &[]);
    let gzip = [("accept-encoding", "gzip, deflate, br")];
    let page = ask(&node, "GET", "/", &[]);
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("content-encoding"), None);
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert_eq!(page.header("content-security-policy"), Some(POLICY));
    assert!(page.text().starts_with("<!doctype html>"), "{}", page.text());
    assert_eq!(ask(&node, "GET", "/index.html", &[]).body, page.body);

    let mut paths = links(&page.text());
    assert!(paths.iter().any(|path| path.ends_with(".js")), "{paths:?}");
    assert!(paths.iter().any(|path| path.ends_with(".css")), "{paths:?}");
    assert!(paths.iter().any(|path| path == "/icon.svg"), "{paths:?}");
    paths.push("/".to_owned());
    for path in &paths {
        let plain = ask(&node, "GET", path, &[]);
        let packed = ask(&node, "GET", path, &gzip);
        assert_eq!((plain.status, packed.status), (200, 200), "{path}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(packed.body[..2], [0x1f, 0x8b], "{path}");
        assert!(packed.body.len() < plain.body.len(), "{path}");
        let kept = if path.starts_with("/assets/") {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        for reply in [&plain, &packed] {
            assert_eq!(reply.header("cache-control"), Some(kept), "{path}");
            assert_eq!(reply.header("vary"), Some("accept-encoding"), "{path}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
            assert_eq!(reply.header("content-security-policy"), Some(POLICY), "{path}");
            assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{path}");
        }
        assert_ne!(plain.header("etag"), packed.header("etag"), "{path}: other bytes");
        let length = packed.body.len().to_string();
        let head = ask(&node, "HEAD", path, &gzip);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-length"), Some(length.as_str()), "{path}");
        assert_eq!(head.header("etag"), packed.header("etag"), "{path}");
        let known = [gzip[0], ("if-none-match", packed.header("etag").unwrap())];
        let same = ask(&node, "GET", path, &known);
        assert_eq!((same.status, same.body.len()), (304, 0), "{path}");
        assert_eq!(same.header("etag"), packed.header("etag"), "{path}");
        assert_eq!(same.header("cache-control"), Some(kept), "{path}");
        assert_eq!(ask(&node, "GET", path, &[known[1]]).status, 200, "{path}: the other form");
    }
}

#[test]
fn what_is_no_file_of_the_console_is_a_problem() {
    let node = Node::alone_and_ready(BINARY, "no-console", &[]);
    for (method, path, status, kind) in [
        ("GET", "/assets/index-OLD.js", 404, "unknown-path"),
        ("GET", "/assets/", 404, "unknown-path"),
        ("GET", "/index.html.gz", 404, "unknown-path"),
        ("GET", "/assets/../index.html", 404, "unknown-path"),
        ("GET", "/ring", 404, "unknown-path"),
        ("POST", "/", 405, "unknown-method"),
        ("DELETE", "/icon.svg", 405, "unknown-method"),
    ] {
        let reply = ask(&node, method, path, &[]);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        assert!(reply.text().contains(&format!("problem:{kind}\"")), "{}", reply.text());
    }
}
