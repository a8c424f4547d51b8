//! A connection as `CLIENT LIST` shows it.

use command::TopicKind;

use super::Session;
use crate::resp::commands::tracking::redirect;

impl Session {
    /// This connection as one line of CLIENT LIST, without its end. `idle_secs`: since its last
    /// command; `input_bytes` and `output_bytes`: waiting in its buffers.
    pub fn describe(
        &self,
        now_millis: u64,
        idle_secs: u64,
        input_bytes: usize,
        output_bytes: usize,
    ) -> String {
        let age_secs = now_millis.saturating_sub(self.since_millis) / 1000;
        let flags = match (self.no_evict, self.no_touch) {
            (false, false) => "N",
            (true, false) => "e",
            (false, true) => "T",
            (true, true) => "eT",
        };
        let tracks = match &self.tracking {
            None => "",
            Some(tracking) if tracking.broadcasts => "tB",
            Some(_) => "t",
        };
        let subscribes = if self.subscriptions.is_empty() { "" } else { "P" };
        let queues = if self.is_queueing() || self.has_transaction() { "x" } else { "" };
        let reads = if self.readonly { "r" } else { "" };
        let flags = match (subscribes, queues, reads, flags) {
            ("", "", "", flags) => flags.to_owned(),
            (_, _, _, "N") => format!("{subscribes}{queues}{reads}"),
            (_, _, _, flags) => format!("{subscribes}{queues}{reads}{flags}"),
        };
        let flags = match (tracks, &*flags) {
            ("", _) => flags,
            (tracks, "N") => tracks.to_owned(),
            (tracks, flags) => format!("{flags}{tracks}"),
        };
        let redirect = redirect(self.tracking());
        let subscribed = |kind| self.subscriptions.len(kind);
        let queued = self.queue.as_ref().map_or(-1, |queue| queue.len() as i64);
        format!(
            "id={} addr={} laddr={} fd={} name={} age={age_secs} idle={idle_secs} flags={flags} \
             db={} sub={} psub={} ssub={} multi={queued} qbuf={input_bytes} qbuf-free=0 argv-mem=0 \
             multi-mem=0 rbs=0 rbp=0 obl={output_bytes} oll=0 omem={output_bytes} tot-mem={} \
             events=r cmd={} user={} redir={redirect} resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer.addr,
            self.peer.laddr,
            self.peer.fd,
            self.name,
            self.keyspace,
            subscribed(TopicKind::Channel),
            subscribed(TopicKind::Pattern),
            subscribed(TopicKind::Shard),
            input_bytes + output_bytes,
            self.last_command,
            self.peer.principal.user(),
            self.version.number(),
            self.lib_name,
            self.lib_version,
        )
    }
}
