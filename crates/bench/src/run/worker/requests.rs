//! A worker's requests: when they are sent, what they are, and whether their replies are good.

use std::cmp::Reverse;

use super::{Job, KEY_DIGITS, Pending, Worker};
use crate::driver::{Reply, Request};
use crate::load::schedule::Schedule;
use crate::load::values::{Sizes, is_value_of, number_of, write_amount, write_drawn, write_of};
use crate::load::written::Written;
use crate::scenario::{Action, Driver};

impl Job<'_> {
    /// Which writes reads may return, if that is checked.
    fn written(&self) -> Option<&Written> {
        self.scenario.verifies_latest.then_some(&self.shared.written)
    }
}

impl Worker<'_> {
    /// Sends what may be sent now.
    pub(super) fn issue(&mut self, now: u64) {
        if self.schedule.is_some() {
            self.issue_due(now);
            return;
        }
        for _ in 0..self.queue.len() {
            let Some(index) = self.queue.pop_front() else { return };
            self.clients[index].is_queued = false;
            while self.is_free(index) && !self.is_walked {
                let entry = self.mix.draw(&mut self.random);
                if let Action::Sleep(time) = &self.job.phase.mix[entry].action {
                    self.clients[index].is_asleep = true;
                    self.sleepers.push(Reverse((now + time.as_nanos() as u64, index)));
                    break;
                }
                let now = if self.is_memory() { self.now() } else { now };
                self.send(index, entry, now, now);
                if self.is_memory() {
                    self.enqueue(index);
                    break;
                }
            }
            self.unsent.push(index);
        }
    }

    /// Sends what is due, as far as there are free clients.
    fn issue_due(&mut self, now: u64) {
        while let Some(due) = self.schedule.as_ref().and_then(Schedule::next)
            && due <= now
        {
            let Some(index) = self.queue.pop_front() else {
                self.starved_at = now;
                return;
            };
            self.clients[index].is_queued = false;
            if !self.is_free(index) {
                continue;
            }
            let entry = self.mix.draw(&mut self.random);
            self.send(index, entry, due, now);
            if due >= self.starved_at {
                self.recorder.lagged(now - due);
            }
            self.unsent.push(index);
            if self.is_free(index) {
                self.enqueue(index);
            }
            if let Some(schedule) = &mut self.schedule {
                schedule.advance(&mut self.random);
            }
        }
    }

    fn is_free(&self, index: usize) -> bool {
        self.is_memory() || self.may_send(index)
    }

    fn send(&mut self, index: usize, entry: usize, since: u64, now: u64) {
        let action = &self.job.phase.mix[entry].action;
        let key = match action {
            _ if self.job.is_walk => match self.keys.walk() {
                Some(key) => key,
                None => {
                    self.is_walked = true;
                    return;
                }
            },
            Action::Insert => self.keys.insert(),
            _ => self.keys.pick(&mut self.random),
        };
        write_key(&self.job.scenario.keys.prefix, key, &mut self.key);
        self.value.clear();
        let sizes = &self.job.scenario.sizes;
        let mut write = 0;
        let has_numbers = matches!(sizes, Sizes::Number(_));
        match action {
            Action::Command(_) | Action::Transfer(_) if has_numbers => {
                write_amount(&mut self.random, &mut self.value);
            }
            Action::Put | Action::Insert | Action::Command(_) => {
                write = write_drawn(key, sizes, &mut self.random, &mut self.value);
            }
            _ => {}
        }
        self.other.clear();
        if action.has_other() {
            let other = self.keys.pick_other(key, &mut self.random);
            write_key(&self.job.scenario.keys.prefix, other, &mut self.other);
        }
        let request = Request { action, key: &self.key, other: &self.other, value: &self.value };
        let mut pending = Pending::new(entry, key, since, now);
        if let Some(written) = self.job.written() {
            (pending.write, pending.stamp) = (write, written.now());
            if matches!(action, Action::Put | Action::Insert) {
                written.sent(key, write, pending.stamp);
            }
        }
        if self.slots.is_some() {
            self.send_to_owner(index, pending);
        } else if let Some(link) = &mut self.clients[index].link {
            link.send(&request);
            self.under_way += 1;
            self.clients[index].pending.push_back(pending);
        } else {
            let reply = self.job.shared.memory.ask(&request);
            let now = self.now();
            self.judge(&pending, &reply, now);
        }
    }

    /// Records a reply, good or bad.
    pub(super) fn judge(&mut self, pending: &Pending, reply: &Reply, now: u64) {
        let Job { scenario, phase, .. } = self.job;
        let is_null = matches!(scenario.target.driver, Driver::Null);
        let judged = match (&phase.mix[pending.entry].action, reply) {
            (_, Reply::Refused(why)) => Err(refused(why)),
            (Action::Get, Reply::Absent) if phase.requires_values && !is_null => {
                Err("missing value".to_owned())
            }
            (Action::Get, Reply::Absent) => Ok(true),
            (Action::Get, Reply::Value(value)) => {
                let is_good =
                    !scenario.verifies || is_value_of(pending.key, &scenario.sizes, value);
                if matches!(scenario.sizes, Sizes::Number(_)) {
                    self.sum = self.sum.wrapping_add(number_of(value).unwrap_or(0));
                }
                let is_old = |written: &Written| {
                    let write = write_of(value);
                    write.is_some_and(|w| !written.may_return(pending.key, w, pending.stamp))
                };
                match is_good {
                    true if self.job.written().is_some_and(is_old) => Err("old value".to_owned()),
                    true => Ok(false),
                    false => Err("wrong value".to_owned()),
                }
            }
            (Action::Get, Reply::Done) => Err("no value and no word that there is none".to_owned()),
            // A server that answers without looking answers nothing else.
            (Action::Put | Action::Insert, Reply::Absent | Reply::Value(_)) if !is_null => {
                Err("not acknowledged".to_owned())
            }
            (Action::Delete, Reply::Value(_)) => Err("not acknowledged".to_owned()),
            (Action::Transfer(_), Reply::Absent | Reply::Value(_)) => {
                Err("not acknowledged".to_owned())
            }
            (Action::Put | Action::Insert, _) => {
                if let Some(written) = self.job.written() {
                    let longest = scenario.target.request_timeout.as_nanos() as u64;
                    let (key, write) = (pending.key, pending.write);
                    written.acknowledged(key, write, written.now(), longest);
                }
                Ok(false)
            }
            _ => Ok(false),
        };
        match judged {
            Ok(absent) => self.recorder.answered(pending.entry, pending.since, now, absent),
            Err(kind) => self.recorder.failed(pending.entry, &kind, 1),
        }
    }
}

/// The kind of a refusal: its first words, without what differs each time.
fn refused(why: &[u8]) -> String {
    let why = String::from_utf8_lossy(&why[..why.len().min(200)]).into_owned();
    let plain = |word: &&str| !word.contains(|c: char| c.is_ascii_digit() || c == '\'');
    let words: Vec<&str> = why.split_whitespace().collect();
    let head = words.iter().take(1).copied();
    let rest = words.iter().skip(1).copied().take_while(plain).take(5);
    format!("refused: {}", head.chain(rest).collect::<Vec<_>>().join(" "))
}

/// The bytes of a key: its prefix and its number, all of one length.
pub fn write_key(prefix: &str, key: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(prefix.as_bytes());
    let from = out.len();
    let digits = (key.checked_ilog10().unwrap_or(0) as usize + 1).max(KEY_DIGITS);
    out.resize(from + digits, b'0');
    let mut rest = key;
    for digit in out[from..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_one_length() {
        let mut out = Vec::new();
        let mut text = |key| {
            write_key("k:", key, &mut out);
            String::from_utf8(out.clone()).unwrap()
        };
        assert_eq!(text(0), "k:000000000000");
        assert_eq!(text(1_234), "k:000000001234");
        assert_eq!(text(9_999_999_999_999), "k:9999999999999");
    }

    #[test]
    fn refusals_are_few_kinds() {
        assert_eq!(refused(b"OOM command not allowed"), "refused: OOM command not allowed");
        assert_eq!(refused(b"MOVED 3999 127.0.0.1:1"), "refused: MOVED");
        assert_eq!(refused(b"ERR unknown command 'X', with"), "refused: ERR unknown command");
        assert_eq!(refused(b"503 busy"), "refused: 503 busy");
    }
}
