//! A simulation as a file: JSON, with a version. Everything in it is checked, and what is wrong is
//! said with its place.

use serde_json::{Map, Value, json};
use sim::live::action::{Action, TimedAction};
use sim::live::setup::{Plan, Setup, SetupChange};

/// The version of the format.
pub const VERSION: u64 = 1;
/// The longest file.
pub const BYTES_MAX: usize = 4 << 20;
/// The member that a file has and no other JSON.
const MARK: &str = "carillon_simulation";

/// Reads a simulation.
///
/// # Errors
/// What is wrong with it, and where.
pub fn read(bytes: &[u8]) -> Result<Plan, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!("the file has {} bytes: at most {BYTES_MAX}", bytes.len()));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|why| format!("no JSON: {why}"))?;
    let Value::Object(mut members) = value else {
        return Err("a simulation is an object of JSON".to_owned());
    };
    match members.remove(MARK) {
        None => return Err(format!("no simulation: the member {MARK} is missing")),
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(other) => {
            let why = format!("{MARK} is {other}: this program reads version {VERSION}");
            return Err(why);
        }
    }
    let actions = match members.remove("actions") {
        None => Vec::new(),
        Some(Value::Array(actions)) => actions,
        Some(_) => return Err("actions is no array".to_owned()),
    };
    let ends_ms = match members.remove("ends_ms") {
        None => None,
        Some(ends) => Some(ends.as_u64().ok_or("ends_ms is no whole number")?),
    };
    let scenario = match members.remove("scenario") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return Err("scenario is no name".to_owned()),
    };
    let change: SetupChange = serde_json::from_value(Value::Object(members))
        .map_err(|why| format!("the beginning: {why}"))?;
    let mut setup = Setup::default().changed(&change).map_err(|why| why.to_string())?.setup;
    // It is only said: the actions are the file's own.
    setup.scenario = scenario;
    let actions = actions.into_iter().enumerate();
    let actions = actions
        .map(|(number, value)| timed(value).map_err(|why| format!("action {}: {why}", number + 1)))
        .collect::<Result<Vec<TimedAction>, String>>()?;
    let last = actions.last().map_or(0, |action| action.ms);
    let plan = Plan { setup, actions, ends_ms: ends_ms.unwrap_or(last) };
    plan.check().map_err(|why| why.to_string())?;
    Ok(plan)
}

fn timed(value: Value) -> Result<TimedAction, String> {
    let Value::Object(mut members) = value else { return Err("it is no object".to_owned()) };
    let ms = members.remove("ms").ok_or("the member ms is missing")?;
    let ms = ms.as_u64().ok_or_else(|| format!("ms is {ms}: it is a whole number"))?;
    Ok(TimedAction { ms, action: action(Value::Object(members))? })
}

/// Reads an action.
///
/// # Errors
/// What is wrong with it.
pub fn action(value: Value) -> Result<Action, String> {
    serde_json::from_value(value).map_err(|why| why.to_string())
}

/// An action as JSON, with its time.
pub fn shown(timed: &TimedAction) -> Value {
    let action = serde_json::to_value(&timed.action).expect("an action becomes JSON");
    let mut members = Map::from_iter([("ms".to_owned(), json!(timed.ms))]);
    if let Value::Object(all) = action {
        members.extend(all);
    }
    Value::Object(members)
}

/// A simulation as a file: an action on each line.
pub fn write(plan: &Plan) -> String {
    let Plan { setup, actions, ends_ms } = plan;
    let setup = serde_json::to_string(setup).expect("a setup becomes JSON");
    let setup = setup.trim_start_matches('{').trim_end_matches('}');
    let actions: Vec<String> = actions.iter().map(|one| format!("  {}", shown(one))).collect();
    let actions = match actions.is_empty() {
        true => String::new(),
        false => format!("\n{}\n ", actions.join(",\n")),
    };
    format!(
        "{{\"{MARK}\":{VERSION},{setup},\n \"ends_ms\":{ends_ms},\n \"actions\":[{actions}]}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_as_it_was_written() {
        for name in ["leader-dies", "stale-lease", "transactions", "hundred-joins"] {
            let plan = sim::live::scenarios::plan(name, 5).expect("it is there");
            assert_eq!(read(write(&plan).as_bytes()), Ok(plan));
        }
        let put = json!({"do": "put", "key": {"base64": "/w=="}, "value": "v", "ttl_ms": 5});
        let read_action = action(put.clone()).expect("a put");
        let shown = shown(&TimedAction { ms: 7, action: read_action });
        assert_eq!(shown["key"], put["key"]);
        assert_eq!((&shown["ms"], &shown["do"]), (&json!(7), &json!("put")));
    }

    #[test]
    fn damaged_files_are_refused_with_their_place() {
        let why = |text: &str| read(text.as_bytes()).expect_err(text);
        for (text, part) in [
            ("", "no JSON"),
            ("[]", "an object"),
            ("{}", "carillon_simulation is missing"),
            (r#"{"carillon_simulation": 2}"#, "reads version 1"),
            (r#"{"carillon_simulation": 1, "node": 3}"#, "unknown field `node`"),
            (r#"{"carillon_simulation": 1, "nodes": 51}"#, "1 to 50"),
            (r#"{"carillon_simulation": 1, "actions": {}}"#, "no array"),
            (r#"{"carillon_simulation": 1, "actions": [7]}"#, "action 1: it is no object"),
            (r#"{"carillon_simulation": 1, "actions": [{"do": "heal"}]}"#, "ms is missing"),
            (r#"{"carillon_simulation": 1, "actions": [{"ms": 1, "do": "burn"}]}"#, "burn"),
            (r#"{"carillon_simulation": 1, "actions": [{"ms": 1, "do": "crash"}]}"#, "node"),
            (
                r#"{"carillon_simulation": 1, "actions": [{"ms": 1, "do": "crash", "node": "n1",
                    "for": 3}]}"#,
                "for",
            ),
            (
                r#"{"carillon_simulation": 1, "actions": [{"ms": 2, "do": "heal"},
                    {"ms": 1, "do": "heal"}]}"#,
                "action 2",
            ),
            (r#"{"carillon_simulation": 1, "ends_ms": 99999999}"#, "at most"),
            (r#"{"carillon_simulation": 1, "plants": ["x"]}"#, "no bug 'x'"),
            (r#"{"carillon_simulation": 1, "scenario": 7}"#, "scenario is no name"),
            (r#"{"carillon_simulation": 1, "actions": [{"ms": -1, "do": "heal"}]}"#, "action 1"),
            (r#"{"carillon_simulation": 1, "actions": [{"ms": 1, "DO": "heal"}]}"#, "action 1"),
            (r#"{"carillon_simulation": 1, "seed": "x"}"#, "the beginning"),
            (r#"{"carillon_simulation": "1"}"#, "reads version 1"),
            (r#"{"carillon_simulation": 1} {}"#, "no JSON"),
            ("\u{feff}{}", "no JSON"),
        ] {
            assert!(why(text).contains(part), "{text}: {}", why(text));
        }
    }
}
