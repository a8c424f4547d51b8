//! Which task a script thread takes next.

use gateway::resp::Version;
use keyspace::KeyspaceId;
use node::replica::entry::Waiter;
use node::replica::read::ReadTime;

use super::shards::Attempt;
use super::*;

fn scripts() -> Scripts {
    Scripts::new(4, 1 << 20, Duration::from_secs(1), Duration::from_secs(5))
}

fn attempt(scripts: &Scripts) -> Attempt {
    Attempt::first(job(scripts))
}

fn job(scripts: &Scripts) -> Job {
    let caller = Caller {
        keyspace: KeyspaceId(1),
        version: Version::V2,
        client: 1,
        gone: Default::default(),
        tracks: false,
        mode: Default::default(),
        came: ReadTime::default(),
        reply_to: ReplyTo::Connection { event_loop: 0, waiter: Waiter(1) },
    };
    let script = scripts.cache.add(b"return 1").expect("it has no first line to be wrong");
    Job::without_arguments(Program::Load(script), caller)
}

fn name(task: Option<Task>) -> String {
    match task.expect("there is one") {
        Task::Queue(shard) => format!("queue {shard}"),
        Task::Other(_) => "script".into(),
        Task::Call(_) => "call".into(),
        Task::Sweep => "sweep".into(),
    }
}

#[test]
fn busy_queues_hold_up_no_other_task() {
    let scripts = scripts();
    (1..=20).for_each(|shard| scripts.schedule_queue(ShardId(shard), true));
    scripts.call(Box::new(|| {}));
    scripts.push_attempt(attempt(&scripts));
    let take = |thread, count| {
        let mut turn = 0;
        let tasks = std::iter::repeat_with(|| name(scripts.next(thread, &mut turn)));
        tasks.filter(|name| name != "sweep").take(count).collect::<Vec<_>>()
    };
    assert_eq!(take(0, 3), ["queue 1", "queue 2", "queue 3"], "it has queues only");
    assert_eq!(take(2, 4), ["queue 4", "call", "script", "queue 5"]);
    scripts.push_attempt(attempt(&scripts));
    assert_eq!(take(1, 3), ["queue 6", "script", "queue 7"]);
    scripts.call(Box::new(|| {}));
    assert_eq!(take(1, 2), ["queue 8", "call"], "scripts that loop may have all others");
}

/// Maintenance may stand still for a whole checkpoint.
#[test]
fn first_thread_looks_who_has_waited_for_too_long_however_busy_it_is() {
    let scripts = scripts();
    let (began, mut turn) = (Instant::now(), 0);
    let mut next = || name(scripts.next(0, &mut turn));
    assert_eq!((next(), next()), ("sweep".into(), "sweep".into()), "it waits for nothing else");
    assert!(began.elapsed() >= SWEEP_PERIOD);
    std::thread::sleep(SWEEP_PERIOD);
    scripts.schedule_queue(ShardId(1), true);
    assert_eq!(next(), "sweep");
    assert!((0..9).any(|_| next() == "queue 1"));
}

#[test]
fn script_that_waits_for_new_routes_runs_after_a_pause() {
    let scripts = scripts();
    let began = Instant::now();
    scripts.push_after_pause(attempt(&scripts));
    assert_eq!(name(scripts.next(2, &mut 0)), "script");
    assert!(began.elapsed() >= REROUTE_PAUSE);
}

/// A thread has taken it just before.
#[test]
fn script_that_begins_while_the_node_stops_is_stopped() {
    let scripts = scripts();
    let killed = || {
        let killed = scripts.running[1].begin(&job(&scripts), None);
        killed.load(std::sync::atomic::Ordering::Acquire)
    };
    assert!(!killed());
    scripts.stop();
    assert!(killed());
}
