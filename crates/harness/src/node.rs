//! A node of Carillon: a process with addresses of its own, a data directory, and a log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use client::http::Client;
use serde_json::Value;

use crate::ports::unused;
use crate::process::{Directory, Process, Signal, last_words};
use crate::resp::Connection;
use crate::until;

/// Longer than anything that must happen takes on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A node, running or not. Dropping it kills it; in a panic it prints the end of its log.
pub struct Node {
    /// What it is called: also its data directory, within the directory that it was given.
    pub name: String,
    /// Where Redis clients reach it.
    pub resp: SocketAddr,
    /// Where HTTP clients reach it.
    pub http: SocketAddr,
    /// Where other nodes reach it.
    pub peer: SocketAddr,
    /// Where clients of volumes connect.
    pub nbd: SocketAddr,
    program: PathBuf,
    parent: PathBuf,
    /// Before its directory: dropped first.
    process: Option<Process>,
    own: Option<Directory>,
}

impl Node {
    /// Starts a node with these flags and a directory of its own, which is removed with it.
    #[track_caller]
    pub fn alone(program: &str, name: &str, flags: &[&str]) -> Self {
        let dir = Directory::new(name).expect("a directory can be made");
        let mut node = Self::new(program, dir.path(), "node");
        node.own = Some(dir);
        node.start(flags);
        node
    }

    /// As [`Self::alone`], and ready.
    #[track_caller]
    pub fn alone_and_ready(program: &str, name: &str, flags: &[&str]) -> Self {
        let mut node = Self::alone(program, name, flags);
        node.wait_until_ready();
        node
    }

    /// A node of this program, not started yet. `parent` will hold its data and its log, and holds
    /// the file `secret` if it is to know others.
    pub fn new(program: &str, parent: &Path, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            resp: unused(),
            http: unused(),
            peer: unused(),
            nbd: unused(),
            program: program.into(),
            parent: parent.to_owned(),
            process: None,
            own: None,
        }
    }

    /// Where its data is.
    pub fn dir(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    fn log_file(&self) -> PathBuf {
        self.parent.join(format!("{}.log", self.name))
    }

    /// What starts it, with these flags besides.
    pub fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["start", "--native", "off", "--dir"]).arg(self.dir());
        command.args(["--resp", &self.resp.to_string(), "--http", &self.http.to_string()]);
        command.args(["--nbd", &self.nbd.to_string()]);
        let secret = self.parent.join("secret");
        if secret.exists() {
            command.args(["--name", &self.name, "--peer", &self.peer.to_string()]);
            command.arg("--peer-secret-file").arg(secret);
        }
        command.args(flags).env("NO_COLOR", "1");
        command
    }

    /// Starts it with these flags besides. The kernel kills it when the calling thread ends.
    pub fn start(&mut self, flags: &[&str]) {
        self.run(self.command(flags));
    }

    /// Starts it by another command.
    pub fn run(&mut self, command: Command) {
        assert!(self.process.is_none(), "{} runs", self.name);
        // Its log is that of its last life.
        let _none = fs::remove_file(self.log_file());
        self.process = Some(Process::start(command, &self.log_file()).expect("a process"));
    }

    /// Waits until it reports that it is ready.
    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        let what = format!("{} is ready", self.name);
        until(TEST_TIMEOUT, &what, || {
            self.assert_runs();
            (self.status()?["ready"] == true).then_some(())
        });
    }

    /// Fails if it has ended by itself.
    #[track_caller]
    pub fn assert_runs(&mut self) {
        let ended = self.running().ended().expect("the process is our child");
        assert!(ended.is_none(), "{} ended by itself: {ended:?}\n{}", self.name, self.log());
    }

    #[track_caller]
    fn running(&mut self) -> &mut Process {
        self.process.as_mut().unwrap_or_else(|| panic!("{} is off", self.name))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap_or_else(|| panic!("{} is off", self.name)).pid()
    }

    /// Whether it was started, and its end was not observed yet.
    pub fn is_on(&self) -> bool {
        self.process.is_some()
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&mut self, signal: Signal) {
        self.running().signal(signal).expect("the process runs");
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.running().kill().expect("the process is our child");
        self.process = None;
    }

    /// SIGTERM: it ends well.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::Terminate);
        let status = self.wait();
        assert!(status.success(), "{}: {status}\n{}", self.name, self.log());
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let ended = self.running().wait_for(TEST_TIMEOUT);
        self.process = None;
        ended.unwrap_or_else(|why| panic!("{}: {why}", self.name))
    }

    /// Whether it ends by itself within this time.
    pub fn ended_within(&mut self, most: Duration) -> bool {
        self.running().wait_for(most).is_ok()
    }

    /// Its log since its last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Speaks HTTP with it.
    pub fn client(&self) -> Client {
        Client::new(&self.http.to_string()).expect("an address")
    }

    /// Its status, if it answers.
    pub fn status(&self) -> Option<Value> {
        self.client().status().ok()
    }

    /// The sum of its metrics' samples that begin so: a name, perhaps with labels.
    #[track_caller]
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.client().metrics().expect("metrics");
        let of_name =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let samples = text.lines().filter(of_name).map(|line| {
            let number = line.rsplit(' ').next().unwrap_or_default();
            number.parse::<f64>().expect("a number")
        });
        let samples: Vec<f64> = samples.collect();
        assert!(!samples.is_empty(), "no {name} in {text}");
        samples.iter().sum()
    }

    /// Speaks RESP with it, if it listens.
    ///
    /// # Errors
    /// It does not listen.
    pub fn try_connect(&self) -> std::io::Result<Connection> {
        Connection::open(self.resp, TEST_TIMEOUT, TEST_TIMEOUT)
    }

    /// Speaks RESP with it.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap_or_else(|why| panic!("{}: {why}", self.name))
    }

    /// Runs the program as a command about this node: exit code, and all that it said.
    pub fn carillon(&self, words: &[&str]) -> (i32, String) {
        let mut command = Command::new(&self.program);
        command.args(words).env("CARILLON_HTTP", self.http.to_string()).env("NO_COLOR", "1");
        let output = command.output().expect("it can be started");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}:\n{}", self.name, last_words(&self.log_file()));
        }
    }
}
