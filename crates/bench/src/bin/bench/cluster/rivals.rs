//! The other store: etcd with three members.

use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use super::nodes::NODES;
use crate::Outcome;
use harness::ports::unused;
use harness::process::{Directory, Process, Signal};

/// The driver of etcd, made by `scripts/setup.sh bench`.
const ETCD_LOAD: &str = "target/clients/etcd-load";

/// Processes that are one store. Dropping it kills them and removes their files.
pub struct Rival {
    processes: Vec<Process>,
    /// Where clients connect.
    pub ports: Vec<u16>,
    /// Where members of etcd meet each other.
    peer_ports: Vec<u16>,
    dir: Directory,
}

impl Rival {
    /// Process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::pid).collect()
    }

    /// What the driver of etcd prints, with these flags and numbers; and what it complains of.
    pub fn drive_etcd(
        &self,
        flags: &[&str],
        numbers: &[(&str, usize)],
    ) -> Outcome<(String, String)> {
        let endpoints: Vec<String> =
            self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut command = Command::new(ETCD_LOAD);
        command.args(["-endpoints", &endpoints.join(",")]).args(flags);
        for (flag, number) in numbers {
            command.arg(flag).arg(number.to_string());
        }
        let output = command.output().map_err(|error| format!("{ETCD_LOAD}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        if output.status.success() {
            Ok((said, complained))
        } else {
            Err(format!("{ETCD_LOAD}: {said}{complained}").into())
        }
    }
}

/// The figure below a name, of two lines of names and figures, as the driver prints them.
pub fn column<T: FromStr>(csv: &str, name: &str) -> Option<T> {
    let mut rows = csv.lines().filter(|line| line.starts_with('"'));
    let mut cells = || Some(rows.next()?.split(',').map(|cell| cell.trim_matches('"')));
    let (mut names, mut figures) = (cells()?, cells()?);
    figures.nth(names.position(|each| each == name)?)?.parse().ok()
}

/// Whether etcd and its driver are installed.
pub fn has_etcd() -> bool {
    let version = Command::new("etcd").arg("--version").output();
    version.is_ok_and(|output| output.status.success()) && Path::new(ETCD_LOAD).exists()
}

/// Three etcd members with their defaults; only the quota of their files is raised.
pub fn etcd() -> Outcome<Rival> {
    let ports = || (0..NODES).map(|_| unused().port()).collect();
    let mut etcd = Rival {
        processes: Vec::new(),
        ports: ports(),
        peer_ports: ports(),
        dir: Directory::new("etcd")?,
    };
    etcd.launch_members()?;
    Ok(etcd)
}

impl Rival {
    /// Stops all members of etcd and starts them again on what they have. A large load of puts
    /// leaves buffers behind that 3.4 copies at every read from then on.
    pub fn restart_etcd(&mut self) -> Outcome<()> {
        for process in &self.processes {
            process.signal(Signal::Terminate)?;
        }
        for mut process in self.processes.drain(..) {
            process.wait()?;
        }
        self.launch_members()
    }

    fn launch_members(&mut self) -> Outcome<()> {
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let peers = self.peer_ports.iter().enumerate();
        let members: Vec<String> = peers.map(|(n, port)| format!("e{n}={}", url(port))).collect();
        for n in 0..NODES {
            let mut command = Command::new("etcd");
            command.args(["--name", &format!("e{n}"), "--initial-cluster", &members.join(",")]);
            command.arg("--data-dir").arg(self.dir.path().join(format!("data-{n}")));
            command.args(["--quota-backend-bytes", "8589934592"]);
            let (client, peer) = (url(&self.ports[n]), url(&self.peer_ports[n]));
            for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
                command.args([flag, &peer]);
            }
            for flag in ["--listen-client-urls", "--advertise-client-urls"] {
                command.args([flag, &client]);
            }
            let output = self.dir.path().join(format!("output-{n}.txt"));
            self.processes.push(Process::start(command, &output)?);
        }
        for (process, port) in self.processes.iter_mut().zip(&self.ports) {
            process.wait_until("etcd", || {
                let health = crate::http::body(*port, "/health");
                health.is_ok_and(|body| body.contains(r#""health":"true""#))
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_the_names_of_their_columns() {
        let csv = "some words\n\"rate\",\"p50_ms\"\n\"83333.34\",\"0.303\"\n";
        assert_eq!(column(csv, "p50_ms"), Some(0.303));
        assert_eq!(column(csv, "rate"), Some(83_333.34));
        assert_eq!(column::<f64>(csv, "p99_ms"), None);
        assert_eq!(column::<f64>("cannot connect", "rate"), None);
    }
}
