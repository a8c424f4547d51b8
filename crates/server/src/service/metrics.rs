//! Metrics, as Prometheus reads them.
//!
//! Labels are bounded: shards and peers beyond [`SHARDS_MAX`] and [`PEERS_MAX`] have no numbers of
//! their own, and `carillon_metrics_omitted` says how many these are. Sums over all of them are
//! always there (`carillon_shards…`, `carillon_members`).

use keyspace::NodeId;
use node::replica::scan;

use super::NodeApi;
use crate::cluster::{MemberInfo, MemberState};
use crate::counters::{Counter, Counters};
use crate::peer::PeerCounters;
use crate::runtime::clock::NodeClock;
use crate::runtime::durations::Durations;
use crate::runtime::log::NodeLog;
use crate::runtime::lookups::{LookupStats, Lookups};
use crate::runtime::memory::Memory;
use crate::runtime::open_txns::OpenTxns;
use crate::runtime::peers::Peers;
use crate::runtime::pubsub::PubSubCounters;
use crate::runtime::request_rates::{NoSplitReason, RequestRates};
use crate::runtime::rpc_counters::DirectionCounters;
use crate::runtime::survey::{self, ShardView, Survey, name_of};
use crate::scripts::{Outcome, Scripts};
use crate::tls::Certificates;
use api::{Histogram, Kind, Metrics, Overview};

/// Shards with numbers of their own, the lowest ids first: five numbers each, and one a replica.
pub const SHARDS_MAX: usize = 256;
/// Peers with numbers of their own, the lowest ids first: ten numbers each.
pub const PEERS_MAX: usize = 128;

type Labels = Vec<(&'static str, String)>;
type Sample = (Labels, f64);

impl NodeApi {
    pub(super) fn show_metrics(&self) -> Metrics {
        let mut out = self.node_metrics();
        let survey = survey::survey(&self.runtime);
        verdicts(&mut out, &survey.overview);
        self.version_metrics(&mut out);
        self.leaders(&mut out);
        let of_one_slot = self.runtime.control.shards_of_one_slot();
        splits(&mut out, of_one_slot, &self.runtime.request_rates);
        shards(&mut out, &survey);
        if let Some(peers) = &self.runtime.peers {
            rpc_metrics(&mut out, peers);
            lookups(&mut out, &peers.lookups);
            snapshots(&mut out, peers);
            digests(&mut out, peers);
            clocks(&mut out, &self.runtime.clock);
            disk(&mut out, self.runtime.disk_pace.is_slow());
            members(&mut out, peers);
            links(&mut out, peers, &survey);
        }
        certificates(&mut out, &self.facts.certificates);
        if let Some(gate) = &self.facts.gate {
            let help = "Wrong passwords that clients have given.";
            out.counter("carillon_passwords_wrong_total", help, gate.failures());
        }
        let omitted = |what: &str, count: usize, max: usize| {
            (vec![("what", what.to_owned())], count.saturating_sub(max) as f64)
        };
        let peers = self.runtime.peers.as_ref().map_or(0, |p| p.cluster.counters().peers.len());
        let omitted = [
            omitted("shards", survey.shards.len(), SHARDS_MAX),
            omitted("peers", peers, PEERS_MAX),
        ];
        let help = "Shards and peers beyond the limit, which have no metrics of their own.";
        out.numbers("carillon_metrics_omitted", help, Kind::Gauge, omitted);
        out
    }

    fn node_metrics(&self) -> Metrics {
        let mut out = Metrics::default();
        let counters = &self.runtime.counters;
        traffic(&mut out, counters);
        request_times(&mut out, &self.runtime.request_times);
        transactions(&mut out, counters, &self.runtime.open_txns);
        log(&mut out, counters, &self.runtime.log);
        let help = "Oldest events that this node dropped from memory; its log still has them.";
        out.counter("carillon_events_evicted_total", help, self.runtime.events.forgotten());
        let help = "Lookup messages from other nodes that this node dropped: its queue was full.";
        out.counter("carillon_lookups_dropped_total", help, self.runtime.control.lookups_dropped());
        super::event_metrics::events(&mut out, &self.runtime.events);
        super::event_metrics::feeds(&mut out, &self.feeds);
        messages(&mut out, self.runtime.pubsub.counters());
        scripts(&mut out, &self.runtime.scripts);
        memory(&mut out, &self.runtime.memory);
        let now = self.runtime.clock.now();
        let routes = self.runtime.routing.routes();
        let keys = routes.iter().map(|route| {
            let labels = vec![("keyspace", route.keyspace.name.to_string())];
            (labels, scan::size(route, &scan::ScanScope::unchecked(route, now)) as f64)
        });
        let keys: Vec<_> = keys.collect();
        out.numbers("carillon_keys", "Keys of a keyspace.", Kind::Gauge, keys);
        out
    }

    fn leaders(&self, out: &mut Metrics) {
        let counts = survey::shard_counts(&self.runtime);
        let help = "Changes of leader that this node learned of, summed over shards.";
        out.counter("carillon_raft_leader_changes_total", help, counts.leaders_seen);
        let help =
            "Campaigns of local replicas: pre-votes started, won or lost; no leader transfers.";
        out.counter("carillon_raft_campaigns_total", help, counts.campaigns);
        let help = "Time in which a local replica knew no leader, summed over shards.";
        let seconds = counts.leaderless_nanos as f64 / 1e9;
        let name = "carillon_shards_without_leader_seconds_total";
        out.numbers(name, help, Kind::Counter, [(Vec::new(), seconds)]);
    }
}

/// What clients ask, and their connections.
/// When certificates end.
fn certificates(out: &mut Metrics, certificates: &Certificates) {
    let ends = certificates.ends();
    if !ends.is_empty() {
        let sample = |(to, at): (&str, i64)| (vec![("shown_to", to.to_owned())], at as f64);
        let help = "When the TLS certificate ends, in seconds since 1970.";
        let name = "carillon_tls_certificate_end_seconds";
        out.numbers(name, help, Kind::Gauge, ends.into_iter().map(sample));
    }
}

fn traffic(out: &mut Metrics, counters: &Counters) {
    let moved = "Commands rerouted because their shard had split.";
    let evicted = "Connections closed because all unread replies together took too much memory.";
    let rejected = "Connections refused because there were too many.";
    let unread = "Memory of unread replies, on connections that have many.";
    for (name, help, counter) in [
        ("carillon_commands_total", "Commands processed.", &counters.commands),
        (
            "carillon_writes_total",
            "Writes of RESP and native clients outside transactions.",
            &counters.writes,
        ),
        ("carillon_errors_total", "Error replies to Redis clients.", &counters.errors),
        ("carillon_commands_rerouted_total", moved, &counters.moved),
        ("carillon_connections_evicted_total", evicted, &counters.connections_evicted),
        ("carillon_get_hits_total", "GETs that found a value.", &counters.hits),
        ("carillon_get_misses_total", "GETs that found no value.", &counters.misses),
        ("carillon_input_bytes_total", "Bytes received.", &counters.input_bytes),
        ("carillon_output_bytes_total", "Bytes sent.", &counters.output_bytes),
        (
            "carillon_connections_accepted_total",
            "Connections accepted.",
            &counters.connections_accepted,
        ),
        ("carillon_connections_rejected_total", rejected, &counters.connections_rejected),
    ] {
        out.counter(name, help, counter.get());
    }
    let connections = counters.connections.get() as f64;
    out.gauge("carillon_connections", "Open client connections.", connections);
    out.gauge("carillon_unread_reply_bytes", unread, counters.unread_bytes.get() as f64);
}

/// Ephemeral messages.
fn messages(out: &mut Metrics, counters: &PubSubCounters) {
    let delivered = "Messages given to this node's clients, one for each of their subscriptions.";
    let dropped = "Messages not sent to another node: its link was lost, or too much waited there.";
    let cut_off = "Connections closed because they did not read their messages.";
    for (name, help, counter) in [
        (
            "carillon_messages_published_total",
            "Messages that this node's clients published.",
            &counters.published,
        ),
        ("carillon_messages_delivered_total", delivered, &counters.delivered),
        ("carillon_messages_dropped_total", dropped, &counters.dropped),
        ("carillon_subscribers_cut_off_total", cut_off, &counters.cut_off),
    ] {
        out.counter(name, help, counter.get());
    }
}

/// Scripts and functions.
fn scripts(out: &mut Metrics, scripts: &Scripts) {
    let counts = &scripts.counts;
    let help = "Scripts and functions that this node ran, or its clients called, by outcome.";
    let sample = |outcome: Outcome| {
        (vec![("outcome", outcome.name().to_owned())], counts.of(outcome) as f64)
    };
    out.numbers("carillon_scripts_total", help, Kind::Counter, Outcome::ALL.map(sample));
    let help = "Runs of scripts that counted for nothing: keys that they had read had changed.";
    out.counter("carillon_script_conflicts_total", help, counts.conflicts.get());
    let help = "Scripts that SCRIPT KILL or FUNCTION KILL stopped.";
    out.counter("carillon_scripts_killed_total", help, counts.killed.get());
    let help = "Scripts stopped by a limit of time, instructions or memory.";
    out.counter("carillon_scripts_stopped_total", help, counts.stopped.get());
    let help = "Time from a client's call of a script to its reply.";
    out.histograms("carillon_script_seconds", help, vec![counts.took.histogram()]);
    let (cached, bytes) = scripts.cache.size();
    let help = "Scripts that this node knows by their SHA1.";
    out.gauge("carillon_script_cache_entries", help, cached as f64);
    out.gauge(
        "carillon_script_cache_bytes",
        "Bytes of their sources, and 320 for each.",
        bytes as f64,
    );
}

fn transactions(out: &mut Metrics, counters: &Counters, open: &OpenTxns) {
    let help = "Committed transactions over several shards, or by HTTP.";
    out.counter("carillon_transactions_total", help, counters.transactions.get());
    let help = "Transactions over several shards, or by HTTP, aborted: a watched key had changed.";
    out.counter("carillon_transactions_conflicts_total", help, counters.transactions_changed.get());
    let help = "Transactions over several shards, or by HTTP, that ended with an error.";
    out.counter("carillon_transactions_refused_total", help, counters.transactions_refused.get());
    let help = "Open transactions by HTTP: begun, and not yet ended.";
    out.gauge("carillon_transactions_open", help, open.count() as f64);
    let help = "Memory of open transactions by HTTP: keys, values and overhead.";
    out.gauge("carillon_transactions_open_bytes", help, open.known_bytes() as f64);
}

fn request_times(out: &mut Metrics, times: &Durations) {
    let help = "From the moment at which requests of a Redis or native client were read to that at \
                which they were answered; those that came together count once.";
    out.histograms("carillon_request_seconds", help, vec![times.histogram()]);
}

fn log(out: &mut Metrics, counters: &Counters, log: &NodeLog) {
    let facts = log.facts();
    let checkpoints = counters.checkpoints.get();
    out.counter("carillon_checkpoints_total", "Completed checkpoint rounds.", checkpoints);
    out.counter(
        "carillon_log_written_bytes_total",
        "Position of the end of the log.",
        facts.written_end.0,
    );
    out.counter(
        "carillon_log_durable_bytes_total",
        "Position up to which the log is fsynced.",
        facts.durable_end.0,
    );
    out.counter("carillon_log_syncs_total", "Fsyncs of the log.", facts.syncs);
    let help = "Duration of the log's fsyncs that a write waited for.";
    out.histograms("carillon_fsync_seconds", help, vec![log.sync_times().histogram()]);
    let bytes_on_disk = facts.bytes_on_disk as f64;
    out.gauge("carillon_log_disk_bytes", "Bytes of all log files on disk.", bytes_on_disk);
    let is_full = f64::from(u8::from(facts.full));
    out.gauge("carillon_disk_full", "1 while the disk has no room for the log, else 0.", is_full);
}

fn memory(out: &mut Metrics, memory: &Memory) {
    let retained = "In addition: raft log entries retained for lagging replicas; at most about \
                    an eighth of memory_max.";
    let usage = crate::process::usage();
    let resident = usage.rss_bytes;
    for (name, help, bytes) in [
        ("carillon_memory_used_bytes", "Memory that data takes.", memory.used_bytes()),
        ("carillon_memory_old_versions_bytes", "Of these, old versions.", memory.old_bytes()),
        ("carillon_raft_log_retained_bytes", retained, memory.log_retained.bytes()),
        ("carillon_memory_max_bytes", "Memory that data may take.", memory.bytes_max()),
        ("carillon_process_resident_bytes", "Resident memory of the process.", resident),
    ] {
        out.gauge(name, help, bytes as f64);
    }
    let cpu_seconds = (usage.cpu_user_micros + usage.cpu_system_micros) as f64 / 1e6;
    let (name, help) = ("carillon_process_cpu_seconds_total", "Processor time of the process.");
    out.numbers(name, help, Kind::Counter, [(Vec::new(), cpu_seconds)]);
}

/// Local leaders' shards that are too large, or hot, and cannot be split.
fn splits(out: &mut Metrics, of_one_slot: u64, request_rates: &RequestRates) {
    let help = "Shards led here beyond split_bytes or split_keys that cannot split, by reason.";
    let reason = |(why, count): (NoSplitReason, u64)| {
        (vec![("reason", why.name().to_owned())], count as f64)
    };
    out.numbers(
        "carillon_shards_too_large",
        help,
        Kind::Gauge,
        [(NoSplitReason::OneSlot, of_one_slot)].map(reason),
    );
    let help =
        "Shards led here whose request rate exceeds split_rate and that cannot split, by reason.";
    out.numbers("carillon_shards_too_hot", help, Kind::Gauge, request_rates.whole().map(reason));
}

fn verdicts(out: &mut Metrics, overview: &Overview) {
    let mut gauge = |name, help, value| out.gauge(name, help, value as f64);
    let verdict = overview.verdict as u64;
    gauge("carillon_health", "Health as this node sees it: 0 ok, 1 degraded, 2 failing.", verdict);
    gauge("carillon_shards", "Replicas on this node.", overview.shards);
    gauge("carillon_shards_led", "Of these, leaders.", overview.shards_led);
    let help = "Of these, replicas that know no leader, or lead but commit nothing.";
    gauge("carillon_shards_without_leader", help, overview.shards_without_leader);
    let help =
        "Of these, replicas of shards with fewer live voters than their keyspace's replication.";
    gauge("carillon_shards_under_replicated", help, overview.shards_under_replicated);
}

fn shards(out: &mut Metrics, survey: &Survey) {
    let labels = |seen: &ShardView| {
        let keyspace = seen.keyspace.as_deref().unwrap_or_default().to_owned();
        vec![("shard", seen.id().to_string()), ("keyspace", keyspace)]
    };
    let shards = survey.shards.iter().take(SHARDS_MAX);
    let here = shards.filter_map(|seen| Some((seen, seen.report.as_ref()?)));
    let (mut leader, mut term, mut applied, mut committed) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    let (mut live, mut lag) = <(Vec<Sample>, Vec<Sample>)>::default();
    for (seen, report) in here {
        leader.push((labels(seen), f64::from(u8::from(report.leads))));
        term.push((labels(seen), report.term as f64));
        applied.push((labels(seen), report.applied as f64));
        committed.push((labels(seen), report.committed as f64));
        live.push((labels(seen), seen.live as f64));
        for follower in report.followers.iter().filter(|f| f.replica != report.replica) {
            let Some(node) = seen.descriptor.node_of(follower.replica) else { continue };
            let Some(behind) = follower.behind(report.last_index) else { continue };
            let mut labels = labels(seen);
            labels.push(("node", name_of(node, &survey.members)));
            lag.push((labels, behind as f64));
        }
    }
    let mut each = |name, help, samples| out.numbers(name, help, Kind::Gauge, samples);
    each("carillon_shard_leader", "1 if the local replica leads the shard, else 0.", leader);
    each("carillon_shard_term", "The shard's raft term at the local replica.", term);
    each(
        "carillon_shard_applied_index",
        "Index of the last entry that the local replica applied.",
        applied,
    );
    let help = "Index of the last entry that the local replica knows to be committed.";
    each("carillon_shard_committed_index", help, committed);
    each("carillon_shard_live_replicas", "Voters of the shard on nodes that are up.", live);
    let help = "Log entries that a follower lacks. The shard's leader reports followers that it \
                has heard from in its term.";
    each("carillon_shard_follower_lag_entries", help, lag);
}

fn rpc_metrics(out: &mut Metrics, peers: &Peers) {
    let both = [("sent", &peers.rpc_counters.sent), ("received", &peers.rpc_counters.received)];
    let kinds = both.iter().flat_map(|(direction, mail)| {
        mail.each().map(|(class, kind, count)| {
            let labels = vec![
                ("class", class.to_owned()),
                ("type", kind.to_owned()),
                ("direction", (*direction).to_owned()),
            ];
            (labels, count as f64)
        })
    });
    let help = "Messages between nodes by type: of raft, RPCs, and of lookup tables.";
    out.numbers("carillon_messages_total", help, Kind::Counter, kinds.collect::<Vec<_>>());
    let bytes = both.iter().flat_map(|(direction, mail)| {
        mail.each_bytes().map(|(kind, bytes)| {
            let labels = vec![("type", kind.to_owned()), ("direction", (*direction).to_owned())];
            (labels, bytes as f64)
        })
    });
    let help = "Bytes of lookup messages between nodes, by type.";
    out.numbers("carillon_lookup_bytes_total", help, Kind::Counter, bytes.collect::<Vec<_>>());
    let of = |value: fn(&DirectionCounters) -> u64| {
        both.map(|(direction, mail)| {
            (vec![("direction", direction.to_owned())], value(mail) as f64)
        })
    };
    let help = "Client writes forwarded to a leader on another node, including retries.";
    out.numbers("carillon_forwarded_writes_total", help, Kind::Counter, of(|m| m.commands.get()));
    let help = "Shards of the cluster in this node's routing table.";
    out.gauge("carillon_lookup_shards", help, peers.lookup.known_count() as f64);
    let help = "Read-index requests to leaders: one for all reads that wait at that moment.";
    out.numbers(
        "carillon_forwarded_reads_total",
        help,
        Kind::Counter,
        of(DirectionCounters::reads),
    );
}

/// Of lookups that requests have named, and of their tables.
fn lookups(out: &mut Metrics, lookups: &Lookups) {
    let counted = lookups.counted();
    let labels = |counted: &LookupStats| {
        vec![("lookup", counted.kind.name().to_owned()), ("form", counted.form.name().to_owned())]
    };
    let each = |of: fn(&LookupStats) -> &Histogram| {
        let labelled = |counted| Histogram { labels: labels(counted), ..of(counted).clone() };
        counted.iter().map(labelled).collect::<Vec<_>>()
    };
    let help = "Hops from shard to shard of the lookups that this node started.";
    out.histograms("carillon_lookup_hops", help, each(|counted| &counted.hops));
    let help = "Duration of the lookups that this node started.";
    out.histograms("carillon_lookup_seconds", help, each(|counted| &counted.took));
    let help = "Lookups that found no owner; their requests used the full table.";
    let failed = counted.iter().map(|counted| (labels(counted), counted.failed as f64));
    out.numbers("carillon_lookup_failures_total", help, Kind::Counter, failed.collect::<Vec<_>>());
    let entries = lookups
        .entries()
        .into_iter()
        .map(|(kind, entries)| (vec![("lookup", kind.name().to_owned())], entries as f64));
    let help = "Entries in the lookup tables of shards led here; for lh, cached addresses of \
                buckets. carillon_lookup_shards counts those of the full table.";
    out.numbers("carillon_lookup_entries", help, Kind::Gauge, entries.collect::<Vec<_>>());
}

fn snapshots(out: &mut Metrics, peers: &Peers) {
    let counters = &peers.rpc_counters;
    let of = |direction: &str, result: &str, value: u64| {
        let labels = vec![("direction", direction.to_owned()), ("result", result.to_owned())];
        (labels, value as f64)
    };
    let samples = [
        of("sent", "done", counters.snapshots_sent.get()),
        of("sent", "failed", counters.snapshots_unsent.get()),
        of("received", "done", counters.snapshots_received.get()),
        of("received", "failed", counters.snapshots_broken.get()),
    ];
    let help = "Snapshots of shards sent to other nodes, or received from them.";
    out.numbers("carillon_snapshots_total", help, Kind::Counter, samples);
    let of =
        |direction: &str, value: u64| (vec![("direction", direction.to_owned())], value as f64);
    let samples = [
        of("sent", counters.snapshot_bytes_sent.get()),
        of("received", counters.snapshot_bytes_received.get()),
    ];
    let help = "Bytes of snapshots sent, including repeats, or received.";
    out.numbers("carillon_snapshot_bytes_total", help, Kind::Counter, samples);
    let samples = [
        of("sent", counters.snapshot_blocks_sent.get()),
        of("received", counters.snapshot_blocks_received.get()),
    ];
    let help = "Blocks of snapshots sent, including repeats, or received.";
    out.numbers("carillon_snapshot_blocks_total", help, Kind::Counter, samples);
    let progress = peers.snapshots.progress();
    let samples =
        [of("sent", progress.len() as u64), of("received", counters.snapshots_coming.get())];
    let help = "Snapshots in progress.";
    out.numbers("carillon_snapshots_in_progress", help, Kind::Gauge, samples);
    let left: u64 = progress.iter().map(|stream| stream.left_bytes()).sum();
    let help = "Estimated bytes not yet sent of the snapshots that this node sends.";
    out.gauge("carillon_snapshot_remaining_bytes", help, left as f64);
    let help = "Snapshots that wait to be sent until others end.";
    out.gauge("carillon_snapshots_waiting", help, peers.snapshots.waiting() as f64);
    let help = "Snapshots resumed after a lost link, or lost blocks.";
    out.counter("carillon_snapshot_resumes_total", help, counters.snapshot_resumes.get());
}

fn disk(out: &mut Metrics, is_slow: bool) {
    let help =
        "1 if an fsync has stalled recently, so that this node gives its leaderships away; else 0.";
    out.gauge("carillon_disk_slow", help, f64::from(u8::from(is_slow)));
}

fn clocks(out: &mut Metrics, clocks: &NodeClock) {
    let help = "Seconds by which the median of the peers' clocks is ahead of this node's time.";
    let seconds = clocks.median_offset_millis() as f64 / 1e3;
    out.gauge("carillon_clock_behind_seconds", help, seconds);
}

fn digests(out: &mut Metrics, peers: &Peers) {
    let digests = &peers.digests;
    let help = "Digests of replicas that this node computed for their leaders to compare.";
    out.counter("carillon_digests_total", help, digests.done.get());
    let of = |result: &str, value: u64| (vec![("result", result.to_owned())], value as f64);
    let samples = [of("agreed", digests.agreed.get()), of("differed", digests.differed.get())];
    let help = "Comparisons of a shard's replicas by this node as its leader. Investigate any that \
                differed.";
    out.numbers("carillon_consistency_checks_total", help, Kind::Counter, samples);
    let help = "Replicas on this node that were quarantined: their data differs, or is incomplete.";
    out.counter("carillon_replicas_quarantined_total", help, digests.quarantined.get());
    let help = "Replicas that left this node because their shard's group removed them.";
    out.counter("carillon_replicas_removed_total", help, digests.removed.get());
}

fn members(out: &mut Metrics, peers: &Peers) {
    let members = peers.cluster.members();
    let of = |state: &str, is: fn(&MemberInfo) -> bool| {
        let count = members.iter().filter(|member| is(member)).count();
        (vec![("state", state.to_owned())], count as f64)
    };
    let samples = [
        of("up", |member| member.is_up() && !member.suspected),
        of("suspected", |member| member.is_up() && member.suspected),
        of("down", |member| member.state == MemberState::Down),
        of("left", |member| member.state == MemberState::Left),
    ];
    out.numbers("carillon_members", "Members as this node sees them.", Kind::Gauge, samples);
    let counters = peers.cluster.counters();
    let help = "How often this node refuted a rumour of its death.";
    out.counter("carillon_swim_refutations_total", help, counters.refutations);
    let help = "Membership frames that this node could not decode.";
    out.counter("carillon_membership_invalid_frames_total", help, counters.bad_frames);
}

fn links(out: &mut Metrics, peers: &Peers, survey: &Survey) {
    let counters = peers.cluster.counters().peers;
    let counters: Vec<_> = counters.iter().take(PEERS_MAX).collect();
    let labels = |node: NodeId| {
        vec![("peer", format!("{:016x}", node.0)), ("name", name_of(node, &survey.members))]
    };
    let one = |value: &dyn Fn(NodeId, &PeerCounters) -> f64| -> Vec<Sample> {
        counters.iter().map(|(node, counters)| (labels(*node), value(*node, counters))).collect()
    };
    let both = |read: fn(&PeerCounters) -> &Counter, sent: fn(&PeerCounters) -> &Counter| {
        let directions = [("received", read), ("sent", sent)];
        let each = counters.iter().flat_map(|(node, counters)| {
            directions.map(|(direction, value)| {
                let mut labels = labels(*node);
                labels.push(("direction", direction.to_owned()));
                (labels, value(counters).get() as f64)
            })
        });
        each.collect::<Vec<Sample>>()
    };
    let connected = |node| peers.cluster.is_connected(node);
    let total = Kind::Counter;
    let samples = both(|c| &c.bytes_in, |c| &c.bytes_out);
    out.numbers("carillon_peer_bytes_total", "Bytes on links with a peer.", total, samples);
    let samples = both(|c| &c.frames_in, |c| &c.frames_out);
    out.numbers("carillon_peer_frames_total", "Frames on links with a peer.", total, samples);
    let samples = one(&|node, _| f64::from(u8::from(connected(node))));
    out.numbers(
        "carillon_peer_connected",
        "1 if a link with the peer is up, else 0.",
        Kind::Gauge,
        samples,
    );
    let samples = one(&|_, c| c.too_long.get() as f64);
    let help = "Messages not sent because they are too long for the peer's version.";
    out.numbers("carillon_peer_messages_too_long_total", help, total, samples);
    let samples = one(&|node, _| peers.cluster.unsent_bytes(node) as f64);
    let help = "Bytes queued for a peer that its socket has not accepted.";
    out.numbers("carillon_peer_unsent_bytes", help, Kind::Gauge, samples);
    let losses = |node, c: &PeerCounters| c.links.get().saturating_sub(u64::from(connected(node)));
    let samples = one(&|node, c| losses(node, c) as f64);
    out.numbers("carillon_peer_link_losses_total", "Lost links with a peer.", total, samples);
    let samples = one(&|_, c| c.drops.get() as f64);
    let help = "Frames dropped because too much was queued for the peer.";
    out.numbers("carillon_peer_dropped_frames_total", help, total, samples);
    let samples = one(&|_, c| c.dials_failed.get() as f64);
    out.numbers(
        "carillon_peer_dials_failed_total",
        "Failed attempts to connect to a peer.",
        total,
        samples,
    );
    let samples = one(&|_, c| c.rtt_nanos.get() as f64 / 1e9);
    let help = "Round-trip time of the last ping.";
    out.numbers("carillon_peer_round_trip_seconds", help, Kind::Gauge, samples);
}
