//! `/v1/sim`: the controls of a simulation over HTTP. `docs/sim.md` is the contract.

use api::http::extension::{
    Extension, ExtensionDone, ExtensionRefusal, ExtensionReply, ExtensionRequest,
};
use overlay::LookupChoice;
use serde_json::{Value, json};
use sim::cluster::Plant;
use sim::live::action::{Action, TimedAction};
use sim::live::setup::{
    ACTIONS_MAX, CLIENTS_MAX, FILL_MAX, Kind, MEMBERS_MAX, NODES_MAX, SetupChange, TIME_MS_MAX,
};
use sim::live::{Simulation, scenarios};

use super::driver::{Driver, Handle, SPEEDS};
use super::recording::Recording;
use super::{file, keys, views};

/// Where it is.
pub const ROOT: &str = "/v1/sim";
/// Virtual time that one step may let pass.
const STEP_MS_MAX: u64 = 60_000;

/// The endpoints.
pub struct Control {
    /// The thread that drives the simulation.
    pub handle: Handle,
    /// What the page shows instead of it.
    pub recording: Option<Recording>,
}

type Answer = Result<Value, ExtensionRefusal>;

fn bad_request(why: impl Into<String>) -> ExtensionRefusal {
    ExtensionRefusal {
        status: 400,
        slug: "bad-request",
        title: "Bad request",
        why: why.into(),
        remedy: "Correct the request; sending it again as it is will not help.",
    }
}

fn refused(why: impl Into<String>) -> ExtensionRefusal {
    let why = why.into();
    let (status, slug, title) =
        match why.starts_with("there is no node") || why.starts_with("there is no member") {
            true => (404, "no-simulated-node", "No such node"),
            false => (409, "sim-refused", "Not possible now"),
        };
    let remedy = "Look at the simulation's state: GET /v1/sim.";
    ExtensionRefusal { status, slug, title, why, remedy }
}

fn unknown_path(method: &str, path: &str) -> ExtensionRefusal {
    ExtensionRefusal {
        status: 404,
        slug: "unknown-path",
        title: "Unknown path",
        why: format!("there is no {method} of {ROOT}/{path}"),
        remedy: "There are GET and PATCH of /v1/sim, POST of /v1/sim/step, reset, act and check, \
                 GET of /v1/sim/names, /v1/sim/lookup/{keyspace}/{key} and \
                 /v1/sim/members/{member}, GET and PUT of /v1/sim/file.",
    }
}

impl Extension for Control {
    fn root(&self) -> &'static str {
        ROOT
    }

    fn answer(&self, asked: ExtensionRequest, done: ExtensionDone) {
        let ExtensionRequest { method, path, query, body } = asked;
        let json = |value: Value| ExtensionReply { json: bytes(&value), file_name: None };
        if let (Some(recording), "GET", "recording") = (&self.recording, &*method, &*path) {
            let file_name = None;
            return done(Ok(ExtensionReply { json: recording.bytes.to_vec(), file_name }));
        }
        let recording = self.recording.as_ref().map(|recording| recording.name.clone());
        let job = move |driver: &mut Driver| match (method.as_str(), path.as_str()) {
            ("POST", "step") => match millis(&body) {
                Ok(millis) => driver.step(millis, move |driver| done(Ok(json(state(driver))))),
                Err(why) => done(Err(why)),
            },
            ("GET", "file") => {
                let plan = driver.sim.plan();
                let name = plan.setup.scenario.as_deref().unwrap_or(plan.setup.kind.name());
                let file_name = Some(format!("{name}-{}.json", plan.setup.seed));
                let json = file::write(&plan).into_bytes();
                done(Ok(ExtensionReply { json, file_name }));
            }
            ("GET", "") => {
                let state = serve(driver, &method, &path, &query, &body);
                let with_recording = |mut state: Value| {
                    state["recording"] = recording.into();
                    state
                };
                done(state.map(with_recording).map(json));
            }
            _ => done(serve(driver, &method, &path, &query, &body).map(json)),
        };
        self.handle.have_done(Box::new(job));
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

fn serve(driver: &mut Driver, method: &str, path: &str, query: &str, body: &[u8]) -> Answer {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    if first != "lookup" && !query.is_empty() {
        return Err(bad_request("there are no parameters here"));
    }
    match (method, first, rest) {
        ("GET", "", "") => Ok(state(driver)),
        ("PATCH", "", "") => {
            let (running, speed) = pace(body)?;
            driver.set_pace(running, speed);
            Ok(state(driver))
        }
        ("POST", "reset", "") => {
            let change: SetupChange =
                serde_json::from_slice(body).map_err(|why| bad_request(why.to_string()))?;
            let plan = driver.sim.setup().changed(&change);
            let plan = plan.map_err(|why| bad_request(why.to_string()))?;
            driver.begin_anew(plan).map_err(|why| bad_request(why.to_string()))?;
            Ok(state(driver))
        }
        ("PUT", "file", "") => {
            let plan = file::read(body).map_err(bad_request)?;
            driver.begin_anew(plan).map_err(|why| bad_request(why.to_string()))?;
            driver.set_pace(Some(false), None);
            Ok(state(driver))
        }
        ("POST", "act", "") => {
            let value: Value = serde_json::from_slice(body)
                .map_err(|why| bad_request(format!("no JSON: {why}")))?;
            let action = file::action(value).map_err(bad_request)?;
            act(driver, action)
        }
        ("POST", "check", "") => {
            act(driver, Action::Check)?;
            Ok(state(driver))
        }
        ("GET", "names", "") => Ok(names()),
        ("GET", "lookup", place) => lookup(&driver.sim, place, query),
        ("GET", "members", member) => member_view(&driver.sim, member),
        _ => Err(unknown_path(method, path)),
    }
}

fn act(driver: &mut Driver, action: Action) -> Answer {
    let ms = driver.sim.now_ms();
    driver.sim.act(action.clone()).map_err(|why| refused(why.to_string()))?;
    driver.publish();
    Ok(file::shown(&TimedAction { ms, action }))
}

/// The members of an object, if there are no others than these.
fn members(
    body: &[u8],
    known: &[&str],
) -> Result<serde_json::Map<String, Value>, ExtensionRefusal> {
    let value: Value =
        serde_json::from_slice(body).map_err(|why| bad_request(format!("no JSON: {why}")))?;
    let Value::Object(members) = value else {
        return Err(bad_request("the body is no object of JSON"));
    };
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(bad_request(format!("unknown field {name:?}: there are {}", known.join(", "))))
        }
        None => Ok(members),
    }
}

fn millis(body: &[u8]) -> Result<u64, ExtensionRefusal> {
    let ms = members(body, &["ms"])?.remove("ms");
    let ms = ms.as_ref().and_then(Value::as_u64).filter(|ms| (1..=STEP_MS_MAX).contains(ms));
    ms.ok_or_else(|| bad_request(format!("ms has to be a whole number from 1 to {STEP_MS_MAX}")))
}

fn pace(body: &[u8]) -> Result<(Option<bool>, Option<f64>), ExtensionRefusal> {
    let members = members(body, &["running", "speed"])?;
    let running = match members.get("running") {
        None => None,
        Some(Value::Bool(running)) => Some(*running),
        Some(_) => return Err(bad_request("running has to be true or false")),
    };
    let (min, max) = SPEEDS;
    let speed = match members.get("speed") {
        None => None,
        Some(speed) => {
            let speed = speed.as_f64().filter(|speed| (min..=max).contains(speed));
            let why = || bad_request(format!("speed has to be a number from {min} to {max}"));
            Some(speed.ok_or_else(why)?)
        }
    };
    if running.is_none() && speed.is_none() {
        return Err(bad_request("the body names neither running nor speed"));
    }
    Ok((running, speed))
}

/// `GET /v1/sim`.
pub fn state(driver: &Driver) -> Value {
    let sim = &driver.sim;
    let (setup, counts) = (sim.setup(), sim.counts());
    let (done, to_come, next) = sim.actions();
    let nodes: Vec<Value> = sim
        .nodes()
        .iter()
        .map(|node| match setup.kind {
            Kind::Cluster => json!({
                "name": node.name, "id": views::id(node.id), "state": node.state.name(),
                "domain": node.domain, "skew_ms": node.skew_ms,
                "slow_disk_ms": node.slow_disk_ms, "cut_to": node.cut_to,
            }),
            Kind::Overlay => json!({
                "name": node.name, "id": views::id(node.id), "state": node.state.name(),
            }),
        })
        .collect();
    let broken = sim.broken();
    let broken = broken.map(|one| json!({"rule": one.rule, "text": one.text, "at_ms": one.at_ms}));
    json!({
        "version": 1,
        "kind": setup.kind.name(),
        "seed": setup.seed,
        "now_ms": sim.now_ms(),
        "wall_ms": sim.wall_ms(),
        "running": driver.is_running,
        "speed": driver.speed,
        "behind": driver.is_behind,
        "phase": sim.phase().name(),
        "scenario": setup.scenario,
        "placement": setup.placement,
        "domains": setup.domains,
        "transactions": setup.transactions,
        "tampering": sim.attack().map(|attack| json!({
            "one_in": attack.one_in,
            "altered": attack.altered, "altered_refused": attack.altered_refused,
            "forged": attack.forged, "forged_refused": attack.forged_refused,
        })),
        "network": sim.network().map(|(sent, delay_ms_max)| json!({
            "sent": sent, "delay_ms_max": delay_ms_max,
        })),
        "clients": counts.clients,
        "answered": counts.answered,
        "refused": counts.refused,
        "unknown": counts.unknown,
        "plants": sim.plant().into_iter().collect::<Vec<_>>(),
        "broken": broken,
        "checked_ms": sim.checked_ms(),
        "nodes": nodes,
        "actions": done,
        "to_come": to_come,
        "next_action": next.map(file::shown),
        "digest": format!("{:016x}", sim.digest()),
    })
}

fn names() -> Value {
    let scenarios = scenarios::ALL
        .iter()
        .map(|one| json!({"name": one.name, "kind": one.kind.name(), "about": one.about}));
    let plants =
        Plant::ALL.iter().map(|plant| json!({"name": plant.name(), "about": plant.description()}));
    json!({
        "scenarios": scenarios.collect::<Vec<_>>(),
        "plants": plants.collect::<Vec<_>>(),
        "lookups": overlay::Kind::ALL.map(overlay::Kind::name),
        "actions": {"cluster": Action::OF_CLUSTERS, "overlay": Action::OF_RINGS},
        "limits": {
            "nodes_max": NODES_MAX, "members_max": MEMBERS_MAX, "clients_max": CLIENTS_MAX,
            "speed_min": SPEEDS.0, "speed_max": SPEEDS.1, "step_ms_max": STEP_MS_MAX,
            "fill_max": FILL_MAX, "actions_max": ACTIONS_MAX, "time_ms_max": TIME_MS_MAX,
            "file_bytes_max": file::BYTES_MAX,
        },
    })
}

fn lookup(sim: &Simulation, place: &str, query: &str) -> Answer {
    let (keyspace, key) = place.split_once('/').unwrap_or((place, ""));
    let keyspace = text(&decoded(keyspace)?)?;
    let key = decoded(key)?;
    let (mut from, mut ways) = (None, String::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = text(&decoded(&value.replace('+', " "))?)?;
        match name {
            "from" => from = Some(value).filter(|value| !value.is_empty()),
            "lookup" => ways = value,
            _ => return Err(bad_request(format!("unknown parameter {name:?}: from or lookup"))),
        }
    }
    let words = ways.split([' ', ',', '+']).filter(|word| !word.is_empty()).map(str::as_bytes);
    let ways = LookupChoice::parse_all(&words.collect::<Vec<_>>())
        .map_err(|why| bad_request(why.trim_start_matches("ERR ")))?;
    let routes = keys::routes(sim, &keyspace, &key, from.as_deref(), &ways, true);
    let routes = routes.map_err(refused)?;
    Ok(serde_json::to_value(routes).expect("routes become JSON"))
}

fn member_view(sim: &Simulation, member: &str) -> Answer {
    let member = text(&decoded(member)?)?;
    let view = sim.tables(&member).map_err(|why| refused(why.to_string()))?;
    let start: String = view.start.iter().map(|byte| format!("{byte:02x}")).collect();
    let table = |entries: &[(String, String)]| -> Vec<Value> {
        let entry = |(entry, member): &(String, String)| json!({"entry": entry, "member": member});
        entries.iter().map(entry).collect()
    };
    let tables =
        view.tables.iter().map(|(name, entries)| ((*name).to_owned(), table(entries).into()));
    Ok(json!({
        "name": view.name, "id": views::id(view.id), "start": start,
        "successors": view.successors,
        "tables": Value::Object(tables.collect()),
    }))
}

/// Percent-encoded bytes.
fn decoded(text: &str) -> Result<Vec<u8>, ExtensionRefusal> {
    let wrong = || bad_request(format!("{text:?} is not percent-encoded"));
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
        out.push((high * 16 + low) as u8);
    }
    Ok(out)
}

fn text(bytes: &[u8]) -> Result<String, ExtensionRefusal> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| bad_request("a name has to be UTF-8"))
}
