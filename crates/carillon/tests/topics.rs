//! Durable topics of real nodes: messages of transactions, groups, deadlines, streams.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::thread;
use std::time::Duration;

use client::http::{Client, ClientError, TopicPlace};
use client::{GroupSettings, GroupStart, Store, TopicSettings};
use harness::node::Node;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_carillon");

fn at(topic: &str) -> TopicPlace<'_> {
    TopicPlace { keyspace: "0", topic }
}

fn kind(result: Result<impl std::fmt::Debug, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(problem) | ClientError::BadRequest(problem)) => problem.kind,
        other => panic!("{other:?}"),
    }
}

/// Numbers and bodies of what was taken.
fn messages(taken: &Value) -> Vec<(u64, String)> {
    let all = taken["messages"].as_array().expect("messages").iter();
    all.map(|one| (one["number"].as_u64().unwrap(), one["message"].as_str().unwrap().to_owned()))
        .collect()
}

fn transact(client: &Client, body: &Value) -> Result<Value, ClientError> {
    let body = body.to_string();
    let request = client::http::Request {
        body: body.as_bytes(),
        json: true,
        ..client::http::Request::write("POST", "/v1/txn")
    };
    let reply = client.send(&request)?;
    Ok(serde_json::from_slice(&reply.body).expect("JSON"))
}

#[test]
fn messages_are_published_taken_and_acknowledged() {
    let node = Node::alone_and_ready(PROGRAM, "topics_one", &[]);
    let client = node.client();
    assert_eq!(kind(client.topic_publish(at("t"), &["x"])), "no-topic");
    client.topic_create(at("t"), &json!({})).unwrap();
    client.topic_create(at("t"), &json!({})).unwrap();
    assert_eq!(kind(client.topic_create(at("t"), &json!({"kept_ms": 5}))), "topic-refused");
    let settings = json!({ "from": "earliest", "ack_ms": 500 });
    client.topic_subscribe(at("t"), "g", &settings).unwrap();
    let published = client.topic_publish(at("t"), &["one", "two"]).unwrap();
    assert_eq!(published, json!({ "first": 1, "last": 2 }));
    let taken = client.topic_take(at("t"), "g", 1, 0).unwrap();
    assert_eq!(messages(&taken), [(1, "one".into())]);
    assert!(taken["messages"][0]["published_at_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(client.topic_ack(at("t"), "g", &[1], &[]).unwrap(), json!({ "found": 1 }));
    assert_eq!(messages(&client.topic_take(at("t"), "g", 9, 0).unwrap()), [(2, "two".into())]);
    // It was not acknowledged: it comes again.
    let again = client.topic_take(at("t"), "g", 9, 5000).unwrap();
    assert_eq!(
        (messages(&again), &again["messages"][0]["deliveries"]),
        (vec![(2, "two".to_owned())], &json!(2))
    );
    client.topic_ack(at("t"), "g", &[], &[2]).unwrap();
    assert_eq!(messages(&client.topic_take(at("t"), "g", 9, 0).unwrap()).len(), 1);
    client.topic_ack(at("t"), "g", &[2], &[]).unwrap();
    assert_eq!(messages(&client.topic_take(at("t"), "g", 9, 0).unwrap()), []);

    // One who waits has a message soon after it is published.
    let waiting = {
        let client = node.client();
        thread::spawn(move || client.topic_take(at("t"), "g", 9, 20_000).unwrap())
    };
    thread::sleep(Duration::from_millis(300));
    client.topic_publish(at("t"), &["three"]).unwrap();
    assert_eq!(messages(&waiting.join().unwrap()), [(3, "three".into())]);

    // A stream has what was given back, and what is published meanwhile.
    client.topic_ack(at("t"), "g", &[], &[3]).unwrap();
    client.topic_subscribe(at("t"), "g", &json!({ "ack_ms": 60000 })).unwrap();
    let mut stream = client.topic_stream(at("t"), "g", 16).unwrap();
    let first: Value = serde_json::from_str(&stream.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["message"], "three");
    client.topic_publish(at("t"), &[&b"\xff\0"[..]]).unwrap();
    let second: Value = serde_json::from_str(&stream.next().unwrap().unwrap()).unwrap();
    assert_eq!(second["message"], json!({ "base64": "/wA=" }));
    client.topic_delete(at("t")).unwrap();
    let end: Value = serde_json::from_str(&stream.next().unwrap().unwrap()).unwrap();
    assert_eq!(end, json!({ "why": "there is no topic \"t\"" }));
    assert!(stream.next().is_none());

    assert_eq!(client.topics("0").unwrap(), json!({ "topics": [] }));
    assert_eq!(kind(client.topic(at("t"))), "no-topic");
    assert_eq!(kind(client.topic_take(at("t"), "g", 1, 0)), "no-topic");
    for name in ["a b", "", &"x".repeat(200)] {
        assert!(client.topic_create(at(name), &json!({})).is_err(), "{name}");
    }
    client.topic_create(at("t"), &json!({ "messages_max": 2 })).unwrap();
    assert_eq!(kind(client.topic_take(at("t"), "nobody", 1, 0)), "no-topic");
    assert_eq!(kind(client.topic_publish::<&str>(at("t"), &[])), "bad-request");
    let long = vec![b'x'; (256 << 10) + 1];
    assert_eq!(kind(client.topic_publish(at("t"), &[long])), "message-too-long");
    assert_eq!(kind(client.topic_subscribe(at("t"), "g", &json!({ "from": "x" }))), "bad-request");
    let settings = json!({ "deliveries_max": 3, "dead_letter": "nowhere" });
    assert_eq!(kind(client.topic_subscribe(at("t"), "g", &settings)), "no-topic");
}

#[test]
fn messages_of_a_transaction_are_there_if_and_only_if_it_is_done() {
    let node = Node::alone_and_ready(PROGRAM, "topics_txn", &[]);
    let client = node.client();
    client.topic_create(at("t"), &json!({})).unwrap();
    client.topic_subscribe(at("t"), "g", &json!({ "from": "earliest" })).unwrap();
    let sell = json!({
        "compare": [{ "key": "sold", "exists": false }],
        "then": [
            { "put": { "key": "sold", "value": "7" } },
            { "publish": { "topic": "t", "message": "sold" } },
            { "publish": { "topic": "t", "message": { "base64": "/w==" } } },
        ],
        "else": [{ "get": "sold" }],
    });
    let done = transact(&client, &sell).unwrap();
    assert_eq!(done["succeeded"], true, "{done}");
    assert_eq!(done["results"][1], json!({ "published": "1" }));
    assert_eq!(done["results"][2], json!({ "published": "2" }));
    assert_eq!(transact(&client, &sell).unwrap()["succeeded"], false);
    // One that is refused at its end publishes nothing.
    let refused = transact(
        &client,
        &json!({ "then": [
            { "put": { "key": "text", "value": "x" } },
            { "publish": { "topic": "t", "message": "never" } },
            { "increment": { "key": "text" } },
        ] }),
    );
    assert_eq!(refused.unwrap()["type"], "urn:carillon:problem:operation-refused");
    let nowhere = json!({ "then": [{ "publish": { "topic": "no", "message": "x" } }] });
    assert_eq!(transact(&client, &nowhere).unwrap()["status"], 409);
    let taken = client.topic_take(at("t"), "g", 9, 0).unwrap();
    let bodies: Vec<&Value> =
        taken["messages"].as_array().unwrap().iter().map(|one| &one["message"]).collect();
    assert_eq!(bodies, [&json!("sold"), &json!({ "base64": "/w==" })]);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::connect([node.resp.to_string()]).await.unwrap();
        let number = store
            .transaction(async |tx| {
                tx.set("order", "paid").await?;
                tx.publish("t", "paid").await
            })
            .await
            .unwrap();
        assert_eq!(number, 3);
        let open = store.begin().await.unwrap();
        open.publish("t", "never").await.unwrap();
        open.rollback().await;
        let nowhere = store.transaction(async |tx| tx.publish("no", "x").await).await;
        assert!(nowhere.is_err());

        store.topic_create("u", TopicSettings::default()).await.unwrap();
        let settings = GroupSettings { ack_ms: 60_000, ..GroupSettings::default() };
        store.subscribe("u", "g", settings, GroupStart::Earliest).await.unwrap();
        let none = store.take("u", "g", 9, Duration::from_millis(50)).await.unwrap();
        assert!(none.messages.is_empty());
        assert_eq!(store.publish("u", &["a", "b", "c"]).await.unwrap(), Some(1));
        let taken = store.take("u", "g", 2, Duration::ZERO).await.unwrap();
        assert_eq!((taken.messages.len(), &taken.messages[1].body[..]), (2, &b"b"[..]));
        assert_eq!(store.ack("u", "g", &[1, 2, 3]).await.unwrap(), 2);
        let taken = store.take("u", "g", 2, Duration::ZERO).await.unwrap();
        assert_eq!((taken.messages.len(), taken.messages[0].number), (1, 3));
        assert_eq!(store.give_back("u", "g", &[3]).await.unwrap(), 1);
        store.unsubscribe("u", "g").await.unwrap();
        store.topic_delete("u").await.unwrap();
    });
    // HTTP goes on where the client of the Redis protocol was.
    let taken = client.topic_take(at("t"), "g", 9, 0).unwrap();
    assert_eq!(messages(&taken), [(3, "paid".into())]);
    assert_eq!(client.topics("0").unwrap(), json!({ "topics": ["t"] }));

    // By the Redis protocol: within MULTI, in a script, and by itself.
    let mut connection = node.connect();
    let mut ask = |words: &[&str]| connection.ask(words).unwrap().text().to_owned();
    assert_eq!(ask(&["TPUBLISH", "t", "alone"]), "4");
    for words in [&["MULTI"][..], &["SET", "a", "1"], &["TPUBLISH", "t", "multi"]] {
        ask(words);
    }
    assert_eq!(ask(&["EXEC"]), "OK 5");
    let many = vec!["x"; 1025];
    let refused = ask(&[&["TPUBLISH", "t"], &many[..]].concat());
    assert!(refused.contains("at most 1024 messages"), "{refused}");
    let script = "return redis.call('TPUBLISH', 't', ARGV[1])";
    assert_eq!(ask(&["EVAL", script, "0", "script"]), "6");
    assert!(ask(&["TPUBLISH", "no", "x"]).contains("there is no topic \"no\""));
    // What a script did before an error stays, as in Redis: its message as well.
    let script = "redis.call('SET', 'b', '1') redis.call('TPUBLISH', 't', 'before') \
                  return redis.call('NOTHING')";
    assert!(ask(&["EVAL", script, "0"]).contains("ERR"));
    assert_eq!(ask(&["GET", "b"]), "1");
    ask(&["MULTI"]);
    ask(&["TPUBLISH", "t", "never"]);
    assert_eq!(ask(&["DISCARD"]), "OK");
    ask(&["BEGIN"]);
    assert!(ask(&["TPUBLISH", "t", "never"]).contains("BEGIN"));
    assert_eq!(ask(&["ROLLBACK"]), "OK");
    let taken = client.topic_take(at("t"), "g", 9, 0).unwrap();
    let expected = [(4, "alone"), (5, "multi"), (6, "script"), (7, "before")];
    assert_eq!(messages(&taken), expected.map(|(number, text)| (number, text.to_owned())));

    // By the command line, in an ordered keyspace.
    let run = |words: &[&str]| {
        let (code, text) = node.carillon(words);
        (code, text.trim().to_owned())
    };
    assert_eq!(run(&["keyspace", "create", "o", "--placement", "ordered"]).0, 0);
    let of = |words: &[&str]| run(&[&["topic"], words, &["--keyspace", "o"]].concat());
    assert_eq!(of(&["create", "x", "--kept", "1h"]).0, 0);
    assert_eq!(of(&["subscribe", "x", "g", "--from", "earliest", "--deadline", "1m"]).0, 0);
    assert_eq!(of(&["publish", "x", "one", "two"]), (0, "1".into()));
    assert_eq!(of(&["take", "x", "g", "--max", "1", "--ack"]), (0, "one".into()));
    let (code, text) = of(&["take", "x", "g", "--wait", "100ms", "--json"]);
    let message: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &message["number"]), (0, &json!(2)));
    assert_eq!(of(&["ack", "x", "g", "2"]).0, 0);
    assert_eq!(of(&["ack", "x", "g", "2"]).0, 1);
    assert_eq!(of(&["take", "x", "g", "--wait", "100ms"]).0, 1);
    let (code, text) = of(&["show", "x"]);
    assert!(code == 0 && text.contains("messages 1 to 2") && text.contains("g "), "{text}");
    assert_eq!(of(&["list"]), (0, "x".into()));
    // Pushed to a URL: what is refused comes again.
    assert_eq!(of(&["subscribe", "x", "push", "--from", "earliest", "--deadline", "1s"]).0, 0);
    let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", receiver.local_addr().unwrap());
    let received = thread::spawn(move || {
        let answers = ["503 Busy", "200 OK", "204 No Content"];
        answers.map(|answer| {
            let (mut stream, _) = receiver.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head: Vec<String> = Vec::new();
            while head.last().is_none_or(|line| !line.is_empty()) {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                head.push(line.trim_end().to_owned());
            }
            // "one" or "two".
            reader.read_exact(&mut [0; 3]).unwrap();
            write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").unwrap();
            let number = head.iter().find_map(|line| line.strip_prefix("Carillon-Message: "));
            (head[0].clone(), number.unwrap().to_owned())
        })
    });
    let (code, text) = of(&["push", "x", "push", &url, "--wait", "3s"]);
    assert!(code == 0 && text.starts_with("pushed 2\n"), "{text}");
    let received = received.join().unwrap();
    assert!(received.iter().all(|(line, _)| line == "POST /hook HTTP/1.1"), "{received:?}");
    let numbers: Vec<&str> = received.iter().map(|(_, number)| number.as_str()).collect();
    assert_eq!(numbers, ["1", "2", "1"]);
    assert_eq!(of(&["unsubscribe", "x", "g"]).0, 0);
    assert_eq!(of(&["delete", "x"]).0, 0);
    assert_eq!(of(&["list"]), (0, String::new()));
}
