//! Signals that end the process.
//!
//! SIGTERM and SIGINT become calls of a function on a thread of their own. The first asks the node
//! to drain. The second ends the process at once, which loses nothing that was acknowledged.

use std::io;
use std::thread::{self, JoinHandle};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{exit, signal_name};

/// Which signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: what service managers and `kill` send.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
}

/// Listens until it is dropped; then signals are taken and passed over.
pub struct Listener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Calls `stop` at the first signal. At the second the process exits with 128 + its number, as a
/// shell would report it.
///
/// # Errors
/// If the handler or the thread cannot be made; then signals end the process as ever.
pub fn listen(stop: impl FnOnce(Signal) + Send + 'static) -> io::Result<Listener> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let handle = signals.handle();
    let thread = thread::Builder::new().name("signals".into()).spawn(move || {
        let mut stop = Some(stop);
        for signal in signals.forever() {
            let name = signal_name(signal).unwrap_or("?");
            match stop.take() {
                Some(stop) => {
                    tracing::info!(signal = name, "stopping; send it again to end at once");
                    stop(if signal == SIGINT { Signal::Interrupt } else { Signal::Terminate });
                }
                None => {
                    tracing::warn!(signal = name, "ending at once");
                    exit(128 + signal);
                }
            }
        }
    })?;
    Ok(Listener { handle, thread: Some(thread) })
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of `stop` was reported when it happened.
            let _panicked = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn the_first_signal_asks_to_stop() {
        let (sender, receiver) = mpsc::channel();
        let listener = listen(move |signal| sender.send(signal).unwrap()).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(Signal::Terminate));
        drop(listener);
    }
}
