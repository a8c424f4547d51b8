//! Transactions of the Rust client.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Error, Expiry, KeyRange, Reason, SetOptions, Store, Transaction, Ttl, When};
use harness::process::Signal;
use serde_json::json;

use super::dev::{Dev, open, run};

/// Groups of accounts, in which money goes around, and what is in each account at first.
const GROUPS: usize = 64;
const GROUP: usize = 4;
const FIRST: i64 = 100;
const TASKS: usize = 32;

fn number(value: Option<Bytes>) -> i64 {
    let value = value.unwrap_or_default();
    std::str::from_utf8(&value).unwrap().parse().unwrap_or(0)
}

fn accounts(group: usize) -> Vec<String> {
    (0..GROUP).map(|account| format!("account:{group}:{account}")).collect()
}

/// Looks whether all that was in a group is in it, at one moment.
async fn look(store: &Store, group: usize) -> Result<(), Error> {
    let accounts = accounts(group);
    let in_transaction = store.transaction(async |tx| tx.mget(&accounts).await).await?;
    for balances in [in_transaction, store.mget(&accounts).await?] {
        let balances: Vec<i64> = balances.into_iter().map(number).collect();
        assert!(balances.iter().all(|balance| *balance >= 0), "{balances:?}");
        assert_eq!(balances.iter().sum::<i64>(), GROUP as i64 * FIRST, "{balances:?}");
    }
    Ok(())
}

#[derive(Debug)]
enum TransferError {
    Poor,
    Store(Error),
}

impl From<Error> for TransferError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Moves money, and counts that it was.
async fn transfer(
    store: &Store,
    [from, to]: [&str; 2],
    amount: i64,
    count: &str,
) -> Result<i64, TransferError> {
    store
        .transaction(async |tx| {
            let left = number(tx.get(from).await?) - amount;
            if left < 0 {
                return Err(TransferError::Poor);
            }
            let there = number(tx.get(to).await?) + amount;
            tx.set(from, left.to_string()).await?;
            tx.set(to, there.to_string()).await?;
            Ok(tx.incr(count).await?)
        })
        .await
}

#[derive(Debug, Default)]
struct TransferCounts {
    acknowledged: i64,
    unknown: i64,
    /// Acknowledged after the kill.
    after: i64,
}

#[test]
fn transfers_keep_sum_while_node_is_killed() {
    let dev = Dev::start(5);
    let victim = dev.busiest();
    run(async {
        let store = Store::connect(dev.addresses()).await.unwrap();
        let keys = (0..GROUPS).flat_map(accounts);
        let pairs: Vec<_> = keys.map(|key| (key, FIRST.to_string())).collect();
        store.mset(&pairs).await.unwrap();
        let (killed, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (store, killed, stop) = (store.clone(), killed.clone(), stop.clone());
                tokio::spawn(async move {
                    let count = format!("count:{task}");
                    let (mut counters, mut chance) = (TransferCounts::default(), task);
                    while !stop.load(Ordering::Relaxed) {
                        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let accounts = accounts((chance >> 33) % GROUPS);
                        let from = (chance >> 40) % GROUP;
                        let to = (from + 1 + (chance >> 45) % (GROUP - 1)) % GROUP;
                        let between = [&*accounts[from], &*accounts[to]];
                        let amount = 1 + (chance >> 50) as i64 % 30;
                        let after = killed.load(Ordering::Relaxed);
                        match transfer(&store, between, amount, &count).await {
                            Ok(done) => {
                                counters.acknowledged += 1;
                                counters.after += i64::from(after);
                                let most = counters.acknowledged + counters.unknown;
                                assert!((counters.acknowledged..=most).contains(&done), "{done}");
                            }
                            Err(TransferError::Store(Error::Unknown { .. })) => {
                                counters.unknown += 1
                            }
                            Err(TransferError::Store(error @ Error::BadRequest { .. })) => {
                                panic!("{error}")
                            }
                            Err(TransferError::Poor | TransferError::Store(_)) => {}
                        }
                    }
                    (count, counters)
                })
            })
            .collect();
        let watch = tokio::spawn({
            let (store, stop) = (store.clone(), stop.clone());
            async move {
                let mut looks = 0;
                while !stop.load(Ordering::Relaxed) {
                    looks += usize::from(look(&store, looks % GROUPS).await.is_ok());
                }
                looks
            }
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        dev.signal(victim, Signal::Kill);
        killed.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.store(true, Ordering::Relaxed);
        let mut all = TransferCounts::default();
        for task in tasks {
            let (key, counters) = task.await.unwrap();
            let value = number(store.get(&key).await.unwrap());
            let TransferCounts { acknowledged, unknown, after } = counters;
            assert!(
                (acknowledged..=acknowledged + unknown).contains(&value),
                "{key} is {value}: {acknowledged} acknowledged, {unknown} unknown"
            );
            // One was under way when the node was killed; nodes may say it of a few more while the
            // next leaders are found.
            assert!(unknown <= 3, "{key}: {unknown} unknown");
            all.acknowledged += acknowledged;
            all.unknown += unknown;
            all.after += after;
        }
        let looks = watch.await.unwrap();
        println!("{all:?}, {looks} looks");
        for group in 0..GROUPS {
            look(&store, group).await.unwrap();
        }
        assert!(looks > 0, "no look at a group");
        assert!(all.after > 0 && all.acknowledged > all.after, "{all:?}");
    });
}

#[test]
fn transactions_are_atomic_and_isolated() {
    let dev = Dev::start(6);
    dev.make_ordered("sorted");
    run(async {
        let store = open(&dev, "0").await;
        several_keys_are_set_and_seen_at_one_moment(&store).await;
        transaction_runs_again_with_new_values_after_conflict(&store).await;
        an_error_has_nothing_done(&store).await;
        all_commands_see_what_was_written(&store).await;
        open_transaction_is_committed_or_rolled_back_by_hand(&store).await;
        let single = Store::builder().transactions_max(1).connect(dev.addresses()).await.unwrap();
        what_is_dropped_leaves_nothing(&single).await;
        ranges_are_seen_and_guarded(&open(&dev, "sorted").await).await;
    });
}

async fn several_keys_are_set_and_seen_at_one_moment(store: &Store) {
    assert_eq!(store.mget::<&str>(&[]).await.unwrap(), []);
    store.mset::<&str, &str>(&[]).await.unwrap();
    let keys: Vec<String> = (0..12).map(|n| format!("together:{n}")).collect();
    let set = async |store: &Store, value: String| {
        let pairs: Vec<_> = keys.iter().map(|key| (key, &value)).collect();
        store.mset(&pairs).await.unwrap();
    };
    set(store, "first".to_owned()).await;
    let stop = AtomicBool::new(false);
    let writes = async {
        for n in 0..200 {
            tokio::join!(set(store, format!("a{n}")), set(store, format!("b{n}")));
        }
        stop.store(true, Ordering::Relaxed);
    };
    let looks = async {
        let mut seen = HashSet::new();
        while !stop.load(Ordering::Relaxed) {
            let values = store.mget(&keys).await.unwrap();
            assert!(values.iter().all(|value| value == &values[0]), "{values:?}");
            seen.insert(values[0].clone());
        }
        seen.len()
    };
    let ((), seen) = tokio::join!(writes, looks);
    assert!(seen > 10, "hardly anything was seen while it changed: {seen} values");
}

/// Commands, and transactions that only write, are done at once. A transaction that reads before it
/// writes would conflict each time, if leaders did not reserve its keys.
#[test]
fn read_write_transaction_succeeds_on_hot_keys() {
    const HOT: usize = 12;
    let dev = Dev::start(7);
    let names: Vec<String> = (0..HOT).map(|n| format!("hot:{n}")).collect();
    run(async {
        let store = Store::connect(dev.addresses()).await.unwrap();
        store.mset(&names.iter().map(|name| (name, "0")).collect::<Vec<_>>()).await.unwrap();
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let (store, stop, written) = (store.clone(), stop.clone(), written.clone());
                let names = names.clone();
                tokio::spawn(async move {
                    for n in number.. {
                        let [one, other] = [&names[n % HOT], &names[(n * 5 + 1) % HOT]];
                        match number % 2 {
                            0 => store.incr(one).await.map(drop).unwrap(),
                            _ => store.mset(&[(one, "1"), (other, "2")]).await.unwrap(),
                        }
                        written.fetch_add(1, Ordering::Relaxed);
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                })
            })
            .collect();
        let http = format!("127.0.0.1:{}", dev.base + 1_101);
        let keys = names.clone();
        let done = tokio::task::spawn_blocking(move || {
            let client = client::http::Client::new(&http).unwrap();
            let add = |key: &String| json!({"increment": {"key": key, "by": 0}});
            let is_there = |key: &String| json!({"key": key, "exists": true});
            let adds: Vec<_> = keys.iter().map(add).collect();
            let all: Vec<_> = keys.iter().map(is_there).collect();
            let put = json!([{"put": {"key": "seen", "value": "all"}}]);
            for _ in 0..3 {
                client.transact(&json!({ "then": adds })).unwrap();
                client.transact(&json!({ "compare": all, "then": put })).unwrap();
            }
        });
        done.await.unwrap();
        for from in &names[..8] {
            let to = format!("copy:{from}");
            store.command(&[b"COPY", from.as_bytes(), to.as_bytes(), b"REPLACE"]).await.unwrap();
        }
        assert_eq!(store.get("seen").await.unwrap().unwrap(), "all");
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(written.load(Ordering::Relaxed) > 100, "they were in nobody's way");
    });
}

async fn transaction_runs_again_with_new_values_after_conflict(store: &Store) {
    store.mset(&[("source", "old"), ("copy", "none")]).await.unwrap();
    let seen = Mutex::new(Vec::new());
    let runs = AtomicUsize::new(0);
    store
        .transaction(async |tx| {
            let value = tx.get("source").await?.expect("it has one");
            tx.set("copy", &value).await?;
            seen.lock().unwrap().push(value);
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                store.set("source", "new").await?;
            }
            Ok::<_, Error>(())
        })
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), ["old", "new"]);
    assert_eq!(store.get("copy").await.unwrap().unwrap(), "new");
    // Many tasks, one number, of which none is lost.
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    let add = async |tx: Transaction| {
                        let now = number(tx.get("hot").await?) + 1;
                        tx.set("hot", now.to_string()).await
                    };
                    store.transaction(add).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(store.get("hot").await.unwrap()), 40);
}

async fn an_error_has_nothing_done(store: &Store) {
    store.set("text", "no number").await.unwrap();
    let poor: Result<(), TransferError> = store
        .transaction(async |tx| {
            tx.set("undone", "1").await?;
            tx.del("text").await?;
            Err(TransferError::Poor)
        })
        .await;
    assert!(matches!(poor, Err(TransferError::Poor)), "{poor:?}");
    let bad = store
        .transaction(async |tx| {
            tx.set("undone", "1").await?;
            tx.incr("text").await
        })
        .await;
    assert!(matches!(bad, Err(Error::BadRequest { .. })), "{bad:?}");
    assert_eq!(store.mget(&["undone", "text"]).await.unwrap()[0], None);
    // A mistake that the closure makes up for is none.
    store
        .transaction(async |tx| {
            tx.incr("text").await.unwrap_err();
            tx.set("text", "7").await
        })
        .await
        .unwrap();
    assert_eq!(store.get("text").await.unwrap().unwrap(), "7");
}

async fn all_commands_see_what_was_written(store: &Store) {
    store.mset(&[("one", "1"), ("two", "2")]).await.unwrap();
    let tx = store.begin().await.unwrap();
    tx.mset(&[("two", "22"), ("three", "3")]).await.unwrap();
    let values = tx.mget(&["one", "two", "three", "four"]).await.unwrap();
    assert_eq!(values, [Some("1".into()), Some("22".into()), Some("3".into()), None]);
    assert_eq!(tx.mget::<&str>(&[]).await.unwrap(), []);
    assert_eq!((tx.incr("two").await.unwrap(), tx.incr_by("two", -3).await.unwrap()), (23, 20));
    let once = SetOptions { when: When::Absent, expiry: Expiry::After(Duration::from_secs(90)) };
    assert!(tx.set_with("four", "4", once).await.unwrap());
    assert!(!tx.set_with("four", "5", once).await.unwrap());
    assert!(matches!(tx.ttl("four").await.unwrap(), Ttl::Left(left) if left.as_secs() > 60));
    assert!(tx.persist("four").await.unwrap());
    assert_eq!(tx.ttl("four").await.unwrap(), Ttl::Forever);
    assert!(tx.expire("one", Duration::from_secs(90)).await.unwrap());
    assert!(tx.del("three").await.unwrap() && !tx.exists("three").await.unwrap());
    let length = tx.command(&[b"STRLEN", b"two"]).await.unwrap();
    assert_eq!(length.integer(), Some(2));
    // Nobody else sees it before it is committed.
    assert_eq!(store.get("two").await.unwrap().unwrap(), "2");
    assert!(!store.exists("four").await.unwrap());
    tx.commit().await.unwrap();
    let values = store.mget(&["one", "two", "three", "four"]).await.unwrap();
    assert_eq!(values, [Some("1".into()), Some("20".into()), None, Some("4".into())]);
    assert!(matches!(store.ttl("one").await.unwrap(), Ttl::Left(left) if left.as_secs() > 60));
}

async fn open_transaction_is_committed_or_rolled_back_by_hand(store: &Store) {
    store.set("hand", "0").await.unwrap();
    let tx = store.begin().await.unwrap();
    tx.incr("hand").await.unwrap();
    tx.rollback().await;
    assert_eq!(store.get("hand").await.unwrap().unwrap(), "0");
    let tx = store.begin().await.unwrap();
    assert_eq!(tx.get("hand").await.unwrap().unwrap(), "0");
    tx.set("other hand", "1").await.unwrap();
    store.set("hand", "1").await.unwrap();
    let late = tx.commit().await;
    assert!(matches!(late, Err(Error::NotDone { reason: Reason::Conflict, .. })), "{late:?}");
    assert!(!store.exists("other hand").await.unwrap());
}

/// Of a store that goes through one transaction at a time.
async fn what_is_dropped_leaves_nothing(store: &Store) {
    for wait in [0, 1, 5, 20, 100] {
        let never = store.transaction(async |tx| {
            tx.set("dropped", "1").await?;
            tx.incr("dropped").await?;
            std::future::pending::<()>().await;
            Ok::<_, Error>(())
        });
        tokio::time::timeout(Duration::from_millis(wait), never).await.unwrap_err();
    }
    drop(store.begin().await.unwrap());
    let seen = store.transaction(async |tx| tx.get("dropped").await).await;
    assert_eq!(seen.unwrap(), None);
}

async fn ranges_are_seen_and_guarded(store: &Store) {
    let pairs = |keys: &[&'static str]| -> Vec<(Bytes, Bytes)> {
        keys.iter().map(|key| (Bytes::from(*key), Bytes::from("v"))).collect()
    };
    store.mset(&["a1", "a3", "b1", "c1"].map(|key| (key, "v"))).await.unwrap();
    assert_eq!(store.range(KeyRange::prefix("a")).await.unwrap(), pairs(&["a1", "a3"]));
    let tx = store.begin().await.unwrap();
    tx.set("a2", "v").await.unwrap();
    tx.del("a1").await.unwrap();
    assert_eq!(tx.range("a".."b1").await.unwrap(), pairs(&["a2", "a3"]));
    assert_eq!(tx.range("a"..="b1").await.unwrap(), pairs(&["a2", "a3", "b1"]));
    let last = KeyRange::from(.."c").reversed().limit(2);
    assert_eq!(tx.range(last).await.unwrap(), pairs(&["b1", "a3"]));
    assert_eq!(tx.range("x".."y").await.unwrap(), []);
    // Not in what was looked at.
    store.set("d1", "v").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.range(..).await.unwrap(), pairs(&["a2", "a3", "b1", "c1", "d1"]));
    // A key comes, another goes.
    for change in ["a9", "a3"] {
        let tx = store.begin().await.unwrap();
        let count = tx.range(KeyRange::prefix("a")).await.unwrap().len();
        tx.set("count", count.to_string()).await.unwrap();
        if !store.del(change).await.unwrap() {
            store.set(change, "v").await.unwrap();
        }
        let late = tx.commit().await;
        assert!(matches!(late, Err(Error::NotDone { reason: Reason::Conflict, .. })), "{late:?}");
    }
    assert!(!store.exists("count").await.unwrap());
}
