//! A scripted node.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::Store;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a node does with a command that is not about connections.
#[derive(Clone, Copy)]
pub enum Act {
    /// Answers.
    Say(&'static str),
    /// Closes the connection.
    Close,
    /// Answers nothing, on this connection, any more.
    Hush,
}

/// A node that answers all that a connection begins with, and then does what it is told.
pub struct Fake {
    pub address: String,
    /// Commands that came, but for those about connections.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// One that does these in turn, then the last of them for ever, and answers HELLO so.
    pub async fn start(greets: &'static str, acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::default());
        let (counter, acts) = (seen.clone(), Arc::new(acts));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, greets, acts.clone(), counter.clone()));
            }
        });
        Self { address, seen }
    }

    pub async fn new(acts: Vec<Act>) -> Self {
        Self::start("%0\r\n", acts).await
    }

    pub async fn store(&self) -> Store {
        let builder = Store::builder().request_timeout(Duration::from_millis(1500));
        builder.connect([self.address.clone()]).await.unwrap()
    }

    /// How many commands came.
    pub fn seen(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// All that came, in order.
    pub fn commands(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    greets: &'static str,
    acts: Arc<Vec<Act>>,
    seen: Arc<Mutex<Vec<String>>>,
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
                _ => {
                    let before = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(command.join(" "));
                        seen.len() - 1
                    };
                    match acts[before.min(acts.len() - 1)] {
                        Act::Say(answer) => answer,
                        Act::Close => return Ok(()),
                        Act::Hush => {
                            hushed = true;
                            ""
                        }
                    }
                }
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
