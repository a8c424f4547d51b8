//! Scenarios that come with the program, an example of a program for the driver `exec`, and a JSON
//! schema of scenarios, for editors.

use super::error::nearest;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

/// Name and text of each, in the order in which they are listed.
pub const ALL: [(&str, &str); 45] = scenarios![
    "instrument-memory",
    "instrument-null",
    "instrument-depth",
    "instrument-connections",
    "instrument-long",
    "carillon",
    "elasticity",
    "rearrange",
    "rearrange-join",
    "rearrange-drain",
    "rearrange-swap",
    "rearrange-lose",
    "rearrange-leave",
    "rearrange-domain",
    "rearrange-dark",
    "rearrange-part",
    "rearrange-isolate",
    "http",
    "redis",
    "ramp",
    "skewed-keys",
    "ycsb",
    "thesis-half",
    "one-node",
    "tls-off",
    "tls-on",
    "data-size",
    "idle",
    "cluster",
    "cluster-etcd",
    "redis-synced",
    "transfers",
    "transfers-etcd",
    "failover",
    "mixed-pipelines",
    "lua-scripts",
    "durable-topics",
    "scalaris-topics",
    "scalaris-wiki",
    "course-mixes",
    "volumes",
    "volumes-1m",
    "volumes-three",
    "volumes-three-keys",
    "exec",
];

/// A program for the driver `exec`, in Python.
pub const DRIVER_PY: &str = include_str!("../../scenarios/driver.py");
/// What it is called.
pub const DRIVER_PY_NAME: &str = "driver.py";

/// The schema: JSON, draft 7. `schema_tests` compares it with what is read.
pub const SCHEMA: &str = include_str!("../../scenarios/schema.json");
/// What it is called.
pub const SCHEMA_NAME: &str = "schema.json";

/// The text of a scenario of this name, of the example or of the schema.
///
/// # Errors
/// There is none; the text names the one that may be meant.
pub fn text(name: &str) -> Result<&'static str, String> {
    if name == DRIVER_PY_NAME {
        return Ok(DRIVER_PY);
    }
    if name == SCHEMA_NAME {
        return Ok(SCHEMA);
    }
    let found = ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| {
        let hint = match nearest(name, ALL.iter().map(|(known, _)| *known)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`carillon bench list` lists them".to_owned(),
        };
        format!("no file and no scenario is called `{name}`; {hint}")
    })
}
