//! Many tasks on one store: their requests share a few connections, and are sent together.
//!
//! `carillon dev`, then `cargo run --release -p client --example pipelined -- 127.0.0.1:6379`.
//! Prints how many requests a second were answered; numbers after the address are tasks and
//! requests of each.

use std::time::Instant;

use client::{Error, Store};

/// Requests per second: sets, then gets.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Sets.
    pub sets: f64,
    /// Gets.
    pub gets: f64,
}

/// Sets and gets keys, `each` of them in each of `tasks` tasks.
pub async fn run(nodes: Vec<String>, tasks: usize, each: usize) -> Result<Rates, Error> {
    let store = Store::connect(nodes).await?;
    let mut rates = [0.0; 2];
    for (rate, writes) in rates.iter_mut().zip([true, false]) {
        let begun = Instant::now();
        let all: Vec<_> = (0..tasks)
            .map(|task| {
                // The same store, the same connections.
                let store = store.clone();
                tokio::spawn(async move {
                    for number in 0..each {
                        let key = format!("pipelined:{task}:{}", number % 1000);
                        match writes {
                            true => store.set(&key, key.as_bytes()).await?,
                            false => {
                                let value = store.get(&key).await?;
                                assert_eq!(value.as_deref(), Some(key.as_bytes()));
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for task in all {
            task.await.expect("a task does not panic")?;
        }
        *rate = (tasks * each) as f64 / begun.elapsed().as_secs_f64();
    }
    Ok(Rates { sets: rates[0], gets: rates[1] })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let node = words.next().unwrap_or_else(|| "127.0.0.1:6379".to_owned());
    let mut number = |usual| words.next().and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (tasks, each) = (number(64), number(10_000));
    let Rates { sets, gets } = run(vec![node], tasks, each).await?;
    println!("{tasks} tasks: {sets:.0} SET/s, {gets:.0} GET/s");
    Ok(())
}
