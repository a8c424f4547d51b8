//! `carillon route`: how is the owner of a key found?

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::Args;
use serde_json::Value;

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, with_node};

/// `carillon route`
#[derive(Debug, Args)]
#[command(after_help = "\
The node looks for the owner of the key, by each lookup, on the cluster as it is now; nothing is
read or written. A hop is a move from shard to shard. Of each move: the shard, the node that leads
it, the entry of the table that led there, and, where this node has asked itself, how long it took.
Exit code 1 if a lookup found nobody.

Examples:
  carillon route greeting                            by all five lookups
  carillon route greeting --lookup chord             by one
  carillon route greeting --form recursive           each node passes it on
  carillon route greeting --no-images                the tables alone, as in the papers
  carillon route greeting --json")]
pub struct RouteArgs {
    /// The key.
    pub key: OsString,
    /// Which lookup: full, chord, chord-sharp, linear, lh, or all.
    #[arg(long, value_name = "LOOKUP", default_value = "all")]
    pub lookup: String,
    /// How it goes from hop to hop: iterative (the node asks each in turn), recursive (each passes
    /// it on, the last answers) or semi-recursive (the answer comes back the same way).
    #[arg(long, value_name = "FORM", default_value = "iterative")]
    pub form: String,
    /// Nodes go by their tables alone, and not by owners that were found before or tables of other
    /// shards that they lead.
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
        let images = if args.no_images { "noimages" } else { "images" };
        let lookup = format!("{} {} {images}", args.lookup, args.form);
        let ways = client.routes(&args.keyspace, args.key.as_bytes(), &lookup)?;
        let all = ways.as_array().map_or(&[][..], Vec::as_slice);
        if args.node.json {
            output::json(&ways);
        } else if all.is_empty() {
            output::complain("the keyspace does not exist yet: it is made when it is used");
        } else {
            output::line(shown(all).trim_end());
        }
        let is_found = !all.is_empty() && all.iter().all(|way| way["failure"].is_null());
        Ok(if is_found { Exit::Done } else { Exit::Refused })
    })
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
