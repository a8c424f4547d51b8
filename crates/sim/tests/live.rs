//! Simulations that somebody watches: the same plan comes to the same digest, however it is driven,
//! and what is done to a cluster happens to it.

use command::ObservedVersion;
use node::event::EventKind;
use sim::live::action::{Action, AdminWord, Bytes, TimedAction, TxnOp, WatchedKey};
use sim::live::setup::{Kind, Plan, Setup, SetupChange};
use sim::live::{AttackCounts, KeyView, NodeState, Outcome, Phase, Simulation, scenarios};
use txn::coordinator::TxnOutcome;

/// A cluster has formed within so long.
const FORMED_MS: u64 = 15_000;

fn plan(nodes: usize) -> Plan {
    Plan { setup: Setup { nodes, seed: 7, ..Setup::default() }, ..Plan::default() }
}

fn node(number: usize) -> String {
    format!("n{number}")
}

/// A cluster that has formed.
fn formed(nodes: usize) -> Simulation {
    let mut sim = Simulation::new(plan(nodes), true).expect("a plan that can be");
    while sim.phase() == Phase::Forming && sim.now_ms() < FORMED_MS {
        sim.advance(50);
    }
    assert_eq!(sim.phase(), Phase::Running, "{:?}", sim.broken());
    sim
}

fn put(key: &str, value: &str) -> Action {
    let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
    Action::Put { key: bytes(key), value: bytes(value), keyspace: None, ttl_ms: None }
}

/// What comes of a request within a second.
fn answer(sim: &mut Simulation, action: Action) -> Outcome {
    let request = sim.act(action).expect("it can be done").expect("it is answered");
    for _ in 0..100 {
        sim.advance(10);
        if let Some(found) = sim.take_answered().into_iter().find(|one| one.request == request) {
            return found.outcome;
        }
    }
    panic!("no answer");
}

#[test]
fn watched_cluster_forms_serves_and_shows_what_it_holds() {
    let mut sim = formed(3);
    let started = sim.take_events();
    let has = |name: &str| started.iter().any(|(event, _)| event.what.event_type().name() == name);
    assert!(has("node-started") && has("leader-elected"));
    assert!(matches!(answer(&mut sim, put("a", "1")), Outcome::Applied(_)));
    let before = sim.wall_ms();
    sim.advance(50);
    assert!(matches!(answer(&mut sim, put("a", "2")), Outcome::Applied(_)));
    let value = |found: KeyView| match found {
        KeyView::Value(version) => String::from_utf8(version.value).expect("text"),
        other => panic!("{other:?}"),
    };
    assert_eq!(value(sim.key("0", b"a", None)), "2");
    let at = keyspace::Timestamp::from_millis(before);
    assert_eq!(value(sim.key("0", b"a", Some(at))), "1");
    assert_eq!(sim.key("0", b"never", None), KeyView::Nil);
    let keyspace = sim.keyspaces().remove(0);
    assert_eq!(sim.keys(&keyspace, b"a", None, 10), Some(vec![b"a".to_vec()]));
    let before = sim.counts().answered;
    sim.advance(3_000);
    assert!(sim.counts().answered > before + 10, "clients are served");
    let theirs = sim.act(put("{0}key-0", "x")).expect_err("it is judged");
    assert!(theirs.to_string().contains("clients"), "{theirs}");
}

/// What the tour shows of LH*: keys that were asked for before there was a keyspace come, and the
/// table grows bucket by bucket, and shrinks.
#[test]
fn linear_hash_table_grows_with_its_keys_and_shrinks_without_them() {
    let mut plan = plan(3);
    plan.setup.placement = sim::live::action::Layout::LinearHash;
    let mut sim = Simulation::new(plan, true).expect("a plan that can be");
    let fill =
        |prefix: &str, count| Action::Fill { count, prefix: Some(prefix.into()), keyspace: None };
    sim.act(fill("key-", 60)).expect("it waits for the keyspace");
    sim.advance(20_000);
    let shards = |sim: &Simulation| sim.shards().iter().filter(|one| one.keys > 0).count();
    assert_eq!(shards(&sim), 1);
    let keys: u64 = sim.shards().iter().map(|one| one.keys).sum();
    assert!(keys >= 60, "{keys}");
    for part in 0..2 {
        sim.act(fill(&format!("more-{part}-"), 1000)).expect("it can be done");
        sim.advance(20_000);
    }
    let many = shards(&sim);
    assert!(many > 4, "{many}");
    let clear = Action::Clear { prefix: Some("more-".into()), keyspace: None };
    sim.act(clear).expect("it can be done");
    sim.advance(60_000);
    let last = shards(&sim);
    assert!(last < many, "{many}, {last}");
    assert_eq!(sim.phase(), Phase::Running, "{:?}", sim.broken());
}

#[test]
fn crashed_leader_is_told_and_replaced() {
    let mut sim = formed(3);
    sim.take_events();
    sim.act(Action::Crash { node: "leader:a".into() }).expect("somebody leads it");
    let down = sim.nodes().iter().filter(|node| node.state == NodeState::Down).count();
    assert_eq!(down, 1);
    sim.advance(5_000);
    let events = sim.take_events();
    let texts: Vec<String> = events.iter().map(|(event, _)| event.to_string()).collect();
    let has = |name: &str| events.iter().any(|(event, _)| event.what.event_type().name() == name);
    assert!(has("member") && has("leader-elected"), "{texts:?}");
    assert!(matches!(answer(&mut sim, put("a", "1")), Outcome::Applied(_)));
    sim.act(Action::Heal).expect("it can be done");
    sim.advance(2_000);
    assert!(sim.nodes().iter().all(|node| node.state == NodeState::Up));
    sim.act(Action::Check).expect("it can be done");
    assert_eq!(sim.broken(), None);
    assert_eq!(sim.checked_ms(), Some(sim.now_ms()));
}

/// Messages are altered and handshakes forged: nodes refuse all of it, clients are served, and what
/// the judges know still holds.
#[test]
fn altered_messages_and_forged_handshakes_are_refused() {
    let mut sim = formed(3);
    assert_eq!(sim.attack(), Some(AttackCounts::default()));
    sim.act(Action::Tamper { one_in: 100 }).expect("it can be done");
    let before = sim.counts().answered;
    sim.advance(5_000);
    let attack = sim.attack().expect("it is a cluster");
    assert!(attack.altered > 20 && attack.forged > 40, "{attack:?}");
    assert_eq!((attack.altered_refused, attack.forged_refused), (attack.altered, attack.forged));
    assert!(sim.counts().answered > before + 10, "clients are served");
    let lost = |(event, _): &(node::event::Event, _)| {
        matches!(event.what, EventKind::Link { is_up: false, .. })
    };
    assert!(sim.take_events().iter().any(lost), "lost links are shown");
    sim.act(Action::Heal).expect("it can be done");
    let after = sim.attack().expect("it is a cluster");
    sim.advance(2_000);
    assert_eq!(sim.attack(), Some(AttackCounts { one_in: 0, ..after }), "nobody attacks any more");
    sim.act(Action::Check).expect("it can be done");
    assert_eq!(sim.broken(), None);
    let far = sim.act(Action::Tamper { one_in: u64::MAX }).expect_err("it is too rare");
    assert!(far.to_string().contains("one_in"), "{far}");
}

/// The judge of that is no ornament: nodes with a planted fault take what they must refuse.
#[test]
fn nodes_that_do_not_check_are_found_out() {
    for bug in ["unchecked-frame", "unproven-hello"] {
        let mut sim = formed(3);
        sim.act(Action::Plant { bug: bug.into(), on: true }).expect("it is there");
        sim.act(Action::Tamper { one_in: 50 }).expect("it can be done");
        sim.advance(10_000);
        let broken = sim.broken().unwrap_or_else(|| panic!("{bug} is found"));
        assert_eq!(broken.rule, "what is altered or forged is refused");
    }
}

#[test]
fn same_plan_comes_to_the_same_digest_however_it_is_driven() {
    let mut live = formed(3);
    for action in [
        put("a", "1"),
        Action::Fill { count: 50, prefix: None, keyspace: None },
        Action::Crash { node: node(1) },
        Action::Cut { from: node(2), to: node(3), both: false },
        Action::Skew { node: node(2), by_ms: -5_000 },
        Action::SlowDisk { node: node(3), sync_ms: 100 },
        Action::Tamper { one_in: 40 },
        Action::Heal,
        Action::Pause { node: node(2), for_ms: None },
        Action::Resume { node: node(2) },
        Action::PowerCut { node: node(3) },
        Action::AddNodes { count: 1 },
        Action::Clients { count: 9 },
        Action::Clear { prefix: None, keyspace: None },
    ] {
        // What looks, and answers that are taken, change nothing.
        let _seen = (live.nodes(), live.shards(), live.take_events());
        live.act(action.clone()).unwrap_or_else(|why| panic!("{action:?}: {why}"));
        live.advance(700);
    }
    let saved = live.plan();
    assert_eq!(saved.ends_ms, live.now_ms());
    for is_watched in [false, true] {
        let mut again = Simulation::new(saved.clone(), is_watched).expect("it was one");
        again.set_sampling(true);
        again.advance(saved.ends_ms);
        assert_eq!(again.refused(), []);
        assert_eq!(again.digest(), live.digest());
    }
    let other = Plan { setup: Setup { seed: 8, ..saved.setup.clone() }, ..saved };
    let mut other = Simulation::new(other, false).expect("it was one");
    other.advance(live.now_ms());
    assert_ne!(other.digest(), live.digest());
}

#[test]
fn transaction_is_done_only_if_what_it_watches_has_not_changed() {
    let mut sim = formed(3);
    let bytes = |text: &str| Bytes(text.as_bytes().to_vec());
    let put = |key: &str| TxnOp::Put { key: bytes(key), value: bytes("v") };
    let txn = |watched: Vec<WatchedKey>| Action::Txn {
        keyspace: None,
        watched,
        ranges: Vec::new(),
        // They are in several shards.
        ops: vec![put("a"), put("b"), put("c"), TxnOp::Get(bytes("a")), TxnOp::Delete(bytes("b"))],
    };
    sim.set_sampling(true);
    let seen = match sim.version("0", b"a").expect("it is led") {
        ObservedVersion::Absent(at) => at,
        other => panic!("{other:?}"),
    };
    let watched = WatchedKey { key: bytes("a"), version: seen.0.to_string(), absent: true };
    let done = answer(&mut sim, txn(vec![watched.clone()]));
    let Outcome::Txn(TxnOutcome::Done(replies)) = done else { panic!("{done:?}") };
    assert_eq!(replies.len(), 5);
    // It is answered when it is decided; its values are written a moment later.
    sim.advance(500);
    assert!(matches!(sim.key("0", b"c", None), KeyView::Value(_)));
    assert_eq!(sim.key("0", b"b", None), KeyView::Nil);
    let again = answer(&mut sim, txn(vec![watched]));
    assert!(matches!(again, Outcome::Txn(TxnOutcome::Changed(_))), "{again:?}");
    let events = sim.take_events();
    let is_phase = |name: &str| events.iter().any(|(one, _)| one.what.event_type().name() == name);
    assert!(is_phase("transaction") && is_phase("request"), "samples are shown");
}

/// Who looks at a recording has nothing else to know by that a replica has gone.
#[test]
fn replicas_that_leave_a_draining_node_are_told() {
    let mut sim = formed(4);
    let leaving = sim.nodes().into_iter().find(|node| node.replicas > 0).expect("one has some");
    let has = leaving.replicas;
    sim.take_events();
    let state = AdminWord::Draining;
    let drained = answer(&mut sim, Action::Admin { node: leaving.name.clone(), state });
    assert!(!matches!(drained, Outcome::NotDone(_)), "{drained:?}");
    let mut removed = std::collections::BTreeSet::new();
    for _ in 0..600 {
        sim.advance(100);
        for (event, _) in sim.take_events() {
            if let EventKind::ReplicasChanged { shard, removed: gone, .. } = &event.what {
                let here = gone.iter().filter(|(_, node)| *node == leaving.id);
                removed.extend(here.map(|(replica, _)| (*shard, *replica)));
            }
        }
        let is_empty = sim.nodes().iter().any(|one| one.id == leaving.id && one.replicas == 0);
        if is_empty {
            break;
        }
    }
    assert!(removed.len() as u64 >= has, "{} of {has} are told: {removed:?}", removed.len());
}

#[test]
fn planted_bug_is_found() {
    let plan = scenarios::plan("stale-lease", 1).expect("it is there");
    let ends_ms = plan.ends_ms;
    let mut sim = Simulation::new(plan, false).expect("it can be");
    sim.advance(ends_ms);
    let broken = sim.broken().expect("it is found");
    assert!(!broken.text.is_empty());
    assert_eq!(sim.phase(), Phase::Broken);
    assert!(sim.act(Action::Heal).is_err(), "nothing goes on");
}

#[test]
fn scenarios_play_without_a_refusal() {
    for scenario in scenarios::ALL.iter().filter(|one| one.name != "stale-lease") {
        // Large ones are played by who watches them.
        let plan = scenarios::plan(scenario.name, 3).expect("it is there");
        if plan.setup.nodes > 9 && plan.setup.kind == Kind::Cluster || plan.setup.nodes > 200 {
            continue;
        }
        let ends_ms = plan.ends_ms;
        let mut sim = Simulation::new(plan, false).expect("it can be");
        sim.advance(ends_ms);
        assert_eq!(sim.refused(), [], "{}", scenario.name);
        assert_eq!(sim.broken(), None, "{}", scenario.name);
    }
}

#[test]
fn ring_finds_owners_while_members_join_and_fail() {
    let setup = Setup { kind: Kind::Overlay, nodes: 40, ..Setup::default() };
    let plan = Plan { setup, ..Plan::default() };
    let mut sim = Simulation::new(plan, true).expect("it can be");
    let all = overlay::LookupChoice::parse_all(&[b"all"]).expect("all lookups");
    let routes = |sim: &Simulation| sim.look_up("0", b"key", Some("n7"), &all).expect("routes").1;
    let at_rest = routes(&sim);
    let owner = at_rest[0].owner.as_ref().expect("somebody owns it").shard();
    for trace in at_rest.iter().filter(|trace| trace.way.kind != overlay::Kind::Lh) {
        assert_eq!(trace.owner.as_ref().map(|one| one.shard()), Some(owner), "{trace:?}");
    }
    let hops = |kind| at_rest.iter().find(|one| one.way.kind == kind).map_or(0, |one| one.hops);
    assert!(hops(overlay::Kind::Linear) >= hops(overlay::Kind::Chord));
    assert_eq!(hops(overlay::Kind::Full), 0);
    sim.act(Action::AddNodes { count: 40 }).expect("they join");
    sim.act(Action::Crash { node: "any".into() }).expect("one fails");
    assert_eq!(sim.take_events().len(), 41);
    sim.act(Action::Heal).expect("it comes back");
    sim.advance(60_000);
    assert_eq!(sim.nodes().len(), 80);
    sim.act(Action::Check).expect("it can be done");
    assert_eq!(sim.broken(), None);
    let tables = sim.tables("n7").expect("it is alive");
    assert!(tables.tables.iter().all(|(_, entries)| !entries.is_empty()), "{tables:?}");
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let sim = |setup| Simulation::new(Plan { setup, ..Plan::default() }, false);
    let why = |setup: Setup| sim(setup).err().expect("it cannot be").to_string();
    assert!(why(Setup { nodes: 51, ..Setup::default() }).contains("1 to 50"));
    assert!(why(Setup { clients: 33, ..Setup::default() }).contains("at most 32"));
    assert!(why(Setup { plants: vec!["x".into()], ..Setup::default() }).contains("stale-lease"));
    let late = TimedAction { ms: 5, action: Action::Heal };
    let early = TimedAction { ms: 4, action: Action::Heal };
    let plan = Plan { actions: vec![late, early], ..Plan::default() };
    assert!(plan.check().expect_err("disorder").to_string().contains("action 2"));
    let change = SetupChange { scenario: Some(Some("flood".into())), ..SetupChange::default() };
    let why = Setup::default().changed(&change).expect_err("no such scenario").to_string();
    assert!(why.contains("leader-dies"), "{why}");
    let mut sim = formed(3);
    let mut refused = |action: Action| sim.act(action).expect_err("refused").to_string();
    assert_eq!(refused(Action::Restart { node: node(1) }), "n1 is up");
    assert_eq!(refused(Action::Crash { node: "n9".into() }), "there is no node \"n9\"");
    assert!(refused(Action::AddNodes { count: 48 }).contains("at most 50"));
    assert!(refused(Action::Plant { bug: "x".into(), on: true }).contains("no bug 'x'"));
}
