//! What a timeline does to nodes, on redis-servers: that it is done, when, what clients see of it,
//! and that nothing runs any more afterwards. And agents: several make one load, a lost one fails
//! the run, and those of no use are named.

mod support;

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bench::agents::{Remote, Secret};
use bench::measure::usage::Mark;
use bench::run::{self, Local, Progress, Session};
use bench::scenario::{Metric, Plan};
use harness::process::Directory;
use support::{kinds, options, phase, plan, redis, redis_nodes, run_here, runs, start_agent};

const LOAD: &str = "[keys]\ncount = 200\n[setup]\nclients = 2\n[load]\nclients = 4\n\
                    mix = { get = 1, put = 1 }\n";

fn names(marks: &[Mark]) -> Vec<&str> {
    marks.iter().map(|mark| mark.name.as_str()).collect()
}

#[test]
fn nodes_are_killed_started_paused_and_stopped_when_it_says_so() {
    let text = redis_nodes(
        &[("a", ""), ("b", ""), ("late", "later = true")],
        "failover = true\nrequest_timeout = \"300ms\"",
        &format!(
            "{LOAD}\
             [[phase]]\nname = \"warm\"\nseconds = 0.3\nmeasured = false\n\
             [[phase]]\nname = \"one\"\nseconds = 2.5\n\
             [[phase]]\nname = \"two\"\nseconds = 1\n\
             [[timeline]]\nat = \"500ms\"\ndo = \"kill\"\nnode = \"b\"\n\
             [[timeline]]\nat = \"1s\"\ndo = \"start\"\nnode = \"late\"\n\
             [[timeline]]\nat = \"1300ms\"\ndo = \"pause\"\nnode = \"a\"\n\
             [[timeline]]\nat = \"2s\"\ndo = \"resume\"\nnode = \"a\"\n\
             [[timeline]]\nafter_phase = \"one\"\ndo = \"start\"\nnode = \"b\"\n\
             [[timeline]]\nafter_phase = \"one\"\ndo = \"run\"\n\
             command = [\"redis-cli\", \"-p\", \"{{b.port}}\", \"PING\"]\n\
             [[timeline]]\nphase = \"two\"\nat = \"300ms\"\ndo = \"stop\"\nnodes = [\"late\", \
             \"b\"]\n\
             every = \"200ms\"\n\
             [[timeline]]\nat = \"2700ms\"\ndo = \"run\"\nname = \"a wrong word\"\n\
             command = [\"sh\", \"-c\", \"echo why; exit 7\"]\nmust_succeed = false\n"
        ),
    );
    let (dir, results) = run_here(&text);
    let results = results.unwrap_or_else(|why| panic!("{why}"));
    let (one, two) = (phase(&results, "one"), phase(&results, "two"));
    // A key that is not on another server is no failure here: it is missing, which is told apart.
    assert!(phase(&results, "warm").marks.is_empty());
    let expected = ["kill b", "start late", "pause a", "resume a", "start b", "PING"];
    let found = names(&one.marks);
    // A command without plain words first is called by its program.
    assert_eq!(found[..5], expected[..5], "{found:?}");
    assert_eq!(names(&two.marks), ["a wrong word", "stop late", "stop b"]);
    for (mark, at) in one.marks.iter().zip([0.5, 1.0, 1.3, 2.0]) {
        assert!((at..at + 0.4).contains(&mark.at), "{mark:?}");
    }
    assert!(one.marks.iter().all(|mark| mark.failure.is_none() && mark.took.is_some()));
    let failure = two.marks[0].failure.as_deref().unwrap();
    assert!(failure.contains('7') && failure.contains("why"), "{failure}");
    let mut kinds = one.data.entries.iter().map(|entry| &entry.failures);
    assert!(kinds.any(|kinds| kinds.contains_key("timeout")), "{:?}", one.data.entries);
    assert!(one.metric(Metric::Failures, None) > 0.0);
    let by_second: u64 = one.series.iter().flat_map(|row| row.kinds.values()).sum();
    assert_eq!(by_second as f64, one.metric(Metric::Failures, None), "each has its second");
    // Nodes, and this process itself, second by second; b was gone half of the time.
    let usage = &one.usage;
    let of = |name: &str| usage.processes.iter().find(|series| series.name == name);
    assert!(of("a").unwrap().rows.len() >= 2, "{usage:?}");
    assert!(of("a").unwrap().rss_max() > 1 << 20);
    assert!(of("instrument").unwrap().mean(|row| row.cpu) > 0.0);
    assert!(of("b").is_none_or(|series| series.rows.len() < 2));
    assert_eq!(usage.networks[0].name, "all of this host");
    assert!(usage.networks[0].mean(|row| row.sent) > 1e3, "{:?}", usage.networks);
    assert!(usage.processes.iter().any(|one| one.mean(|row| row.voluntary) > 0.0));
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    for words in ["kill b", "voluntary switches", "% answered well", "sent again"] {
        assert!(page.contains(words), "{words}");
    }
    ends(&results.origin.target);
}

#[test]
fn what_was_dark_is_measured_and_judged() {
    let text = redis_nodes(
        &[("a", "")],
        "request_timeout = \"5s\"",
        &format!(
            "{LOAD}[[phase]]\nname = \"run\"\nseconds = 3\n\
             [[timeline]]\nat = \"1s\"\ndo = \"pause\"\nnode = \"a\"\n\
             [[timeline]]\nat = \"2s\"\ndo = \"resume\"\nnode = \"a\"\n\
             [[pass]]\nmetric = \"unavailable\"\nat_most = \"200ms\"\n\
             [[pass]]\nmetric = \"unavailable\"\nat_most = \"2500ms\"\n"
        ),
    );
    let results = run_here(&text).1.unwrap_or_else(|why| panic!("{why}"));
    let found = phase(&results, "run").availability();
    assert!((0.7..2.0).contains(&found.longest), "{found:?}");
    assert!((0.9..1.6).contains(&found.longest_at), "{found:?}");
    let met: Vec<bool> = results.runs[0].verdicts.iter().map(|verdict| verdict.is_met).collect();
    assert_eq!(met, [false, true], "{:?}", results.runs[0].verdicts);
}

#[test]
fn a_node_that_ends_by_itself_fails_the_run_and_what_was_measured_is_kept() {
    let text = redis_nodes(
        &[("a", ""), ("b", "")],
        "",
        &format!(
            "{LOAD}[[phase]]\nname = \"good\"\nseconds = 0.3\n\
             [[phase]]\nname = \"bad\"\nseconds = 30\n\
             [[timeline]]\nphase = \"bad\"\nat = \"1200ms\"\ndo = \"run\"\n\
             command = [\"redis-cli\", \"-p\", \"{{b.port}}\", \"SHUTDOWN\", \"NOSAVE\"]\n"
        ),
    );
    let begun = Instant::now();
    let (dir, ran) = run_here(&text);
    let why = ran.unwrap_err().to_string();
    assert!(why.contains("b has ended by itself"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(20), "the load ends with it");
    let kept = run::read_results(dir.path()).unwrap();
    assert!(!kept.is_complete() && kept.figures.is_empty());
    let run = &kept.runs[0];
    assert_eq!(run.failure.as_deref(), Some(why.as_str()));
    assert_eq!(run.phases.len(), 2);
    assert!(run.phases[0].metric(Metric::Throughput, None) > 0.0, "the first phase is whole");
    assert!(!run.phases[1].series.is_empty(), "of the second there is what was seen");
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("Ended early: b has ended by itself") && page.contains("Not complete"));
    ends(&run.origin.target.replace(", ", " "));
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing_running() {
    // What a node has started itself ends, too.
    let words = "sleep 987654";
    let text = format!(
        "[target]\ndriver = \"resp\"\n[[node]]\nname = \"a\"\ncommand = [\"sh\", \"-c\", \
         \"{words} & exec redis-server --port {{port}} --bind {{host}} --save ''\"]\n{LOAD}\
         [[phase]]\nname = \"run\"\nseconds = 60\n\
         [[timeline]]\nat = \"100ms\"\ndo = \"run\"\ncommand = [\"sh\", \"-c\", \"{words}1\"]\n"
    );
    let dir = Directory::new("interrupted").unwrap();
    let options = options(dir.path());
    let stop = std::sync::Arc::clone(&options.stop);
    let begun = Instant::now();
    let ran = run::run(&plan(&text), &options, &mut Local::default(), &mut |progress| {
        if let Progress::Second(_) = progress {
            assert!(runs(words), "it has begun");
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(ran.unwrap_err().to_string().starts_with("interrupted"));
    assert!(begun.elapsed() < Duration::from_secs(30));
    ends(words);
}

#[test]
fn commands_that_fail_or_take_too_long_fail_the_run() {
    for (command, expected) in [
        ("[\"sh\", \"-c\", \"echo no such shard; exit 3\"]", "no such shard"),
        ("[\"sleep\", \"600\"]", "had not ended in 300ms"),
        ("[\"/no/such/program\"]", "cannot start /no/such/program"),
    ] {
        let text = redis_nodes(
            &[("a", "")],
            "",
            &format!(
                "{LOAD}[[phase]]\nname = \"run\"\nseconds = 20\n[[timeline]]\nat = \"100ms\"\n\
                 do = \"run\"\ncommand = {command}\ntimeout = \"300ms\"\n"
            ),
        );
        let why = run_here(&text).1.unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    let text = redis_nodes(
        &[("a", "")],
        "ready_timeout = \"400ms\"\nready = [\"sh\", \"-c\", \"echo not yet; exit 1\"]",
        &format!("{LOAD}[[phase]]\nname = \"run\"\nseconds = 20\n"),
    );
    let why = run_here(&text).1.unwrap_err().to_string();
    assert!(why.contains("not ready within 400ms") && why.contains("not yet"), "{why}");
}

#[test]
fn networks_of_namespaces_are_cut_and_healed() {
    if !harness::net::root_or_skip("a network of namespaces") {
        return;
    }
    let text = redis_nodes(
        &[("a", ""), ("b", "")],
        "request_timeout = \"400ms\"\nfailover = true",
        &format!(
            "{LOAD}[network]\nnamespaces = true\n[[phase]]\nname = \"run\"\nseconds = 3\n\
             [[timeline]]\nat = \"500ms\"\ndo = \"cut\"\nnode = \"b\"\n\
             [[timeline]]\nat = \"1500ms\"\ndo = \"heal\"\n"
        ),
    );
    let results = run_here(&text).1.unwrap_or_else(|why| panic!("{why}"));
    let run = phase(&results, "run");
    assert!(results.origin.target.contains("10.77.0.2"), "{}", results.origin.target);
    assert_eq!(names(&run.marks), ["cut b", "heal"]);
    let late = run.data.entries.iter().filter_map(|entry| entry.failures.get("timeout"));
    assert!(late.sum::<u64>() > 0, "{:?}", run.data.entries);
    let networks: Vec<&str> = run.usage.networks.iter().map(|one| one.name.as_str()).collect();
    assert!(networks.contains(&"namespace of a"), "{networks:?}");

    // In one direction: a does not hear b, which is no matter of their clients.
    let one_way = "do = \"cut\"\nfrom = [\"a\"]\none_way = true\nnode";
    let one_way = text.replace("do = \"cut\"\nnode", one_way);
    let results = run_here(&one_way).1.unwrap_or_else(|why| panic!("{why}"));
    let run = phase(&results, "run");
    assert_eq!(names(&run.marks), ["cut b from a, one way", "heal"]);
    assert!(kinds(run).iter().all(|kind| *kind != "timeout"), "{:?}", kinds(run));

    let delayed = text.replace("do = \"cut\"\nnode", "do = \"delay\"\ndelay = \"50ms\"\nnode");
    // Not every kernel can.
    match has_netem() {
        false => {
            let (dir, ran) = run_here(&delayed);
            let why = ran.unwrap_err().to_string();
            assert!(why.contains("delay needs the kernel's netem and `tc`: "), "{why}");
            assert!(!dir.path().join("scenario.toml").exists(), "nothing has been started");
        }
        true => {
            let results = run_here(&delayed).1.unwrap_or_else(|why| panic!("{why}"));
            assert!(phase(&results, "run").metric(Metric::Max, None) > 45e6);
        }
    }
}

/// Whether the kernel can hold packets back, asked in a namespace.
fn has_netem() -> bool {
    let net = harness::net::Net::new(1);
    let mut tc = net.node(1).command("tc");
    tc.args(["qdisc", "add", "dev", "eth0", "root", "netem", "delay", "1ms"]);
    tc.output().is_ok_and(|output| output.status.success())
}

#[test]
fn nodes_run_on_the_hosts_of_agents() {
    let agents = [start_agent(std::time::SystemTime::now)];
    let text = redis_nodes(
        &[("here", ""), ("there", "agent = 1")],
        "failover = true",
        &format!(
            "{LOAD}[[phase]]\nname = \"run\"\nseconds = 2.5\n\
             [[timeline]]\nat = \"500ms\"\ndo = \"kill\"\nnode = \"there\"\n\
             [[timeline]]\nat = \"1s\"\ndo = \"start\"\nnode = \"there\"\n\
             [[timeline]]\nat = \"1800ms\"\ndo = \"stop\"\nnode = \"there\"\n"
        ),
    );
    let dir = Directory::new("far-nodes").unwrap();
    let far = plan(&text);
    let mut remote = Remote::connect(&agents, &support::secret(), &far).unwrap();
    let ran = run::run(&far, &options(dir.path()), &mut remote, &mut |_| {});
    let results = ran.unwrap_or_else(|why| panic!("{why}"));
    let run = phase(&results, "run");
    assert_eq!(names(&run.marks), ["kill there", "start there", "stop there"]);
    let names: Vec<&str> = run.usage.processes.iter().map(|one| one.name.as_str()).collect();
    for name in ["here", "there", "agent 1", "instrument"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let target = results.origin.target.clone();
    let port = target.rsplit(':').next().unwrap();
    ends(&format!("redis-server 127.0.0.1:{port}"));
    drop(remote);

    let why = run_here(&text).1.unwrap_err().to_string();
    assert!(why.contains("on the host of agent 1: name --agents"), "{why}");
    let bad = plan(&text.replace("redis-server\", \"--port", "/no/such/program\", \"--port"));
    let mut remote = Remote::connect(&agents, &support::secret(), &bad).unwrap();
    let dir = Directory::new("far-bad").unwrap();
    let why = run::run(&bad, &options(dir.path()), &mut remote, &mut |_| {}).unwrap_err();
    assert!(why.to_string().contains("cannot start /no/such/program"), "{why}");
}

#[test]
fn agents_whose_clocks_are_apart_are_refused() {
    let plan = plan(&redis_nodes(
        &[("a", "")],
        "",
        &format!("{LOAD}[[phase]]\nname = \"run\"\nseconds = 1\n"),
    ));
    let ahead = || std::time::SystemTime::now() + Duration::from_secs(3);
    let behind = || std::time::SystemTime::now() - Duration::from_secs(90);
    let little = || std::time::SystemTime::now() - Duration::from_millis(200);
    for (clock, expected) in [(ahead as fn() -> _, "s ahead"), (behind as fn() -> _, "s behind")] {
        let agent = start_agent(clock);
        let why =
            Remote::connect(std::slice::from_ref(&agent), &support::secret(), &plan).err().unwrap();
        let why = why.to_string();
        assert!(why.starts_with(&format!("agent {agent}: its clock is ")), "{why}");
        assert!(why.contains(expected) && why.contains("nothing was started"), "{why}");
    }
    let near = Remote::connect(&[start_agent(little)], &support::secret(), &plan);
    assert!(near.is_ok(), "{:?}", near.err());
}

const PHASE: &str = "[keys]\ncount = 10\n[[phase]]\nname = \"run\"\nseconds = 0.5\n";

#[test]
fn two_agents_make_one_load() {
    let agents = [start_agent(SystemTime::now), start_agent(SystemTime::now)];
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/driver.py");
    let text = redis(
        "[keys]\ncount = 1000\n[load]\nclients = 4\nmix = { get = 50, put = 50 }\n\
         [[phase]]\nname = \"closed\"\nseconds = 1\n\
         [[phase]]\nname = \"open\"\nseconds = 2\nrate = 400\npipeline = 1000\n\
         arrivals = \"even\"\n",
    );
    let exec = redis("").replace("\"resp\"", "\"exec\"")
        + &format!(
            "request_timeout = \"60s\"\n\
             program = [\"python3\", {:?}, \"{{address}}\"]\n[keys]\ncount = 20\n\
             [[phase]]\nname = \"open\"\nseconds = 2\nclients = 2\nrate = 20\n\
             pipeline = 1000\narrivals = \"even\"\n",
            driver.to_str().unwrap()
        );
    for (text, rate) in [(text, 400.0), (exec, 20.0)] {
        let dir = Directory::new(&format!("agents-{rate}")).unwrap();
        let plan = plan(&text);
        let mut remote = Remote::connect(&agents, &support::secret(), &plan).unwrap();
        let results = run::run(&plan, &options(dir.path()), &mut remote, &mut |_| {}).unwrap();
        assert_eq!(results.origin.agents, agents);
        let open = phase(&results, "open");
        assert_eq!(open.metric(Metric::Failures, None), 0.0, "{:?}", kinds(open));
        // All are answered, some perhaps late: a program takes its time to start.
        let found = open.latencies(None).len() as f64;
        assert_eq!(found, rate * 2.0);
    }
}

#[test]
fn a_lost_agent_fails_the_run_and_ends_the_others() {
    let good = start_agent(SystemTime::now);
    // In front of another agent stands a proxy that is cut during the phase.
    let behind = start_agent(SystemTime::now);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let cut = listener.local_addr().unwrap().to_string();
    let (cutter, to_cut) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(behind).unwrap();
        cutter.send((near.try_clone().unwrap(), far.try_clone().unwrap())).unwrap();
        let (mut near2, mut far2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let (mut near, mut far) = (near, far);
        thread::spawn(move || std::io::copy(&mut near2, &mut far2));
        std::io::copy(&mut far, &mut near)
    });
    let text = redis(
        "[keys]\ncount = 100\n[load]\nclients = 4\n[[phase]]\nname = \"run\"\nseconds = 30\n",
    );
    let dir = Directory::new("lost").unwrap();
    let plan = plan(&text);
    let agents = [good.clone(), cut.clone()];
    let mut remote = Remote::connect(&agents, &support::secret(), &plan).unwrap();
    let mut cut_at = None;
    let ended = run::run(&plan, &options(dir.path()), &mut remote, &mut |progress| {
        if let Progress::Second(_) = progress
            && cut_at.is_none()
        {
            let (near, far): (TcpStream, TcpStream) = to_cut.recv().unwrap();
            near.shutdown(std::net::Shutdown::Both).unwrap();
            far.shutdown(std::net::Shutdown::Both).unwrap();
            cut_at = Some(Instant::now());
        }
    });
    let why = ended.unwrap_err().to_string();
    assert!(why.contains(&format!("agent {cut}: lost")), "{why}");
    assert!(cut_at.unwrap().elapsed() < Duration::from_secs(25));
    // The other one is free for the next controller at once.
    let again = Remote::connect(&[good], &support::secret(), &plan).unwrap();
    assert_eq!(again.agents().len(), 1);
}

#[test]
fn agents_that_cannot_be_used_are_named() {
    let plan = plan(&redis(PHASE));
    let free = harness::ports::unused().to_string();
    let refused = Remote::connect(std::slice::from_ref(&free), &support::secret(), &plan);
    let why = refused.err().unwrap().to_string();
    assert!(why.starts_with(&format!("cannot reach agent {free}: ")), "{why}");
    let other = Secret::new(b"another secret than theirs");
    let why =
        Remote::connect(&[start_agent(SystemTime::now)], &other, &plan).err().unwrap().to_string();
    assert!(why.contains("another secret"), "{why}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let why = Remote::connect(&[address], &support::secret(), &plan).err().unwrap().to_string();
    assert!(why.contains("no greeting"), "{why}");
    let memory = Plan::parse("m", &format!("[target]\ndriver = \"memory\"\n{PHASE}"), &[]).unwrap();
    let why = Remote::connect(&[], &support::secret(), &memory).err().unwrap().to_string();
    assert!(why.contains("leave --agents away"), "{why}");
}

/// Waits until no process has these words in its command: one that was killed takes its time where
/// others want the processor.
fn ends(words: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while runs(words) {
        assert!(Instant::now() < until, "{words} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
