//! A program that does one thing and ends: its arguments, its output, its exit status.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    /// Its exit code; −1 if a signal ended it.
    pub code: i32,
    /// What it printed.
    pub out: Vec<u8>,
    /// What it printed to standard error, as text.
    pub err: String,
}

impl CommandResult {
    /// What it printed, as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("text")
    }
}

/// Runs a program with these words and this input until it ends.
#[track_caller]
pub fn run<W: AsRef<OsStr>>(
    program: &str,
    words: impl IntoIterator<Item = W>,
    input: &[u8],
    environment: &[(&str, &str)],
) -> CommandResult {
    let mut command = Command::new(program);
    command.args(words).env("NO_COLOR", "1").env_remove("CARILLON_HTTP");
    command.envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|why| panic!("cannot start {program}: {why}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = thread::scope(|scope| {
        // It may end without having read it all.
        scope.spawn(move || stdin.write_all(input).is_ok());
        child.wait_with_output().expect("the process is our child")
    });
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    CommandResult { code: output.status.code().unwrap_or(-1), out: output.stdout, err }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_gets_arguments_input_and_environment_and_returns_exit() {
        let script = "cat; echo $1 $SEEN >&2; exit 3";
        let ended = run("sh", ["-c", script, "sh", "word"], b"input", &[("SEEN", "it")]);
        assert_eq!((ended.code, ended.text(), ended.err.as_str()), (3, "input", "word it\n"));
        let long = vec![b'x'; 1 << 20];
        assert_eq!(run("true", [""; 0], &long, &[]).code, 0, "it reads nothing");
    }
}
