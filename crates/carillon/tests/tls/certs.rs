//! Directories of certificates, and programs that use them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::PROGRAM;

/// Runs a program with this input, and waits for its end.
pub fn run(program: &str, args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program);
    let piped = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().expect("it is installed");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // One that refuses the connection reads nothing.
        scope.spawn(move || stdin.write_all(input).is_ok());
        child.wait_with_output().expect("it ends")
    })
}

pub fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).trim().to_owned()
}

/// A directory of certificates.
pub struct Certs(pub PathBuf);

impl Certs {
    pub fn make(dir: &Path, more: &[&str]) -> Self {
        let words = [&["certs", "dev", "--dir", dir.to_str().unwrap()], more].concat();
        let made = run(PROGRAM, &words, b"");
        assert!(made.status.success(), "{}", text(&made));
        Self(dir.to_owned())
    }

    /// Revokes the certificates of these names.
    pub fn revoke(&self, names: &[&str]) -> Output {
        let dir = self.0.to_str().expect("a path");
        run(PROGRAM, &[&["certs", "revoke", "--dir", dir], names].concat(), b"")
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path").to_owned()
    }

    /// Flags of a node that has this certificate.
    pub fn flags(&self) -> [String; 4] {
        let flag = |name: &str, file| [format!("--{name}"), self.file(file)];
        let [cert, key] = [flag("tls-cert-file", "server.pem"), flag("tls-key-file", "server.key")];
        [cert, key].concat().try_into().expect("four")
    }

    /// `redis-cli` that trusts this authority, and shows a certificate if asked for.
    pub fn redis_cli(&self, at: SocketAddr, shows: Option<&Self>, words: &[&str]) -> Output {
        self.redis_cli_with(at, shows, words, b"")
    }

    pub fn redis_cli_with(
        &self,
        at: SocketAddr,
        shows: Option<&Self>,
        words: &[&str],
        input: &[u8],
    ) -> Output {
        let port = at.port().to_string();
        let mut all = vec!["-p".to_owned(), port, "--tls".into()];
        all.extend(["--cacert".into(), self.file("ca.pem")]);
        if let Some(own) = shows {
            all.extend(["--cert".into(), own.file("client.pem")]);
            all.extend(["--key".into(), own.file("client.key")]);
        }
        let all: Vec<&str> = all.iter().map(String::as_str).chain(words.iter().copied()).collect();
        run("redis-cli", &all, input)
    }

    /// The serial number of the certificate that a listener shows.
    pub fn serial(&self, at: SocketAddr) -> String {
        let (connect, ca) = (at.to_string(), self.file("ca.pem"));
        let shown = run(
            "openssl",
            &["s_client", "-connect", &connect, "-CAfile", &ca, "-verify_return_error"],
            b"",
        );
        assert!(text(&shown).contains("Verify return code: 0 (ok)"), "{}", text(&shown));
        let serial = run("openssl", &["x509", "-noout", "-serial"], &shown.stdout);
        text(&serial)
    }
}
