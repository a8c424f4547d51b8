//! From checked TOML to a [`Scenario`]: which keys there are, their bounds and defaults.

use std::time::Duration;

use super::node::{network, nodes};
use super::reader::{Read, Section, parse_time};
use super::target::target;
use super::timeline::timeline;
use super::{
    Action, Criterion, Driver, Entry, Keys, Metric, MetricsSpec, Phase, Scenario, Setup,
    TransferMethod,
};
use crate::driver::nbd::BLOCK_BYTES_MAX;
use crate::load::keys::KeyChoice;
use crate::load::schedule::Rate;
use crate::load::values::{NUMBER_MAX, Sizes, VALUE_BYTES_MAX};

/// The most connections of a phase.
pub const CLIENTS_MAX: u64 = 100_000;
/// The most requests under way on a connection.
pub const PIPELINE_MAX: u64 = 10_000;
/// The most requests per second of an open loop.
const RATE_MAX: f64 = 100_000_000.0;
/// The longest phase.
const PHASE_MAX: Duration = Duration::from_secs(7 * 86_400);
/// The most phases.
const PHASES_MAX: usize = 100;
/// The most entries of a mix.
const ENTRIES_MAX: usize = 64;
/// The most keys that are filled before the first phase.
const KEYS_MAX: u64 = 10_000_000_000;

/// Reads a cell: the whole file, but for what belongs to the plan.
pub fn scenario(root: &Section<'_, '_>) -> Read<Scenario> {
    let Some(section) = root.section("target")? else {
        return Err(root.error("needs a [target]"));
    };
    let mut target = target(&section, nodes(root)?)?;
    section.finish()?;
    let network = network(root, &target.nodes)?;
    let metrics = metrics(root)?;
    let keys = keys(root)?;
    let (sizes, verifies, verifies_latest) = sizes(root)?;
    if let Driver::Nbd { block_bytes, .. } = &mut target.driver {
        *block_bytes = match sizes {
            Sizes::Fixed(bytes @ 1..=BLOCK_BYTES_MAX) => bytes,
            _ => {
                let why = "the driver `nbd` reads blocks of one size: bytes = 4096, at most 32 MiB";
                return Err(root.error_at("values", why.to_owned()));
            }
        };
    }
    let setup = setup(root)?;
    let (deletes_keys, reads_back) = teardown(root, &setup)?;
    let phases = phases(root, &setup)?;
    if let Some(why) = phases.iter().find_map(|phase| unfit(phase, &keys, &sizes)) {
        return Err(root.error_at("phase", why));
    }
    let others = |entry: &&Entry| matches!(entry.action, Action::Delete | Action::Command(_));
    let mut entries = phases.iter().flat_map(|phase| &phase.mix);
    if verifies_latest && let Some(other) = entries.find(others) {
        let problem = format!("values.latest knows of puts, and not of what `{}` does", other.name);
        return Err(root.error_at("phase", problem));
    }
    if phases.iter().any(|phase| phase.rate.is_some())
        && let Some(sleeping) = phases.iter().find(|phase| phase.rate.is_some() && sleeps(phase))
    {
        let problem = format!("phase `{}` has a rate, so its mix cannot sleep", sleeping.name);
        return Err(root.error_at("phase", problem));
    }
    let timeline = timeline(root, &phases, &target.nodes, network)?;
    let criteria = criteria(root, &phases)?;
    let threads = root.number("threads", 1..=256)?;
    Ok(Scenario {
        target,
        keys,
        sizes,
        verifies,
        verifies_latest,
        setup,
        reads_back,
        deletes_keys,
        phases,
        network,
        timeline,
        metrics,
        criteria,
        seed: root.number("seed", 0..=u64::MAX)?.unwrap_or(1),
        threads: threads.unwrap_or(1) as usize,
    })
}

/// What is done at the end: whether keys are deleted, and whether each is read before.
fn teardown(root: &Section<'_, '_>, setup: &Setup) -> Read<(bool, bool)> {
    let Some(section) = root.section("teardown")? else { return Ok((false, false)) };
    let deletes = section.flag("delete")?.unwrap_or(false);
    let reads = section.flag("read_back")?.unwrap_or(false);
    if reads && !setup.fills {
        return Err(section.error_at("read_back", "needs keys that setup has written: setup.fill"));
    }
    section.finish()?;
    Ok((deletes, reads))
}

/// Why a phase cannot make transfers, or name two keys, though its mix does.
fn unfit(phase: &Phase, keys: &Keys, sizes: &Sizes) -> Option<String> {
    let name = &phase.name;
    let transfers = phase.mix.iter().any(|entry| matches!(entry.action, Action::Transfer(_)));
    if phase.mix.iter().any(|entry| entry.action.has_other()) && keys.count < 2 {
        return Some(format!("phase `{name}` names two keys at once: keys.count is 1"));
    }
    if transfers && !matches!(sizes, Sizes::Number(_)) {
        return Some(format!("phase `{name}` has transfers: they need values.number = 1_000"));
    }
    if transfers && phase.pipeline > 1 {
        return Some(format!("phase `{name}` has transfers: they need pipeline = 1"));
    }
    None
}

fn sleeps(phase: &Phase) -> bool {
    phase.mix.iter().any(|entry| matches!(entry.action, Action::Sleep(_)))
}

fn keys(root: &Section<'_, '_>) -> Read<Keys> {
    let default = Keys { count: 10_000, prefix: "key:".to_owned(), choice: KeyChoice::Uniform };
    let Some(section) = root.section("keys")? else { return Ok(default) };
    let names = ["uniform", "zipf", "latest", "sequential", "hot"];
    let names: Vec<(&str, &str)> = names.into_iter().map(|name| (name, name)).collect();
    let distribution = section.word("distribution", &names)?.unwrap_or("uniform");
    let exponent = section.float("exponent", 0.01..=10.0)?;
    let hot_keys = section.float("hot_keys", 0.0..=1.0)?;
    let hot_requests = section.float("hot_requests", 0.0..=1.0)?;
    let refuse = |key: &str, of: &str| match section.has(key) {
        true => Err(section.error_at(key, format!("only distribution = {of} has this key"))),
        false => Ok(()),
    };
    if !matches!(distribution, "zipf" | "latest") {
        refuse("exponent", "\"zipf\" or \"latest\"")?;
    }
    if distribution != "hot" {
        refuse("hot_keys", "\"hot\"")?;
        refuse("hot_requests", "\"hot\"")?;
    }
    let exponent = exponent.unwrap_or(0.99);
    let choice = match distribution {
        "zipf" => KeyChoice::Zipf { exponent },
        "latest" => KeyChoice::Latest { exponent },
        "sequential" => KeyChoice::Sequential,
        "hot" => {
            KeyChoice::Hot { keys: hot_keys.unwrap_or(0.01), requests: hot_requests.unwrap_or(0.9) }
        }
        _ => KeyChoice::Uniform,
    };
    let count = section.number("count", 1..=KEYS_MAX)?.unwrap_or(default.count);
    let prefix = section.text("prefix")?.unwrap_or(default.prefix);
    if prefix.len() > 200 || prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        let expected = "expected at most 200 bytes without spaces";
        return Err(section.error_at("prefix", expected));
    }
    section.finish()?;
    Ok(Keys { count, prefix, choice })
}

fn sizes(root: &Section<'_, '_>) -> Read<(Sizes, bool, bool)> {
    let Some(section) = root.section("values")? else {
        return Ok((Sizes::Fixed(100), true, false));
    };
    let verifies = section.flag("verify")?.unwrap_or(true);
    let number = |key| section.number(key, 0..=VALUE_BYTES_MAX);
    let (fixed, from, to) = (number("bytes")?, number("from")?, number("to")?);
    let (mean, max) = (number("mean")?, number("max")?);
    let weighted = section.section("weights")?;
    let numbered = section.number("number", 0..=NUMBER_MAX)?;
    let others = ["bytes", "from", "to", "mean", "max", "weights"];
    if numbered.is_some() && others.iter().any(|key| section.has(key)) {
        return Err(section.error_at("number", "a number has the length that it has: no other key"));
    }
    let sizes = match (fixed, from, to, mean, max, weighted) {
        _ if numbered.is_some() => Sizes::Number(numbered.unwrap_or_default()),
        (None, None, None, None, None, None) => Sizes::Fixed(100),
        (Some(bytes), None, None, None, None, None) => Sizes::Fixed(bytes),
        (None, Some(from), Some(to), None, None, None) if from <= to => Sizes::Between(from, to),
        (None, None, None, Some(mean), Some(max), None) if (1..=max).contains(&mean) => {
            Sizes::Exponential { mean, max }
        }
        (None, None, None, None, None, Some(weights)) => {
            let mut choices = Vec::new();
            for name in weights.names() {
                let bytes = name.parse().ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
                let Some(bytes) = bytes else {
                    return Err(weights.error_at(name, "expected bytes as the key: \"100\" = 9"));
                };
                let weight = weights.number(name, 1..=1_000_000)?.unwrap_or(1);
                choices.push((bytes, weight));
            }
            weights.finish()?;
            if choices.is_empty() {
                return Err(section.error("`weights` needs at least one length"));
            }
            Sizes::Weighted(choices)
        }
        _ => {
            let forms = "bytes = 100, or from = 10 and to = 200, or mean = 100 and max = 1000, \
                         or weights = { \"100\" = 9, \"1000\" = 1 }, or number = 1000";
            return Err(section.error(format!("expected {forms}")));
        }
    };
    let latest = section.flag("latest")?.unwrap_or(false);
    if latest && !(verifies && sizes.name_writes()) {
        let needs = "needs values that are verified and name their writes: 16 bytes and more";
        return Err(section.error_at("latest", needs));
    }
    section.finish()?;
    Ok((sizes, verifies, latest))
}

/// What is read of `/metrics`; by default messages between nodes of Carillon.
fn metrics(root: &Section<'_, '_>) -> Read<MetricsSpec> {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    let mut spec = MetricsSpec {
        family: "carillon_messages_total".to_owned(),
        by: words(&["class", "type"]),
        only: vec![("direction".to_owned(), "sent".to_owned())],
    };
    let Some(section) = root.section("metrics")? else { return Ok(spec) };
    if let Some(family) = section.text("family")? {
        (spec.family, spec.by, spec.only) = (family, Vec::new(), Vec::new());
    }
    spec.by = section.texts("by")?.unwrap_or(spec.by);
    if let Some(only) = section.section("only")? {
        let pair = |name: &&str| Ok(((*name).to_owned(), only.text(name)?.unwrap_or_default()));
        spec.only = only.names().iter().map(pair).collect::<Read<_>>()?;
        only.finish()?;
    }
    section.finish()?;
    Ok(spec)
}

fn setup(root: &Section<'_, '_>) -> Read<Setup> {
    let default = Setup { fills: true, clients: 10, pipeline: 16 };
    let Some(section) = root.section("setup")? else { return Ok(default) };
    let setup = Setup {
        fills: section.flag("fill")?.unwrap_or(default.fills),
        clients: section.number("clients", 1..=CLIENTS_MAX)?.unwrap_or(default.clients),
        pipeline: section.number("pipeline", 1..=PIPELINE_MAX)?.unwrap_or(default.pipeline),
    };
    section.finish()?;
    Ok(setup)
}

/// What phases have unless they say otherwise.
struct Shared {
    clients: u64,
    pipeline: u64,
    mix: Vec<Entry>,
}

fn phases(root: &Section<'_, '_>, setup: &Setup) -> Read<Vec<Phase>> {
    let actions = actions(root)?;
    let get = Entry { name: "get".to_owned(), weight: 1, action: Action::Get };
    let mut shared = Shared { clients: 1, pipeline: 1, mix: vec![get] };
    if let Some(section) = root.section("load")? {
        shared.clients = section.number("clients", 1..=CLIENTS_MAX)?.unwrap_or(shared.clients);
        shared.pipeline = section.number("pipeline", 1..=PIPELINE_MAX)?.unwrap_or(shared.pipeline);
        shared.mix = mix(&section, &actions)?.unwrap_or(shared.mix);
        section.finish()?;
    }
    let sections = root.sections("phase")?;
    if sections.is_empty() || sections.len() > PHASES_MAX {
        return Err(root.error(format!("needs 1 to {PHASES_MAX} [[phase]]s")));
    }
    let mut phases: Vec<Phase> = Vec::new();
    for section in sections {
        let phase = phase(&section, &actions, &shared, setup)?;
        if phases.iter().any(|other| other.name == phase.name) {
            return Err(section.error_at("name", "another phase has this name"));
        }
        section.finish()?;
        phases.push(phase);
    }
    if !phases.iter().any(|phase| phase.is_measured) {
        return Err(root.error_at("phase", "no phase is measured"));
    }
    Ok(phases)
}

fn phase(
    section: &Section<'_, '_>,
    actions: &[(String, Action)],
    shared: &Shared,
    setup: &Setup,
) -> Read<Phase> {
    let Some(name) = section.text("name")? else { return Err(section.error("needs a name")) };
    if name.is_empty() || name.len() > 60 || name == "setup" || name == "teardown" {
        let problem = "expected 1 to 60 letters, and neither `setup` nor `teardown`";
        return Err(section.error_at("name", problem));
    }
    let seconds = section.float("seconds", 0.01..=PHASE_MAX.as_secs_f64())?;
    let Some(seconds) = seconds else { return Err(section.error("needs seconds")) };
    let rate = section.float("rate", 0.0..=RATE_MAX)?;
    let to = section.float("rate_to", 0.0..=RATE_MAX)?;
    let arrivals = section.word("arrivals", &[("even", false), ("random", true)])?;
    let rate = match (rate, to) {
        (None, None) if arrivals.is_some() => {
            return Err(section.error_at("arrivals", "only a phase with a rate has this key"));
        }
        (None, None) => None,
        (None, Some(_)) => return Err(section.error_at("rate_to", "needs `rate`, too")),
        (Some(from), to) => {
            let to = to.unwrap_or(from);
            if from + to == 0.0 {
                return Err(section.error_at("rate", "expected more than 0"));
            }
            Some(Rate { from, to, is_random: arrivals.unwrap_or(true) })
        }
    };
    let mix = mix(section, actions)?.unwrap_or_else(|| shared.mix.clone());
    let removes = |entry: &Entry| {
        matches!(entry.action, Action::Delete | Action::Insert | Action::Command(_))
    };
    let requires = section.flag("require_values")?;
    Ok(Phase {
        name,
        length: Duration::from_secs_f64(seconds),
        is_measured: section.flag("measured")?.unwrap_or(true),
        clients: section.number("clients", 1..=CLIENTS_MAX)?.unwrap_or(shared.clients),
        pipeline: section.number("pipeline", 1..=PIPELINE_MAX)?.unwrap_or(shared.pipeline),
        rate,
        requires_values: requires.unwrap_or(setup.fills && !mix.iter().any(removes)),
        mix,
    })
}

/// The actions that `[op.NAME]` defines, and those that are always there.
fn actions(root: &Section<'_, '_>) -> Read<Vec<(String, Action)>> {
    let builtin = [
        ("get", Action::Get),
        ("put", Action::Put),
        ("insert", Action::Insert),
        ("delete", Action::Delete),
    ];
    let mut actions: Vec<(String, Action)> =
        builtin.into_iter().map(|(name, action)| (name.to_owned(), action)).collect();
    let Some(section) = root.section("op")? else { return Ok(actions) };
    for name in section.names() {
        let Some(op) = section.section(name)? else { continue };
        if actions.iter().any(|(known, _)| known == name) {
            return Err(op.error("this name has its meaning already"));
        }
        let times = Duration::from_micros(1)..=Duration::from_secs(3_600);
        let transfer = op.word("transfer", &TransferMethod::ALL)?;
        let action = match (op.texts("command")?, op.time("sleep", times)?, transfer) {
            (Some(words), None, None) if !words.is_empty() => Action::Command(words),
            (None, Some(time), None) => Action::Sleep(time),
            (None, None, Some(method)) => Action::Transfer(method),
            _ => {
                let forms = "command = [\"INCR\", \"{key}\"], or sleep = \"5ms\", \
                             or transfer = \"one-shot\"";
                return Err(op.error(format!("expected {forms}")));
            }
        };
        op.finish()?;
        actions.push((name.to_owned(), action));
    }
    section.finish()?;
    Ok(actions)
}

fn mix(section: &Section<'_, '_>, actions: &[(String, Action)]) -> Read<Option<Vec<Entry>>> {
    let Some(mix) = section.section("mix")? else { return Ok(None) };
    let mut entries = Vec::new();
    for name in mix.names() {
        let Some((_, action)) = actions.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = actions.iter().map(|(name, _)| name.as_str()).collect();
            let known = known.join(", ");
            let problem = format!("unknown operation; there are {known}, and those of [op.NAME]");
            return Err(mix.error_at(name, problem));
        };
        let weight = mix.number(name, 0..=1_000_000)?.unwrap_or(0);
        if weight > 0 {
            let (name, action) = (name.to_owned(), action.clone());
            entries.push(Entry { name, weight, action });
        }
    }
    if entries.iter().all(|entry| matches!(entry.action, Action::Sleep(_))) {
        return Err(mix.error("needs an operation with a weight above 0"));
    }
    if entries.len() > ENTRIES_MAX {
        return Err(mix.error(format!("at most {ENTRIES_MAX} operations")));
    }
    mix.finish()?;
    Ok(Some(entries))
}

fn criteria(root: &Section<'_, '_>, phases: &[Phase]) -> Read<Vec<Criterion>> {
    let mut criteria = Vec::new();
    for section in root.sections("pass")? {
        let Some(metric) = section.word("metric", &Metric::ALL)? else {
            return Err(section.error("needs a metric"));
        };
        let phase = section.text("phase")?;
        let entry = section.text("op")?;
        let named = |phase: &Phase| entry.as_ref().is_none_or(|name| has(phase, name));
        match &phase {
            Some(name) => {
                let found = phases.iter().find(|phase| phase.name == *name && phase.is_measured);
                let Some(found) = found else {
                    return Err(section.error_at("phase", "no measured phase has this name"));
                };
                if !named(found) {
                    return Err(section.error_at("op", "not in the mix of that phase"));
                }
            }
            None if !phases.iter().filter(|phase| phase.is_measured).any(named) => {
                return Err(section.error_at("op", "in no mix of a measured phase"));
            }
            None => {}
        }
        let (bound, is_upper) = match (section.has("at_most"), section.has("at_least")) {
            (true, false) => (bound(&section, "at_most", metric)?, true),
            (false, true) => (bound(&section, "at_least", metric)?, false),
            _ => return Err(section.error("needs either at_most or at_least")),
        };
        section.finish()?;
        criteria.push(Criterion { phase, entry, metric, bound, is_upper });
    }
    Ok(criteria)
}

fn has(phase: &Phase, name: &str) -> bool {
    phase.mix.iter().any(|entry| entry.name == name)
}

fn bound(section: &Section<'_, '_>, key: &str, metric: Metric) -> Read<f64> {
    if !metric.is_time() {
        return Ok(section.float(key, 0.0..=1e12)?.unwrap_or(0.0));
    }
    let time = section.text(key).ok().flatten().and_then(|text| parse_time(&text));
    let expected = "expected a time, as \"250ms\" or \"5s\"";
    time.map(|time| time.as_nanos() as f64).ok_or_else(|| section.error_at(key, expected))
}
