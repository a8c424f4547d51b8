//! `carillon status`, and `carillon check` for a node that does not run.

use keyspace::text::rounded_size;
use serde_json::{Value, json};

use crate::cli::{CheckArgs, StatusArgs};
use crate::cluster::{self, health};
use crate::colour::Paint;
use crate::exit::Exit;
use crate::output::{self, time};

/// How a running node is. Exit code 1 if it does not serve, or does not do all it should.
pub fn status(args: &StatusArgs) -> Exit {
    let exit = |status: &Value| match status["ready"] == true {
        true => cluster::exit(status),
        false => Exit::Refused,
    };
    cluster::show(&args.node, &args.watch, client::http::Client::status, show, exit)
}

/// What this version knows of the status; a node that says less is shown with less.
fn show(status: &Value, paint: Paint) -> String {
    let text = |name: &str| status[name].as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64();
    let plain = |name: &str| number(&status[name]).map(|n| n.to_string());
    let (memory, log) = (&status["memory"], &status["log"]);
    let state = match (status["ready"] == true, text("not_ready")) {
        (true, _) => "ready".to_owned(),
        (false, why) => format!("not ready: {}", why.unwrap_or_default()),
    };
    let memory = number(&memory["used_bytes"]).zip(number(&memory["max_bytes"]));
    let log_bytes = number(&log["bytes"]).zip(number(&log["segments"]));
    let listeners = status["listeners"].as_array().map(|all| {
        let one = |each: &Value| {
            let member = |name: &str| each[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", member("protocol"), member("address"))
        };
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    });
    let cluster = &status["cluster"];
    let members = number(&cluster["members_up"]).zip(number(&cluster["members_down"]));
    // A node alone is no cluster to speak of.
    let members = members.filter(|members| *members != (1, 0));
    let suspected = match number(&cluster["members_suspected"]) {
        None | Some(0) => String::new(),
        Some(count) => format!(" ({count} suspected)"),
    };
    let shards = number(&status["shards"]).map(|count| match number(&cluster["shards_led"]) {
        Some(led) => format!("{count}, leads {led}"),
        None => count.to_string(),
    });
    let rows = [
        ("node", text("name").zip(text("node_id")).map(|(name, id)| format!("{name} ({id})"))),
        ("version", text("version")),
        ("cluster version", cluster_version(&status["level"])),
        ("state", Some(state)),
        ("health", status["health"]["verdict"].as_str().map(|verdict| health(verdict, paint))),
        ("cluster", members.map(|(up, down)| format!("{up} nodes up{suspected}, {down} down"))),
        ("up", number(&status["uptime_ms"]).map(time)),
        ("listens", listeners),
        ("directory", text("dir")),
        ("recovered", text("recovered")),
        ("keyspaces", plain("keyspaces")),
        ("shards", shards),
        ("keys", plain("keys")),
        ("clients", plain("connections")),
        (
            "memory",
            memory.map(|(used, max)| format!("{} of {}", rounded_size(used), rounded_size(max))),
        ),
        (
            "log",
            log_bytes.map(|(bytes, files)| format!("{} in {files} files", rounded_size(bytes))),
        ),
    ];
    let mut out = String::new();
    for (name, value) in rows {
        if let Some(value) = value {
            out += &format!("{name:<15} {value}\n");
        }
        if name == "health" {
            for reason in status["health"]["reasons"].as_array().into_iter().flatten() {
                out += &format!("{:<15} - {}\n", "", reason.as_str().unwrap_or_default());
            }
        }
    }
    for warning in status["warnings"].as_array().into_iter().flatten() {
        out += &format!("{:<15} {}\n", "warning", warning.as_str().unwrap_or_default());
    }
    out
}

/// The cluster version, and what is in the way of the next one.
fn cluster_version(status: &Value) -> Option<String> {
    let mut text = status["level"].as_u64()?.to_string();
    if let Some(supported) = crate::upgrade::range(&status["speaks"]) {
        text += &format!(" (this node supports {supported})");
    }
    for why in status["objections"].as_array().into_iter().flatten() {
        text += &format!("\n{:<15} - {}", "", why.as_str().unwrap_or_default());
    }
    Some(text)
}

/// Whether everything in a directory is readable.
pub fn check(args: &CheckArgs) -> Exit {
    match server::check::check(&args.dir) {
        Ok(found) if args.json => output::json(&json!({
            "healthy": true,
            "cluster": format!("{:016x}", found.cluster),
            "node": format!("{:016x}", found.node),
            "checkpoints": found.checkpoints,
            "checkpoint_bytes": found.checkpoint_bytes,
            "log_records": found.log_records,
            "log_end": found.log_end,
            "torn_bytes": found.torn_bytes,
            "addresses_error": found.addresses_error,
        })),
        Ok(found) => {
            let torn = match found.torn_bytes {
                0 => String::new(),
                bytes => format!("\nthe next start truncates {}", server::check::torn(bytes)),
            };
            let addresses = match found.addresses_error {
                None => String::new(),
                Some(why) => format!("\nthe next start ignores the addresses of members: {why}"),
            };
            output::line(&format!(
                "healthy: node {:016x}, {} checkpoints with {}, {} log records{torn}{addresses}",
                found.node,
                found.checkpoints,
                rounded_size(found.checkpoint_bytes),
                found.log_records,
            ))
        }
        Err(error) => {
            if args.json {
                output::json(&json!({ "healthy": false, "error": error.to_string() }));
            } else {
                output::complain(&error.to_string());
            }
            Exit::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_with_less_or_more_is_shown() {
        let less = json!({ "ready": false, "not_ready": "reads its data", "new": [1, 2] });
        assert_eq!(show(&less, Paint::PLAIN), "state           not ready: reads its data\n");
        assert_eq!(show(&json!([1]), Paint::PLAIN), "state           not ready: \n");
    }
}
