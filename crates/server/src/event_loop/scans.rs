//! Answers keyspace scans from local shards and from what was fetched.

use command::{Sink as _, ValueType};
use node::replica::scan::{self, PIECE_KEYS, ScanScope};
use node::routing::route::Route;

use super::keyspace_scan::{SCAN_NEEDS_HASH, SLOTS_NEED_HASH, range_query};
use super::remote_scan::RemoteScan;
use super::reply_limit::TOO_LONG;
use command::glob;
use gateway::resp::{KeyspaceRequest, RANGE_NEEDS_ORDER, Range, RespWriter};

/// Keys, and values if they are asked for.
pub(super) type Pairs = Vec<(Box<[u8]>, Option<Box<[u8]>>)>;

/// A keyspace as one command sees it.
pub(super) struct KeyspaceScan<'a> {
    pub route: &'a Route,
    /// The shards that are looked at here, and when.
    pub asked: &'a ScanScope,
    /// What the others hold, which lie on other nodes or lag here.
    pub remote: RemoteScan,
    /// Whether there are such.
    pub has_remote: bool,
    /// The only shard that is looked at, by its place, where one alone is.
    pub place: Option<usize>,
    pub random: u64,
    /// Longest reply.
    pub bytes_max: usize,
}

impl KeyspaceScan<'_> {
    /// Writes the reply. Returns what RANGE has shown.
    pub fn answer(&self, request: &KeyspaceRequest<'_>, writer: &mut RespWriter<'_>) -> Pairs {
        match request {
            KeyspaceRequest::Size => {
                writer.int((scan::size(self.route, self.asked) + self.remote.size) as i64);
            }
            KeyspaceRequest::RandomKey => match self.random_key() {
                Some(key) => writer.bulk(&key),
                None => writer.nil(),
            },
            KeyspaceRequest::Keys { pattern } => self.write_keys(pattern, writer),
            KeyspaceRequest::Scan { .. } => self.write_page(request, writer),
            KeyspaceRequest::CountInSlot { slot } => self.write_slot_count(*slot, writer),
            KeyspaceRequest::KeysInSlot { slot, count } => {
                self.write_slot_keys(*slot, *count, writer);
            }
            KeyspaceRequest::Range(range) => return self.write_range(range, writer),
            KeyspaceRequest::Flush | KeyspaceRequest::FlushAll => {
                unreachable!("flushes are writes")
            }
        }
        Pairs::new()
    }

    /// By size, so that keys of neither side are favoured.
    fn random_key(&self) -> Option<Box<[u8]>> {
        let Self { route, asked, remote, random, .. } = self;
        let near = if remote.size > 0 { scan::size(route, asked) } else { 0 };
        let is_far = random.rotate_left(13).checked_rem(near + remote.size) >= Some(near);
        let key = match remote.size > 0 && is_far {
            true => remote.random(*random),
            false => scan::random_key(route, asked, *random),
        };
        key.or_else(|| remote.random(*random))
    }

    fn write_keys(&self, pattern: &[u8], writer: &mut RespWriter<'_>) {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let mut show = |key: &[u8]| {
            if bytes <= self.bytes_max && glob::matches(pattern, key) {
                bytes += key.len();
                keys.push(Box::<[u8]>::from(key));
            }
        };
        self.remote.keys.iter().for_each(|key| show(key));
        scan::each_key(self.route, self.asked, PIECE_KEYS, &mut show);
        match bytes > self.bytes_max || self.remote.is_cut {
            true => writer.error(TOO_LONG),
            false => write_all(&keys, writer),
        }
    }

    /// A page of SCAN.
    fn write_page(&self, request: &KeyspaceRequest<'_>, writer: &mut RespWriter<'_>) {
        let KeyspaceRequest::Scan { cursor, count, pattern, type_filter } = request else { return };
        let of_type = type_filter.is_none_or(|t| ValueType::named(t) == Some(ValueType::String));
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let mut show = |key: &[u8]| {
            let is_shown = of_type && pattern.is_none_or(|pattern| glob::matches(pattern, key));
            if is_shown && bytes <= self.bytes_max {
                bytes += key.len();
                keys.push(Box::<[u8]>::from(key));
            }
        };
        self.remote.keys.iter().for_each(|key| show(key));
        let scanned = match self.has_remote {
            true => Ok(self.remote.next.unwrap_or(0)),
            false => scan::scan(self.route, self.asked, *cursor, *count as usize, &mut show),
        };
        // The end of one shard is the beginning of the next.
        let behind = |next| match (next, self.place) {
            (0, Some(place)) if place < self.route.views.len() => {
                scan::cursor_behind(self.route, place)
            }
            (next, _) => next,
        };
        match scanned.map(behind) {
            Ok(_) if bytes > self.bytes_max => writer.error(TOO_LONG),
            Ok(next) => {
                writer.array(2);
                writer.bulk(next.to_string().as_bytes());
                write_all(&keys, writer);
            }
            Err(_) => writer.error(SCAN_NEEDS_HASH),
        }
    }

    fn write_slot_count(&self, slot: keyspace::Slot, writer: &mut RespWriter<'_>) {
        let Self { route, asked, remote, .. } = self;
        let mut count = remote.keys.len() as i64;
        let show = &mut |_: &[u8]| count += 1;
        match scan::each_key_of_slot(route, asked, slot, usize::MAX, PIECE_KEYS, show) {
            Ok(()) if remote.is_cut => writer.error(TOO_LONG),
            Ok(()) => writer.int(count),
            Err(_) => writer.error(SLOTS_NEED_HASH),
        }
    }

    fn write_slot_keys(&self, slot: keyspace::Slot, count: usize, writer: &mut RespWriter<'_>) {
        let Self { route, asked, remote, .. } = self;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let show = &mut |key: &[u8]| {
            bytes += key.len();
            if bytes <= self.bytes_max {
                keys.push(Box::<[u8]>::from(key));
            }
        };
        remote.keys.iter().take(count).for_each(|key| show(key));
        match scan::each_key_of_slot(route, asked, slot, count, PIECE_KEYS, show) {
            Ok(()) if bytes > self.bytes_max => writer.error(TOO_LONG),
            Ok(()) => write_all(&keys, writer),
            Err(_) => writer.error(SLOTS_NEED_HASH),
        }
    }

    fn write_range(&self, range: &Range<'_>, writer: &mut RespWriter<'_>) -> Pairs {
        let (mut found, mut bytes): (Pairs, _) = (Vec::new(), 0);
        let mut show = |key: &[u8], value: &[u8]| {
            bytes += key.len() + if range.with_values { value.len() } else { 0 };
            if bytes > self.bytes_max {
                found.clear();
                return;
            }
            let value = range.with_values.then(|| Box::<[u8]>::from(value));
            found.push((Box::<[u8]>::from(key), value));
        };
        self.remote.pairs.iter().for_each(|(key, value)| show(key, value));
        let bounds = range_query(range);
        let result = scan::range(self.route, self.asked, &bounds, PIECE_KEYS, &mut show);
        if self.has_remote {
            // What is here and what is not, in one order.
            found.sort_unstable_by(|(one, _), (other, _)| match bounds.reverse {
                false => one.cmp(other),
                true => other.cmp(one),
            });
            found.truncate(bounds.keys_max);
        }
        match result {
            Ok(()) if bytes > self.bytes_max => writer.error(TOO_LONG),
            Ok(()) if range.with_values => write_pairs(&found, writer),
            Ok(()) => {
                writer.array(found.len());
                found.iter().for_each(|(key, _)| writer.bulk(key));
            }
            Err(_) => writer.error(RANGE_NEEDS_ORDER),
        }
        found
    }
}

fn write_all(keys: &[Box<[u8]>], writer: &mut RespWriter<'_>) {
    writer.array(keys.len());
    keys.iter().for_each(|key| writer.bulk(key));
}

fn write_pairs(pairs: &Pairs, writer: &mut RespWriter<'_>) {
    writer.pairs(pairs.len());
    for (key, value) in pairs {
        writer.pair();
        writer.bulk(key);
        writer.bulk(value.as_deref().unwrap_or_default());
    }
}
