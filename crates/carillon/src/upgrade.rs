//! `carillon upgrade`: raises the cluster version, so that new features may be used.

use clap::Args;
use client::http::Client;
use serde_json::Value;

use crate::cli::NodeArgs;
use crate::exit::Exit;
use crate::output::{self, table, with_node};

/// `carillon upgrade`
#[derive(Debug, Args)]
#[command(after_help = "\
Nodes are upgraded one after the other: stop one, start it with the new version on the same
directory, wait until `carillon status` is ok, go on with the next. Meanwhile old and new ones run
together, and nothing is used that an old one does not know: the cluster keeps its cluster version.
Until the level rises, the way back is the same way with the old version.

When all nodes run the new version the level rises by itself, 10 minutes later: the setting
auto_upgrade_after_ms. With auto_upgrade = false on all nodes it waits for this command. It rises by
one, and never falls: then nodes of the old version are refused, and stop by themselves.

Exit code 1 if it is refused, for a node that does not support the next one, or was not heard of.

Examples:
  carillon upgrade --check         the level, what each node supports, what is in the way
  carillon upgrade                 the next level, if there is one
  carillon upgrade --to 2          this level and no other")]
pub struct UpgradeArgs {
    /// The level that is meant, instead of whichever is next.
    #[arg(long, value_name = "LEVEL", conflicts_with = "check")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub to: Option<u8>,
    /// Show the level and what each node supports, and change nothing.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Raises it, or shows it.
pub fn upgrade(args: &UpgradeArgs) -> Exit {
    with_node(&args.node, |client| match args.check {
        true => {
            let level = client.level()?;
            let exit = if is_free(&level) { Exit::Done } else { Exit::Refused };
            Ok(print(args, &level, shown(&level)).and(exit))
        }
        false => raise(client, args),
    })
}

fn raise(client: &Client, args: &UpgradeArgs) -> Result<Exit, client::http::ClientError> {
    let before = client.level()?["level"].as_u64();
    let level = client.raise_level(args.to)?;
    let now = level["level"].as_u64();
    let number = now.unwrap_or(0);
    let text = match now == before {
        true => format!("the cluster version is {number} already"),
        false => format!("the cluster version is {number} from now on"),
    };
    Ok(print(args, &level, text))
}

fn print(args: &UpgradeArgs, level: &Value, text: String) -> Exit {
    if args.node.json { output::json(level) } else { output::line(&text) }
}

/// Whether nothing prevents the next cluster version.
fn is_free(level: &Value) -> bool {
    level["objections"].as_array().is_none_or(Vec::is_empty)
}

/// The text of a range of cluster versions.
pub fn range(speaks: &Value) -> Option<String> {
    let (lowest, highest) = speaks[0].as_u64().zip(speaks[1].as_u64())?;
    Some(match lowest == highest {
        true => format!("{lowest} only"),
        false => format!("{lowest} to {highest}"),
    })
}

fn shown(level: &Value) -> String {
    let number = level["level"].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |node: &Value| {
        let speaks = range(&node["speaks"]).unwrap_or_else(|| "not heard of".to_owned());
        vec![text(&node["name"]), speaks]
    };
    let rows: Vec<Vec<String>> = level["nodes"].as_array().into_iter().flatten().map(row).collect();
    let highest = level["speaks"][1].as_u64().unwrap_or(0);
    let next = match (highest > number, is_free(level)) {
        (false, _) => "there is none to rise to, as far as this node knows".to_owned(),
        (true, true) if level["automatic"] == true => {
            format!("{} can be used: it rises by itself, or with carillon upgrade", number + 1)
        }
        (true, true) => format!("{} can be used: carillon upgrade", number + 1),
        (true, false) => {
            let why = level["objections"].as_array().into_iter().flatten().map(text);
            format!("{} cannot be used yet: {}", number + 1, why.collect::<Vec<_>>().join("; "))
        }
    };
    format!("level      {number}\nnext       {next}\n\n{}", table(&["NODE", "SUPPORTS"], &rows))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_in_the_way_is_named() {
        let level = json!({
            "level": 1, "speaks": [1, 2], "automatic": true,
            "objections": ["n2 supports 1 only"],
            "nodes": [{ "name": "n1", "speaks": [1, 2] }, { "name": "n2", "speaks": [1, 1] },
                      { "name": "n3", "speaks": null }],
        });
        let expected = "level      1\nnext       2 cannot be used yet: n2 supports 1 only\n\n\
                        NODE  SUPPORTS\nn1    1 to 2\nn2    1 only\nn3    not heard of";
        assert_eq!(shown(&level), expected);
        assert!(!is_free(&level) && is_free(&json!({})));
    }
}
