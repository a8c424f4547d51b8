//! `carillon history`: the changes of a key.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use serde_json::Value;
use server::utc::utc;

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, with_node};

/// Characters of a value that are shown.
const SHOWN_CHARS_MAX: usize = 60;

/// `carillon history`
#[derive(Debug, Args)]
#[command(after_help = "\
The newest first: puts with their values, deletions and expiries. VERSION is the time for
`carillon get --at`. Changes that are older than the keyspace's retention may be forgotten; the last
line says up to where all are there.
Exit code 1 if no change is known.

Examples:
  carillon history greeting
  carillon history greeting --limit 5
  carillon history greeting --before 1700000000000ms
  carillon history greeting --json")]
pub struct HistoryArgs {
    /// The key.
    pub key: OsString,
    /// Show so many writes.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=api::HISTORY_PAGE_MAX as u64))]
    pub limit: u64,
    /// Show changes before this time: a VERSION, or milliseconds since 1970 with the unit ms.
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
    /// Keyspace of the key.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Shows the changes.
pub fn history(args: &HistoryArgs) -> Exit {
    with_node(&args.node, |client| {
        let (key, before) = (args.key.as_bytes(), args.before.as_deref());
        let page = client.history(&args.keyspace, key, args.limit, before)?;
        let is_empty = page["changes"].as_array().is_none_or(Vec::is_empty);
        match args.node.json {
            true => output::json(&page),
            false => output::raw(shown(&page).as_bytes()),
        };
        Ok(if is_empty { Exit::Refused } else { Exit::Done })
    })
}

fn shown(page: &Value) -> String {
    let changes = page["changes"].as_array().map_or(&[][..], Vec::as_slice);
    let since = utc(page["safe_point_ms"].as_u64().unwrap_or(0));
    if changes.is_empty() {
        return format!("no changes are known; all since {since} would be\n");
    }
    let rows: Vec<Vec<String>> = changes.iter().map(row).collect();
    let mut out = output::table(&["TIME", "CHANGE", "VERSION", "VALUE"], &rows);
    out += &match page["next"].as_str() {
        Some(next) => format!("there are more: --before {next}\n"),
        None => format!("all changes since {since} are shown\n"),
    };
    out
}

fn row(change: &Value) -> Vec<String> {
    let text = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
    let value = match &change["value"] {
        Value::String(value) => format!("\"{}\"", value.escape_debug()),
        Value::Null => String::new(),
        _ => format!("{} bytes that are no text", change["bytes"]),
    };
    let mut value: String = match value.chars().count() > SHOWN_CHARS_MAX {
        true => value.chars().take(SHOWN_CHARS_MAX).chain(['…']).collect(),
        false => value,
    };
    if let Some(end) = change["expires_at_ms"].as_u64() {
        value += &format!(" until {}", utc(end));
    }
    let at = change["at_ms"].as_u64().unwrap_or(0);
    // Several changes may be of one second.
    let at = utc(at).replace(" UTC", &format!(".{:03} UTC", at % 1_000));
    vec![at, text("what"), text("version"), value]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_shown_with_their_ends() {
        let page = json!({
            "changes": [
                { "what": "expired", "at_ms": 1_700_000_001_000_u64 },
                {
                    "what": "put", "at_ms": 1_700_000_000_000_u64, "version": "7", "bytes": 3,
                    "value": "a\nb", "expires_at_ms": 1_700_000_001_000_u64,
                },
                {
                    "what": "put", "at_ms": 5, "version": "6", "bytes": 1,
                    "value": { "base64": "/w==" },
                },
            ],
            "next": "6", "safe_point_ms": 0,
        });
        let text = shown(&page);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("22:13:21.000 UTC  expired"), "{text}");
        assert!(lines[2].contains("\"a\\nb\" until 2023-11-14 22:13:21 UTC"), "{text}");
        assert!(lines[3].ends_with("1 bytes that are no text"), "{text}");
        assert_eq!(lines[4], "there are more: --before 6");
        let none = json!({ "changes": [], "next": null, "safe_point_ms": 0 });
        assert!(shown(&none).starts_with("no changes are known"));
    }
}
