//! What the stream itself says, and every event, as server-sent events.

use keyspace::{NodeId, Timestamp};
use node::event::stream::{Cursor, Gap, Output};

use super::fields::Fields;
use super::{EVENTS_VERSION, EventStream, WatchRequest, Watching};

/// Types of events that the stream itself makes.
pub const STREAM_TYPES: [&str; 4] = ["hello", "gap", "node", "end"];

fn begin(event_type: &str, node: NodeId, now: Timestamp) -> Fields {
    let mut fields = Fields::new(event_type);
    fields.node("node", node);
    fields.time("at", now);
    fields.number("at_ms", now.millis());
    fields
}

/// The first event.
pub fn hello(watching: &Watching, asked: &WatchRequest, keep_alive_ms: u64) -> String {
    let mut fields = begin("hello", watching.node, watching.stream.now());
    fields.number("version", EVENTS_VERSION);
    fields.text("name", &watching.name);
    fields.text("scope", if asked.is_cluster { "cluster" } else { "node" });
    fields.text("cursor", &watching.cursor.to_string());
    fields.number("samples", asked.samples);
    fields.objects("nodes", &watching.nodes, |object, (node, name)| {
        object.node("node", *node);
        object.text("name", name);
    });
    fields.number("keep_alive_ms", keep_alive_ms);
    frame(None, &fields.end())
}

/// What comes next, as the text of the stream.
pub fn event(stream: &dyn EventStream, own: NodeId, output: &Output) -> String {
    match output {
        Output::Event { cursor, body, is_late: false } => frame(*cursor, body),
        Output::Event { cursor, body, is_late: true } => {
            let open = body.strip_suffix('}').unwrap_or(body);
            frame(*cursor, &format!("{open},\"late\":true}}"))
        }
        Output::Gap { of, cursor, gap } => {
            let mut fields = begin("gap", own, stream.now());
            write_gap(*of, gap, &mut fields);
            frame(*cursor, &fields.end())
        }
        Output::Node { of, state } => {
            let mut fields = begin("node", own, stream.now());
            fields.node("of", *of);
            fields.text("name", &stream.name_of(*of));
            fields.text("state", state.name());
            frame(None, &fields.end())
        }
        Output::End(reason) => {
            let mut fields = begin("end", own, stream.now());
            fields.text("reason", reason.name());
            frame(None, &fields.end())
        }
    }
}

fn write_gap(of: NodeId, gap: &Gap, fields: &mut Fields) {
    fields.node("of", of);
    fields.text("reason", gap.reason.name());
    match gap.events {
        Some(events) => fields.number("events", events),
        None => fields.null("events"),
    }
    fields.flag("exact", gap.is_exact);
    fields.number("samples", gap.samples);
    fields.time("from", gap.from);
    fields.time("to", gap.to);
}

fn frame(cursor: Option<Cursor>, json: &str) -> String {
    match cursor {
        Some(cursor) => format!("id: {cursor}\ndata: {json}\n\n"),
        None => format!("data: {json}\n\n"),
    }
}
