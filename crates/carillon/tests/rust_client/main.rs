//! The Rust client with three real nodes: its examples, routes and transactions, and its errors
//! when a node is killed or does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::{Error, KeyState, Reason, Store, Ttl};
use dev::{Dev, NODES, TEST_TIMEOUT, open, run};
use harness::process::Signal;
use harness::stalls::StallRecorder;

mod dev;
#[allow(dead_code, reason = "its main is for people")]
#[path = "../../../client/examples/pipelined.rs"]
mod pipelined;
#[allow(dead_code, reason = "its main is for people")]
#[path = "../../../client/examples/quickstart.rs"]
mod quickstart;
mod transactions;
#[allow(dead_code, reason = "its main is for people")]
#[path = "../../../client/examples/transfer.rs"]
mod transfer;

/// Milliseconds since 1970.
fn now_ms() -> u128 {
    std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_millis()
}

#[test]
fn requests_go_directly_to_leaders() {
    let dev = Dev::start(0);
    run(async {
        quickstart::run(dev.addresses()).await.unwrap();
        let rates = pipelined::run(vec![dev.addresses().remove(2)], 16, 200).await.unwrap();
        assert!(rates.sets > 0.0 && rates.gets > 0.0);
        transfer::run(dev.addresses()).await.unwrap();

        let store = Store::connect(dev.addresses()).await.unwrap();
        let keys: Vec<String> = (0..200).map(|n| format!("straight:{n}")).collect();
        let pairs: Vec<_> = keys.iter().map(|key| (key, key)).collect();
        store.mset(&pairs).await.unwrap();
        // A handover may still come: one quiet round is looked for.
        dev.rest();
        let begun = Instant::now();
        loop {
            let before = dev.forwarded();
            for key in &keys {
                store.set(key, key).await.unwrap();
                assert_eq!(store.get(key).await.unwrap().unwrap(), key.as_bytes());
            }
            let values = store.mget(&keys).await.unwrap();
            assert!(
                values
                    .iter()
                    .zip(&keys)
                    .all(|(value, key)| value.as_deref() == Some(key.as_bytes()))
            );
            let forwarded = dev.forwarded() - before;
            if forwarded * 100 <= keys.len() as u64 {
                break;
            }
            let timeout = 2 * TEST_TIMEOUT;
            assert!(begun.elapsed() < timeout, "{forwarded} of 600 requests were passed on");
        }
    });
}

#[test]
fn keyspaces_types_and_errors_work_as_documented() {
    let dev = Dev::start(1);
    dev.make_ordered("sorted");
    run(async {
        let unknown = Store::builder().keyspace("nowhere").connect(dev.addresses()).await;
        assert!(matches!(unknown, Err(Error::BadRequest { .. })), "{unknown:?}");
        let sorted = open(&dev, "sorted").await;
        let (zero, three) = (open(&dev, "0").await, open(&dev, "3").await);
        for (store, value) in [(&sorted, "a"), (&zero, "b"), (&three, "c")] {
            store.set("same", value).await.unwrap();
        }
        for (store, value) in [(&sorted, "a"), (&zero, "b"), (&three, "c")] {
            assert_eq!(store.get("same").await.unwrap().unwrap(), value);
        }
        let early = now_ms();
        tokio::time::sleep(Duration::from_millis(100)).await;
        sorted.set("later", "x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (past, late) = (sorted.at(format!("{early}ms")), sorted.at(format!("{}ms", now_ms())));
        assert_eq!(past.get("same").await.unwrap().unwrap(), "a");
        assert_eq!(past.state("later").await.unwrap(), KeyState::NilYet);
        assert_eq!(past.mget(&["same", "later"]).await.unwrap()[1], None);
        assert!(!past.exists("later").await.unwrap() && late.exists("later").await.unwrap());
        assert_eq!((past.len().await.unwrap(), late.len().await.unwrap()), (1, 2));
        assert_eq!(past.range(..).await.unwrap(), [("same".into(), "a".into())]);
        assert_eq!(late.range("l"..).await.unwrap().len(), 2);
        assert!(three.expire("same", Duration::from_secs(90)).await.unwrap());
        assert!(matches!(three.ttl("same").await.unwrap(), Ttl::Left(left) if left.as_secs() > 60));
        assert!(three.persist("same").await.unwrap());
        assert_eq!(three.ttl("same").await.unwrap(), Ttl::Forever);
        assert_eq!(three.ttl("other").await.unwrap(), Ttl::NoValue);
        assert!(three.exists("same").await.unwrap() && !three.exists("other").await.unwrap());
        let length = three.command(&[b"STRLEN", b"same"]).await.unwrap();
        assert_eq!(length.integer(), Some(1));
        // Large, and longer than is allowed.
        let large = vec![7; 3 << 20];
        zero.set("large", &large).await.unwrap();
        assert_eq!(zero.get("large").await.unwrap().unwrap(), large);
        let small = Store::builder().reply_bytes_max(1 << 20).connect(dev.addresses()).await;
        let refused = small.unwrap().get("large").await;
        assert!(
            matches!(refused, Err(Error::NotDone { reason: Reason::BadAnswer, .. })),
            "{refused:?}"
        );
        let select = zero.command(&[b"SELECT", b"2"]).await;
        assert!(matches!(select, Err(Error::BadRequest { .. })));
    });
}

/// What one task has counted.
#[derive(Default)]
struct Count {
    key: String,
    acknowledged: i64,
    unknown: i64,
    last: i64,
    /// Acknowledged after the kill.
    after: i64,
}

#[test]
fn increments_are_done_once_while_leader_is_killed() {
    let dev = Dev::start(2);
    let victim = dev.busiest();
    run(async {
        let store = Store::connect(dev.addresses()).await.unwrap();
        let (killed, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let tasks: Vec<_> = (0..24)
            .map(|task| {
                let (store, killed, stop) = (store.clone(), killed.clone(), stop.clone());
                tokio::spawn(async move {
                    let mut count = Count { key: format!("count:{task}"), ..Count::default() };
                    while !stop.load(Ordering::Relaxed) {
                        let after = killed.load(Ordering::Relaxed);
                        match store.incr(&count.key).await {
                            Ok(now) => {
                                assert!(now > count.last, "{now} after {}", count.last);
                                count.last = now;
                                count.acknowledged += 1;
                                count.after += i64::from(after);
                            }
                            Err(Error::Unknown { .. }) => count.unknown += 1,
                            Err(Error::NotDone { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    count
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        dev.signal(victim, Signal::Kill);
        killed.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(4)).await;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            let Count { key, acknowledged, unknown, after, .. } = task.await.unwrap();
            let value = store.get(&key).await.unwrap().unwrap();
            let value: i64 = std::str::from_utf8(&value).unwrap().parse().unwrap();
            assert!(
                (acknowledged..=acknowledged + unknown).contains(&value),
                "{key} is {value}: {acknowledged} acknowledged, {unknown} unknown"
            );
            assert!(after > 0, "{key}: no service after the kill");
            // One was under way when the leader was killed; nodes may say it of a few more while
            // the next is found.
            assert!(unknown <= 3, "{key}: {unknown} unknown");
        }
    });
}

#[test]
fn paused_leader_delays_no_other_shard() {
    let dev = Dev::start(3);
    let victim = dev.busiest();
    run(async {
        let store = Store::connect(dev.addresses()).await.unwrap();
        let (of_victim, of_others) = dev.keys(victim);
        for key in of_victim.iter().chain(&of_others) {
            store.set(key, "before").await.unwrap();
        }
        dev.signal(victim, Signal::Stop);
        // What is asked of it is on its way …
        let stuck: Vec<_> = of_victim
            .iter()
            .map(|key| {
                let (store, key) = (store.clone(), key.clone());
                tokio::spawn(async move { (store.get(&key).await, store.incr("own").await) })
            })
            .collect();
        // … while others are served, by nodes that are there.
        let begun = Instant::now();
        let witness = StallRecorder::start(&dev.dir, begun);
        let mut times = Vec::new();
        while begun.elapsed() < Duration::from_secs(2) {
            for key in &of_others {
                let asked = begun.elapsed();
                store.set(key, "meanwhile").await.unwrap();
                assert_eq!(store.get(key).await.unwrap().unwrap(), "meanwhile");
                times.push((asked, begun.elapsed()));
            }
        }
        // Not what the machine itself took.
        let stalls = witness.finish();
        let own = |(from, until): &(_, _)| *until - *from - stalls.allowance(*from, *until);
        let longest = times.iter().map(own).max().unwrap();
        assert!(longest < Duration::from_secs(1), "{longest:?} of {}", times.len());
        for task in stuck {
            let (read, _count) = task.await.unwrap();
            assert_eq!(read.unwrap().unwrap(), "before", "by the next leader");
        }
        dev.signal(victim, Signal::Continue);
        for key in of_victim {
            store.set(&key, "after").await.unwrap();
        }
    });
}

/// All that is asked is asked of one node, which leads three of the shards. It hands one over.
#[test]
fn leaders_spread_by_request_rate() {
    let dev = Dev::start(4);
    // Until numbers are even: then nothing moves for their sake.
    let begun = Instant::now();
    let is_even = || {
        let led: Vec<u64> = (0..NODES).map(|node| dev.shards_led(node)).collect();
        led.iter().max().unwrap() - led.iter().min().unwrap() <= 1
    };
    while !is_even() {
        assert!(begun.elapsed() < 3 * TEST_TIMEOUT, "leads are not spread");
        thread::sleep(Duration::from_millis(100));
    }
    let busiest = dev.busiest();
    run(async {
        let store = Store::connect(dev.addresses()).await.unwrap();
        let (keys, _) = dev.keys(busiest);
        let stop = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..192)
            .map(|task| {
                let (store, stop) = (store.clone(), stop.clone());
                let key = keys[task % keys.len()].clone();
                tokio::spawn(async move {
                    let mut count = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        store.get(&key).await.unwrap();
                        count += 1;
                        // Not so often that the shards are cut for it.
                        tokio::time::sleep(Duration::from_millis(3)).await;
                    }
                    count
                })
            })
            .collect();
        let begun = Instant::now();
        let watch = tokio::task::spawn_blocking(move || {
            let mut why = String::new();
            while begun.elapsed() < 4 * TEST_TIMEOUT && !why.contains("times a second") {
                thread::sleep(Duration::from_secs(1));
                why = dev.carillon(0, &["shards", "--why"]).text().to_owned();
            }
            (dev, why)
        });
        let (_dev, why) = watch.await.unwrap();
        stop.store(true, Ordering::Relaxed);
        let mut count = 0;
        for task in tasks {
            count += task.await.unwrap();
        }
        let seconds = begun.elapsed().as_secs_f64();
        let rate = count as f64 / seconds;
        println!("{seconds:.1} s of {rate:.0} GET/s");
        assert!(why.contains("times a second"), "{rate:.0} GET/s: {why}");
    });
}
