//! Shows people what is left, which replicas go on, and what may be lost.

use std::cmp::Ordering;

use node::recovery::quorum_loss::{LostShard, RecoveryPlan, ShardRecovery, Survivor};
use node::replica::record;
use server::recover::RecoveryApplied;

/// What was found in a directory.
pub fn survivor(survivor: &Survivor) -> String {
    let Survivor { cluster, node, replicas, ended, .. } = survivor;
    let catalogue = match survivor.catalogue {
        Some(_) => "one of the catalogue among them",
        None => "none of the catalogue",
    };
    let quarantined = ended.values().filter(|(_, is_removed)| !is_removed).count();
    let quarantined = match quarantined {
        0 => String::new(),
        count => format!("; {count} more were quarantined, and cannot be used"),
    };
    format!(
        "node {:016x} of cluster {cluster:016x}: {}, {catalogue}{quarantined}. Nothing was \
         changed\n",
        node.0,
        counted(replicas.len(), "replica"),
    )
}

/// What goes on, and what may be lost.
pub fn plan(plan: &RecoveryPlan) -> String {
    let all = plan.shards.len() + plan.lost_shards.len() + plan.nameless.len() + plan.sound;
    let mut out = format!(
        "{} of {all} shards have lost their majority for good, if these are all surviving nodes: \
         {}\n",
        all - plan.sound,
        nodes(plan.nodes.keys().map(|node| node.0)),
    );
    if !plan.lost.is_empty() {
        out += &format!(
            "\nTAKEN TO BE LOST FOR GOOD: {}\n  If one of them can still be started, stop here and \
             start it: then no write is lost.\n  After the recovery, never start them again on \
             their old directories.\n",
            nodes(plan.lost.iter().map(|node| node.0))
        );
    }
    out.push('\n');
    out.extend(plan.shards.iter().map(recovery));
    for lost in &plan.lost_shards {
        let keyspace = lost.keyspace.as_deref().unwrap_or_default();
        out += &format!(
            "{}: LOST WHOLLY\n  it has no surviving replica, and the plan does not change it: its \
             keys are not available.\n  The rest of the keyspace can be read. Copy it to another \
             keyspace, then: carillon keyspace drop {keyspace}\n",
            shard(lost)
        );
    }
    for nameless in &plan.nameless {
        out += &format!(
            "shard {nameless}: LOST WHOLLY\n  the surviving catalogue does not know its keyspace, \
             which was created last. Its replicas end\n  when their nodes start. Copy their \
             directories first if you need the data\n"
        );
    }
    if !plan.shards.is_empty() {
        out += "\nNothing was changed yet. Next, on each surviving node, while all are stopped:\n  \
                carillon recover apply --dir DIR --plan PLAN --accept-loss\n";
    }
    out
}

fn recovery(recovery: &ShardRecovery) -> String {
    let ShardRecovery { record, voters: (left, voters), committed, .. } = recovery;
    let (replica, node, index) = (record.replica, record.node.0, record.index);
    let at = match recovery.last_at.millis() {
        0 => String::new(),
        millis => format!(", written {}", utc(millis)),
    };
    let mut out = format!(
        "{}: {left} of {voters} voters left\n  goes on alone from replica {replica} on node \
         {node:016x}; its log ends at entry {index}{at}\n",
        shard(&recovery.shard)
    );
    out += &match recovery.may_miss {
        true => format!(
            "  MAY BE LOST: writes acknowledged after entry {index}. The lost replicas could \
             acknowledge alone;\n  how many they did is unknown\n"
        ),
        false => "  no acknowledged write is lost: the lost replicas were too few to acknowledge \
                  alone\n"
            .to_owned(),
    };
    if let Some(cut) = &record.cut {
        out += &format!(
            "  keeps what is before {cut}: it has split since, and newer shards have the rest\n"
        );
    }
    let first = committed + 1;
    out += &match first.cmp(&index) {
        Ordering::Less => format!(
            "  becomes committed: entries {first} to {index}, even if they were never \
             acknowledged\n"
        ),
        Ordering::Equal => {
            format!("  becomes committed: entry {index}, even if it was never acknowledged\n")
        }
        Ordering::Greater => String::new(),
    };
    for (node, ended) in &recovery.removed {
        out += &format!("  ends: replica {ended} on node {:016x}\n", node.0);
    }
    out
}

/// What was done in a directory.
pub fn applied(applied: &RecoveryApplied, plan: &RecoveryPlan) -> String {
    let node = applied.node.0;
    if applied.shards.is_empty() {
        return format!("node {node:016x}: nothing to do; the plan is applied here\n");
    }
    let count = |wanted| applied.shards.iter().filter(|(_, kind)| *kind == wanted).count();
    let (on, ended) = (count(record::REPLICA_RECOVERED), count(record::REPLICA_REMOVED));
    let mut out = format!(
        "node {node:016x}: {} from here alone, {} here. It is on disk\n",
        match on {
            1 => "1 shard goes on".to_owned(),
            on => format!("{on} shards go on"),
        },
        match ended {
            1 => "1 replica ends".to_owned(),
            ended => format!("{ended} replicas end"),
        }
    );
    let others = plan.nodes.len() - 1;
    if others > 0 {
        out +=
            &format!("next: the same on {}, then start them all\n", counted(others, "more node"));
    } else {
        out += "next: start it with its usual flags\n";
    }
    for lost in &plan.lost {
        out += &format!("when it serves: carillon nodes remove --unknown {:016x}\n", lost.0);
    }
    out
}

fn shard(named: &LostShard) -> String {
    let id = named.shard;
    match (&named.keyspace, named.slots) {
        (None, _) => format!("shard {id} (the catalogue)"),
        (Some(name), None) => format!("shard {id} of keyspace {name}"),
        (Some(name), Some((first, end))) => {
            format!("shard {id} of keyspace {name}, slots {first} to {}", end.saturating_sub(1))
        }
    }
}

fn nodes(nodes: impl Iterator<Item = u64>) -> String {
    nodes.map(|node| format!("{node:016x}")).collect::<Vec<_>>().join(", ")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Milliseconds since 1970 as a date and a time of day.
fn utc(millis: u64) -> String {
    let (mut days, rest) = (millis / 86_400_000, millis % 86_400_000);
    let mut year = 1970;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let day = days + 1;
    format!("{year}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{millis:03} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recover::json::tests::left;

    #[test]
    fn what_may_be_lost_is_named() {
        let made = node::recovery::quorum_loss::plan(&[left()]).expect("two of three are lost");
        let text = plan(&made);
        let expected = "\
shard 1 of keyspace orders, slots 0 to 8191: 1 of 3 voters left
  goes on alone from replica 1 on node 000000000000000a; its log ends at entry 120, written \
2023-11-14 22:13:20.123 UTC
  MAY BE LOST: writes acknowledged after entry 120. The lost replicas could acknowledge alone;
  how many they did is unknown
  becomes committed: entries 118 to 120, even if they were never acknowledged
";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("shard 0 (the catalogue): 1 of 3 voters left\n"), "{text}");
        assert!(text.contains("shard 2 of keyspace orders, slots 8192 to 16383: LOST WHOLLY\n"));
        assert!(text.starts_with("3 of 3 shards have lost their majority for good"), "{text}");
        assert!(!text.contains("it has split since"), "{text}");
        let mut made = made;
        made.shards[1].record.cut = Some(keyspace::Cut::Slot(4096));
        let expected =
            "  keeps what is before slot 4096: it has split since, and newer shards have";
        assert!(super::plan(&made).contains(expected), "{}", super::plan(&made));
        assert!(text.contains("TAKEN TO BE LOST FOR GOOD: ffffffffffffffff\n"), "{text}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000 UTC");
        assert_eq!(utc(951_782_399_999), "2000-02-28 23:59:59.999 UTC");
        assert_eq!(utc(951_868_799_999), "2000-02-29 23:59:59.999 UTC");
        assert_eq!(utc(1_735_689_599_000), "2024-12-31 23:59:59.000 UTC");
        assert_eq!(utc(1_709_251_200_000), "2024-03-01 00:00:00.000 UTC");
    }
}
