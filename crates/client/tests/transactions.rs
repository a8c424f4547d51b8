//! Transactions against scripted nodes: which are tried again, which never, and which connections
//! are reused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::{Error, Reason, Store};
use fake::{Act, Fake};

mod fake;

const OK: Act = Act::Say("+OK\r\n");
const ONE: Act = Act::Say(":1\r\n");
const CONFLICT: Act = Act::Say("-CONFLICT 'k' has changed since the transaction read it\r\n");

/// Adds to a number; what came of it, how often it was gone through, and what the node saw.
async fn add(acts: Vec<Act>) -> (Result<i64, Error>, usize, Vec<String>) {
    let fake = Fake::new(acts).await;
    let builder = Store::builder().request_timeout(Duration::from_millis(1500));
    let builder = builder.transaction_timeout(Duration::from_millis(1500));
    let store = builder.connect([fake.address.clone()]).await.unwrap();
    let runs = AtomicUsize::new(0);
    let done = store
        .transaction(async |tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            tx.incr("k").await
        })
        .await;
    (done, runs.into_inner(), fake.commands())
}

const ONCE: [&str; 3] = ["BEGIN", "INCRBY k 1", "COMMIT"];

#[tokio::test]
async fn transaction_with_unknown_outcome_is_never_retried() {
    for last in [Act::Close, Act::Say("-UNKNOWN who knows\r\n"), Act::Say("?\r\n"), Act::Hush, ONE]
    {
        let (done, runs, seen) = add(vec![OK, ONE, last, OK]).await;
        let Err(Error::Unknown { command, .. }) = &done else { panic!("{done:?}") };
        assert_eq!((command.as_str(), runs), ("COMMIT", 1));
        assert_eq!(seen, ONCE);
    }
}

#[tokio::test]
async fn transaction_is_retried_if_nothing_was_done() {
    let refused = ["-BUSY x\r\n", "-TRYAGAIN x\r\n", "-CLUSTERDOWN x\r\n", "-LOADING x\r\n"];
    for answer in refused.into_iter().map(Act::Say).chain([CONFLICT]) {
        let (done, runs, seen) = add(vec![OK, ONE, answer, OK, Act::Say(":2\r\n"), OK]).await;
        assert_eq!((done, runs), (Ok(2), 2));
        assert_eq!(seen, [ONCE, ONCE].concat());
    }
    // Before COMMIT.
    let (done, runs, seen) = add(vec![OK, Act::Say("-BUSY x\r\n"), OK, OK, ONE, OK]).await;
    assert_eq!((done, runs), (Ok(1), 2));
    assert_eq!(seen, [&["BEGIN", "INCRBY k 1", "ROLLBACK"], &ONCE[..]].concat());
    let (done, runs, seen) = add(vec![OK, Act::Close, OK, ONE, OK]).await;
    assert_eq!((done, runs), (Ok(1), 2));
    assert_eq!(seen, [&ONCE[..2], &ONCE[..]].concat());
    // Nothing is run for what cannot be begun.
    let (done, runs, _) = add(vec![Act::Close, Act::Say("-LOADING\r\n"), OK, ONE, OK]).await;
    assert_eq!((done, runs), (Ok(1), 1));
}

#[tokio::test]
async fn attempts_end_with_the_transactions_time() {
    let mut acts = Vec::new();
    (0..1000).for_each(|_| acts.extend([OK, ONE, CONFLICT]));
    let begun = Instant::now();
    let (done, runs, _) = add(acts).await;
    assert!(matches!(done, Err(Error::NotDone { reason: Reason::Conflict, .. })), "{done:?}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!((5..100).contains(&runs), "pauses rise: {runs}");
    let (done, _, seen) = add(vec![OK, Act::Hush]).await;
    assert!(matches!(done, Err(Error::NotDone { reason: Reason::TimedOut, .. })), "{done:?}");
    assert_eq!(seen, ONCE[..2]);
}

#[tokio::test]
async fn other_refusals_are_told() {
    let (done, runs, _) = add(vec![OK, ONE, Act::Say("-OOM no room\r\n")]).await;
    assert!(matches!(done, Err(Error::NotDone { reason: Reason::OutOfMemory, .. })), "{done:?}");
    let wrong = Act::Say("-WRONGTYPE not a number\r\n");
    let (bad, bad_runs, seen) = add(vec![OK, wrong, OK]).await;
    assert!(matches!(bad, Err(Error::BadRequest { .. })), "{bad:?}");
    assert_eq!((runs, bad_runs, seen.last().unwrap().as_str()), (1, 1, "ROLLBACK"));
    // A node that knows of no transactions.
    let (old, old_runs, _) = add(vec![Act::Say("-ERR unknown command 'BEGIN'\r\n")]).await;
    assert!(matches!(old, Err(Error::BadRequest { .. })), "{old:?}");
    assert_eq!(old_runs, 0);
}

#[tokio::test]
async fn read_only_transaction_is_retried_after_unknown_outcome() {
    let value = Act::Say("$1\r\nv\r\n");
    let fake =
        Fake::new(vec![OK, value, Act::Close, OK, value, Act::Say("-UNKNOWN\r\n"), OK, value, OK]);
    let fake = fake.await;
    let read = fake.store().await.transaction(async |tx| tx.get("k").await).await;
    assert_eq!(read.unwrap().unwrap(), "v");
    assert_eq!(fake.seen(), 9);
}

#[tokio::test]
async fn the_closures_error_is_returned_as_it_is() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Poor,
        Store(Error),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Self {
            Self::Store(error)
        }
    }
    let fake = Fake::new(vec![OK, ONE, OK]).await;
    let store = fake.store().await;
    let poor: Result<(), Mine> = store
        .transaction(async |tx| {
            tx.incr("k").await?;
            Err(Mine::Poor)
        })
        .await;
    assert_eq!(poor, Err(Mine::Poor));
    assert_eq!(fake.commands(), ["BEGIN", "INCRBY k 1", "ROLLBACK"]);
    // On the same connection, as it was answered.
    let bad: Result<(), Mine> = store
        .transaction(async |tx| tx.command(&[b"SELECT", b"1"]).await.map(drop).map_err(Mine::from))
        .await;
    assert!(matches!(bad, Err(Mine::Store(Error::BadRequest { .. }))), "{bad:?}");
    assert_eq!(fake.commands()[3..], ["BEGIN", "ROLLBACK"]);
}

#[tokio::test]
async fn answer_of_dropped_future_is_discarded() {
    // The first answer comes with the second: until then the node is silent.
    let fake =
        Fake::new(vec![OK, Act::Say(""), Act::Say("$4\r\nlate\r\n$4\r\nnext\r\n"), OK]).await;
    let store = fake.store().await;
    let tx = store.begin().await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(100), tx.get("first")).await;
    assert!(given_up.is_err(), "{given_up:?}");
    assert_eq!(tx.get("second").await.unwrap().unwrap(), "next");
    tx.commit().await.unwrap();
    assert_eq!(fake.commands(), ["BEGIN", "GET first", "GET second", "COMMIT"]);
}

#[tokio::test]
async fn a_place_is_waited_for_and_one_that_was_dropped_is_free() {
    let fake = Fake::new(vec![OK]).await;
    let builder = Store::builder().transactions_max(2);
    let builder = builder.transaction_timeout(Duration::from_millis(300));
    let store = builder.connect([fake.address.clone()]).await.unwrap();
    let (one, two) = (store.begin().await.unwrap(), store.begin().await.unwrap());
    let begun = Instant::now();
    let third = store.begin().await;
    assert!(matches!(third, Err(Error::NotDone { reason: Reason::TimedOut, .. })), "{third:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.begin().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(one);
    waiting.await.unwrap().unwrap().rollback().await;
    two.commit().await.unwrap();
    // Dropped while it is gone through, and panics.
    for number in 0..6 {
        let stuck = tokio::spawn({
            let store = store.clone();
            async move {
                let never = async |tx: client::Transaction| {
                    tx.set("k", "v").await?;
                    assert!(number % 2 == 0, "on purpose");
                    std::future::pending::<()>().await;
                    Ok::<_, Error>(())
                };
                store.transaction(never).await
            }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        stuck.abort();
        assert!(stuck.await.is_err());
    }
    store.transaction(async |tx| tx.set("k", "v").await).await.unwrap();
    let commands = fake.commands();
    let count = |name: &str| commands.iter().filter(|command| *command == name).count();
    assert_eq!((count("BEGIN"), count("SET k v"), count("COMMIT")), (10, 7, 2));
}

#[tokio::test]
async fn finished_transaction_refuses_commands() {
    let fake = Fake::new(vec![OK]).await;
    let store = fake.store().await;
    let leaked = store.transaction(async |tx| Ok::<_, Error>(tx)).await.unwrap();
    let late = leaked.set("k", "v").await;
    assert!(matches!(late, Err(Error::BadRequest { .. })), "{late:?}");
    assert_eq!(fake.commands(), ["BEGIN", "COMMIT"]);
}

#[tokio::test]
async fn another_node_is_asked_if_one_ends() {
    let dying = Fake::new(vec![OK, Act::Close, Act::Close]).await;
    let other = Fake::new(vec![OK, ONE, OK, OK, OK, ONE, OK]).await;
    let addresses = [&dying, &other].map(|fake| fake.address.clone());
    let store = Store::connect(addresses).await.unwrap();
    let add = async || store.transaction(async |tx| tx.incr("k").await).await;
    assert_eq!(add().await, Ok(1));
    if dying.seen() == 0 {
        // The next connection goes to the next node.
        drop(store.begin().await.unwrap());
        assert_eq!(add().await, Ok(1));
    }
    assert_eq!(dying.commands(), ["BEGIN", "INCRBY k 1"]);
    assert_eq!(other.commands()[..3], ONCE);
}
