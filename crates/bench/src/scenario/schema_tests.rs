//! The schema knows the keys that are read, all of them and no others.

use serde_json::Value;

use super::Plan;
use super::shipped::{ALL, SCHEMA};

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// The first key of a value that a schema does not allow.
fn stranger(schema: &Value, value: &toml::Value, path: &str) -> Option<String> {
    match value {
        toml::Value::Table(table) => table.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            let more = &schema["additionalProperties"];
            match schema["properties"].get(key) {
                Some(below) => stranger(below, value, &path),
                None if more.is_object() => stranger(more, value, &path),
                None => Some(path),
            }
        }),
        toml::Value::Array(values) if schema["items"].is_object() => {
            values.iter().find_map(|value| stranger(&schema["items"], value, path))
        }
        _ => None,
    }
}

#[test]
fn the_schema_knows_every_key_of_every_scenario() {
    let schema = schema();
    for (name, text) in ALL {
        let scenario: toml::Value = toml::from_str(text).unwrap();
        assert_eq!(stranger(&schema, &scenario, name), None);
    }
    let wrong: toml::Value = toml::from_str("[[phase]]\nsecond = 1").unwrap();
    assert_eq!(stranger(&schema, &wrong, ""), Some(".phase.second".to_owned()));
}

#[test]
fn every_key_of_the_schema_is_read() {
    let text = "[target]\ndriver = \"resp\"\n[[node]]\nname = \"a\"\ncommand = [\"a\"]\n\
                [network]\nnamespaces = true\n[op.x]\ncommand = [\"X\"]\n\
                [[phase]]\nname = \"run\"\nseconds = 1\n\
                [[timeline]]\nname = \"t\"\nat = \"0s\"\ndo = \"heal\"\n";
    assert_eq!(Plan::parse("t", text, &[]).err(), None);
    let schema = schema();
    let mut seen = 0;
    for (section, below) in schema["properties"].as_object().unwrap() {
        // A table of lists has names, by which a flag finds the one that it means.
        let (keys, path) = match section.as_str() {
            "node" => (&below["items"]["properties"], "node.a.".to_owned()),
            "phase" => (&below["items"]["properties"], "phase.run.".to_owned()),
            "timeline" => (&below["items"]["properties"], "timeline.t.".to_owned()),
            "pass" => (&below["items"]["properties"], String::new()),
            "op" => (&below["additionalProperties"]["properties"], "op.x.".to_owned()),
            name => (&below["properties"], format!("{name}.")),
        };
        for key in keys.as_object().into_iter().flat_map(|keys| keys.keys()) {
            // No key takes a date: it is refused, as a value if the key is known.
            let date = "1979-05-27";
            let found = match path.as_str() {
                "" => Plan::parse("t", &format!("{text}[[pass]]\n{key} = {date}\n"), &[]),
                path => Plan::parse("t", text, &[(format!("{path}{key}"), date.to_owned())]),
            };
            let why = found.expect_err(key).to_string();
            assert!(!why.contains("unknown key"), "{section}.{key}: {why}");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}
