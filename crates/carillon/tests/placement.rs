//! Replicas move off a drained node and a dead one, and spread if they may: real processes, whose
//! keys are read through all of them meanwhile.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

mod four;
use four::{Cluster, EMPTY, until};
use harness::node::TEST_TIMEOUT;
use harness::process::Process;

/// Shards of the keyspace 0, and the system shard.
const SHARDS: u64 = 9;
const KEYS: usize = 40;

/// Replicas that a node has, as the first says.
fn replicas(cluster: &Cluster, asked: usize, number: usize) -> u64 {
    cluster.node(asked, number).and_then(|node| node["replicas"].as_u64()).unwrap_or(u64::MAX)
}

fn write(cluster: &Cluster, asked: usize) {
    for key in 0..KEYS {
        cluster.done(asked, &format!("put k{key} v{key}"), "");
    }
}

/// Reads all keys through a node.
#[track_caller]
fn read(cluster: &Cluster, asked: usize) {
    for key in 0..KEYS {
        cluster.done(asked, &format!("get k{key}"), &format!("v{key}"));
    }
}

fn well(cluster: &Cluster, asked: usize) {
    until("all is well", || {
        let status = cluster.client(asked).status().ok()?;
        (status["health"]["verdict"] == "ok").then_some(())
    });
}

#[test]
fn replicas_leave_drained_and_dead_nodes() {
    let mut cluster = Cluster::new("placement", &["--balance=off", "--dead-after-ms", "3s"]);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    cluster.all_well(0..=EMPTY);
    write(&cluster, 0);
    read(&cluster, EMPTY);

    // What it survives, and what would make it even.
    cluster.done(0, "prove", "yes: each of 9 shards keeps a majority without any one node");
    let (code, said) = cluster.run(EMPTY, "prove --survive domain");
    assert_eq!((code, said.contains("no failure domain is known")), (1, true), "{said}");
    let (code, said) = cluster.run(1, "prove --survive 2-nodes");
    assert_eq!((code, said.contains("no: 9 of 9 shards")), (1, true), "{said}");
    cluster.done(1, "shards --dry-run", "to n3");
    cluster.done(1, "shards --dry-run", "balance is off");

    // All that the second has goes to the fourth, which is the only one without.
    cluster.done(2, "drain n1 --timeout 50s", "n1 is empty");
    assert_eq!((replicas(&cluster, 0, 1), replicas(&cluster, 0, EMPTY)), (0, SHARDS));
    (0..=EMPTY).for_each(|asked| read(&cluster, asked));
    until("what came of it is known", || {
        let (_, said) = cluster.run(EMPTY, "shards --why --keyspace 0");
        (said.contains("to n3, because n1 is draining") && said.contains("; done after"))
            .then_some(())
    });
    // It stays empty when it was started anew, and can be a plain member again.
    cluster.kill(1);
    cluster.start(1);
    // The others may not have noticed that it was away: it is asked itself as well.
    let is_up = |asked| Some(cluster.node(asked, 1)?["state"] == "up");
    until("it is up", || (is_up(1)? && is_up(0)?).then_some(()));
    read(&cluster, 1);
    assert_eq!(replicas(&cluster, 0, 1), 0);
    cluster.done(1, "nodes uncordon n1", "n1 is a plain member");

    // The first dies for good: the second takes its place.
    cluster.kill(0);
    until("nothing more may be lost", || {
        let (code, said) = cluster.run(1, "prove");
        (code == 1 && said.contains("counted as lost already: n0")).then_some(())
    });
    until("the dead one is replaced", || {
        (replicas(&cluster, 2, 1) == SHARDS && replicas(&cluster, 2, 0) == 0).then_some(())
    });
    for asked in [1, 2, EMPTY] {
        read(&cluster, asked);
    }
    // It comes back, and finds that others have its place.
    cluster.start(0);
    until("it has nothing", || {
        let node = cluster.node(0, 0)?;
        (node["state"] == "up" && node["shards"] == 0).then_some(())
    });
    well(&cluster, 1);
    (0..=EMPTY).for_each(|asked| read(&cluster, asked));
}

/// A keyspace asks for more replicas than there are nodes: who is started anew does not wait for
/// what cannot come.
#[test]
fn restarted_node_does_not_await_full_replica() {
    let mut cluster = Cluster::new("no-room", &[]);
    cluster.begin(0..=EMPTY - 1);
    cluster.start(EMPTY);
    until("it is there", || Some(cluster.node(0, EMPTY)?["state"] == "up").filter(|up| *up));
    cluster.done(0, "keyspace create big --replicas 5", "");
    let held = |number| Some(cluster.node(0, number)?["replicas"].as_u64()? as usize);
    let all = || (0..=EMPTY).map(held).sum::<Option<usize>>();
    // Three of each, for four would survive no more than three.
    let have_spread = || Some(all()? >= 3 * (9 + 8) && held(EMPTY)? >= 9);
    until("they have spread", || have_spread()?.then_some(()));
    for number in 0..=EMPTY {
        cluster.stop(number);
        cluster.start(number);
        until("it is ready", || (cluster.run(number, "status").0 == 0).then_some(()));
    }
}

/// A process whose fsyncs stall, until it is dropped: strace holds each of them back.
struct Stalled(Process);

impl Stalled {
    /// `None` where nobody may be traced, and `NO_STRACE` says that this is known.
    fn new(pid: u32, dir: &Path) -> Option<Self> {
        if std::env::var_os("NO_STRACE").is_some() {
            return None;
        }
        let stall = "inject=fdatasync:delay_enter=1500000";
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", stall])
            .args(["-p", &pid.to_string()]);
        let strace = Process::start(command, &dir.with_extension("strace"));
        let mut strace = strace.expect("strace, which `make setup` installs");
        std::thread::sleep(Duration::from_millis(300));
        assert!(strace.ended().unwrap().is_none(), "strace cannot trace: see NO_STRACE");
        Some(Self(strace))
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        // It lets the process go on, and ends.
        let _ended = self.0.stop(TEST_TIMEOUT);
    }
}

#[test]
fn leaders_leave_node_with_stalled_disk() {
    let mut cluster = Cluster::new("stalls", &["--balance=off"]);
    cluster.begin(0..=EMPTY - 1);
    cluster.all_well(0..=EMPTY - 1);
    write(&cluster, 0);
    until("it leads", || (cluster.node(0, 1)?["leads"].as_u64()? > 0).then_some(()));
    let Some(stalled) = Stalled::new(cluster.pid_of(1), &cluster.dir_of(1)) else { return };
    until("it leads nothing", || {
        // Whether this is done in time is not the question.
        cluster.run(0, "put k0 v0");
        let node = cluster.node(0, 1)?;
        (node["slow_disk"] == true && node["leads"] == 0).then_some(())
    });
    let (_, said) = cluster.run(0, "nodes");
    assert!(said.contains("up, slow disk"), "{said}");
    assert!(cluster.log_of(1).contains("the disk is slow"), "{}", cluster.log_of(1));
    assert!(cluster.log_of(1).contains("because n1 is slow"), "{}", cluster.log_of(1));
    write(&cluster, 2);
    drop(stalled);
    (0..EMPTY).for_each(|asked| read(&cluster, asked));
}

#[test]
fn replicas_spread_to_joined_nodes() {
    let mut cluster = Cluster::new("spread", &[]);
    (0..=EMPTY).for_each(|number| cluster.start(number));
    until("all have their part", || {
        let held: Vec<u64> = (0..=EMPTY).map(|number| replicas(&cluster, 0, number)).collect();
        let sum = held.iter().fold(0, |sum: u64, held| sum.saturating_add(*held));
        (sum == 3 * SHARDS && held.iter().all(|held| (5..=8).contains(held))).then_some(())
    });
    write(&cluster, 1);
    std::thread::sleep(Duration::from_millis(500));
    (0..=EMPTY).for_each(|asked| read(&cluster, asked));
}
