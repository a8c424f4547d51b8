//! Metrics of the stream of events, and of change feeds.

use std::sync::atomic::Ordering;

use api::{Kind, Metrics};

use super::feed::FeedCounts;
use crate::runtime::events::Events;

/// Viewers, and what they got or missed.
pub(super) fn events(out: &mut Metrics, events: &Events) {
    let (here, elsewhere) = events.viewers();
    let of = |by: &str, viewers: usize| (vec![("by", by.to_owned())], viewers as f64);
    let help = "Streams of this node's events now, by who asked: clients here, or other nodes.";
    let viewers = [of("clients", here), of("nodes", elsewhere)];
    out.numbers("carillon_event_viewers", help, Kind::Gauge, viewers);
    let counts = events.counts();
    let help = "Events of this node.";
    out.counter("carillon_events_total", help, counts.events);
    let help = "Samples of requests and steps of transactions that some viewer got.";
    out.counter("carillon_event_samples_total", help, counts.samples);
    let help = "Samples without room on their way to a viewer.";
    out.counter("carillon_event_samples_dropped_total", help, counts.samples_dropped);
    let help = "Gaps in streams of events.";
    out.counter("carillon_event_gaps_total", help, counts.gaps);
    let help = "Viewers of events cut off because they read nothing.";
    out.counter("carillon_event_viewers_cut_off_total", help, events.cut_off());
    let help = "Events that were not recorded, because the disk was too slow.";
    out.counter("carillon_events_unrecorded_total", help, events.unrecorded());
    let help = "Viewers of events refused because there were too many.";
    out.counter("carillon_event_viewers_refused_total", help, counts.viewers_refused);
}

/// Change feeds, and what they told.
pub(super) fn feeds(out: &mut Metrics, counts: &FeedCounts) {
    let open = counts.open.load(Ordering::Relaxed) as f64;
    out.gauge("carillon_feeds", "Change feeds that this node serves now.", open);
    let help = "Commits that change feeds of this node have told.";
    out.counter("carillon_feed_commits_total", help, counts.commits.load(Ordering::Relaxed));
    let help = "Changes of keys in these commits.";
    out.counter("carillon_feed_changes_total", help, counts.changes.load(Ordering::Relaxed));
    let help = "Change feeds that have ended because what they had to tell was collected.";
    out.counter("carillon_feeds_too_late_total", help, counts.too_late.load(Ordering::Relaxed));
}
