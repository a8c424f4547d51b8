//! `carillon dev list`, `add`, `start`, `stop`, `kill`, `pause` and `resume`: asks the
//! `carillon dev` that runs in a directory.

use std::path::PathBuf;

use api::dev::{DevAction, DevCluster, DevNode, DevRefusal, DevReply, DevRequest, Parameters};
use clap::{Args, Subcommand};

use super::control;
use crate::exit::Exit;
use crate::output;

/// What to do with the nodes of a `carillon dev` that runs.
#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// List the nodes of a running carillon dev, with what their processes do.
    List(WhereArgs),
    /// Add a node and start it.
    Add {
        #[command(flatten)]
        set: SetArgs,
        #[command(flatten)]
        place: WhereArgs,
    },
    /// Start a node that has ended, from its data.
    Start {
        /// Its name, such as node-2.
        node: String,
        #[command(flatten)]
        set: SetArgs,
        #[command(flatten)]
        place: WhereArgs,
    },
    /// Stop a node: it finishes its requests.
    Stop(OneArgs),
    /// Kill a node at once: kill -9.
    Kill(OneArgs),
    /// Pause a node: the others see it as dead.
    Pause(OneArgs),
    /// Resume a node that is paused.
    Resume(OneArgs),
}

/// Which run of `carillon dev`.
#[derive(Debug, Args)]
pub struct WhereArgs {
    /// Directory of all nodes.
    #[arg(long, default_value = "carillon-dev")]
    dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Which node.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// Its name, such as node-2.
    node: String,
    #[command(flatten)]
    place: WhereArgs,
}

/// Settings of a node.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// A setting for this node, such as memory_max=1GiB; may be given again. Without any, a node
    /// that is started again has those of its last start.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim_start_matches('-').replace('-', "_"), value.to_owned()))
}

impl SetArgs {
    fn parameters(&self) -> Parameters {
        self.set.iter().cloned().collect()
    }
}

/// Asks, and shows the answer.
pub fn run(command: &DevCommand) -> Exit {
    let act = |node: &str, action, parameters| {
        let node = node.to_owned();
        DevRequest::Act { node, action, parameters }
    };
    let one = |args: &OneArgs, action| act(&args.node, action, None);
    let (place, request) = match command {
        DevCommand::List(place) => (place, DevRequest::List),
        DevCommand::Add { set, place } => (place, DevRequest::Add { parameters: set.parameters() }),
        DevCommand::Start { node, set, place } => {
            let given = (!set.set.is_empty()).then(|| set.parameters());
            (place, act(node, DevAction::Start, given))
        }
        DevCommand::Stop(args) => (&args.place, one(args, DevAction::Stop)),
        DevCommand::Kill(args) => (&args.place, one(args, DevAction::Kill)),
        DevCommand::Pause(args) => (&args.place, one(args, DevAction::Pause)),
        DevCommand::Resume(args) => (&args.place, one(args, DevAction::Resume)),
    };
    let is_read = request == DevRequest::List;
    match control::ask(&place.dir, &request) {
        Ok(DevReply::Refused(DevRefusal { why, .. })) => {
            output::complain(&format!("{why}; nothing was done"));
            Exit::Refused
        }
        Ok(DevReply::Cluster(cluster)) => match place.json {
            true => output::json(&serde_json::to_value(&*cluster).expect("it becomes JSON")),
            false => output::raw(listed(&cluster).as_bytes()),
        },
        Ok(DevReply::Node(node)) => match place.json {
            true => output::json(&serde_json::to_value(&*node).expect("it becomes JSON")),
            false => output::line(&said(&node)),
        },
        Err((why, maybe_done)) => {
            output::complain(&why);
            if maybe_done && !is_read { Exit::Unknown } else { Exit::Unreachable }
        }
    }
}

fn said(node: &DevNode) -> String {
    let DevNode { name, state, pid, addresses, .. } = node;
    let process = pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
    format!("{name} is {}{process}; http {}", state.word(), addresses.http)
}

fn listed(cluster: &DevCluster) -> String {
    let row = |node: &DevNode| {
        let parameters = node.parameters.iter().map(|(name, value)| format!("{name}={value}"));
        let parameters: Vec<String> = parameters.collect();
        let end = node.ended.as_ref().map(|end| format!("ended {}", end.how));
        vec![
            node.name.clone(),
            end.unwrap_or_else(|| node.state.word().to_owned()),
            node.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            node.addresses.resp.clone(),
            node.addresses.http.clone(),
            parameters.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = cluster.nodes.iter().map(row).collect();
    output::table(&["NODE", "STATE", "PROCESS", "REDIS", "HTTP", "PARAMETERS"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_as_flags_or_as_in_a_file() {
        let wanted = ("memory_max".to_owned(), "1=2".to_owned());
        assert_eq!(pair("memory_max=1=2"), Ok(wanted.clone()));
        assert_eq!(pair("--memory-max=1=2"), Ok(wanted));
        assert!(pair("memory_max").is_err());
    }
}
