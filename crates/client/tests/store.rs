//! The store against scripted nodes: requests, retries, and the error of each failure.

use std::time::{Duration, Instant};

use client::{Error, Reason, Store};
use fake::{Act, Fake};
use tokio::net::TcpListener;

mod fake;

#[tokio::test]
async fn a_write_that_may_have_been_done_is_never_sent_again() {
    for act in [Act::Close, Act::Say("-UNKNOWN who knows\r\n"), Act::Say("?\r\n")] {
        let fake = Fake::new(vec![act, Act::Say(":1\r\n")]).await;
        let failed = fake.store().await.incr("n").await;
        let Err(Error::Unknown { command, .. }) = &failed else { panic!("{failed:?}") };
        assert_eq!((command.as_str(), fake.seen()), ("INCRBY n", 1));
    }
}

#[tokio::test]
async fn a_read_is_sent_again_and_so_is_a_write_that_was_not_done() {
    let fake = Fake::new(vec![Act::Close, Act::Say("-UNKNOWN\r\n"), Act::Say("$1\r\nv\r\n")]).await;
    assert_eq!(fake.store().await.get("k").await.unwrap().unwrap(), "v");
    assert_eq!(fake.seen(), 3);
    let again = ["-TRYAGAIN x\r\n", "-BUSY x\r\n", "-CLUSTERDOWN x\r\n", "-LOADING x\r\n"];
    let mut acts: Vec<Act> = again.into_iter().map(Act::Say).collect();
    acts.push(Act::Say(":7\r\n"));
    let fake = Fake::new(acts).await;
    assert_eq!(fake.store().await.incr("n").await.unwrap(), 7);
    assert_eq!(fake.seen(), 5);
}

#[tokio::test]
async fn errors_are_of_three_kinds() {
    let fake = Fake::new(vec![
        Act::Say("-OOM no room\r\n"),
        Act::Say("-ERR syntax error\r\n"),
        Act::Say("-TRYAGAIN nobody leads\r\n"),
    ])
    .await;
    let store = fake.store().await;
    let full = store.set("k", "v").await;
    assert!(matches!(full, Err(Error::NotDone { reason: Reason::OutOfMemory, .. })), "{full:?}");
    let wrong = store.set("k", "v").await;
    assert_eq!(wrong, Err(Error::BadRequest { text: "ERR syntax error".into() }));
    let (begun, late) = (Instant::now(), store.set("k", "v").await);
    assert!(matches!(late, Err(Error::NotDone { reason: Reason::NoLeader, .. })), "{late:?}");
    assert!(begun.elapsed() < Duration::from_secs(3), "within its time");
}

#[tokio::test]
async fn moved_leads_to_the_other_node() {
    let other = Fake::new(vec![Act::Say("$2\r\nhi\r\n")]).await;
    let text = format!("-MOVED 12539 {}\r\n", other.address);
    let fake = Fake::new(vec![Act::Say(text.leak())]).await;
    let store = fake.store().await;
    assert_eq!(store.get("k").await.unwrap().unwrap(), "hi");
    assert_eq!((fake.seen(), other.seen()), (1, 1));
}

#[tokio::test]
async fn nodes_that_send_each_other_are_asked_until_time_is_over() {
    let (listener, ends) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Instant::now());
    let away = listener.local_addr().unwrap().to_string();
    drop(listener);
    let text = format!("-MOVED 1 {away}\r\n");
    let fake = Fake::new(vec![Act::Say(text.leak())]).await;
    let failed = fake.store().await.set("k", "v").await;
    assert!(matches!(failed, Err(Error::NotDone { .. })), "{failed:?}");
    assert!(ends.elapsed() < Duration::from_secs(4) && fake.seen() < 200, "{}", fake.seen());
}

#[tokio::test]
async fn silence_ends_with_the_requests_time() {
    let fake = Fake::new(vec![Act::Hush]).await;
    let store = fake.store().await;
    let (write, read) = tokio::join!(store.incr("n"), store.get("k"));
    assert!(matches!(write, Err(Error::Unknown { .. })), "{write:?}");
    assert!(matches!(read, Err(Error::NotDone { reason: Reason::TimedOut, .. })), "{read:?}");
}

#[tokio::test]
async fn a_server_of_old_is_spoken_to_in_its_protocol() {
    let greets = "-ERR unknown command 'HELLO'\r\n";
    let fake = Fake::start(greets, vec![Act::Say("$-1\r\n"), Act::Say("*1\r\n$-1\r\n")]).await;
    let store = fake.store().await;
    assert_eq!(store.get("k").await.unwrap(), None);
    assert_eq!(store.mget(&["k"]).await.unwrap(), [None]);
}

#[tokio::test]
async fn request_waits_for_room_in_the_queue() {
    let fake = Fake::new(vec![Act::Say(":1\r\n")]).await;
    let builder = Store::builder().outstanding_max(2).queued_bytes_max(1);
    let store = builder.connect([fake.address.clone()]).await.unwrap();
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            tokio::spawn({
                let store = store.clone();
                async move { store.incr("n").await }
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 1);
    }
    assert_eq!(fake.seen(), 200);
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let none = Store::connect([address]).await;
    assert!(matches!(none, Err(Error::NotDone { reason: Reason::NoNode, .. })), "{none:?}");
    let none = Store::connect(Vec::<String>::new()).await;
    assert!(matches!(none, Err(Error::BadRequest { .. })), "{none:?}");
}
