//! `carillon route`: shows how lookups find the owner of a key.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::advise;
use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, with_node};

/// `carillon route`
#[derive(Debug, Args)]
#[command(after_help = "\
The node looks up the shard that owns the key, by each lookup, in the cluster as it is now; it reads
and writes no key. A hop goes from shard to shard. Each line shows the shard, the node that leads
it, the table entry that led there and, if this node sent the request, how long it took.
Exit code 1 if a lookup found no owner; of `all`, lh may fail: it is for placement linear-hash.

Examples:
  carillon route greeting                            by all five lookups
  carillon route greeting --lookup chord             by one
  carillon route greeting --form recursive           each node passes it on
  carillon route greeting --no-images                the tables alone, as in the papers
  carillon route greeting --json
  carillon route --advise                            which lookup suits this cluster, and why
  carillon route --advise --seconds 60              as far as a minute tells")]
pub struct RouteArgs {
    /// The key.
    #[arg(required_unless_present = "advise")]
    pub key: Option<OsString>,
    /// Say which lookup suits the cluster, by the number of shards and nodes, by what each lookup
    /// costs now, and by how often shards change.
    #[arg(long, conflicts_with_all = ["key", "lookup", "form", "no_images"])]
    pub advise: bool,
    /// For how many seconds --advise watches requests and changes.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, conflicts_with = "key")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// The lookup: full, chord, chord-sharp, linear, lh, or all; a form and noimages may follow, as
    /// in `get --lookup`.
    #[arg(long, value_name = "LOOKUP", default_value = "all")]
    pub lookup: String,
    /// The form: iterative (the node asks each hop in turn), recursive (each hop passes the request
    /// on, the last one answers) or semi-recursive (the answer returns by the same hops). Unless
    /// given, iterative.
    #[arg(long, value_name = "FORM")]
    pub form: Option<String>,
    /// Nodes use a shard's own table only: no cached routes, and no tables of other shards that
    /// they lead.
    #[arg(long)]
    pub no_images: bool,
    /// Keyspace of the key.
    #[arg(long, value_name = "NAME", default_value = "0")]
    pub keyspace: String,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Shows the ways.
pub fn route(args: &RouteArgs) -> Exit {
    with_node(&args.node, |client| {
        let Some(key) = args.key.as_ref().filter(|_| !args.advise) else {
            let facts = advise::observe(client, &args.keyspace, Duration::from_secs(args.seconds))?;
            let advice = advise::advise(&facts);
            match args.node.json {
                true => output::json(&advise::as_json(&facts, &advice)),
                false => output::line(advise::shown(&facts, &advice).trim_end()),
            };
            return Ok(Exit::Done);
        };
        let ways = client.routes(&args.keyspace, key.as_bytes(), &words(args))?;
        let all = ways.as_array().map_or(&[][..], Vec::as_slice);
        if args.node.json {
            output::json(&ways);
        } else if all.is_empty() {
            output::complain("the keyspace does not exist yet: its first use creates it");
        } else {
            output::line(shown(all).trim_end());
        }
        Ok(if is_found(all) { Exit::Done } else { Exit::Refused })
    })
}

/// What is asked for, as the node takes it.
fn words(args: &RouteArgs) -> String {
    let mut words = vec![args.lookup.as_str()];
    words.extend(args.form.as_deref());
    words.extend(args.no_images.then_some("noimages"));
    words.join(" ")
}

/// Whether each lookup has found the owner; `lh`, where it is not the only one, if it can.
fn is_found(ways: &[Value]) -> bool {
    let is_beside = |way: &Value| {
        let failure = way["failure"].as_str();
        ways.len() > 1 && failure.is_some_and(|why| why.starts_with("no file"))
    };
    !ways.is_empty() && ways.iter().all(|way| way["failure"].is_null() || is_beside(way))
}

fn shown(ways: &[Value]) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut rows = Vec::new();
    for way in ways {
        let owner = match way["failure"].as_str() {
            Some(why) => why.to_owned(),
            None => match way["shard"].as_u64() {
                Some(shard) => format!("shard {shard}"),
                None => "this node: it is alone".to_owned(),
            },
        };
        rows.push(vec![
            text(&way["lookup"]),
            text(&way["hops"]),
            text(&way["messages"]),
            text(&way["micros"]),
            owner,
        ]);
    }
    let mut out = output::table(&["LOOKUP", "HOPS", "MESSAGES", "MICROS", "OWNER"], &rows);
    let none = Vec::new();
    for way in ways {
        let steps = way["steps"].as_array().unwrap_or(&none);
        if steps.is_empty() {
            continue;
        }
        let row = |(number, step): (usize, &Value)| {
            let shard = match step["shard"].as_u64() {
                Some(0) => "any".to_owned(),
                _ => text(&step["shard"]),
            };
            let (name, by) = (text(&step["name"]), text(&step["by"]));
            vec![(number + 1).to_string(), shard, name, by, text(&step["micros"])]
        };
        let rows: Vec<_> = steps.iter().enumerate().map(row).collect();
        out.push_str(&format!("\n{} {}\n", text(&way["lookup"]), text(&way["form"])));
        out.push_str(&output::table(&["MOVE", "SHARD", "NODE", "BY", "MICROS"], &rows));
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: RouteArgs,
    }

    #[test]
    fn what_is_not_said_is_not_asked_for() {
        let words =
            |typed: &[&str]| words(&Typed::parse_from(["route", "k"].iter().chain(typed)).args);
        assert_eq!(words(&[]), "all");
        assert_eq!(words(&["--lookup", "chord recursive"]), "chord recursive");
        assert_eq!(words(&["--form", "recursive", "--no-images"]), "all recursive noimages");
    }

    #[test]
    fn lh_is_not_missed_where_there_is_no_file() {
        let found = json!({ "lookup": "full" });
        let no_file = json!({ "lookup": "lh", "failure": "no file: lh is for other keyspaces" });
        let silent = json!({ "lookup": "chord", "failure": "silent" });
        assert!(is_found(&[found.clone(), no_file.clone()]));
        assert!(!is_found(&[found, silent]));
        assert!(!is_found(&[no_file]) && !is_found(&[]));
    }
}
