//! `carillon get`, `put`, `del`.

use std::ffi::OsStr;
use std::io::{Read, stdin};
use std::os::unix::ffi::OsStrExt;

use client::http::{Client, ClientError, GetResult, PutIf, PutOptions};
use keyspace::text::rounded_size;
use serde_json::{Map, json};

use crate::cli::{Condition, DelArgs, GetArgs, PlaceArgs, PutArgs};
use crate::exit::Exit;
use crate::output::{self, with_node};

/// No value can be configured to be longer.
const VALUE_BYTES_MAX: u64 = 512 << 20;

/// As [`with_node`], looking keys up as asked; the way of the last goes to standard error.
fn with_place(place: &PlaceArgs, ask: impl FnOnce(&Client) -> Result<Exit, ClientError>) -> Exit {
    with_node(&place.node, |client| match &place.lookup {
        None => ask(client),
        Some(lookup) => {
            let client = client.clone().looking_up_by(lookup);
            let exit = ask(&client);
            if let Some(route) = client.route() {
                output::complain(&route);
            }
            exit
        }
    })
}

/// Prints a value.
pub fn get(args: &GetArgs) -> Exit {
    let (place, key) = (&args.place, args.key.as_bytes());
    with_place(place, |client| {
        let got = match args.stale {
            None => client.get(&place.keyspace, key, args.at.as_deref())?,
            Some(stale_ms) => {
                let (got, age_ms) = client.get_stale(&place.keyspace, key, stale_ms)?;
                if let Some(age_ms) = age_ms {
                    output::complain(&format!("at most {age_ms} ms old"));
                }
                got
            }
        };
        let none = match got {
            GetResult::Value { value, timestamp, expires_at_ms } => {
                if !place.node.json {
                    return Ok(output::value(&value));
                }
                let mut object = Map::new();
                output::bytes_member(&mut object, "key", key);
                output::bytes_member(&mut object, "value", &value);
                // As text: many programs read JSON's numbers with 53 bits.
                object.insert("timestamp".into(), json!(timestamp.map(|t| t.to_string())));
                object.insert("expires_at_ms".into(), json!(expires_at_ms));
                return Ok(output::json(&object.into()));
            }
            GetResult::Nil => ("nil", "the key has no value"),
            GetResult::NilYet => {
                ("nil_yet", "the key had no value at that time, but got one later")
            }
        };
        let (state, words) = none;
        if place.node.json {
            let mut object = Map::new();
            output::bytes_member(&mut object, "key", key);
            object.insert("value".into(), json!(null));
            object.insert("state".into(), state.into());
            output::json(&object.into());
        } else {
            output::complain(words);
        }
        Ok(Exit::Refused)
    })
}

/// Writes a value.
pub fn put(args: &PutArgs) -> Exit {
    let mut piped = Vec::new();
    let value: &[u8] = if args.value == OsStr::new("-") {
        match stdin().lock().take(VALUE_BYTES_MAX + 1).read_to_end(&mut piped) {
            Ok(bytes) if bytes as u64 <= VALUE_BYTES_MAX => &piped,
            Ok(_) => {
                let most = rounded_size(VALUE_BYTES_MAX);
                output::complain(&format!("no value may be longer than {most}; nothing was sent"));
                return Exit::Usage;
            }
            Err(error) => {
                output::complain(&format!("cannot read the value from standard input: {error}"));
                return Exit::Usage;
            }
        }
    } else {
        args.value.as_bytes()
    };
    let when = match args.when {
        None => PutIf::Always,
        Some(Condition::Absent) => PutIf::Absent,
        Some(Condition::Present) => PutIf::Present,
    };
    let (place, options) = (&args.place, PutOptions { ttl_ms: args.ttl, when });
    with_place(place, |client| {
        let done = client.put(&place.keyspace, args.key.as_bytes(), value, &options)?;
        if place.node.json {
            output::json(&json!({ "written": done }));
        } else if done {
            output::line("ok");
        } else {
            output::complain("the condition does not hold; nothing was written");
        }
        Ok(if done { Exit::Done } else { Exit::Refused })
    })
}

/// Deletes keys, one after the other.
pub fn del(args: &DelArgs) -> Exit {
    let place = &args.place;
    with_place(place, |client| {
        let mut deleted = 0;
        for (place_of_key, key) in args.keys.iter().enumerate() {
            match client.delete(&place.keyspace, key.as_bytes()) {
                Ok(had_value) => deleted += usize::from(had_value),
                Err(error) => {
                    if place_of_key > 0 && !place.node.json {
                        let keys = args.keys.len();
                        output::complain(&format!("{place_of_key} of {keys} keys are done"));
                    }
                    return Err(error);
                }
            }
        }
        if place.node.json {
            output::json(&json!({ "deleted": deleted }));
        } else {
            output::line(&deleted.to_string());
        }
        Ok(if deleted == args.keys.len() { Exit::Done } else { Exit::Refused })
    })
}
