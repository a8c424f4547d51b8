//! `carillon doctor`: looks at a machine before a node runs on it, and says what to change.
//!
//! ```text
//!   settings of `carillon start` ─► checks: limits · clock · memory · disk · ports ─► findings
//! ```
//!
//! It changes nothing but a file of its own in the data directory, which it removes. What a check
//! reads is apart from what it makes of it, so the latter has tests.
//!
//! | part | about |
//! |---|---|
//! | [`host`] | limits, clock, memory, as the kernel shows them |
//! | [`disk`] | the file system of the data directory, and how long it takes to sync |
//! | [`ports`] | whether listeners can listen |

mod disk;
mod host;
mod ports;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::json;
use server::config::Config;

use crate::colour::{Paint, Tone};
use crate::exit::Exit;
use crate::output;
use crate::start::StartArgs;

const HELP: &str = "\
Takes the flags of `carillon start`, its file of --config and its environment, and looks whether a
node with these settings would do well here. Run it as the user that runs the node.

It writes and syncs a small file in the data directory for a second, or in the nearest directory
above that is there, and removes it. Nothing else is changed.

Exit code 1 if a node could not start, or acknowledged writes would not be safe (`bad`); 0 if there
is only what makes it slower or less predictable (`uneasy`).

Examples:
  carillon doctor                                   with the defaults
  carillon doctor --config /etc/carillon/carillon.toml
  carillon doctor --dir /var/lib/carillon --resp 0.0.0.0:6379 --insecure
  carillon doctor --json";

/// `carillon doctor`
#[derive(Debug)]
pub struct DoctorArgs {
    start: StartArgs,
    json: bool,
}

/// How it is with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Well,
    /// A node runs, but slower or less predictably.
    Uneasy,
    /// A node does not start, or does not keep what it promises.
    Bad,
    /// The machine does not say.
    Unknown,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Uneasy => "uneasy",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Well => Tone::Good,
            Self::Uneasy => Tone::Uneasy,
            Self::Bad => Tone::Bad,
            Self::Unknown => Tone::Faint,
        }
    }
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// What there is.
    found: String,
    /// What to do, unless all is well.
    advice: Option<String>,
}

impl Finding {
    fn well(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Well, found: found.into(), advice: None }
    }

    fn uneasy(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { check, verdict: Verdict::Uneasy, found: found.into(), advice }
    }

    fn bad(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::uneasy(check, found, advice) }
    }

    fn unknown(check: &'static str, why: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Unknown, found: why.into(), advice: None }
    }
}

/// Looks at this machine.
pub fn doctor(args: &DoctorArgs) -> Exit {
    let config = match args.start.load() {
        Ok(config) => config,
        Err(why) => {
            output::complain(&why);
            return Exit::Usage;
        }
    };
    let findings = look(&config);
    let exit = match findings.iter().any(|one| one.verdict == Verdict::Bad) {
        true => Exit::Refused,
        false => Exit::Done,
    };
    let written = match args.json {
        true => output::json(&as_json(&findings)),
        false => output::raw(as_text(&findings, Paint::of_stdout()).as_bytes()),
    };
    exit.and(written)
}

fn look(config: &Config) -> Vec<Finding> {
    let mut findings = host::look(config);
    findings.extend(disk::look(&config.dir));
    findings.extend(ports::look(config));
    findings
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let all = findings.iter().map(|Finding { check, verdict, found, advice }| {
        json!({ "check": check, "verdict": verdict.word(), "found": found, "advice": advice })
    });
    json!({ "findings": all.collect::<Vec<_>>() })
}

/// A table, then what to do about each that is not well.
fn as_text(findings: &[Finding], paint: Paint) -> String {
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|one| {
            let verdict = paint.paint(one.verdict.tone(), one.verdict.word());
            vec![one.check.to_owned(), verdict, one.found.clone()]
        })
        .collect();
    let mut text = output::table(&["CHECK", "", "FOUND"], &rows);
    for Finding { check, verdict, advice, .. } in findings {
        if let Some(advice) = advice {
            text += &format!("\n{}: {advice}\n", paint.paint(verdict.tone(), check));
        }
    }
    text
}

impl FromArgMatches for DoctorArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { start: StartArgs::from_arg_matches(matches)?, json: matches.get_flag("json") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for DoctorArgs {
    fn augment_args(command: Command) -> Command {
        let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
        StartArgs::augment_args(command).arg(json).after_help(HELP)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_table() {
        let findings = [
            Finding::well("cores", "2"),
            Finding::uneasy("swap", "8 GiB", "turn it off"),
            Finding::unknown("clock", "the kernel does not say"),
        ];
        let text = as_text(&findings, Paint::PLAIN);
        let expected = "CHECK          FOUND\n\
                        cores  well    2\n\
                        swap   uneasy  8 GiB\n\
                        clock  unknown  the kernel does not say\n\
                        \nswap: turn it off\n";
        assert_eq!(
            text.split_whitespace().collect::<Vec<_>>(),
            expected.split_whitespace().collect::<Vec<_>>()
        );
        assert_eq!(as_json(&findings)["findings"][1]["verdict"], "uneasy");
    }

    #[test]
    fn every_check_has_an_answer_here() {
        let dir = std::env::temp_dir().join(format!("carillon-doctor-{}", std::process::id()));
        let config = Config { dir: dir.clone(), ..Config::default() };
        let findings = look(&config);
        assert!(findings.len() >= 10, "{findings:?}");
        assert!(!dir.exists(), "it makes no directory");
        for one in &findings {
            assert!(!one.found.is_empty(), "{one:?}");
            let has_advice = matches!(one.verdict, Verdict::Uneasy | Verdict::Bad);
            assert_eq!(one.advice.is_some(), has_advice, "{one:?}");
        }
    }
}
