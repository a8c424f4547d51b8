//! The wiki of `examples/wiki` on real nodes: import, edits at two wikis on two nodes, conflicts,
//! history, live changes, and hostile text.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use client::http::{Client, Reply, Request};
use harness::cluster::Cluster;
use harness::node::TEST_TIMEOUT;
use harness::until;
use tokio::runtime::Runtime;
use wiki::export;
use wiki::markup::title;
use wiki::pages::{Edit, Saved, Wiki};
use wiki::web::{now_ms, serve};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const EXPORT: &str = include_str!("../../../examples/wiki/example.xml");

/// Serves a wiki from a node.
fn served(runtime: &Runtime, cluster: &Cluster, number: usize) -> (SocketAddr, Wiki) {
    let node = &cluster.nodes[number];
    runtime.block_on(async {
        let resp = [node.resp.to_string()];
        let wiki = Wiki::open(&resp, &[node.http.to_string()]).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, wiki.clone()));
        (address, wiki)
    })
}

fn get(wiki: SocketAddr, path: &str) -> Reply {
    Client::new(&wiki.to_string()).unwrap().send(&Request::get(path)).unwrap()
}

fn post(wiki: SocketAddr, path: &str, form: &str, headers: &[(&str, &str)]) -> Reply {
    let request = Request { body: form.as_bytes(), headers, ..Request::write("POST", path) };
    Client::new(&wiki.to_string()).unwrap().send(&request).unwrap()
}

#[test]
fn pages_are_imported_edited_at_two_nodes_and_read_as_they_were() {
    let cluster = Cluster::start(PROGRAM, "wiki", 2, &["--replicas", "1"], &["0"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (one, pages) = served(&runtime, &cluster, 0);
    let (two, _) = served(&runtime, &cluster, 1);

    // The import: each revision is one.
    let exported = export::pages(EXPORT).unwrap();
    runtime.block_on(async {
        for page in &exported {
            let title = title(&page.title).unwrap();
            for (base, revision) in (0..).zip(&page.revisions) {
                let (text, author) = (revision.text.as_str(), revision.author.as_str());
                let edit = Edit { title: &title, base, text, author, comment: &revision.comment };
                let saved = pages.save(&edit, now_ms()).await.unwrap();
                assert_eq!(saved, Saved::Done(base + 1));
            }
        }
    });
    let shown = get(two, "/wiki/Carillon");
    assert_eq!(shown.status, 200);
    assert!(shown.text().contains("<a href=\"/wiki/Bell\">"), "{}", shown.text());
    assert!(shown.text().contains("/category/Instruments"));
    let policy = shown.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let history = get(two, "/history/Carillon").text();
    assert_eq!(history.matches("<tr><td>").count(), 3, "{history}");
    assert!(get(one, "/links/Bell").text().contains("/wiki/Change_ringing"));
    assert!(get(one, "/category/Instruments").text().contains("/wiki/Baton_keyboard"));
    assert!(get(one, "/search?prefix=bell").text().contains("/wiki/Bell_tower"));
    assert!(get(one, "/recent").text().contains("/wiki/Raft"));
    let missing = get(one, "/wiki/No_such_page");
    assert!(missing.status == 404 && missing.text().contains("/edit/No_such_page"));

    // As it was: from the history's own link.
    let at = history.split("?at=").nth(4).unwrap();
    let at = at.split('"').next().unwrap();
    let before = get(two, &format!("/wiki/Carillon?at={at}")).text();
    assert!(before.contains("baton keyboard") && !before.contains("carillonneur"), "{before}");
    assert_eq!(get(two, "/wiki/Carillon?at=nonsense").status, 400);

    // Who watches recent changes at the other wiki sees an edit.
    let mut stream = TcpStream::connect(two).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(stream, "GET /recent/stream HTTP/1.1\r\nHost: {two}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    std::thread::sleep(Duration::from_millis(2500));

    // Two edit the same revision: the second is told so, and nothing is lost.
    let form = "base=3&author=ann&comment=shorter&text=An+instrument+of+%5B%5Btower%5D%5D";
    let saved = post(one, "/edit/Carillon", form, &[]);
    assert_eq!((saved.status, saved.header("location")), (303, Some("/wiki/Carillon")));
    let conflict = post(two, "/edit/Carillon", "base=3&author=bob&comment=&text=Mine", &[]);
    assert_eq!(conflict.status, 409);
    let said = conflict.text();
    assert!(said.contains("ann has changed") && said.contains("Mine"), "{said}");
    assert!(said.contains("name=\"base\" value=\"4\""), "{said}");
    assert!(get(two, "/wiki/Carillon").text().contains("/wiki/Tower"));
    // Links and categories follow.
    assert!(!get(two, "/links/Bell").text().contains("\"/wiki/Carillon\""));
    assert!(get(two, "/links/Tower").text().contains("\"/wiki/Carillon\""));
    assert!(!get(two, "/category/Instruments").text().contains("\"/wiki/Carillon\""));
    let seen = lines.find_map(|line| {
        let line = line.expect("the stream goes on");
        line.strip_prefix("data: ").filter(|item| item.contains("shorter")).map(str::to_owned)
    });
    assert!(seen.unwrap().contains("/wiki/Carillon"));

    // Bad input.
    let hostile =
        "base=0&author=%3Cb%3Ex&comment=%3Cscript%3E&text=%3Cscript%3Ealert(1)%3C/script%3E";
    assert_eq!(post(one, "/edit/Hostile", hostile, &[]).status, 303);
    for path in ["/wiki/Hostile", "/history/Hostile", "/recent", "/edit/Hostile"] {
        let shown = get(two, path).text();
        assert!(!shown.contains("<script>") && !shown.contains("<b>x"), "{path}: {shown}");
    }
    let foreign = [("origin", "http://evil.example")];
    assert_eq!(post(one, "/edit/Carillon", "base=4&author=x&text=x", &foreign).status, 403);
    assert_eq!(post(one, "/edit/Carillon", "base=4&author=+&text=x", &[]).status, 400);
    assert_eq!(post(one, "/edit/Carillon", "base=x&author=x&text=x", &[]).status, 400);
    assert_eq!(post(one, "/edit/Carillon", "base=4&author=x&text=%zz", &[]).status, 400);
    assert_eq!(post(one, "/edit/a%5Bb", "base=0&author=x&text=x", &[]).status, 400);
    assert_eq!(get(one, "/wiki/%ff").status, 400);
    assert_eq!(get(one, "/nothing").status, 404);
    let long = format!("base=4&author=x&text={}", "x".repeat((1 << 20) + 1));
    assert_eq!(post(one, "/edit/Carillon", &long, &[]).status, 413);
}

#[test]
fn edits_of_one_page_at_two_nodes_lose_none() {
    const EDITS: u64 = 30;
    let cluster = Cluster::start(PROGRAM, "wiki_edits", 2, &["--replicas", "1"], &["0"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (_, first) = served(&runtime, &cluster, 0);
    let (_, second) = served(&runtime, &cluster, 1);
    let edit = async |wiki: Wiki, name: &'static str| {
        let mut done = 0;
        while done < EDITS {
            let page = wiki.page("Counted").await.unwrap();
            let text = format!("{}* {name} [[P{done}]]\n", page.text);
            let (base, comment) = (page.revision, "");
            let edit = Edit { title: "Counted", base, text: &text, author: name, comment };
            if let Saved::Done(_) = wiki.save(&edit, now_ms()).await.unwrap() {
                done += 1;
            }
        }
    };
    runtime.block_on(async {
        tokio::join!(edit(first.clone(), "a"), edit(second.clone(), "b"));
        let page = second.page("Counted").await.unwrap();
        assert_eq!((page.revision, page.text.lines().count() as u64), (2 * EDITS, 2 * EDITS));
        assert_eq!(second.backlinks("P7").await.unwrap(), ["Counted"]);
    });
    until(TEST_TIMEOUT, "all revisions are in its history", || {
        let versions = runtime.block_on(first.history("Counted")).ok()?;
        (versions.len() as u64 == 2 * EDITS).then_some(())
    });
}
