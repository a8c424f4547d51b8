//! Answers consecutive GETs of a pipeline together.
//!
//! A GET spends most of its time waiting for memory. So the loop looks up the keys of up to
//! [`GETS_MAX`] GETs side by side ([`node::replica::read::get_each`]), and then answers them.

use std::ops::ControlFlow;

use command::Sink as _;

use super::connection::Connection;
use super::reply_limit::too_long;
use super::{EventLoop, OUTPUT_PAUSE_BYTES};
use gateway::resp::{Args, RespWriter, Session};
use storage::engine::Version;

/// GETs looked up together.
pub(super) const GETS_MAX: usize = 16;

/// A GET that is parsed and not answered yet. Both are places in the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Get {
    /// Where the command begins.
    command: usize,
    key: usize,
    key_len: usize,
}

impl Get {
    /// The command, which begins there in the input, if it is a GET and its key lies in the input.
    #[inline]
    pub fn of(args: Args<'_>, input: &[u8], command: usize, key_bytes_max: usize) -> Option<Self> {
        if args.len() != 2 || args.name_of_three() != Some(*b"get") {
            return None;
        }
        let key = args.at(1);
        // The arguments of an inline command lie elsewhere.
        let start = key.as_ptr().addr().wrapping_sub(input.as_ptr().addr());
        let inside = start.checked_add(key.len()).is_some_and(|end| end <= input.len());
        let fits = inside && key.len() <= key_bytes_max;
        fits.then_some(Self { command, key: start, key_len: key.len() })
    }
}

/// How the GETs gathered were answered so far.
#[derive(Default)]
struct Answered {
    hits: u64,
    misses: u64,
    /// Redirected to other nodes.
    moved: u64,
    /// Of the hits, those whose value was too long for a reply.
    long: u64,
    /// What the connection's output takes yet.
    bytes_left: usize,
    value_bytes_max: usize,
}

impl Answered {
    fn count(&self) -> usize {
        (self.hits + self.misses + self.moved) as usize
    }

    /// Writes one more reply. Breaks when the output is full.
    #[inline]
    fn write(&mut self, out: &mut RespWriter<'_>, found: Option<Version<'_>>) -> ControlFlow<()> {
        match found {
            Some(version) if version.value.len() > self.value_bytes_max => {
                self.refuse(out, version.value.len());
            }
            Some(version) => {
                self.hits += 1;
                self.bytes_left = self.bytes_left.saturating_sub(version.value.len());
                out.bulk(version.value);
            }
            None => {
                self.misses += 1;
                out.nil();
            }
        }
        if self.bytes_left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// A value that is too long for a reply. Out of the way, so that [`Self::write`] is inlined.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, out: &mut RespWriter<'_>, value_bytes: usize) {
        self.hits += 1;
        self.long += 1;
        out.error(too_long(value_bytes, self.value_bytes_max).as_bytes());
    }
}

impl EventLoop {
    /// Answers the GETs gathered. If one must wait, for its shard or until the client has read what
    /// is there for it, where its command begins.
    #[inline]
    pub(super) fn answer_gets(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        input: &[u8],
    ) -> Option<usize> {
        if self.gets.is_empty() { None } else { self.answer_some(at, connection, session, input) }
    }

    fn answer_some(
        &mut self,
        at: usize,
        connection: &mut Connection,
        session: &Session,
        input: &[u8],
    ) -> Option<usize> {
        let gets = std::mem::take(&mut self.gets);
        let route = connection.route.clone()?;
        let mut keys = [&[][..]; GETS_MAX];
        for (key, get) in keys.iter_mut().zip(&gets) {
            *key = &input[get.key..get.key + get.key_len];
        }
        let mut answered = Answered {
            bytes_left: OUTPUT_PAUSE_BYTES.saturating_sub(connection.unsent()),
            value_bytes_max: self.config.output_bytes_max as usize,
            ..Answered::default()
        };
        // All that is in the input now had come when the first of these was put off.
        let now = connection.next.at.take().unwrap_or_else(|| self.moment());
        let fetched = std::mem::take(&mut connection.next.fetched);
        let all = &keys[..gets.len()];
        let blocked = loop {
            let mut writer = session.writer(&mut connection.output.bytes);
            let rest = &all[answered.count()..];
            let each = |version: Option<Version<'_>>| answered.write(&mut writer, version);
            let found = node::replica::read::get_each_with(&route, rest, now, &fetched, each);
            let Err(blocked) = found else { break None };
            let key = all[answered.count()];
            let redirects = &mut connection.redirects;
            let Some(text) = self.redirect_of_read(redirects, session, &route, blocked, &[key])
            else {
                break Some(blocked);
            };
            answered.moved += 1;
            self.runtime.counters.errors.add(1);
            session.writer(&mut connection.output.bytes).error(text.as_bytes());
        };
        let Answered { hits, misses, long, .. } = answered;
        self.sampler.among((hits + misses) as u32, |which| {
            self.runtime.request_rates.note_keys(&route, keys.get(which as usize).copied());
        });
        if self.runtime.events.is_sampling() {
            // The last one: where a batch ends is as good as drawn.
            let served = all[..answered.count()].last().copied();
            self.runtime.sample_request(&route, false, served, &[]);
        }
        self.runtime.counters.errors.add(long);
        self.counted.others += 1;
        self.statistics.count("get", hits + misses);
        self.counted.hits += hits;
        self.counted.misses += misses;
        if let Some(blocked) = blocked {
            let rest = &all[answered.count()..];
            connection.next.fetched = fetched;
            self.wait_or_fetch(at, connection, &route, blocked, now, rest);
        }
        let waits = gets.get(answered.count()).map(|get| get.command);
        self.gets = gets;
        self.gets.clear();
        waits
    }
}
