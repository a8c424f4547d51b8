//! The instrument on real targets: a map, a server that answers without looking, redis-server, a
//! Python program, and servers that lie. Each takes seconds. Rates are judged widely: the
//! machine may be busy.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bench::measure::result::Results;
use bench::run::{self, Local, Options, Progress};
use bench::scenario::Metric;
use harness::disk::SmallDisk;
use harness::process::Directory;
use support::{kinds, options, phase, plan, redis, run_in};

#[track_caller]
fn run_here(text: &str) -> Results {
    support::run_here(text).1.unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn memory_is_read_and_written_in_closed_and_open_loops() {
    let results = run_here(
        "threads = 2\n[target]\ndriver = \"memory\"\n[keys]\ncount = 1000\n\
         [values]\nfrom = 1\nto = 300\n\
         [op.pause]\nsleep = \"1ms\"\n[load]\nclients = 6\nmix = { get = 80, put = 20 }\n\
         [[phase]]\nname = \"closed\"\nseconds = 1.2\n\
         [[phase]]\nname = \"open\"\nseconds = 2\nrate = 1000\narrivals = \"even\"\n\
         [[phase]]\nname = \"sleepy\"\nseconds = 1\nmix = { get = 1, pause = 1 }\n",
    );
    for name in ["closed", "open", "sleepy"] {
        assert_eq!(phase(&results, name).metric(Metric::Failures, None), 0.0, "{name}");
    }
    let closed = phase(&results, "closed");
    assert!(closed.metric(Metric::Throughput, None) > 100.0);
    let share =
        closed.metric(Metric::Throughput, Some("put")) / closed.metric(Metric::Throughput, None);
    assert!((0.1..0.3).contains(&share), "{share}");
    assert!((1..=2).contains(&closed.series.len()), "a row for each second that was begun");
    assert_eq!(phase(&results, "open").latencies(None).len(), 2_000, "each that was due");
    // Six clients that sleep a millisecond before every other request.
    let sleepy = phase(&results, "sleepy").metric(Metric::Throughput, Some("get"));
    assert!((1.0..=6_200.0).contains(&sleepy), "{sleepy}");
}

#[test]
fn the_null_server_shows_what_the_instrument_costs() {
    let results = run_here(
        "[target]\ndriver = \"null\"\n[setup]\nfill = false\n[load]\nclients = 4\n\
         [[phase]]\nname = \"deep\"\nseconds = 1\npipeline = 16\n\
         [[phase]]\nname = \"single\"\nseconds = 1\nclients = 1\n",
    );
    let deep = phase(&results, "deep");
    assert_eq!(deep.metric(Metric::Failures, None), 0.0);
    assert_eq!(deep.data.entries[0].absent, deep.latencies(None).len());
    assert!(deep.metric(Metric::Throughput, None) > 100.0);
    assert!(phase(&results, "single").metric(Metric::P50, None) < 1e9);
}

#[test]
fn redis_is_started_measured_and_ended() {
    let pid = RefCell::new(String::new());
    let dir = Directory::new("redis").unwrap();
    let text = redis(
        "[keys]\ncount = 2000\ndistribution = \"zipf\"\n\
         [op.incr]\ncommand = [\"INCR\", \"count:{key}\"]\n[load]\nclients = 8\npipeline = 4\n\
         mix = { get = 50, put = 40, incr = 10 }\n\
         [[phase]]\nname = \"closed\"\nseconds = 1\n\
         [[phase]]\nname = \"ramp\"\nseconds = 1\nrate = 500\nrate_to = 1500\nmix = { get = 1 }\n\
         [teardown]\ndelete = true\n\
         [[pass]]\nmetric = \"failures\"\nphase = \"closed\"\nat_most = 0\n\
         [[pass]]\nmetric = \"throughput\"\nphase = \"closed\"\nat_least = 1e9\n",
    );
    let results = run::run(&plan(&text), &options(dir.path()), &mut Local::default(), &mut |p| {
        if let Progress::Phase(phase) = p {
            *pid.borrow_mut() = phase.processes[0].name.clone();
        }
    });
    let results = results.unwrap();
    assert_eq!(*pid.borrow(), "redis-server 1");
    assert_eq!(phase(&results, "closed").metric(Metric::Failures, None), 0.0);
    let ramp = phase(&results, "ramp");
    let due = ramp.latencies(None).len() as f64 + ramp.metric(Metric::Failures, None);
    assert!((850.0..1_150.0).contains(&due), "{due}");
    assert!(phase(&results, "closed").processes[0].rss_bytes > 1 << 20);
    let met: Vec<bool> = results.runs[0].verdicts.iter().map(|verdict| verdict.is_met).collect();
    assert_eq!(met, [true, false], "nobody answers a thousand million a second");
    assert!(!results.has_passed());
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("Failed: 1 of 2 criteria") && !page.contains("NaN"));
    let port = results.runs[0].origin.target.parse::<SocketAddr>().unwrap();
    assert!(TcpStream::connect(port).is_err(), "it has ended");
}

#[test]
fn a_python_program_drives_redis() {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/driver.py");
    let lines = std::fs::read_to_string(&driver).unwrap().lines().count();
    assert!(lines < 60, "{lines}");
    let text = redis("").replace("\"resp\"", "\"exec\"")
        + &format!(
            "request_timeout = \"60s\"\n\
             program = [\"python3\", {:?}, \"{{address}}\"]\n[keys]\ncount = 50\n\
             [setup]\nclients = 2\n[op.bad]\ncommand = [\"NONSENSE\"]\n\
             [[phase]]\nname = \"run\"\nseconds = 1\nclients = 2\nmix = {{ get = 5, put = 5 }}\n\
             [[phase]]\nname = \"bad\"\nseconds = 0.5\nmix = {{ bad = 1 }}\n",
            driver.to_str().unwrap()
        );
    let results = run_here(&text);
    let run = phase(&results, "run");
    assert_eq!(run.metric(Metric::Failures, None), 0.0, "{:?}", kinds(run));
    assert!(!run.latencies(None).is_empty());
    let failures = &phase(&results, "bad").data.entries[0].failures;
    let kind = failures.keys().next().unwrap();
    assert!(kind.starts_with("refused: ERR unknown command"), "{kind}");
}

/// A RESP server with one reply for GET and one for all else.
fn liar(get: &'static str, other: &'static str, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let reader = BufReader::new(stream.try_clone().unwrap());
                let mut lines = reader.lines();
                while let Some(Ok(count)) = lines.next() {
                    let count: usize = count[1..].parse().unwrap();
                    let words: Vec<String> =
                        (0..2 * count).map_while(|_| lines.next()?.ok()).collect();
                    thread::sleep(delay);
                    let reply = if words.get(1).is_some_and(|w| w == "GET") { get } else { other };
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn against(address: SocketAddr, rest: &str) -> String {
    format!("[target]\ndriver = \"resp\"\naddresses = [\"{address}\"]\n{rest}")
}

const SHORT: &str = "[keys]\ncount = 10\n[[phase]]\nname = \"run\"\nseconds = 0.5\n";

#[test]
fn a_fast_wrong_answer_is_a_failure() {
    for (get, kind) in [
        ("$5\r\nwrong\r\n", "wrong value"),
        ("$-1\r\n", "missing value"),
        ("-BUSY later 1\r\n", "refused: BUSY later"),
        ("+OK\r\n", "no value and no word that there is none"),
    ] {
        let results = run_here(&against(liar(get, "+OK\r\n", Duration::ZERO), SHORT));
        let entry = &phase(&results, "run").data.entries[0];
        assert_eq!(entry.failures.keys().collect::<Vec<_>>(), [kind]);
        assert_eq!(entry.count, 0);
    }
    let text = against(liar("$5\r\nwrong\r\n", "+OK\r\n", Duration::ZERO), SHORT);
    let unchecked = run_here(&format!("{text}[values]\nverify = false\n"));
    assert_eq!(phase(&unchecked, "run").metric(Metric::Failures, None), 0.0);
}

#[test]
fn an_old_value_is_a_failure() {
    // What the first write of each key said is read for ever.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let firsts = Arc::new(Mutex::new(BTreeMap::<String, String>::new()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, firsts) = (stream.unwrap(), Arc::clone(&firsts));
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(count)) = lines.next() {
                    let count: usize = count[1..].parse().unwrap();
                    let words = (0..2 * count).map_while(|_| lines.next()?.ok()).skip(1);
                    let words: Vec<String> = words.step_by(2).collect();
                    let mut firsts = firsts.lock().unwrap();
                    let reply = match &words[..] {
                        [_, key, value] => {
                            firsts.entry(key.clone()).or_insert_with(|| value.clone());
                            "+OK\r\n".to_owned()
                        }
                        [_, key] => format!("${}\r\n{}\r\n", firsts[key].len(), firsts[key]),
                        other => panic!("{other:?}"),
                    };
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let text = |latest: bool| {
        let rest = format!(
            "[values]\nlatest = {latest}\n[load]\nclients = 3\n\
                            mix = {{ get = 1, put = 1 }}\n{SHORT}"
        );
        against(address, &rest)
    };
    let unseen = run_here(&text(false));
    assert_eq!(phase(&unseen, "run").metric(Metric::Failures, None), 0.0);
    let seen = run_here(&text(true));
    assert_eq!(kinds(phase(&seen, "run")), ["old value"]);
    let (_dir, read) = support::run_here(&format!("{}[teardown]\nread_back = true\n", text(true)));
    let why = read.unwrap_err().to_string();
    assert!(why.contains("read-back failed: ") && why.contains("old value"), "{why}");

    // An honest server is not blamed.
    let honest = redis(
        "[values]\nlatest = true\n[teardown]\nread_back = true\n[keys]\ncount = 20\n\
         [load]\nclients = 8\npipeline = 4\nmix = { get = 1, put = 1 }\n\
         [[phase]]\nname = \"one\"\nseconds = 0.5\n[[phase]]\nname = \"two\"\nseconds = 0.5\n",
    );
    let results = run_here(&format!("threads = 2\n{honest}"));
    for name in ["one", "two"] {
        assert_eq!(kinds(phase(&results, name)), [""; 0], "{name}");
    }
}

#[test]
fn transfers_keep_what_all_keys_hold_together() {
    let text = redis(
        "[values]\nnumber = 100\n[keys]\ncount = 6\n[teardown]\nread_back = true\n\
         [op.once]\ntransfer = \"one-shot\"\n[op.watch]\ntransfer = \"watch\"\n\
         [op.add]\ncommand = [\"INCRBY\", \"{other}\", \"{value}\"]\n\
         [load]\nclients = 8\n\
         [[phase]]\nname = \"both\"\nseconds = 1\nmix = { once = 1, watch = 1, get = 1 }\n",
    );
    let results = run_here(&text);
    let both = phase(&results, "both");
    assert_eq!(kinds(both), [""; 0]);
    assert!(both.data.entries.iter().all(|entry| entry.count > 10), "{:?}", both.data.entries);
    assert!(both.data.retries > 0, "six keys, and eight clients");
    // What is made up is found.
    let (_dir, made_up) = support::run_here(&text.replace("once = 1,", "once = 1, add = 1,"));
    let why = made_up.unwrap_err().to_string();
    assert!(why.contains("read-back failed: the keys hold "), "{why}");
    assert!(why.contains("together, and held 600"), "{why}");
}

#[test]
fn a_write_that_is_not_acknowledged_is_a_failure() {
    for other in ["$-1\r\n", "$5\r\nother\r\n"] {
        let text = format!(
            "[setup]\nfill = false\n[load]\nmix = {{ put = 1 }}\n[teardown]\ndelete = false\n\
             {SHORT}"
        );
        let results = run_here(&against(liar("$-1\r\n", other, Duration::ZERO), &text));
        let entry = &phase(&results, "run").data.entries[0];
        assert_eq!(entry.failures.keys().collect::<Vec<_>>(), ["not acknowledged"], "{other:?}");
        assert_eq!(entry.count, 0);
    }
}

#[test]
fn a_setup_ends_with_its_first_failure() {
    // It takes connections, and is gone: a million keys are not tried one after the other.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let streams: Vec<TcpStream> = (0..5).map(|_| listener.accept().unwrap().0).collect();
        drop(listener);
        thread::sleep(Duration::from_millis(100));
        drop(streams);
    });
    let text = "[keys]\ncount = 1_000_000\n[setup]\nclients = 4\n\
                [[phase]]\nname = \"run\"\nseconds = 1\n";
    let dir = Directory::new("setup-fails").unwrap();
    let begun = Instant::now();
    let (sender, ended) = std::sync::mpsc::channel();
    let text = against(address, text);
    thread::spawn(move || {
        let why = run_in(dir.path(), &text).unwrap_err().to_string();
        sender.send(why).unwrap();
    });
    let why = ended.recv_timeout(Duration::from_secs(30)).expect("it ends");
    assert!(why.contains("setup failed: ") && why.contains("nothing was measured"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_slow_target_is_charged_for_what_waits() {
    let address = liar("$-1\r\n", "+OK\r\n", Duration::from_millis(50));
    let text = "[setup]\nfill = false\n[[phase]]\nname = \"open\"\nseconds = 1\nrate = 100\n\
                arrivals = \"even\"\n[[phase]]\nname = \"closed\"\nseconds = 1\n";
    let results = run_here(&against(address, text));
    // Twenty requests a second are answered, one hundred are due: they wait longer and longer.
    let open = phase(&results, "open");
    assert!((1.0..=21.0).contains(&open.metric(Metric::Throughput, None)));
    assert!(open.metric(Metric::Max, None) > 500e6, "{}", open.metric(Metric::Max, None));
    let not_sent = open.data.entries[0].failures["not sent"];
    assert!(not_sent >= 60, "{not_sent}");
    assert_eq!(open.latencies(None).len() + not_sent, 100, "each that was due");
    let median = |name: &str| phase(&results, name).metric(Metric::P50, None);
    assert!(median("closed") < median("open") / 2.0, "a closed loop does not see it");
}

#[test]
fn a_target_that_never_answers_times_out() {
    let address = liar("$-1\r\n", "+OK\r\n", Duration::from_secs(60));
    let text = "request_timeout = \"200ms\"\n[setup]\nfill = false\n\
                [[phase]]\nname = \"run\"\nseconds = 1\nclients = 2\n";
    let begun = Instant::now();
    let results = run_here(&against(address, text));
    let failures = &phase(&results, "run").data.entries[0].failures;
    assert!(failures["timeout"] >= 2, "{failures:?}");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_cannot_be_run_says_why_before_anything_has_started() {
    let free = harness::ports::unused();
    let dir = Directory::new("cannot").unwrap();
    let why = run_in(dir.path(), &against(free, SHORT)).unwrap_err().to_string();
    assert_eq!(why, format!("cannot reach {free}: connection refused"));
    let none = "[target]\ndriver = \"resp\"\ncommand = [\"/no/such/program\"]\n".to_owned() + SHORT;
    let why = run_in(dir.path(), &none).unwrap_err().to_string();
    assert!(why.contains("cannot start /no/such/program"), "{why}");
    let ends =
        "[target]\ndriver = \"resp\"\ncommand = [\"sh\", \"-c\", \"echo no room; exit 3\"]\n";
    let why = run_in(dir.path(), &(ends.to_owned() + SHORT)).unwrap_err().to_string();
    assert!(why.contains("has ended by itself") && why.contains("no room"), "{why}");
    let unfit = "[target]\ndriver = \"memory\"\n[op.x]\ncommand = [\"X\"]\n[[phase]]\n\
                 name = \"a\"\nseconds = 1\nmix = { x = 1 }\n";
    let why = run_in(dir.path(), unfit).unwrap_err().to_string();
    assert!(why.contains("operation x: this driver has no commands"), "{why}");
    let crowd = format!("[load]\nclients = 100_000\n{SHORT}");
    let crowd = against(free, &crowd).replace("addresses", "request_timeout = \"1s\"\naddresses");
    let allowed = std::fs::read_to_string("/proc/self/limits").unwrap();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    if allowed.split_whitespace().next().unwrap().parse::<u64>().unwrap() <= 100_000 {
        let why = run_in(dir.path(), &crowd).unwrap_err().to_string();
        assert!(why.starts_with("phase `run`: 100000 clients need 100064 open files"), "{why}");
    }
    let address = liar("$-1\r\n", "-READONLY no\r\n", Duration::ZERO);
    let why = run_in(dir.path(), &against(address, SHORT)).unwrap_err().to_string();
    assert!(why.contains("setup failed: 10 × refused: READONLY no"), "{why}");
    let greeted = format!(
        "[target]\ndriver = \"resp\"\naddresses = [\"{address}\"]\n\
         greeting = [[\"AUTH\", \"x\"]]\n{SHORT}"
    );
    let why = run_in(dir.path(), &greeted).unwrap_err().to_string();
    assert!(why.contains("greeting refused: READONLY no"), "{why}");
}

#[test]
fn a_matrix_is_resumed_where_it_stopped() {
    let dir = Directory::new("resume").unwrap();
    let text = "repetitions = 2\n[target]\ndriver = \"memory\"\n[keys]\ncount = 100\n\
                [[phase]]\nname = \"run\"\nseconds = 0.1\n[matrix]\n\"load.clients\" = [1, 2]\n";
    let done = RefCell::new(Vec::new());
    let run = |stop_at: u64| {
        done.borrow_mut().clear();
        let observer: &mut dyn FnMut(Progress<'_>) = &mut |progress| {
            if let Progress::Run { number, is_done, .. } = progress {
                assert!(number != stop_at, "as if it were killed");
                done.borrow_mut().push(is_done);
            }
        };
        run::run(&plan(text), &options(dir.path()), &mut Local::default(), observer)
    };
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(3)));
    assert!(killed.is_err());
    let results = run(0).unwrap();
    assert_eq!(*done.borrow(), [true, true, false, false]);
    assert!(results.is_complete());
    let throughput = results.figures.iter().filter(|figure| figure.metric == "throughput");
    let counts: Vec<usize> = throughput.map(|figure| figure.median.count).collect();
    assert_eq!(counts, [2, 2], "two cells of two repetitions");
    let read = run::read_results(dir.path()).unwrap();
    assert_eq!((read.runs.len(), read.figures.len()), (4, results.figures.len()));

    let other = text.replace("0.1", "0.2");
    let why = run_in(dir.path(), &other).unwrap_err().to_string();
    assert!(why.contains("results of another scenario"), "{why}");
    assert_eq!(run::read_results(dir.path()).unwrap().runs.len(), 4, "nothing was lost");
    let replaces = Options { replaces: true, ..options(dir.path()) };
    let replaced = run::run(&plan(&other), &replaces, &mut Local::default(), &mut |_| {});
    assert_eq!(replaced.unwrap().runs.len(), 4);

    // A run that another build of this program made is not put beside those of this one.
    let file = dir.path().join("run-000-0.json");
    let ours = std::fs::read_to_string(&file).unwrap();
    let build = run::read_results(dir.path()).unwrap().origin.build;
    assert_eq!(build.len(), 16, "{build}");
    std::fs::write(&file, ours.replace(&build, "0123456789abcdef")).unwrap();
    let why = run_in(dir.path(), &other).unwrap_err().to_string();
    assert!(why.contains("holds results of another build"), "{why}");
    // What replaces them leaves nothing of them, even if it measures nothing itself.
    let free = harness::ports::unused();
    let gone = plan(&against(free, SHORT));
    let ended = run::run(&gone, &replaces, &mut Local::default(), &mut |_| {});
    assert!(ended.unwrap_err().to_string().contains("cannot reach"));
    assert!(run::read_results(dir.path()).is_err(), "no summary of what was there before");
    assert!(!dir.path().join("report.html").exists());
}

#[test]
fn two_runs_do_not_share_a_directory() {
    let dir = Directory::new("shared-out").unwrap();
    let text = "[target]\ndriver = \"memory\"\n[keys]\ncount = 10\n\
                [[phase]]\nname = \"run\"\nseconds = 0.2\n";
    let replaces = Options { replaces: true, ..options(dir.path()) };
    let mut second = None;
    let first = run::run(&plan(text), &options(dir.path()), &mut Local::default(), &mut |_| {
        second.get_or_insert_with(|| {
            run::run(&plan(text), &replaces, &mut Local::default(), &mut |_| {})
        });
    });
    let why = second.unwrap().unwrap_err().to_string();
    assert!(why.contains("another run writes here"), "{why}");
    assert!(first.unwrap().is_complete());
    assert!(run_in(dir.path(), text).is_ok(), "the lock has gone with the run");
}

#[test]
fn a_full_disk_keeps_what_was_measured_before() {
    let dir = Directory::new("full").unwrap();
    let Some(disk) = SmallDisk::mount(&dir.path().join("disk"), 1) else { return };
    let out = dir.path().join("disk/out");
    let text = "repetitions = 3\n[target]\ndriver = \"memory\"\n[keys]\ncount = 10\n\
                [[phase]]\nname = \"run\"\nseconds = 0.05\n";
    disk.fill();
    let begun = dir.path().join("begun");
    let begins = format!("[[node]]\nname = \"a\"\ncommand = [\"touch\", {begun:?}]\n");
    let nodes = text.replace("\"memory\"\n", &format!("\"resp\"\n{begins}"));
    let why = run_in(&out, &nodes).unwrap_err().to_string();
    assert!(why.contains("disk/out") && why.contains("No space left"), "{why}");
    assert!(!begun.exists(), "nothing has been started");
    disk.free();
    let ended = run::run(&plan(text), &options(&out), &mut Local::default(), &mut |progress| {
        if let Progress::Run { number: 2, .. } = progress {
            disk.fill();
        }
    });
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("disk/out") && why.contains("No space left"), "{why}");
    disk.free();
    let left: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("run-") || name.contains("partial"))
        .collect();
    assert_eq!(left, ["run-000-0.json"], "nothing is left half written");
    assert_eq!(run_in(&out, text).unwrap().runs.len(), 3, "it goes on from there");
}
