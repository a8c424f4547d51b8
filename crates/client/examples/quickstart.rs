//! The first minutes with the client: values, conditions, time to live, counters, errors.
//!
//! `carillon dev`, then `cargo run -p client --example quickstart`.

use std::time::Duration;

use client::{Error, Expiry, SetOptions, Store, Ttl, When};

/// Does it all with a cluster of which these nodes are members.
pub async fn run(nodes: Vec<String>) -> Result<(), Error> {
    let store = Store::connect(nodes).await?;

    store.set("greeting", "hello").await?;
    assert_eq!(store.get("greeting").await?.as_deref(), Some(b"hello".as_slice()));
    assert_eq!(store.get("nothing").await?, None);

    // The first client to set it has the lock, for a minute at most.
    let once = SetOptions { when: When::Absent, expiry: Expiry::After(Duration::from_secs(60)) };
    assert!(store.set_with("lock", "me", once).await?);
    assert!(!store.set_with("lock", "you", once).await?);
    assert!(matches!(store.ttl("lock").await?, Ttl::Left(left) if left.as_secs() <= 60));
    assert!(store.del("lock").await?);

    store.mset(&[("red", "1"), ("green", "2"), ("blue", "3")]).await?;
    let colours = store.mget(&["red", "pink", "blue"]).await?;
    assert_eq!(colours, [Some("1".into()), None, Some("3".into())]);

    store.del("visits").await?;
    match store.incr("visits").await {
        Ok(visits) => println!("{visits} visit"),
        // Nothing was done: it may be sent again.
        Err(Error::NotDone { text, .. }) => println!("later, perhaps: {text}"),
        // It may have been done: look before it is sent again.
        Err(Error::Unknown { text, .. }) => println!("who knows: {text}"),
        // It will never work.
        Err(Error::BadRequest { text }) => println!("a mistake: {text}"),
    }
    let wrong = store.incr("greeting").await;
    assert!(matches!(wrong, Err(Error::BadRequest { .. })), "{wrong:?}");

    for key in ["greeting", "red", "green", "blue", "visits"] {
        store.del(key).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let nodes: Vec<String> = std::env::args().skip(1).collect();
    run(if nodes.is_empty() { vec!["127.0.0.1:6379".to_owned()] } else { nodes }).await
}
