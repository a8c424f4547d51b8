//! The command line, the HTTP client and the Rust client by TLS.

use std::time::Duration;

use client::http::Client;
use client::{Store, Tls, TlsFiles};
use harness::process::Directory;

use super::certs::{Certs, run, text};
use super::{PROGRAM, node};

fn carillon(words: &[&str]) -> (Option<i32>, String) {
    let ended = run(PROGRAM, words, b"");
    (ended.status.code(), text(&ended))
}

#[test]
fn commands_speak_tls_and_trust_no_other_authority() {
    let dir = Directory::new("tls_commands").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let (_node, _resp, http) = node("tls_commands_node", &certs, &[]);
    let (plain, url, ca) = (http.to_string(), format!("https://{http}"), certs.file("ca.pem"));
    let put = carillon(&["put", "a", "1", "--http", &url, "--tls-ca-file", &ca]);
    assert_eq!(put.0, Some(0), "{put:?}");
    // The file alone says that it is TLS.
    let got = carillon(&["get", "a", "--http", &plain, "--tls-ca-file", &ca]);
    assert_eq!(got, (Some(0), "1".to_owned()));
    let nodes = carillon(&["nodes", "--json", "--http", &url, "--tls-ca-file", &ca]);
    assert!(nodes.1.contains(&format!("\"http_tls\":\"{http}\"")), "{}", nodes.1);
    for (words, said) in [
        (vec!["--http", &url, "--tls-ca-file", &others.file("ca.pem")], "invalid peer certificate"),
        (vec!["--http", &plain], "no usable answer"),
        (vec!["--http", &url, "--tls-ca-file", "/nonexistent"], "/nonexistent: No such file"),
        (vec!["--http", "ftp://x:1"], "is no address of a node"),
    ] {
        let (code, text) = carillon(&[&["get", "a"], &words[..]].concat());
        assert!(code != Some(0) && text.contains(said), "{words:?}: {code:?} {text}");
    }
    let (code, text) = carillon(&["get", "a", "--http", &url, "--tls-cert-file", &ca]);
    assert!(code == Some(2) && text.contains("--tls-key-file"), "{code:?} {text}");
}

#[test]
fn commands_show_a_certificate_if_the_node_asks_for_one() {
    let dir = Directory::new("tls_commands_mutual").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let ca = certs.file("ca.pem");
    let flags = ["--tls-client-ca-file", &ca];
    let (_node, _resp, http) = node("tls_commands_mutual_node", &certs, &flags);
    let url = format!("https://{http}");
    let (cert, key) = (certs.file("client.pem"), certs.file("client.key"));
    let base = ["status", "--http", &url, "--tls-ca-file", &ca];
    assert_ne!(carillon(&base).0, Some(0));
    let shows = [&base[..], &["--tls-cert-file", &cert, "--tls-key-file", &key]].concat();
    assert_eq!(carillon(&shows).0, Some(0), "{:?}", carillon(&shows));
}

#[test]
fn the_rust_client_speaks_tls() {
    let dir = Directory::new("tls_rust").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let (_node, resp, http) = node("tls_rust_node", &certs, &[]);
    let trusting = |certs: &Certs| {
        let files = TlsFiles { ca: Some(certs.file("ca.pem").into()), ..TlsFiles::default() };
        Tls::load(&files).expect("an authority")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::builder().tls(trusting(&certs)).connect([resp.to_string()]);
        let store = store.await.expect("it connects");
        store.set("a", "1").await.unwrap();
        let long = vec![b'x'; 3 << 20];
        store.set("long", long.clone()).await.unwrap();
        assert_eq!(store.get("long").await.unwrap().as_deref(), Some(&long[..]));
        let all = (0..500).map(|n| {
            let store = store.clone();
            tokio::spawn(async move { store.set(format!("k{n}"), format!("{n}")).await })
        });
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap().unwrap();
        }
        assert_eq!(store.get("k499").await.unwrap().as_deref(), Some(&b"499"[..]));
        let sum = store.transaction(async |tx| {
            tx.incr_by("x", 2).await?;
            tx.incr_by("y", 3).await
        });
        assert_eq!(sum.await.unwrap(), 3);
        let wrong = Store::builder().tls(trusting(&others)).connect([resp.to_string()]).await;
        assert!(wrong.unwrap_err().to_string().contains("invalid peer certificate"));
        let short = Store::builder().connect_timeout(Duration::from_millis(300));
        assert!(short.connect([resp.to_string()]).await.is_err(), "it speaks no TLS");
    });
    let client = Client::new(&format!("https://{http}")).unwrap();
    let client = client.with_tls(trusting(&certs));
    assert_eq!(client.status().unwrap()["ready"], true);
}
