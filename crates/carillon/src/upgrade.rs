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
directory, wait until `carillon status` is ok, go on with the next. Meanwhile old and new nodes run
together and use only what both support: the cluster version stays the same. Until it rises, you can
go back: restart the nodes, one after the other, with the old version.

When all nodes run the new version the cluster version rises by itself, 10 minutes later: the
setting auto_upgrade_after_ms. With auto_upgrade = false on all nodes it waits for this command. It
rises by one, and never falls: then nodes of the old version are refused, and stop by themselves.

Exit code 1 if it is refused: a node does not support the next version, or has not reported its own.

Examples:
  carillon upgrade --check         the cluster version, what nodes support, what prevents a rise
  carillon upgrade                 raise it to the next version, if there is one
  carillon upgrade --to 2          raise it to this version and no other")]
pub struct UpgradeArgs {
    /// The cluster version to raise it to, instead of the next one.
    #[arg(long, value_name = "VERSION", conflicts_with = "check")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub to: Option<u8>,
    /// Show the cluster version and what each node supports, and change nothing.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Raises it, or shows it.
pub fn upgrade(args: &UpgradeArgs) -> Exit {
    with_node(&args.node, |client| match args.check {
        true => {
            let status = client.cluster_version()?;
            let exit = if is_free(&status) { Exit::Done } else { Exit::Refused };
            Ok(print(args, &status, shown(&status)).and(exit))
        }
        false => raise(client, args),
    })
}

fn raise(client: &Client, args: &UpgradeArgs) -> Result<Exit, client::http::ClientError> {
    let before = client.cluster_version()?["level"].as_u64();
    let status = client.raise_cluster_version(args.to)?;
    let now = status["level"].as_u64();
    let number = now.unwrap_or(0);
    let text = match now == before {
        true => format!("the cluster version is {number} already"),
        false => format!("the cluster version is {number} from now on"),
    };
    Ok(print(args, &status, text))
}

fn print(args: &UpgradeArgs, status: &Value, text: String) -> Exit {
    if args.node.json { output::json(status) } else { output::line(&text) }
}

/// Whether nothing prevents the next cluster version.
fn is_free(status: &Value) -> bool {
    status["objections"].as_array().is_none_or(Vec::is_empty)
}

/// The text of a range of cluster versions.
pub fn range(versions: &Value) -> Option<String> {
    let (lowest, highest) = versions[0].as_u64().zip(versions[1].as_u64())?;
    Some(match lowest == highest {
        true => format!("{lowest} only"),
        false => format!("{lowest} to {highest}"),
    })
}

fn shown(status: &Value) -> String {
    let number = status["level"].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |node: &Value| {
        let supported = range(&node["speaks"]).unwrap_or_else(|| "not reported".to_owned());
        vec![text(&node["name"]), supported]
    };
    let rows: Vec<Vec<String>> =
        status["nodes"].as_array().into_iter().flatten().map(row).collect();
    let highest = status["speaks"][1].as_u64().unwrap_or(0);
    let next = match (highest > number, is_free(status)) {
        (false, _) => "none: this node knows no higher version".to_owned(),
        (true, true) if status["automatic"] == true => {
            format!("{} can be used: it rises by itself, or with carillon upgrade", number + 1)
        }
        (true, true) => format!("{} can be used: carillon upgrade", number + 1),
        (true, false) => {
            let why = status["objections"].as_array().into_iter().flatten().map(text);
            format!("{} cannot be used yet: {}", number + 1, why.collect::<Vec<_>>().join("; "))
        }
    };
    let nodes = table(&["NODE", "SUPPORTS"], &rows);
    format!("cluster version {number}\nnext            {next}\n\n{nodes}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_in_the_way_is_named() {
        let status = json!({
            "level": 1, "speaks": [1, 2], "automatic": true,
            "objections": ["n2 supports 1 only"],
            "nodes": [{ "name": "n1", "speaks": [1, 2] }, { "name": "n2", "speaks": [1, 1] },
                      { "name": "n3", "speaks": null }],
        });
        let expected = "cluster version 1\nnext            2 cannot be used yet: n2 supports \
                        1 only\n\n\
                        NODE  SUPPORTS\nn1    1 to 2\nn2    1 only\nn3    not reported";
        assert_eq!(shown(&status), expected);
        assert!(!is_free(&status) && is_free(&json!({})));
    }
}
