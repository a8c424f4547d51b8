//! `INFO`: the server in numbers, in the lines that client libraries and monitors of Redis read.
//!
//! A line whose number Carillon does not have is left out: a constant would be taken for a reading.
//! Numbers that are always 0 are true: nothing is evicted or forked.
//! Sizes for people have Redis's form (`1.50M`), which other texts of Carillon do not use.

use std::fmt::Write as _;

use super::cluster::master_of_listener;
use super::connection::REDIS_VERSION;
use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::context::{Context, Facts};
use crate::resp::topology::Mode;

/// A section: its name in small letters, and what writes its lines.
type Section = (&'static str, fn(&mut String, &Report<'_>));

const SECTIONS: [Section; 12] = [
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cpu", cpu),
    ("modules", |_, _| {}),
    ("commandstats", commandstats),
    ("errorstats", |_, _| {}),
    ("cluster", cluster),
    ("keyspace", keyspace),
];

/// What the sections are written from.
struct Report<'c> {
    facts: Facts<'c>,
    now_millis: u64,
    ctx: &'c dyn Context,
    /// Host and port of the master, if a replica is to answer.
    master: Option<(String, u16)>,
}

/// `INFO [section …]`; also `default`, `all` and `everything`. Unknown sections are empty.
pub fn info<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let names =
        |words: &[&str]| words.iter().any(|word| (1..args.len()).any(|index| args.is(index, word)));
    let most = args.len() == 1 || names(&["default", "all", "everything"]);
    // As in Redis, these are left out of what everybody gets.
    let all = names(&["all", "everything"]);
    let now_millis = call.ctx.now_millis();
    let master = call.session.is_replica.then(|| master_of_listener(call));
    let report = Report { facts: call.ctx.facts(), now_millis, ctx: call.ctx, master };
    let mut text = String::new();
    for (name, write) in SECTIONS {
        let is_of_most = most && name != "commandstats";
        if all || is_of_most || names(&[name]) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let (first, rest) = name.split_at(1);
            let title = if name == "cpu" { "CPU".to_owned() } else { first.to_uppercase() + rest };
            let _ = write!(text, "# {title}\r\n");
            write(&mut text, &report);
        }
    }
    call.answer(|writer| writer.verbatim(text.as_bytes()))
}

fn line(out: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{name}:{value}\r\n");
}

fn server(out: &mut String, report: &Report<'_>) {
    let facts = &report.facts;
    let uptime_secs = report.now_millis.saturating_sub(facts.started_millis) / 1000;
    line(out, "redis_version", REDIS_VERSION);
    line(out, "carillon_version", facts.carillon_version);
    line(
        out,
        "redis_mode",
        match report.ctx.mode() {
            Mode::Any => "standalone",
            Mode::Cluster => "cluster",
        },
    );
    line(out, "os", format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    line(out, "arch_bits", usize::BITS);
    line(out, "multiplexing_api", "epoll");
    line(out, "process_id", facts.process_id);
    line(out, "run_id", facts.node_id);
    line(out, "tcp_port", facts.port);
    line(out, "server_time_usec", report.now_millis.saturating_mul(1000));
    line(out, "uptime_in_seconds", uptime_secs);
    line(out, "uptime_in_days", uptime_secs / 86_400);
}

fn clients(out: &mut String, report: &Report<'_>) {
    let facts = &report.facts;
    line(out, "connected_clients", facts.clients);
    line(out, "maxclients", facts.clients_max);
    line(out, "blocked_clients", facts.clients_blocked);
    line(out, "tracking_clients", facts.tracking_clients);
}

/// Bytes as Redis writes them for people: `1.50M`.
fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.2}T")
}

fn memory(out: &mut String, report: &Report<'_>) {
    let facts = &report.facts;
    let sizes = [
        ("used_memory", facts.memory_used_bytes),
        ("used_memory_rss", facts.memory_rss_bytes),
        ("used_memory_peak", facts.memory_peak_bytes.max(facts.memory_used_bytes)),
        ("maxmemory", facts.memory_max_bytes),
    ];
    for (name, bytes) in sizes {
        line(out, name, bytes);
        line(out, &format!("{name}_human"), human(bytes));
    }
    let scripts = facts.scripts;
    let script_bytes = scripts.cached_bytes + scripts.library_bytes;
    line(out, "used_memory_scripts_eval", scripts.cached_bytes);
    line(out, "number_of_cached_scripts", scripts.cached);
    line(out, "number_of_functions", scripts.functions);
    line(out, "number_of_libraries", scripts.libraries);
    line(out, "used_memory_functions", scripts.library_bytes);
    line(out, "used_memory_scripts", script_bytes);
    line(out, "used_memory_scripts_human", human(script_bytes));
    let fragmentation = facts.memory_rss_bytes as f64 / facts.memory_used_bytes.max(1) as f64;
    line(out, "maxmemory_policy", "noeviction");
    line(out, "mem_fragmentation_ratio", format_args!("{fragmentation:.2}"));
    line(out, "mem_allocator", "mimalloc");
}

fn persistence(out: &mut String, report: &Report<'_>) {
    let facts = &report.facts;
    let status = |failed| if failed { "err" } else { "ok" };
    line(out, "loading", i32::from(!report.ctx.knows_keyspaces()));
    line(out, "rdb_bgsave_in_progress", i32::from(facts.checkpoint_running));
    line(out, "rdb_last_save_time", facts.checkpoint_millis / 1000);
    line(out, "rdb_last_bgsave_status", status(facts.checkpoint_failed));
    line(out, "aof_enabled", 1);
    line(out, "aof_rewrite_in_progress", 0);
    line(out, "aof_last_write_status", status(facts.disk_full));
    line(out, "aof_current_size", facts.log_bytes);
    line(out, "carillon_durability", facts.durability);
}

fn stats(out: &mut String, report: &Report<'_>) {
    let facts = &report.facts;
    let numbers = [
        ("total_connections_received", facts.connections_received),
        ("total_commands_processed", facts.commands_processed),
        ("instantaneous_ops_per_sec", facts.commands_per_second),
        ("total_net_input_bytes", facts.input_bytes),
        ("total_net_output_bytes", facts.output_bytes),
        ("rejected_connections", facts.connections_rejected),
        ("expired_keys", facts.expired_keys),
        ("evicted_keys", 0),
        ("evicted_clients", facts.clients_evicted),
        ("keyspace_hits", facts.hits),
        ("keyspace_misses", facts.misses),
        ("pubsub_channels", facts.channels),
        ("pubsub_patterns", facts.patterns),
        ("pubsubshard_channels", facts.shard_channels),
        ("latest_fork_usec", 0),
        ("tracking_total_keys", facts.tracking_keys),
        ("tracking_total_items", facts.tracking_items),
        ("tracking_total_prefixes", facts.tracking_prefixes),
        ("total_error_replies", facts.error_replies),
    ];
    numbers.into_iter().for_each(|(name, number)| line(out, name, number));
}

/// Calls of each command, and how long event loops worked at them: of those that are not measured
/// one by one, their share of the iterations in which they were run.
fn commandstats(out: &mut String, report: &Report<'_>) {
    for (name, calls) in report.ctx.command_calls() {
        let (count, micros) = (calls.calls, calls.nanos / 1000);
        let each = calls.nanos as f64 / 1000.0 / count.max(1) as f64;
        let text = format!("calls={count},usec={micros},usec_per_call={each:.2}");
        line(out, &format!("cmdstat_{name}"), text);
    }
}

/// Redis knows one master and its copies; here every node takes writes, and leads some shards and
/// follows in others. So each node reports `master`, since tools may write to it.
/// `connected_slaves` counts other live nodes with replicas of local shards, so an alarm on "fewer
/// than two" works. There are no lines `slaveN`: tools would take those nodes for read-only ones.
fn replication(out: &mut String, report: &Report<'_>) {
    match &report.master {
        None => {
            line(out, "role", "master");
            line(out, "connected_slaves", report.facts.cluster.companions);
        }
        Some((host, port)) => {
            line(out, "role", "slave");
            line(out, "master_host", host);
            line(out, "master_port", port);
            line(out, "master_link_status", "up");
            for (name, number) in [
                ("master_last_io_seconds_ago", 0),
                ("master_sync_in_progress", 0),
                ("slave_read_repl_offset", 0),
                ("slave_repl_offset", 0),
                ("slave_priority", 100),
                ("slave_read_only", 1),
                ("replica_announced", 1),
                ("connected_slaves", 0),
            ] {
                line(out, name, number);
            }
        }
    }
    line(out, "master_failover_state", "no-failover");
    line(out, "master_replid", report.facts.node_id);
    line(out, "repl_backlog_active", 0);
}

fn cpu(out: &mut String, report: &Report<'_>) {
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    line(out, "used_cpu_sys", seconds(report.facts.cpu_system_micros));
    line(out, "used_cpu_user", seconds(report.facts.cpu_user_micros));
}

/// What Redis says there, and what it has no word for.
fn cluster(out: &mut String, report: &Report<'_>) {
    line(out, "cluster_enabled", i32::from(report.ctx.mode() == Mode::Cluster));
    let facts = &report.facts.cluster;
    line(out, "carillon_cluster_id", format_args!("{:016x}", report.facts.cluster_id));
    line(out, "carillon_health", facts.health);
    let numbers = [
        ("carillon_members_up", facts.members_up),
        ("carillon_members_down", facts.members_down),
        ("carillon_shards", facts.shards),
        ("carillon_shards_led", facts.shards_led),
        ("carillon_shards_without_leader", facts.shards_without_leader),
        ("carillon_shards_under_replicated", facts.shards_under_replicated),
    ];
    numbers.into_iter().for_each(|(name, number)| line(out, name, number));
}

/// `db0:…` for keyspaces with a number for a name, `keyspace_NAME:…` for the others.
fn keyspace(out: &mut String, report: &Report<'_>) {
    report.ctx.each_keyspace(&mut |keyspace| {
        let numbered = keyspace.name.bytes().all(|byte| byte.is_ascii_digit());
        if numbered && keyspace.keys == 0 {
            return;
        }
        let before = if numbered { "db" } else { "keyspace_" };
        let name = format!("{before}{}", keyspace.name);
        let (keys, expires, ttl) = (keyspace.keys, keyspace.expires, keyspace.average_ttl_ms);
        line(out, &name, format_args!("keys={keys},expires={expires},avg_ttl={ttl}"));
    });
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_are_written_as_redis_writes_them() {
        let cases = [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_572_864, "1.50M")];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human(5 << 40), "5.00T");
    }
}
