//! Transfers between accounts: a transaction with an error of its own, many at once, and an open
//! transaction that the program commits itself.
//!
//! `carillon dev`, then `cargo run -p client --example transfer`.

use client::{Error, Reason, Store, Transaction};

/// Why a transfer was not done.
#[derive(Debug)]
pub enum TransferError {
    /// There is not enough in the account: nothing was done.
    Poor(i64),
    /// What the store said.
    Store(Error),
}

impl From<Error> for TransferError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// What is in an account.
async fn balance(tx: &Transaction, account: &str) -> Result<i64, Error> {
    let value = tx.get(account).await?;
    let text = value.as_deref().map(String::from_utf8_lossy);
    Ok(text.map_or(0, |text| text.parse().expect("only numbers are put into accounts")))
}

/// Transfers; what is left. The accounts may lie in any shards.
pub async fn transfer(
    store: &Store,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<i64, TransferError> {
    // Gone through again, with new balances, if another changes them meanwhile.
    store
        .transaction(async |tx| {
            let left = balance(&tx, from).await? - amount;
            if left < 0 {
                // An error has nothing done, and is returned as it is.
                return Err(TransferError::Poor(left + amount));
            }
            tx.incr_by(from, -amount).await?;
            tx.incr_by(to, amount).await?;
            Ok(left)
        })
        .await
}

/// Does it all with a cluster of which these nodes are members.
pub async fn run(nodes: Vec<String>) -> Result<(), Error> {
    let store = Store::connect(nodes).await?;
    let accounts = ["account:ann", "account:bob", "account:cy"];
    store.mset(&accounts.map(|account| (account, "100"))).await?;

    let tasks: Vec<_> = (0..30)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let (from, to) = (accounts[number % 3], accounts[(number + 1) % 3]);
                match transfer(&store, from, to, 60).await {
                    Ok(left) => println!("{from} has {left}"),
                    Err(TransferError::Poor(left)) => println!("{from} has {left} only"),
                    // It may have been done: look before it is sent again.
                    Err(TransferError::Store(error)) => println!("{from}: {error}"),
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task does not panic");
    }

    // All of them at one moment.
    let total = store
        .transaction(async |tx| {
            let mut total = 0;
            for account in accounts {
                total += balance(&tx, account).await?;
            }
            Ok::<_, Error>(total)
        })
        .await?;
    assert_eq!(total, 300);

    // By hand, and once.
    let tx = store.begin().await?;
    for account in accounts {
        tx.del(account).await?;
    }
    match tx.commit().await {
        Err(Error::NotDone { reason: Reason::Conflict, text }) => println!("not now: {text}"),
        other => other?,
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let nodes: Vec<String> = std::env::args().skip(1).collect();
    run(if nodes.is_empty() { vec!["127.0.0.1:6379".to_owned()] } else { nodes }).await
}
