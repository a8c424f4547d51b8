//! A worker's connections: opened, greeted, read, broken and opened again.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::{Events, Token};

use super::{CONNECT_PAUSE, CONNECT_TIMEOUT, CONNECTS_MAX, EVENTS_MAX, RETRY_NANOS, TIMER, Worker};
use crate::driver::{Reply, codec};
use crate::run::RunError;
use crate::run::link::{Broken, Link};
use crate::run::slots::{Redirect, SlotMap};
use crate::scenario::Driver;

impl Worker<'_> {
    /// Opens all connections, and waits until they are greeted. They come in waves: a server has
    /// room for some hundred that it has not accepted yet, and the kernel drops the others' first
    /// requests, which would be measured as time-outs.
    pub(super) fn connect_all(&mut self) -> Result<(), RunError> {
        let all = self.clients.len();
        if self.is_memory() {
            (0..all).for_each(|index| self.enqueue(index));
            return Ok(());
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        let begun = Instant::now();
        for wave in (0..all).step_by(CONNECTS_MAX) {
            let wave = wave..all.min(wave + CONNECTS_MAX);
            for index in wave.clone() {
                if let Err(why) = self.open(index) {
                    self.lose(index, &why)?;
                }
            }
            self.settle(wave.clone(), &mut events, begun)?;
            if wave.end < all {
                std::thread::sleep(CONNECT_PAUSE);
            }
        }
        Ok(())
    }

    /// Waits until these connections are greeted.
    fn settle(
        &mut self,
        wave: Range<usize>,
        events: &mut Events,
        begun: Instant,
    ) -> Result<(), RunError> {
        while let Some(late) = wave.clone().find(|index| !self.is_settled(*index)) {
            self.poll.poll(events, Some(Duration::from_millis(20)))?;
            for event in events.iter().filter(|event| event.token() != TIMER) {
                let index = event.token().0;
                if let Err(why) = self.handle(index, event.is_writable(), 0) {
                    self.lose(index, &why)?;
                }
            }
            if self.job.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            if begun.elapsed() > CONNECT_TIMEOUT {
                let why = Broken(format!("no connection within {CONNECT_TIMEOUT:?}"));
                return Err(self.unreachable(late, &why));
            }
        }
        Ok(())
    }

    /// A connection cannot be opened before the phase: its end, unless the client has others.
    fn lose(&mut self, index: usize, why: &Broken) -> Result<(), RunError> {
        if self.slots.as_ref().is_none_or(|slots| slots.nodes().len() < 2) {
            return Err(self.unreachable(index, why));
        }
        self.clients[index].link = None;
        self.clients[index].retry = Some(RETRY_NANOS);
        Ok(())
    }

    /// Where a connection goes.
    fn address(&self, index: usize) -> Option<SocketAddr> {
        let addresses = self.slots.as_ref().map_or(self.job.addresses, SlotMap::nodes);
        addresses.get(self.clients[index].target).copied()
    }

    fn unreachable(&self, index: usize, why: &Broken) -> RunError {
        let address = self.address(index);
        let target =
            address.map_or_else(|| "the program".to_owned(), |address| address.to_string());
        RunError::Unreachable { target, why: why.0.clone() }
    }

    pub(super) fn open(&mut self, index: usize) -> Result<(), Broken> {
        let driver = &self.job.scenario.target.driver;
        let address = self.address(index);
        let host = address.map(|address| address.to_string()).unwrap_or_default();
        let Some(codec) = codec(driver, &host) else { return Ok(()) };
        let mut link = match (driver, address) {
            (Driver::Exec { program }, _) => {
                let filled = program.iter().map(|word| word.replace("{address}", &host));
                Link::start(&filled.collect::<Vec<_>>(), codec)?
            }
            (_, Some(address)) => Link::connect(address, self.job.scenario.target.is_tls, codec)?,
            (_, None) => return Err(Broken("no address".to_owned())),
        };
        link.register(self.poll.registry(), Token(index))?;
        self.clients[index].link = Some(link);
        Ok(())
    }

    /// Looks for the end, for requests that take too long, and for connections to open again.
    pub(super) fn tick(&mut self, now: u64) -> Result<(), RunError> {
        if self.job.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let timeout = self.job.scenario.target.request_timeout.as_nanos() as u64;
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.pending.front().is_some_and(|first| first.sent + timeout < now) {
                self.fail(index, &Broken("timeout".to_owned()), now);
            } else if client.retry.is_some_and(|at| at <= now) {
                client.retry = None;
                if self.job.scenario.target.fails_over && self.slots.is_none() {
                    client.target = (client.target + 1) % self.job.addresses.len().max(1);
                }
                self.reconnects += 1;
                if let Err(why) = self.open(index) {
                    self.fail(index, &why, now);
                }
            }
        }
        Ok(())
    }

    /// A connection is of no use any more: all that was under way on it has failed.
    pub(super) fn fail(&mut self, index: usize, why: &Broken, now: u64) {
        let client = &mut self.clients[index];
        if client.link.take().is_some() {
            client.retry = Some(now + RETRY_NANOS);
            let is_lone = self.slots.is_none();
            if is_lone && client.pending.is_empty() && now < self.end && !self.is_walked {
                // A connection that cannot be opened is a failure too.
                self.recorder.failed(0, &why.0, 1);
            }
        }
        if let Some(slots) = &mut self.slots {
            slots.lost(client.target);
        }
        for pending in client.pending.drain(..).filter(|pending| !pending.is_skipped) {
            self.under_way -= 1;
            self.recorder.failed(pending.entry, &why.0, 1);
        }
    }

    /// Something happened on a connection.
    pub(super) fn handle(
        &mut self,
        index: usize,
        is_writable: bool,
        now: u64,
    ) -> Result<(), Broken> {
        // It was opened anew since: the event is of the one before.
        let Some(mut link) = self.clients[index].link.take() else { return Ok(()) };
        let handled = self.read(index, &mut link, is_writable, now);
        self.clients[index].link = Some(link);
        let client = self.client_of(index);
        if !self.redirected.is_empty() {
            self.follow(client, now);
        }
        handled?;
        if self.may_send(client) {
            self.enqueue(client);
        }
        Ok(())
    }

    fn read(
        &mut self,
        index: usize,
        link: &mut Link,
        is_writable: bool,
        now: u64,
    ) -> Result<(), Broken> {
        if is_writable {
            link.on_writable()?;
        }
        loop {
            let more = link.fill(&mut self.buffer)?;
            while let Some(reply) = link.next_reply()? {
                if reply == Reply::Retried {
                    self.retries += 1;
                    continue;
                }
                let Some(pending) = self.clients[index].pending.remove(link.place()) else {
                    return Err(Broken("protocol: a reply to no request".to_owned()));
                };
                if pending.is_skipped {
                    continue;
                }
                self.under_way -= 1;
                let redirect = match &reply {
                    Reply::Refused(why) if self.slots.is_some() => Redirect::of(why),
                    _ => None,
                };
                match redirect {
                    Some(redirect) => self.redirected.push((pending, redirect)),
                    None => self.judge(&pending, &reply, now),
                }
            }
            if !more {
                return Ok(());
            }
        }
    }
}
