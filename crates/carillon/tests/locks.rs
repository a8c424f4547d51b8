//! Locks of real processes: never two holders at once and tokens that grow, while holders and nodes
//! are killed; a command ends before its lease does; bad input is refused.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::http::{Client, ClientError};
use client::{Lock, Locks};
use harness::cluster::Cluster;
use harness::node::{Node, TEST_TIMEOUT};
use harness::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

/// `carillon lock` with these words, at a node.
fn lock(node: &Node, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("lock").args(words).env("CARILLON_HTTP", node.http.to_string());
    command.env("NO_COLOR", "1").stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    command
}

/// A process that is killed when it is dropped.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn kind(result: Result<impl std::fmt::Debug, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(problem) | ClientError::BadRequest(problem)) => problem.kind,
        other => panic!("{other:?}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_lock_has_one_holder_whose_token_is_the_largest() {
    let node = Node::alone_and_ready(PROGRAM, "locks_one", &[]);
    let client = node.client();
    assert_eq!(client.locks("", None).unwrap(), (Vec::new(), None));
    assert_eq!(client.lock("a b/ü").unwrap(), None);
    let ann = client.lock_acquire("a b/ü", Some("ann"), 30 * SECOND, Duration::ZERO).unwrap();
    assert_eq!((&*ann.name, &*ann.owner), ("a b/ü", "ann"));
    assert_eq!(client.lock("a b/ü").unwrap().as_ref(), Some(&ann));
    let begun = Instant::now();
    let held = client.lock_acquire("a b/ü", Some("bob"), 30 * SECOND, SECOND / 2);
    assert_eq!(kind(held), "lock-held");
    assert!(begun.elapsed() >= SECOND / 2, "it waits");
    // Who asks again has it still.
    let again = client.lock_acquire("a b/ü", Some("ann"), 30 * SECOND, Duration::ZERO).unwrap();
    assert_eq!(again.token, ann.token);
    let renewed = client.lock_renew("a b/ü", ann.token, 60 * SECOND).unwrap();
    assert!(renewed.token == ann.token && renewed.ends_at_ms > ann.ends_at_ms);
    assert_eq!(kind(client.lock_renew("a b/ü", ann.token + 1, SECOND)), "lock-lost");
    assert_eq!(kind(client.lock_release("a b/ü", ann.token - 1)), "lock-lost");
    client.lock_release("a b/ü", ann.token).unwrap();
    assert_eq!(kind(client.lock_release("a b/ü", ann.token)), "lock-lost");

    // Without a name the owner is somebody new each time.
    let other = client.lock_acquire("a b/ü", None, SECOND, Duration::ZERO).unwrap();
    assert!(other.token > ann.token && other.owner.len() == 32);
    assert_eq!(kind(client.lock_acquire("a b/ü", None, SECOND, Duration::ZERO)), "lock-held");
    // A lease ends by itself.
    let next = client.lock_acquire("a b/ü", None, SECOND, 20 * SECOND).unwrap();
    assert!(next.token > other.token);
    assert_eq!(kind(client.lock_renew("a b/ü", other.token, SECOND)), "lock-lost");

    for name in ["x1", "x2", "y"] {
        client.lock_acquire(name, Some("ann"), 30 * SECOND, Duration::ZERO).unwrap();
    }
    let names = |prefix| {
        let (locks, _) = client.locks(prefix, None).unwrap();
        locks.into_iter().map(|lock| lock.name).collect::<Vec<_>>()
    };
    assert_eq!(names("x"), ["x1", "x2"]);
    let (behind, next) = client.locks("x", Some("x1")).unwrap();
    assert_eq!((behind.len(), behind[0].name.as_str(), next), (1, "x2", None));
    let (code, text) = node.carillon(&["locks", "--prefix", "y"]);
    assert!(code == 0 && text.contains("ann"), "{text}");

    let long = "x".repeat(300);
    for (name, owner, lease) in [
        (long.as_str(), "ann", SECOND),
        ("x", long.as_str(), SECOND),
        ("x", "", SECOND),
        ("x\n", "ann", SECOND),
        ("x", "ann", Duration::from_millis(999)),
        ("x", "ann", Duration::from_secs(86_401)),
    ] {
        let refused = client.lock_acquire(name, Some(owner), lease, Duration::ZERO);
        assert_eq!(kind(refused), "bad-topic", "{name:?} {owner:?} {lease:?}");
    }
    let refused = client.lock_acquire("x", Some("ann"), SECOND, 61 * SECOND);
    assert_eq!(kind(refused), "bad-request");
}

#[test]
fn commands_run_while_the_lock_is_held_and_end_before_its_lease_does() {
    let mut node = Node::alone_and_ready(PROGRAM, "locks_commands", &[]);
    let done = lock(&node, &["a", "--ttl", "2s", "--", "sh", "-c", "sleep 3; exit 7"]).output();
    assert_eq!(done.unwrap().status.code(), Some(7), "it was renewed for longer than its lease");
    assert_eq!(node.client().lock("a").unwrap(), None, "it was released");
    let script = "test $CARILLON_LOCK_TOKEN -gt 1000 && test $CARILLON_LOCK_NAME = a";
    let done = lock(&node, &["a", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    let done = lock(&node, &["a", "--", "sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(done.status.code(), Some(137));
    let done = lock(&node, &["a", "--", "/no/such/program"]).output().unwrap();
    assert_eq!(done.status.code(), Some(127));
    assert_eq!(node.client().lock("a").unwrap(), None);

    let command = ["a", "--ttl", "3s", "--owner", "first", "--", "sleep", "60"];
    let mut first = Holder(lock(&node, &command).spawn().unwrap());
    until(TEST_TIMEOUT, "it is held", || node.client().lock("a").ok()?);
    let held = lock(&node, &["a", "--", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&held.stderr).into_owned();
    assert!(held.status.code() == Some(1) && said.contains("held by \"first\""), "{said}");
    // SIGTERM is passed on.
    harness::process::send_signal(first.0.id(), harness::process::Signal::Terminate).unwrap();
    assert_eq!(first.0.wait().unwrap().code(), Some(143));

    let mut first = Holder(lock(&node, &command).spawn().unwrap());
    until(TEST_TIMEOUT, "it is held", || node.client().lock("a").ok()?);
    node.kill();
    let killed = Instant::now();
    assert_eq!(first.0.wait().unwrap().code(), Some(6), "no node is left to renew it");
    assert!(killed.elapsed() < 3 * SECOND, "before the lease is over: {:?}", killed.elapsed());
}

/// What holders write into their file: a word and a token.
fn lines(file: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let parsed = text.lines().map(|line| {
        let (word, token) = line.split_once(' ').expect("two words");
        (word.to_owned(), token.parse().expect("a token"))
    });
    parsed.collect()
}

#[test]
fn two_never_hold_a_lock_at_once_while_holders_and_nodes_are_killed() {
    let mut cluster = Cluster::start(PROGRAM, "locks_kills", 3, &[], &["0"]);
    let file = cluster.nodes[0].dir().join("../holders");
    let script = format!(
        "echo begin $CARILLON_LOCK_TOKEN >> {0}; sleep 0.3; echo end $CARILLON_LOCK_TOKEN >> {0}",
        file.display()
    );
    let words = ["shared", "--ttl", "3s", "--wait", "60s", "--", "sh", "-c", &script];
    let mut killed_tokens = Vec::new();
    for round in 0..4 {
        if round == 2 {
            // A single replica would die with its node.
            cluster.wait_until_replicated("locks", 3);
        }
        let start = |number: usize| {
            let node = &cluster.nodes[number % cluster.nodes.len()];
            node.is_on().then(|| Holder(lock(node, &words).spawn().unwrap()))
        };
        let mut holders: Vec<Holder> = (0..6).filter_map(start).collect();
        let before = lines(&file).len();
        until(TEST_TIMEOUT, "somebody holds it", || (lines(&file).len() > before).then_some(()));
        if round == 1 {
            // One that holds it now.
            let (token, owner) = until(TEST_TIMEOUT, "it is held", || {
                let held = cluster.nodes[0].client().lock("shared").ok()??;
                Some((held.token, held.owner))
            });
            let id: u32 = owner.split('/').nth(1).unwrap().parse().unwrap();
            let one = holders.iter_mut().find(|one| one.0.id() == id).expect("one of them");
            one.0.kill().unwrap();
            killed_tokens.push(token);
        }
        if round == 2 {
            cluster.nodes[2].kill();
        }
        if round == 3 {
            let first = cluster.nodes[0].peer.to_string();
            cluster.nodes[2].start(&["--join", &first]);
        }
        for holder in &mut holders {
            let status = holder.0.wait().unwrap();
            // Who asked the killed node alone, and had no answer, may have given up.
            let is_fine = status.success() || status.code().is_none() || round == 2;
            assert!(is_fine, "round {round}: {status}");
        }
    }
    let all = lines(&file);
    let mut held: Option<u64> = None;
    let mut largest = 0;
    for (word, token) in &all {
        match word.as_str() {
            "begin" => {
                let is_free = held.is_none_or(|before| killed_tokens.contains(&before));
                assert!(is_free, "{token} begins while {held:?} holds it: {all:?}");
                assert!(*token > largest, "tokens grow: {all:?}");
                (held, largest) = (Some(*token), *token);
            }
            _ => {
                assert_eq!(held, Some(*token), "{all:?}");
                held = None;
            }
        }
    }
    assert!(all.len() > 30, "{}", all.len());
}

#[test]
fn locks_of_the_rust_client_are_renewed_and_tell_when_they_are_lost() {
    let mut node = Node::alone_and_ready(PROGRAM, "locks_rust", &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let address = node.http.to_string();
    let locks = Locks::new([&address]).unwrap();
    runtime.block_on(async {
        let lock = locks.acquire("l", "ann", 2 * SECOND, SECOND).await.unwrap();
        let held = locks.acquire("l", "bob", 2 * SECOND, 3 * SECOND).await;
        assert_eq!(kind(held.map(|lock: Lock| lock.token())), "lock-held", "it is renewed");
        assert!(lock.is_held());
        let token = lock.token();
        lock.release().await.unwrap();
        let lock = locks.acquire("l", "bob", 2 * SECOND, SECOND).await.unwrap();
        assert!(lock.token() > token);
        // Dropped, it is not renewed any more.
        drop(lock);
        let mut lock = locks.acquire("l", "cid", 2 * SECOND, 10 * SECOND).await.unwrap();
        node.kill();
        let begun = Instant::now();
        lock.lost().await;
        assert!(begun.elapsed() < 2 * SECOND && !lock.is_held());
    });
    assert!(Client::new(&address).unwrap().lock("l").is_err());
}
