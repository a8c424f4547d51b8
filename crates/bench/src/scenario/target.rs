//! The table `[target]` of a scenario.

use std::time::Duration;

use super::node::NodeSpec;
use super::reader::{Read, Section};
use super::{Driver, Target};

/// The most addresses, and the most commands.
const TARGETS_MAX: usize = 1_000;

/// Reads it. `nodes` are those that `[[node]]` names.
pub fn target(section: &Section<'_, '_>, nodes: Vec<NodeSpec>) -> Read<Target> {
    let names = ["resp", "http", "native", "nbd", "etcd", "memory", "exec", "null"];
    let names: Vec<(&str, &str)> = names.into_iter().map(|name| (name, name)).collect();
    let Some(name) = section.word("driver", &names)? else {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        return Err(section.error(format!("needs a driver: one of {}", names.join(", "))));
    };
    let greeting = section.commands("greeting")?;
    let is_cluster = section.flag("cluster")?;
    let keyspace = section.text("keyspace")?;
    let export = section.text("export")?;
    let program = section.texts("program")?;
    let only_for = |key: &str, driver: &str| match section.has(key) && name != driver {
        true => Err(section.error_at(key, format!("only the driver `{driver}` has this key"))),
        false => Ok(()),
    };
    only_for("greeting", "resp")?;
    only_for("cluster", "resp")?;
    only_for("keyspace", "http")?;
    only_for("export", "nbd")?;
    only_for("program", "exec")?;
    let driver = match name {
        "resp" => Driver::Resp {
            greeting: greeting.unwrap_or_default(),
            is_cluster: is_cluster.unwrap_or(false),
        },
        "http" => Driver::Http { keyspace: keyspace.unwrap_or_else(|| "0".to_owned()) },
        "native" => Driver::Native,
        // How long blocks are, values say.
        "nbd" => Driver::Nbd { export: export.unwrap_or_default(), block_bytes: 0 },
        "etcd" => Driver::Etcd,
        "memory" => Driver::Memory,
        "null" => Driver::Null,
        _ => match program.filter(|program| !program.is_empty()) {
            Some(program) => Driver::Exec { program },
            None => {
                let example = "[\"python3\", \"driver.py\"]";
                return Err(section.error(format!("exec needs a program: program = {example}")));
            }
        },
    };
    let one = section.texts("command")?;
    let many = section.commands("commands")?;
    let commands = match (one, many) {
        (Some(_), Some(_)) => {
            return Err(section.error_at("commands", "stands beside `command`: use one of them"));
        }
        (Some(one), None) if one.is_empty() => {
            return Err(section.error_at("command", "expected a program and its arguments"));
        }
        (one, many) => one.map(|one| vec![one]).or(many).unwrap_or_default(),
    };
    if let Some(key) = ["command", "commands"].into_iter().find(|key| section.has(key))
        && !nodes.is_empty()
    {
        return Err(section.error_at(key, "stands beside [[node]]: use one of them"));
    }
    let count = commands.len();
    let nodes = match nodes.is_empty() {
        true => (1..).zip(commands).map(|(n, words)| NodeSpec::numbered(n, words)).collect(),
        false => nodes,
    };
    let addresses = section.texts("addresses")?;
    let is_inside = matches!(driver, Driver::Memory | Driver::Null);
    for key in ["addresses", "command", "commands"] {
        if is_inside && section.has(key) {
            return Err(section.error_at(key, format!("the driver `{name}` has no other target")));
        }
    }
    if is_inside && !nodes.is_empty() {
        return Err(
            section.error_at("driver", format!("`{name}` has no other target: no [[node]]"))
        );
    }
    let addresses = match addresses {
        Some(addresses) => addresses,
        None if !nodes.is_empty() => vec!["{host}:{port}".to_owned()],
        None if is_inside || matches!(driver, Driver::Exec { .. }) => Vec::new(),
        None => {
            let addresses = "addresses = [\"HOST:PORT\"]";
            return Err(section.error(format!("needs {addresses}, or a command that starts it")));
        }
    };
    for (key, count) in [("addresses", addresses.len()), ("commands", count)] {
        if count > TARGETS_MAX {
            return Err(section.error_at(key, format!("at most {TARGETS_MAX}")));
        }
    }
    if let Some(odd) = addresses.iter().find(|address| !address.contains(':')) {
        return Err(section.error_at("addresses", format!("expected HOST:PORT, found {odd:?}")));
    }
    let millis = Duration::from_millis;
    let times = millis(1)..=millis(600_000);
    let is_tls = section.flag("tls")?.unwrap_or(false);
    if is_tls && (is_inside || !matches!(driver, Driver::Resp { .. } | Driver::Http { .. })) {
        return Err(section.error_at("tls", "only the drivers `resp` and `http` speak TLS"));
    }
    Ok(Target {
        driver,
        is_tls,
        addresses,
        nodes,
        ready: section.texts("ready")?.unwrap_or_default(),
        fails_over: section.flag("failover")?.unwrap_or(false),
        ready_timeout: section.time("ready_timeout", times.clone())?.unwrap_or(millis(30_000)),
        request_timeout: section.time("request_timeout", times)?.unwrap_or(millis(5_000)),
    })
}
