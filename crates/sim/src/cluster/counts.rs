//! Counters of a cluster's run.

use super::Workload;

/// What a run has seen, for people and for tests that a run does something at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations answered.
    pub answered: u64,
    /// Leases that clients have opened, and snapshots that they have read twice.
    pub leases: u64,
    /// See `leases`.
    pub travels: u64,
    /// Reads at a past time that a replica at hand has answered.
    pub followers_read: u64,
    /// Commits that feeds have told, and feeds that came too late.
    pub feed_commits: u64,
    /// See `feed_commits`.
    pub feeds_too_late: u64,
    /// Blocks of a volume that were read and written, writes that were refused because another
    /// session had it, and how often one has taken it.
    pub blocks_read: u64,
    /// See `blocks_read`.
    pub blocks_written: u64,
    /// See `blocks_read`.
    pub fenced: u64,
    /// See `blocks_read`.
    pub takeovers: u64,
    /// Clones of a volume, and blocks that were read of them.
    pub clones: u64,
    /// See `clones`.
    pub clone_reads: u64,
    /// Versions that clients have cached, and invalidations that they have heard.
    pub cached: u64,
    /// See `cached`.
    pub invalidations: u64,
    /// The longest time for which a client held an old version, in ms.
    pub stale_ms_max: u64,
    /// Operations refused: nothing was done.
    pub refused: u64,
    /// Operations without an answer.
    pub unknown: u64,
    /// Pipelines of reads and writes all of whose commands were answered.
    pub pipelines: u64,
    /// Reads of these that have joined a batch of the log …
    pub joined_reads: u64,
    /// … or were parked.
    pub parked_reads: u64,
    /// Crashes of single nodes.
    pub crashes: u64,
    /// Losses of power of all nodes.
    pub blackouts: u64,
    /// Pauses.
    pub pauses: u64,
    /// Cuts of the network.
    pub cuts: u64,
    /// Leader transfers that were requested.
    pub transfers: u64,
    /// Requests to replace replicas of a shard.
    pub moves: u64,
    /// Requests to split a shard.
    pub splits: u64,
    /// Shards that were.
    pub halves: u64,
    /// Requests to split a bucket of a linear-hash table …
    pub buckets_split: u64,
    /// … or to take in another.
    pub buckets_merged: u64,
    /// How often the record of a file had changed.
    pub table_epochs: u64,
    /// Requests to merge a shard with its neighbour.
    pub merges: u64,
    /// Replicas that have given up what they held to a neighbour's.
    pub given_up: u64,
    /// … in runs whose keyspace is ordered.
    pub ordered_given_up: u64,
    /// Writes that were sent to shards which others have taken in meanwhile.
    pub inherited: u64,
    /// Writes that a shard has turned away, and that were sent on.
    pub moved: u64,
    /// Removed replicas that have ended.
    pub removals: u64,
    /// Changes of replicas that the balancer decided.
    pub decisions: u64,
    /// Leader transfers that the balancer decided.
    pub balancer_transfers: u64,
    /// The longest time until the ring was ideal.
    pub rest_ms: u64,
    /// Links that were lost.
    pub links: u64,
    /// Altered messages that have reached a node …
    pub altered: u64,
    /// … and that it has refused: all of them, unless the run has failed.
    pub altered_refused: u64,
    /// Forged, replayed and altered handshakes …
    pub forged: u64,
    /// … and those that were refused.
    pub forged_refused: u64,
    /// Disks that became full.
    pub fillings: u64,
    /// Commands refused because a disk was full.
    pub full: u64,
    /// Processes that ended because of what their disk did.
    pub disk_deaths: u64,
    /// Changes of the catalogue.
    pub changes: u64,
    /// Commands of several keys that were answered.
    pub joint: u64,
    /// Transactions that were answered …
    pub transactions: u64,
    /// … with nil: a watched key had changed.
    pub broken: u64,
    /// Transactions over several shards that were done …
    pub wide_committed: u64,
    /// … or not: a watched key had changed …
    pub wide_changed: u64,
    /// … those that watched ranges.
    pub wide_ranges: u64,
    /// … or others had their keys, or a shard of theirs had no leader.
    pub multi_shard_busy: u64,
    /// Those of unknown outcome.
    pub multi_shard_unknown: u64,
    /// … and that others have finished.
    pub wide_finished: u64,
    /// Commands beside them, of one shard or one key, and reads of several, that were answered.
    pub wide_ones: u64,
    /// Reads of several keys that have seen the same twice.
    pub wide_looks: u64,
    /// Scripts that were done …
    pub scripts: u64,
    /// … sent one behind the other to a queue.
    pub script_pipelines: u64,
    /// Batches of several scripts.
    pub script_batches: u64,
    /// Transactions that span keyspaces.
    pub wide_spanning: u64,
    /// Scripts and batches that ran again because of what others had changed.
    pub script_conflicts: u64,
    /// Scripts that have left a queue.
    pub scripts_left: u64,
    /// Times that a script lacked keys, which were then read.
    pub script_reads: u64,
    /// Times that a script's keys were reserved.
    pub script_reservations: u64,
    /// Scripts that were committed over shards.
    pub scripts_coordinated: u64,
    /// Finished transactions of each workload, in the order of [`Workload::ALL`].
    pub workloads: [u64; Workload::ALL.len()],
    /// Blocks of snapshots that were sent.
    pub blocks: u64,
    /// Snapshots that went on after their link was lost.
    pub resumed: u64,
    /// Times that a block of a snapshot was ready and had to wait for the rate.
    pub held: u64,
    /// Blocks of snapshots that did not wait for the rate, because their shards waited for them.
    pub urgent: u64,
    /// Nodes that came back as another version.
    pub versions: u64,
    /// Nodes that ended because they did not support the cluster version.
    pub outgrown: u64,
    /// Cluster versions that clusters have risen to.
    pub version_rises: u64,
    /// Entries compared between replicas.
    pub compared: u64,
    /// Digests of replicas that were found to agree with others.
    pub digests: u64,
    /// Disks that have lost the end of their logs.
    pub tails_lost: u64,
    /// Replicas that had lost what they had promised, and ended.
    pub quarantines: u64,
    /// Writes that were forwarded to a leader, and applied.
    pub forwarded: u64,
    /// Reads answered from fetched data: the shard was remote, or its local replica lagged.
    pub fetched: u64,
    /// Reads that were refused because a replica lags.
    pub lags: u64,
    /// Questions about all keys, and pages of them, answered.
    pub whole: u64,
    /// Times that old versions were collected somewhere.
    pub collected: u64,
    /// Reads answered with what may have been old.
    pub stale: u64,
    /// Histories that were too long to judge.
    pub unjudged: u64,
    /// Things that nodes did.
    pub node_steps: u64,
    /// Milliseconds of virtual time.
    pub millis: u64,
}
