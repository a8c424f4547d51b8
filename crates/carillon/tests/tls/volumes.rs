//! Volumes by TLS: STARTTLS, with nbdinfo and nbdcopy of libnbd.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use harness::node::{Node, TEST_TIMEOUT};
use harness::process::Directory;

use super::PROGRAM;
use super::certs::{Certs, run, text};

/// The directory as libnbd names its files.
fn for_libnbd(certs: &Certs, dir: &Path, shows: bool) -> String {
    fs::create_dir_all(dir).unwrap();
    let names = [("ca.pem", "ca-cert.pem"), ("client.pem", "client-cert.pem")];
    let names = names.into_iter().chain([("client.key", "client-key.pem")]);
    for (from, to) in names.take(if shows { 3 } else { 1 }) {
        fs::copy(certs.file(from), dir.join(to)).unwrap();
    }
    dir.to_str().unwrap().to_owned()
}

fn info(uri: &str) -> (bool, String) {
    let ended = run("nbdinfo", &[uri], b"");
    (ended.status.success(), text(&ended))
}

/// What is answered to STARTTLS and more in one piece.
fn starttls_and_more(at: SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let starttls = [&b"IHAVEOPT"[..], &5_u32.to_be_bytes(), &[0; 4]].concat();
    let list = [&b"IHAVEOPT"[..], &3_u32.to_be_bytes(), &[0; 4]].concat();
    stream.write_all(&[&[0, 0, 0, 3][..], &starttls, &list].concat()).unwrap();
    let mut rest = Vec::new();
    // It ends, maybe by a reset.
    let _end = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn volumes_are_served_by_tls_and_if_required_not_without() {
    let dir = Directory::new("tls_volumes").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let others = Certs::make(&dir.path().join("others"), &[]);
    let ours = for_libnbd(&certs, &dir.path().join("libnbd"), false);
    let foreign = for_libnbd(&others, &dir.path().join("foreign"), false);
    let files = certs.flags();
    for mode in ["off", "on", "required"] {
        let mut flags = vec!["--nbd-tls", mode];
        flags.extend(files.iter().map(String::as_str));
        let node = Node::alone_and_ready(PROGRAM, &format!("tls_volumes_{mode}"), &flags);
        let (code, said) = node.carillon(&["volume", "create", "disk", "--size", "8MiB"]);
        assert_eq!(code, 0, "{said}");
        let port = node.nbd.port();
        let tls = format!("nbds://localhost:{port}/disk?tls-certificates={ours}");
        let (is_served, said) = info(&tls);
        assert_eq!(is_served, mode != "off", "{mode}: {said}");
        let (is_served, said) = info(&format!("nbd://localhost:{port}/disk"));
        assert_eq!(is_served, mode != "required", "{mode}: {said}");
        if mode == "off" {
            continue;
        }
        let wrong = format!("nbds://localhost:{port}/disk?tls-certificates={foreign}");
        assert!(!info(&wrong).0, "{mode}");
        // What was there is there: whole blocks, written and read by TLS.
        let (from, back) = (dir.path().join("from"), dir.path().join("back"));
        let bytes: Vec<u8> = (0..8_u32 << 20).map(|n| (n / 4096 + n % 251) as u8).collect();
        fs::write(&from, &bytes).unwrap();
        for (source, target) in [(from.to_str().unwrap(), &*tls), (&tls, back.to_str().unwrap())] {
            let copied = run("nbdcopy", &[source, target], b"");
            assert!(copied.status.success(), "{source} → {target}: {}", text(&copied));
        }
        assert!(fs::read(&back).unwrap() == bytes, "{mode}");
        // Who pushes more behind STARTTLS gets an answer to that alone.
        let answered = starttls_and_more(node.nbd);
        assert_eq!(answered.len(), 20, "{answered:?}");
        assert!(info(&tls).0, "others are served");
    }
}

#[test]
fn clients_of_volumes_must_show_a_certificate_if_the_node_asks_for_one() {
    let dir = Directory::new("tls_volumes_mutual").unwrap();
    let certs = Certs::make(&dir.path().join("certs"), &[]);
    let silent = for_libnbd(&certs, &dir.path().join("silent"), false);
    let shows = for_libnbd(&certs, &dir.path().join("shows"), true);
    let (files, ca) = (certs.flags(), certs.file("ca.pem"));
    let mut flags = vec!["--nbd-tls", "required", "--tls-client-ca-file", &ca];
    flags.extend(files.iter().map(String::as_str));
    let node = Node::alone_and_ready(PROGRAM, "tls_volumes_mutual_node", &flags);
    let (code, said) = node.carillon(&["volume", "create", "disk", "--size", "1MiB"]);
    assert_eq!(code, 0, "{said}");
    let uri =
        |dir: &str| format!("nbds://localhost:{}/disk?tls-certificates={dir}", node.nbd.port());
    assert!(!info(&uri(&silent)).0);
    let (is_served, said) = info(&uri(&shows));
    assert!(is_served && said.contains("protocol: newstyle-fixed with TLS"), "{said}");
}
