//! A worker's connections: opened, greeted, read, broken and opened again.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::{Events, Token};

use super::{CONNECT_TIMEOUT, EVENTS_MAX, RETRY_NANOS, TIMER, Worker};
use crate::driver::codec;
use crate::run::RunError;
use crate::run::link::{Broken, Link};
use crate::scenario::Driver;

impl Worker<'_> {
    /// Opens all connections, and waits until they are greeted.
    pub(super) fn connect_all(&mut self) -> Result<(), RunError> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let begun = Instant::now();
        for index in 0..self.clients.len() {
            if self.is_memory() {
                self.enqueue(index);
                continue;
            }
            self.open(index).map_err(|why| self.unreachable(index, &why))?;
        }
        while self.clients.iter().any(|client| !client.is_queued) {
            self.poll.poll(&mut events, Some(Duration::from_millis(20)))?;
            for event in events.iter().filter(|event| event.token() != TIMER) {
                let index = event.token().0;
                self.handle(index, event.is_writable(), 0)
                    .map_err(|why| self.unreachable(index, &why))?;
            }
            if self.job.stop.load(Ordering::Relaxed) {
                return Err(RunError::Stopped);
            }
            if begun.elapsed() > CONNECT_TIMEOUT {
                let late = self.clients.iter().position(|client| !client.is_queued);
                let why = Broken(format!("no connection within {CONNECT_TIMEOUT:?}"));
                return Err(self.unreachable(late.unwrap_or(0), &why));
            }
        }
        Ok(())
    }

    fn unreachable(&self, index: usize, why: &Broken) -> RunError {
        let address = self.job.addresses.get(self.clients[index].target);
        let target = address.map_or_else(|| "the program".to_owned(), SocketAddr::to_string);
        RunError::Unreachable { target, why: why.0.clone() }
    }

    fn open(&mut self, index: usize) -> Result<(), Broken> {
        let driver = &self.job.scenario.target.driver;
        let address = self.job.addresses.get(self.clients[index].target);
        let host = address.map(SocketAddr::to_string).unwrap_or_default();
        let Some(codec) = codec(driver, &host) else { return Ok(()) };
        let mut link = match (driver, address) {
            (Driver::Exec { program }, _) => {
                let filled = program.iter().map(|word| word.replace("{address}", &host));
                Link::start(&filled.collect::<Vec<_>>(), codec)?
            }
            (_, Some(address)) => Link::connect(*address, codec)?,
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
                if self.job.scenario.target.fails_over {
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
            if client.pending.is_empty() && now < self.end && !self.is_walked {
                // A connection that cannot be opened is a failure too.
                self.recorder.failed(0, &why.0, 1);
            }
        }
        for pending in client.pending.drain(..) {
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
        let is_ready = link.is_ready();
        self.clients[index].link = Some(link);
        handled?;
        if is_ready && (self.clients[index].pending.len() as u64) < self.job.phase.pipeline {
            self.enqueue(index);
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
                let Some(pending) = self.clients[index].pending.pop_front() else {
                    return Err(Broken("protocol: a reply to no request".to_owned()));
                };
                self.under_way -= 1;
                self.judge(&pending, &reply, now);
            }
            if !more {
                return Ok(());
            }
        }
    }
}
