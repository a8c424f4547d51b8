//! Secrets of a greeting: `{env.NAME}` in `target.greeting` is a variable of the environment, on
//! each host that makes the load. So no password stands in a scenario, and none in results, which
//! hold the scenario's text and the command line.

use super::RunError;
use crate::scenario::{Driver, Scenario};

/// What a flag sets here is not repeated in results.
const SECRET: &str = "target.greeting";
/// What stands there instead.
const HIDDEN: &str = "…";

/// The scenario as it is run: its greeting holds what the environment has.
///
/// # Errors
/// The environment lacks a variable.
pub fn filled(scenario: &Scenario) -> Result<Scenario, RunError> {
    filled_by(scenario, |name| std::env::var(name).ok())
}

fn filled_by(
    scenario: &Scenario,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Scenario, RunError> {
    let mut scenario = scenario.clone();
    if let Driver::Resp { greeting, .. } = &mut scenario.target.driver {
        for word in greeting.iter_mut().flatten() {
            *word = fill(word, &variable)?;
        }
    }
    Ok(scenario)
}

fn fill(word: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, RunError> {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("{env.") {
        let Some((name, end)) = after.split_once('}') else { break };
        let Some(value) = variable(name) else {
            let why = format!("{SECRET}: the environment has no variable {name}");
            return Err(RunError::Mismatch(why));
        };
        out.push_str(before);
        out.push_str(&value);
        rest = end;
    }
    out.push_str(rest);
    Ok(out)
}

/// What a flag has set, as results repeat it.
pub fn shown<'a>(key: &str, value: &'a str) -> &'a str {
    if key == SECRET { HIDDEN } else { value }
}

/// A command line, as results repeat it.
pub fn shown_command(words: impl Iterator<Item = String>) -> String {
    let hidden = |word: String| match word.split_once("target.greeting") {
        Some((before, rest)) if rest.trim_start().starts_with('=') => {
            format!("{before}{SECRET}={HIDDEN}")
        }
        _ => word,
    };
    words.map(hidden).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Plan;

    #[test]
    fn greetings_are_filled_from_the_environment() {
        let text = "[target]\ndriver = \"resp\"\naddresses = [\"h:1\"]\n\
                    greeting = [[\"AUTH\", \"{env.NAME}\", \"a{env.PASS}b\"], [\"{x}{env.\"]]\n\
                    [[phase]]\nname = \"run\"\nseconds = 1\n";
        let plan = Plan::parse("t", text, &[]).unwrap();
        let scenario = &plan.cells[0].scenario;
        let with = |name: &str| ["NAME", "PASS"].contains(&name).then(|| format!("<{name}>"));
        let Driver::Resp { greeting, .. } = filled_by(scenario, with).unwrap().target.driver else {
            panic!("another driver");
        };
        assert_eq!(greeting, [vec!["AUTH", "<NAME>", "a<PASS>b"], vec!["{x}{env."]]);
        let without = |name: &str| (name == "NAME").then(String::new);
        let why = filled_by(scenario, without).unwrap_err().to_string();
        assert_eq!(why, "target.greeting: the environment has no variable PASS");
    }

    #[test]
    fn passwords_of_flags_are_not_repeated() {
        let words = ["carillon", "--set", "target.greeting=[[\"AUTH\", \"x\"]]", "--set=a.b=1"];
        let shown_words = shown_command(words.into_iter().map(str::to_owned));
        assert_eq!(shown_words, "carillon --set target.greeting=… --set=a.b=1");
        let one = shown_command(["--set=target.greeting = [x]".to_owned()].into_iter());
        assert_eq!(one, "--set=target.greeting=…");
        assert_eq!((shown("target.greeting", "x"), shown("keys.count", "5")), ("…", "5"));
    }
}
