//! `carillon txn`: from a file, a pipe and a terminal.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{CARILLON, Node};

#[test]
fn file_runs_as_one_transaction() {
    let node = Node::start("files");
    let file = node.dir().join("transfer.txn");
    let text = "# from one to the other\nput from 100\nput to 0\n\nincr from -5\nincr to 5 # all\n\
                get 'no such key'\nput \"two words\" \"\\xff\\n\"\nget 'two words'\n";
    std::fs::write(&file, text).unwrap();
    let (code, out, err) = node.txn(&[file.to_str().unwrap()], b"");
    let output = "ok\nok\n95\n5\n(nil)\nok\n\"\\xff\\n\"\n";
    assert_eq!((code, out.as_str(), err.as_str()), (0, output, "committed\n"));
    assert_eq!(node.text("to").as_deref(), Some("5"));
    assert_eq!(node.get(b"two words").unwrap().0, b"\xff\n");

    // It stops at the first line that fails, and nothing is done.
    let (code, out, err) = node.txn(&[], b"put from 1\nincr 'two words'\nput to 1\n");
    assert_eq!((code, out.as_str()), (1, "ok\n"), "{err}");
    assert!(err.contains("line 2: nothing was done") && err.contains("no whole number"), "{err}");
    assert_eq!(node.text("from").as_deref(), Some("95"));
    let (code, out, err) = node.txn(&[], b"put from 1\nrollback\n");
    assert_eq!((code, out.as_str(), err.contains("rolled back")), (1, "ok\n", true), "{err}");
    assert_eq!(node.text("from").as_deref(), Some("95"));
    let (code, out, err) = node.txn(&["-"], b"put from 1\npot from 2\n");
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("standard input, line 2: pot is not a command"), "{err}");
    let (code, _, err) = node.txn(&["/no/such/file"], b"");
    assert!(code == 2 && err.contains("cannot read /no/such/file"), "{err}");

    let lock = b"if not exists lock\nthen\nput lock me ttl 30s\n";
    let (code, out, _) = node.txn(&["-"], lock);
    assert_eq!((code, out.as_str()), (0, "then\nok\n"));
    let (code, out, err) = node.txn(&["-"], lock);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("the conditions do not hold; nothing was done"), "{err}");
    let (code, out, _) = node.txn(&["-"], &[&lock[..], b"else\nget lock\n"].concat());
    assert_eq!((code, out.as_str()), (0, "else\nme\n"));

    let (code, out, _) = node.txn(&["--json"], b"incr to\nget to");
    assert_eq!(code, 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    let results = json!([{ "value": "6" }, { "value": "6" }]);
    assert_eq!(json, json!({ "committed": true, "results": results }));
    let (code, _, err) = node.txn(&["--keyspace", "none"], b"get a");
    assert!(code == 1 && err.contains("no keyspace \"none\""), "{code} {err}");
    node.ordered("books");
    let (code, out, err) =
        node.txn(&["--keyspace", "books"], b"put a 1\nput b '2 3'\nrange - + limit 5\nrange b\n");
    assert_eq!((code, out.as_str()), (0, "ok\nok\na 1\nb \"2 3\"\nb \"2 3\"\n"), "{err}");
}

#[test]
fn refused_line_of_file_is_named() {
    let node = Node::start("sent");
    let key = "k".repeat(65 << 10);
    let (code, _, err) = node.txn(&[], format!("put a 1\nput {key} 1\n").as_bytes());
    assert!(code == 1 && err.contains("line 2: nothing was done"), "{code} {err}");
    // What it names is a line of the file, by a pipe as by its name.
    let (code, _, err) = node.txn(&[], b"# first\nput a x\n\nincr a\n");
    assert!(code == 1 && err.contains("line 4: ") && !err.contains("operation 1"), "{code} {err}");
    let (code, _, err) = node.txn(&[], b"if not exists a\nthen\nput b x\nincr b\n");
    assert!(code == 1 && err.contains("line 4: ") && !err.contains("operation 1"), "{code} {err}");
    let many = format!("if not exists a\nthen\n{}", "put a 1\n".repeat(1025));
    let (code, _, err) = node.txn(&[], many.as_bytes());
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("line 1027: a transaction with conditions has at most 1024"), "{err}");
    let (code, _, err) = node.txn(&["--lookup", "chord"], b"get a");
    assert!(code == 2 && err.contains("--lookup"), "{code} {err}");
    // Editors begin files so; and with --json all complaints are JSON.
    let (code, out, _) = node.txn(&[], b"\xef\xbb\xbfget a\n");
    assert_eq!((code, out.as_str()), (0, "(nil)\n"));
    for (input, expected, words) in [("gte a\n", 2, "line 1"), ("put a x\nincr a\n", 1, "number")] {
        let (code, _, err) = node.txn(&["--json"], input.as_bytes());
        let problem: Value = serde_json::from_str(&err).unwrap();
        assert_eq!((code, problem["outcome"].as_str()), (expected, Some("not done")), "{err}");
        assert!(problem["error"].as_str().unwrap().contains(words), "{err}");
    }
    assert_eq!(node.text("a"), None);
}

/// `carillon txn` on a terminal, which `script` (of Debian's essential bsdutils) makes.
struct Terminal {
    child: Child,
    seen: String,
}

impl Terminal {
    fn open(node: &Node) -> Self {
        let command = format!("{CARILLON} txn");
        let child = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("CARILLON_HTTP", node.http.to_string())
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, seen: String::new() }
    }

    /// Types a line, and reads on until the words are there.
    fn types(&mut self, line: &str, words: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.says(words);
    }

    fn says(&mut self, words: &str) {
        let mut byte = [0];
        while !self.seen.contains(words) {
            let more = self.child.stdout.as_mut().unwrap().read(&mut byte).unwrap() > 0;
            assert!(more, "it ended without {words:?}:\n{}", self.seen);
            self.seen.push(byte[0] as char);
        }
        self.seen.clear();
    }

    fn code(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }
}

#[test]
fn terminal_answers_each_line_and_reports_conflict() {
    let node = Node::start("terminal");
    node.put("a", "one");
    let mut terminal = Terminal::open(&node);
    terminal.says("txn> ");
    terminal.types("get a", "one\r\n");
    terminal.types("nonsense", "nonsense is not a command");
    terminal.types("if exists a", "conditions are for files");
    terminal.types("incr a", "no whole number");
    terminal.types("help", "incr KEY [NUMBER]");
    terminal.types("put b 'by hand'", "ok\r\n");
    terminal.types("get b", "\"by hand\"\r\n");
    node.put("a", "two");
    terminal.types("commit", "'a' has changed since the transaction read it");
    assert_eq!(terminal.code(), 1);
    assert_eq!(node.text("b"), None);

    let mut terminal = Terminal::open(&node);
    terminal.says("txn> ");
    terminal.types("put b 2", "ok\r\n");
    terminal.types("commit", "committed");
    assert_eq!(terminal.code(), 0);
    assert_eq!(node.text("b").as_deref(), Some("2"));
    let mut terminal = Terminal::open(&node);
    terminal.says("txn> ");
    terminal.types("put b 3", "ok\r\n");
    // Ctrl-D.
    terminal.types("\u{4}", "rolled back; nothing was done");
    assert_eq!(terminal.code(), 1);
    assert_eq!(node.text("b").as_deref(), Some("2"));
}
