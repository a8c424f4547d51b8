//! Transactions that publish, and members of a group who take, at three nodes that are killed one
//! after the other: each transaction is one message, each message is acknowledged, and no two
//! members have one at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use client::http::{Client, ClientError, GetResult, Request, TopicPlace};
use harness::cluster::Cluster;
use harness::node::TEST_TIMEOUT;
use harness::until;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");
const TOPIC: TopicPlace<'static> = TopicPlace { keyspace: "0", topic: "sums" };
const NODES: usize = 3;
/// Time to acknowledge a message.
const ACK: Duration = Duration::from_millis(1500);
/// After an error.
const PAUSE: Duration = Duration::from_millis(20);
/// Clocks of nodes differ by less.
const CLOCKS: Duration = Duration::from_millis(50);

/// A message as a member had it.
struct Had {
    body: String,
    /// When it was asked for, and when it came.
    asked: Instant,
    came: Instant,
    /// When it was known that it is acknowledged.
    acked: Option<Instant>,
}

/// By number and deliveries.
type AllHad = BTreeMap<(u64, u64), Had>;

fn transact(client: &Client, body: &Value) -> Result<Value, ClientError> {
    let body = body.to_string();
    let write = Request::write("POST", "/v1/txn");
    let reply = client.send(&Request { body: body.as_bytes(), json: true, ..write })?;
    Ok(serde_json::from_slice(&reply.body).expect("JSON"))
}

/// The sum, and the version that it has.
fn sum(client: &Client) -> Option<(u64, u64)> {
    match client.get("0", b"sum", None).ok()? {
        GetResult::Value { value, timestamp, .. } => {
            Some((String::from_utf8(value).ok()?.parse().ok()?, timestamp?))
        }
        _ => Some((0, 0)),
    }
}

/// Adds to the sum, and publishes each sum that it makes. Counts what was done; returns how often
/// it does not know.
fn write(client: Client, ends: Arc<AtomicBool>, done: Arc<AtomicU64>) -> JoinHandle<u64> {
    spawn(move || {
        let mut unknown = 0;
        while !ends.load(Ordering::Relaxed) {
            let Some((sum, version)) = sum(&client) else {
                sleep(PAUSE);
                continue;
            };
            let next = (sum + 1).to_string();
            let asked = json!({
                "compare": [{ "key": "sum", "version": version.to_string() }],
                "then": [
                    { "put": { "key": "sum", "value": next } },
                    { "publish": { "topic": "sums", "message": next } },
                ],
            });
            match transact(&client, &asked) {
                Ok(answer) if answer["succeeded"] == true => {
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(answer) if answer["outcome"] == "unknown" => unknown += 1,
                Ok(_) => {}
                Err(_) => unknown += 1,
            }
        }
        unknown
    })
}

/// Takes messages until none has come for a while after the writers' end, and acknowledges most.
fn take(client: Client, ends: Arc<AtomicBool>) -> JoinHandle<AllHad> {
    spawn(move || {
        let mut all = AllHad::new();
        let mut silent_since = Instant::now();
        while !ends.load(Ordering::Relaxed) || silent_since.elapsed() < 3 * ACK {
            let asked = Instant::now();
            let Ok(taken) = client.topic_take(TOPIC, "g", 16, 300) else {
                sleep(PAUSE);
                continue;
            };
            let came = Instant::now();
            let mut numbers = Vec::new();
            for one in taken["messages"].as_array().expect("messages") {
                silent_since = came;
                let (number, deliveries) =
                    (one["number"].as_u64().unwrap(), one["deliveries"].as_u64().unwrap());
                let body = one["message"].as_str().unwrap().to_owned();
                let had = Had { body, asked, came, acked: None };
                let before = all.insert((number, deliveries), had);
                assert!(before.is_none(), "{number} came twice for the {deliveries}. time");
                // The others are forgotten, as by one who has died.
                if number % 7 > 0 || deliveries > 1 {
                    numbers.push((number, deliveries));
                }
            }
            assert_eq!(taken["missed"], 0);
            let acks: Vec<u64> = numbers.iter().map(|(number, _)| *number).collect();
            // If it fails they come again.
            if !acks.is_empty() && client.topic_ack(TOPIC, "g", &acks, &[]).is_ok() {
                let now = Instant::now();
                for place in numbers {
                    all.get_mut(&place).expect("it came").acked = Some(now);
                }
            }
        }
        all
    })
}

#[test]
fn every_transaction_is_one_message_of_one_member_while_nodes_are_killed() {
    let mut cluster = Cluster::start(PROGRAM, "topics_kills", NODES, &[], &["0"]);
    cluster.wait_until_replicated("0", NODES as u64);
    let client = cluster.nodes[0].client();
    client.topic_create(TOPIC, &json!({})).unwrap();
    let settings = json!({ "from": "earliest", "ack_ms": ACK.as_millis() as u64 });
    client.topic_subscribe(TOPIC, "g", &settings).unwrap();
    let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<Client> = cluster.nodes.iter().map(|node| node.client()).collect();
    let writers = clients.iter().map(|one| write(one.clone(), ends.clone(), done.clone()));
    let writers: Vec<_> = writers.collect();
    let members: Vec<_> = clients.iter().map(|one| take(one.clone(), ends.clone())).collect();

    let first = cluster.nodes[0].peer.to_string();
    for killed in [2, 1] {
        sleep(Duration::from_secs(2));
        let before = done.load(Ordering::Relaxed);
        cluster.nodes[killed].kill();
        until(TEST_TIMEOUT, "transactions go on without it", || {
            (done.load(Ordering::Relaxed) > before + 5).then_some(())
        });
        cluster.nodes[killed].start(&["--join", &first]);
        cluster.wait_until_it_takes_writes(killed, "0");
        cluster.wait_until_replicated("0", NODES as u64);
    }
    ends.store(true, Ordering::Relaxed);
    let unknown: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    let mut all = AllHad::new();
    for member in members {
        for (place, had) in member.join().unwrap() {
            let (number, deliveries) = place;
            let before = all.insert(place, had);
            assert!(before.is_none(), "two had {number} for the {deliveries}. time");
        }
    }

    let done = done.load(Ordering::Relaxed);
    let (sum, _) = until(TEST_TIMEOUT, "the sum can be read", || sum(&client));
    assert!(done <= sum && sum <= done + unknown, "{done} {sum} {unknown}");
    let mut numbers: Vec<u64> = all.keys().map(|(number, _)| *number).collect();
    numbers.dedup();
    assert_eq!(numbers, (1..=sum).collect::<Vec<_>>(), "none is lost, none is added");
    assert!(all.iter().all(|((number, _), had)| had.body == number.to_string()), "in order");
    assert!(all.keys().any(|(_, deliveries)| *deliveries > 1), "what was forgotten came again");
    let places: Vec<_> = all.iter().collect();
    for pair in places.windows(2) {
        let [((number, first), had), ((other, second), again)] = pair else { unreachable!() };
        if number != other {
            continue;
        }
        let times = u32::try_from(second - first).unwrap();
        let is_over = again.came + CLOCKS >= had.asked + ACK * times;
        assert!(is_over, "two members have {number} at once");
        let is_free = had.acked.is_none_or(|acked| again.asked < acked);
        assert!(is_free, "{number} came again after it was acknowledged");
    }
    let shown = client.topic(TOPIC).unwrap();
    assert_eq!(shown["groups"][0]["unacknowledged"], 0, "{shown}");
    assert_eq!(shown["groups"][0]["missed"], 0, "{shown}");
}
