//! `carillon topic`.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use clap::{Args, Subcommand};
use client::http::{Client, ClientError, TopicPlace, bytes_of};
use serde_json::{Map, Value, json};

use crate::cli::{NodeArgs, millis};
use crate::exit::Exit;
use crate::output::{self, table, time, with_node};

/// A request waits for messages at most so long; then the next one is sent.
const WAIT_MS: u64 = 20_000;
/// Messages of one request, unless fewer are wanted.
const BATCH: u64 = 64;

const EXAMPLES: &str = "\
A topic belongs to a keyspace, so that a transaction can change data and publish (`carillon txn`,
POST /v1/txn). Members of a group share its messages; each message is taken until it is
acknowledged, and comes again if it is not.

Examples:
  carillon topic create orders
  carillon topic subscribe orders billing --from earliest
  carillon topic publish orders '{\"id\":7}'
  carillon topic take orders billing --ack       prints messages as they come, acknowledges each
  carillon topic take orders billing --max 1 --json
  carillon topic ack orders billing 1
  carillon topic show orders";

/// `carillon topic`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopicArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TopicCommand,
}

/// Which topic.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// The topic.
    pub topic: String,
    /// Keyspace of the topic.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// What can be done with topics.
#[derive(Debug, Subcommand)]
pub enum TopicCommand {
    /// Create a topic; one that is there with these settings is left as it is.
    Create {
        #[command(flatten)]
        place: PlaceArgs,
        /// How long a message is kept: a week, if not given.
        #[arg(long, value_name = "TIME", value_parser = millis)]
        kept: Option<u64>,
        /// How many messages are kept: 100000, if not given.
        #[arg(long, value_name = "NUMBER")]
        messages: Option<u64>,
        /// How many bytes of messages are kept: 256 MiB, if not given.
        #[arg(long, value_name = "NUMBER")]
        bytes: Option<u64>,
    },
    /// List the topics of a keyspace.
    List {
        /// Keyspace of the topics.
        #[arg(long, value_name = "NAME", default_value = "0")]
        keyspace: String,
        #[command(flatten)]
        node: NodeArgs,
    },
    /// Show a topic and its groups.
    Show(PlaceArgs),
    /// Publish messages, all at one moment.
    Publish {
        #[command(flatten)]
        place: PlaceArgs,
        /// The messages; - reads one from standard input. After -- they may begin with a hyphen.
        #[arg(required = true, value_name = "MESSAGE")]
        messages: Vec<OsString>,
    },
    /// Create a group of subscribers, or change its settings.
    Subscribe {
        #[command(flatten)]
        place: PlaceArgs,
        /// The group.
        group: String,
        /// Where a new group begins: latest, earliest, or a number.
        #[arg(long, value_name = "PLACE", default_value = "latest")]
        from: String,
        /// Time to acknowledge a message; then it is delivered again. 30s, if not given.
        #[arg(long, value_name = "TIME", value_parser = millis)]
        deadline: Option<u64>,
        /// After so many deliveries a message goes to the dead-letter topic.
        #[arg(long, value_name = "NUMBER", requires = "dead_letter")]
        deliveries: Option<u64>,
        /// That topic, of the same keyspace.
        #[arg(long, value_name = "TOPIC", requires = "deliveries")]
        dead_letter: Option<String>,
    },
    /// End a group.
    Unsubscribe {
        #[command(flatten)]
        place: PlaceArgs,
        /// The group.
        group: String,
    },
    /// Take messages as a member of a group, and print them as they come.
    Take {
        #[command(flatten)]
        place: PlaceArgs,
        /// The group.
        group: String,
        /// End after so many messages; without it, it goes on until Ctrl-C.
        #[arg(long, value_name = "NUMBER")]
        max: Option<u64>,
        /// End when no message has come for so long.
        #[arg(long, value_name = "TIME", value_parser = millis)]
        wait: Option<u64>,
        /// Acknowledge each message when it is printed.
        #[arg(long)]
        ack: bool,
    },
    /// Acknowledge messages, by number: they are not delivered again.
    Ack {
        #[command(flatten)]
        place: PlaceArgs,
        /// The group.
        group: String,
        /// The numbers.
        #[arg(required = true, value_name = "NUMBER")]
        numbers: Vec<u64>,
        /// Give them back instead: they are delivered again at once.
        #[arg(long)]
        back: bool,
    },
    /// Push messages to a URL as a member of a group, until Ctrl-C.
    #[command(after_help = "\
Each message is the body of a POST, with the headers Carillon-Topic, Carillon-Message (its number)
and Carillon-Deliveries. An answer 2xx acknowledges it. Any other, or none, leaves it: it is pushed
again when the group's deadline is over, and goes to the dead-letter topic if the group has one.
After failures in a row there are pauses of 1s to 30s.

Any number of these may run, on any hosts: they share the group's messages.

Example:
  carillon topic push orders hook http://127.0.0.1:8000/orders")]
    Push {
        #[command(flatten)]
        place: PlaceArgs,
        /// The group.
        group: String,
        /// Where to: http://HOST:PORT/PATH.
        url: String,
        /// End when no message has come for so long.
        #[arg(long, value_name = "TIME", value_parser = millis)]
        wait: Option<u64>,
    },
    /// Delete a topic, with its messages and groups.
    Delete(PlaceArgs),
}

impl PlaceArgs {
    /// Where it is.
    pub fn place(&self) -> TopicPlace<'_> {
        TopicPlace { keyspace: &self.keyspace, topic: &self.topic }
    }

    fn ask(&self, ask: impl FnOnce(&Client, TopicPlace<'_>) -> Result<Exit, ClientError>) -> Exit {
        with_node(&self.node, |client| ask(client, self.place()))
    }

    /// Prints JSON, or a line for people.
    fn say(&self, answer: &Value, line: &str) -> Exit {
        if self.node.json { output::json(answer) } else { output::line(line) }
    }
}

/// What is given, as JSON.
fn settings<const N: usize>(all: [(&str, Value); N]) -> Value {
    let given = all.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// Does one of them.
pub fn topic(command: &TopicCommand) -> Exit {
    match command {
        TopicCommand::Create { place, kept, messages, bytes } => place.ask(|client, at| {
            let asked = settings([
                ("kept_ms", json!(kept)),
                ("messages_max", json!(messages)),
                ("bytes_max", json!(bytes)),
            ]);
            let made = client.topic_create(at, &asked)?;
            Ok(place.say(&made, &format!("topic {} is there", at.topic)))
        }),
        TopicCommand::List { keyspace, node } => with_node(node, |client| {
            let all = client.topics(keyspace)?;
            Ok(match node.json {
                true => output::json(&all),
                false => {
                    let names = items(&all["topics"]).iter().filter_map(Value::as_str);
                    output::raw(
                        names.map(|name| format!("{name}\n")).collect::<String>().as_bytes(),
                    )
                }
            })
        }),
        TopicCommand::Show(place) => place.ask(|client, at| {
            let shown = client.topic(at)?;
            Ok(match place.node.json {
                true => output::json(&shown),
                false => output::raw(text_of(&shown).as_bytes()),
            })
        }),
        TopicCommand::Publish { place, messages } => publish(place, messages),
        TopicCommand::Subscribe { place, group, from, deadline, deliveries, dead_letter } => place
            .ask(|client, at| {
                let asked = settings([
                    ("from", json!(from)),
                    ("ack_ms", json!(deadline)),
                    ("deliveries_max", json!(deliveries)),
                    ("dead_letter", json!(dead_letter)),
                ]);
                let made = client.topic_subscribe(at, group, &asked)?;
                let line = format!("group {group} is at message {}", made["next"]);
                Ok(place.say(&made, &line))
            }),
        TopicCommand::Unsubscribe { place, group } => place.ask(|client, at| {
            client.topic_unsubscribe(at, group)?;
            Ok(place.say(&json!({ "unsubscribed": group }), &format!("group {group} is gone")))
        }),
        TopicCommand::Take { place, group, max, wait, ack } => place.ask(|client, at| {
            take(client, place, at, &Taking { group, max: *max, wait: *wait, acks: *ack })
        }),
        TopicCommand::Ack { place, group, numbers, back } => place.ask(|client, at| {
            let (done, given): (&[u64], &[u64]) =
                if *back { (&[], numbers) } else { (numbers, &[]) };
            let acked = client.topic_ack(at, group, done, given)?;
            let found = acked["found"].as_u64().unwrap_or_default();
            let exit = place.say(&acked, &format!("{found} of {} were taken", numbers.len()));
            Ok(if found < numbers.len() as u64 { Exit::Refused } else { exit })
        }),
        TopicCommand::Push { place, group, url, wait } => {
            crate::topic_push::push(place, group, url, *wait)
        }
        TopicCommand::Delete(place) => place.ask(|client, at| {
            client.topic_delete(at)?;
            Ok(place.say(&json!({ "deleted": at.topic }), &format!("deleted {}", at.topic)))
        }),
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn publish(place: &PlaceArgs, messages: &[OsString]) -> Exit {
    let mut bodies = Vec::new();
    for message in messages {
        let mut body = message.as_bytes().to_vec();
        if body == b"-" {
            body.clear();
            if let Err(error) = std::io::stdin().read_to_end(&mut body) {
                output::refuse(&place.node, &format!("standard input cannot be read: {error}"));
                return Exit::Refused;
            }
        }
        bodies.push(body);
    }
    place.ask(|client, at| {
        let published = client.topic_publish(at, &bodies)?;
        Ok(place.say(&published, &published["first"].to_string()))
    })
}

struct Taking<'a> {
    group: &'a str,
    max: Option<u64>,
    wait: Option<u64>,
    acks: bool,
}

fn take(
    client: &Client,
    place: &PlaceArgs,
    at: TopicPlace<'_>,
    taking: &Taking<'_>,
) -> Result<Exit, ClientError> {
    let mut count = 0;
    let mut waited = 0;
    loop {
        let wait = taking.wait.map_or(WAIT_MS, |wait| (wait - waited).min(WAIT_MS));
        let left = taking.max.map_or(BATCH, |max| (max - count).min(BATCH));
        if left == 0 {
            return Ok(Exit::Done);
        }
        let taken = client.topic_take(at, taking.group, left, wait)?;
        if let Some(missed) = taken["missed"].as_u64().filter(|missed| *missed > 0) {
            output::note(&format!("{missed} messages were dropped before the group had them"));
        }
        let messages = items(&taken["messages"]);
        for message in messages {
            let exit = show(place, message);
            if !matches!(exit, Exit::Done) {
                return Ok(exit);
            }
        }
        if taking.acks && !messages.is_empty() {
            let numbers = messages.iter().filter_map(|message| message["number"].as_u64());
            client.topic_ack(at, taking.group, &numbers.collect::<Vec<_>>(), &[])?;
        }
        count += messages.len() as u64;
        waited = if messages.is_empty() { waited + wait } else { 0 };
        if taking.wait.is_some_and(|wait| waited >= wait) {
            return Ok(if count > 0 { Exit::Done } else { Exit::Refused });
        }
    }
}

fn show(place: &PlaceArgs, message: &Value) -> Exit {
    if place.node.json {
        return output::json(message);
    }
    let mut line = bytes_of(&message["message"]).unwrap_or_default();
    line.push(b'\n');
    output::raw(&line)
}

fn text_of(shown: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (first, next) = (number(&shown["first"]), number(&shown["next"]));
    let messages = match next.saturating_sub(1) {
        last if last < first => format!("no messages; the next one is {next}"),
        last => format!("messages {first} to {last}, {} bytes at most", shown["bytes"]),
    };
    let mut text = format!(
        "{}: {messages}\nkept for {}, up to {} messages and {} bytes\n",
        shown["name"].as_str().unwrap_or_default(),
        time(number(&shown["kept_ms"])),
        shown["messages_max"],
        shown["bytes_max"],
    );
    let rows = items(&shown["groups"]).iter().map(|group| {
        let of = |name: &str| group[name].to_string();
        vec![
            group["name"].as_str().unwrap_or_default().to_owned(),
            of("next"),
            of("waiting"),
            of("unacknowledged"),
            of("missed"),
            time(number(&group["ack_ms"])),
            group["dead_letter"].as_str().unwrap_or("–").to_owned(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        text.push('\n');
        let head = ["GROUP", "NEXT", "WAITING", "TAKEN", "MISSED", "DEADLINE", "DEAD LETTERS"];
        text += &table(&head, &rows);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_shown_with_their_groups() {
        let shown = json!({
            "name": "orders", "first": 3, "next": 9, "bytes": 70, "kept_ms": 604_800_000,
            "messages_max": 100_000, "bytes_max": 268_435_456,
            "groups": [{ "name": "billing", "next": 5, "waiting": 4, "unacknowledged": 2,
                         "missed": 0, "ack_ms": 30_000, "deliveries_max": 0 }],
        });
        let text = text_of(&shown);
        assert!(text.starts_with("orders: messages 3 to 8, 70 bytes at most\n"), "{text}");
        assert!(text.lines().last().unwrap().starts_with("billing"), "{text}");
    }

    #[test]
    fn settings_name_what_is_given() {
        let given = settings([("a", json!(7)), ("b", json!(None::<u64>))]);
        assert_eq!(given, json!({ "a": 7 }));
    }
}
