//! `carillon start`: flags from the table of settings, and the server.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use server::config::kind::Toml;
use server::config::{self, Config, RENAMED, SETTINGS, Setting};
use server::run::StartError;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "\
Every setting is also an environment variable and a line of the file of --config:
  --memory-max 2GiB   CARILLON_MEMORY_MAX=2GiB   memory_max = \"2GiB\"
Flags override the environment, the environment the file, the file the defaults. If a flag is given
twice, the last one counts.

Examples:
  carillon start                                     on ./carillon-data, for this machine only
  carillon start --dir /var/lib/carillon --memory-max 4GiB
  carillon start --native off --log-format json
  carillon start --config /etc/carillon.toml
  carillon start --resp 0.0.0.0:6379 --insecure      for all who can reach this machine
  carillon start --peer 127.0.0.1:7600 --peer-secret-file secret         the first of a cluster
  carillon start --peer 127.0.0.1:7601 --peer-secret-file secret --join 127.0.0.1:7600

SIGTERM and Ctrl-C stop it: requests under way are finished first. A second one ends it at once,
which loses nothing that was acknowledged.";

/// The settings that were given as flags.
#[derive(Debug)]
pub struct StartArgs {
    config: Option<PathBuf>,
    flags: Vec<(String, String)>,
}

impl StartArgs {
    /// The settings, from the file, the environment and the flags.
    ///
    /// # Errors
    /// Why there are none, as a sentence.
    pub fn load(&self) -> Result<Config, String> {
        let config = config::load(self.config.clone(), &self.flags, std::env::vars_os());
        config.map_err(|error| error.to_string())
    }
}

/// Runs a node.
pub fn start(args: &StartArgs) -> Exit {
    let config = match args.load() {
        Ok(config) => config,
        Err(why) => {
            output::complain(&why);
            return Exit::Usage;
        }
    };
    match server::run::run(config) {
        Ok(_stopped) => Exit::Done,
        Err(error) => {
            output::complain(&error.to_string());
            match error {
                StartError::Cluster(_) => Exit::NotHere,
                _ => Exit::Refused,
            }
        }
    }
}

/// Whether a node can be started with these flags, as far as can be known before.
///
/// # Errors
/// Why not, as a sentence.
pub fn check(flags: &[OsString]) -> Result<(), String> {
    let command = StartArgs::augment_args(Command::new("start")).no_binary_name(true);
    let matches = command.try_get_matches_from(flags).map_err(|why| {
        let why = why.to_string();
        let first = why.split("\n\n").next().unwrap_or_default();
        first.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
    })?;
    let args = StartArgs::from_arg_matches(&matches).map_err(|why| why.to_string())?;
    // As `dev` starts it.
    let is_kept = |name: &OsString| name != "CARILLON_JOIN" && name != "CARILLON_ADVERTISE";
    let environment = std::env::vars_os().filter(|(name, _)| is_kept(name));
    let config = config::load(args.config, &args.flags, environment);
    config.map(drop).map_err(|why| why.to_string())
}

fn flag(setting: &'static Setting) -> Arg {
    let help = setting.help.trim();
    let default = match setting.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let (accepts, variable) = ((setting.accepts)(), setting.variable());
    let arg = Arg::new(setting.name)
        .long(setting.flag())
        .help(format!("{help}{default}"))
        .long_help(format!("{help}{default}\nTakes {accepts}. Environment: {variable}"))
        .value_name(value_name(setting));
    // The last one wins, as in other tools: a script may add to what it was given.
    let arg = arg.overrides_with(setting.name);
    match setting.toml {
        // `--insecure` alone means true.
        Toml::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .action(ArgAction::Set),
        Toml::Text | Toml::Number => arg.allow_hyphen_values(true),
    }
}

/// The flag of a setting's old name: read, so that the configuration can refuse it with the new
/// one.
fn old_flag(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name.replace('_', "-"))
        .hide(true)
        .overrides_with(name)
        .allow_hyphen_values(true)
}

fn value_name(setting: &Setting) -> &'static str {
    match setting.name {
        "dir" => "DIR",
        "resp" | "native" | "nbd" | "http" | "peer" => "ADDRESS",
        "advertise" => "HOST[:PORT]",
        "join" => "HOST:PORT,…",
        name if name.ends_with("_file") => "FILE",
        "replicas" => "N",
        "name" => "NAME",
        "resp_advertise_port" => "PORT",
        name if name.ends_with("_ms") => "TIME",
        name if name.ends_with("_bytes") || name.contains("_bytes_") => "SIZE",
        "memory_max" => "SIZE",
        _ if setting.toml == Toml::Number => "N",
        _ if setting.toml == Toml::Switch => "true|false",
        _ => "WORD",
    }
}

impl Args for StartArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .overrides_with("config")
            .help("TOML file with settings")
            .long_help(format!("TOML file with settings\nEnvironment: {}", config::FILE_VARIABLE));
        let old_flags = RENAMED.iter().map(|(old, _)| old_flag(old));
        command.after_help(EXAMPLES).arg(file).args(SETTINGS.iter().map(flag)).args(old_flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StartArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = SETTINGS.iter().map(|setting| setting.name);
        let names = names.chain(RENAMED.iter().map(|(old, _)| *old));
        let flags = names
            .filter(|name| matches.value_source(name) == Some(ValueSource::CommandLine))
            .filter_map(|name| {
                let value: &String = matches.get_one(name)?;
                Some((name.replace('_', "-"), value.clone()))
            })
            .collect();
        Ok(Self { config: matches.get_one("config").cloned(), flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<StartArgs, clap::Error> {
        let command = StartArgs::augment_args(Command::new("start"));
        StartArgs::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    #[test]
    fn every_setting_is_a_flag() {
        let mut line = vec!["start".to_owned()];
        for setting in SETTINGS {
            let value = match (setting.name, setting.default) {
                ("peer", _) => "127.0.0.1:7600",
                ("join", _) => "127.0.0.1:7601",
                ("resp_lookup" | "http_lookup", _) => "chord recursive",
                (_, "") => "x",
                (_, default) => default,
            };
            line.push(format!("--{}={value}", setting.flag()));
        }
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let args = parse(&line).unwrap();
        assert_eq!(args.flags.len(), SETTINGS.len());
        let config = config::load(None, &args.flags, []).unwrap();
        assert_eq!(config.advertise.expect("given").host, "x");
        assert_eq!(config.join, ["127.0.0.1:7601"]);
    }

    #[test]
    fn old_flag_of_renamed_setting_is_refused_with_the_new_one() {
        for (old, new) in RENAMED {
            let line = format!("--{}=1", old.replace('_', "-"));
            let args = parse(&["start", &line]).expect("the configuration judges it");
            let error = config::load(None, &args.flags, []).unwrap_err().to_string();
            assert!(error.contains(&format!("`--{}`", new.replace('_', "-"))), "{error}");
        }
    }

    #[test]
    fn what_is_not_given_is_left_to_others() {
        let args = parse(&["start", "--dir", "d", "--insecure", "--config", "c.toml"]).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(args.flags, [pair("dir", "d"), pair("insecure", "true")]);
        assert_eq!(args.config, Some("c.toml".into()));
        assert!(parse(&["start"]).unwrap().flags.is_empty());
    }

    #[test]
    fn the_last_of_a_repeated_flag_wins() {
        let line = "start --dir a --insecure --config c --dir b --insecure=false --config d";
        let args = parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(args.flags, [pair("dir", "b"), pair("insecure", "false")]);
        assert_eq!(args.config, Some("d".into()));
    }

    #[test]
    fn misspelt_flags_are_errors_that_suggest() {
        let error = parse(&["start", "--memry-max", "1"]).unwrap_err().to_string();
        assert!(error.contains("--memory-max"), "{error}");
    }
}
