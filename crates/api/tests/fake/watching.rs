//! Streams of events of the fake: two events and the end; of the keyspace `flood` events without an
//! end, of `quiet` none. For `full` there are too many viewers.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::ApiError;
use api::events::{EventStream, Wake, WatchRequest, Watching};
use keyspace::{NodeId, Timestamp};
use node::event::stream::{Cursor, EndReason, Gap, GapReason, Output, SourceState};

/// Who takes nothing for so long is stuck.
const STALL: Duration = Duration::from_millis(300);

struct FakeStream {
    left: VecDeque<Output>,
    is_flood: bool,
    taken: Mutex<Instant>,
}

pub(super) fn watch(asked: &WatchRequest, _wake: Wake) -> Result<Watching, ApiError> {
    let keyspace = asked.filter.keyspace();
    if keyspace == Some("full") {
        return Err(ApiError::TooManyViewers { viewers: 32 });
    }
    let node = NodeId(7);
    let cursor = Some(Cursor::behind(Timestamp(65536), node));
    let event = |is_late: bool| Output::Event {
        cursor: cursor.filter(|_| !is_late),
        body: r#"{"type":"split","shard":1}"#.into(),
        is_late,
    };
    let gap = Gap {
        reason: GapReason::Kept,
        events: Some(3),
        is_exact: true,
        samples: 0,
        from: Timestamp(1),
        to: Timestamp(2),
    };
    let gap = Output::Gap { of: node, cursor: None, gap };
    let state = Output::Node { of: NodeId(8), state: SourceState::Silent };
    let left = match keyspace {
        Some("quiet") => VecDeque::new(),
        _ => [gap, event(false), event(true), state, Output::End(EndReason::Stopping)].into(),
    };
    let (is_flood, taken) = (keyspace == Some("flood"), Mutex::new(Instant::now()));
    Ok(Watching {
        node,
        name: "n7".into(),
        cursor: asked.cursor.unwrap_or(Cursor::START),
        nodes: vec![(node, "n7".into())],
        stream: Box::new(FakeStream { left, is_flood, taken }),
    })
}

impl EventStream for FakeStream {
    fn take(&mut self, _bytes_max: usize) -> Vec<Output> {
        *self.taken.lock().unwrap() = Instant::now();
        if self.is_flood {
            let body = format!(r#"{{"x":"{}"}}"#, "x".repeat(1 << 16)).into();
            return vec![Output::Event { cursor: None, body, is_late: false }];
        }
        self.left.drain(..).collect()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(5)
    }

    fn name_of(&self, _node: NodeId) -> String {
        "n8".into()
    }

    fn is_stuck(&self) -> bool {
        self.taken.lock().unwrap().elapsed() >= STALL
    }

    fn was_cut_off(&self) {}
}
