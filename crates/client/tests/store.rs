//! The store against scripted nodes: what is sent, what is sent again, what each failure is called.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::{Error, Reason, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a node does with a command that is not about connections.
#[derive(Clone, Copy)]
enum Act {
    /// Answers.
    Say(&'static str),
    /// Closes the connection.
    Close,
    /// Answers nothing, on this connection, any more.
    Hush,
}

/// A node that answers all that a connection begins with, and then does what it is told.
struct Fake {
    address: String,
    /// Commands that came, but for those about connections.
    seen: Arc<AtomicUsize>,
}

impl Fake {
    /// One that does these in turn, then the last of them for ever, and answers HELLO so.
    async fn start(greets: &'static str, acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(AtomicUsize::new(0));
        let (counter, acts) = (seen.clone(), Arc::new(acts));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, greets, acts.clone(), counter.clone()));
            }
        });
        Self { address, seen }
    }

    async fn new(acts: Vec<Act>) -> Self {
        Self::start("%0\r\n", acts).await
    }

    async fn store(&self) -> Store {
        let builder = Store::builder().request_timeout(Duration::from_millis(1500));
        builder.connect([self.address.clone()]).await.unwrap()
    }

    fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

async fn serve(
    mut stream: TcpStream,
    greets: &'static str,
    acts: Arc<Vec<Act>>,
    seen: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let (mut input, mut hushed) = (Vec::new(), false);
    loop {
        while let Some((command, len)) = command(&input) {
            input.drain(..len);
            let answer = match command[0].as_str() {
                "HELLO" => greets,
                "SELECT" => "+OK\r\n",
                "CLIENT" => "-ERR unknown subcommand\r\n",
                "CLUSTER" => "-ERR This instance has cluster support disabled\r\n",
                _ => match acts[seen.fetch_add(1, Ordering::SeqCst).min(acts.len() - 1)] {
                    Act::Say(answer) => answer,
                    Act::Close => return Ok(()),
                    Act::Hush => {
                        hushed = true;
                        ""
                    }
                },
            };
            if !hushed {
                stream.write_all(answer.as_bytes()).await?;
            }
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    }
}

/// The first command of `input`, of plain text, and its length.
fn command(input: &[u8]) -> Option<(Vec<String>, usize)> {
    let text = std::str::from_utf8(input).ok()?;
    let mut lines = text.split_inclusive("\r\n").filter(|line| line.ends_with("\r\n"));
    let first = lines.next()?;
    let count: usize = first.strip_prefix('*')?.trim_end().parse().ok()?;
    let rest: VecDeque<&str> = lines.take(count * 2).collect();
    let len = first.len() + rest.iter().map(|line| line.len()).sum::<usize>();
    let words = rest.iter().skip(1).step_by(2).map(|line| line.trim_end().to_owned());
    (rest.len() == count * 2).then(|| (words.collect(), len))
}

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
async fn who_finds_no_room_waits_for_it() {
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
