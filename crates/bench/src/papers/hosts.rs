//! The hosts of agents, on which nodes of the documents run.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use super::load::Agents;
use crate::Outcome;
use crate::agents::nodes::{FarHost, SILENT_MAX};
use crate::run::host::Host;

/// How often an agent hears of us: its nodes end if it does not.
const SIGN_OF_LIFE: Duration = SILENT_MAX.checked_div(6).expect("six is not zero");

/// Hosts, in the order of nodes.
pub type Hosts = Vec<Box<dyn Host + Send>>;

/// Connects to those of all agents.
///
/// # Errors
/// One cannot be reached, or knows another secret.
pub fn far_hosts(agents: &Agents) -> Outcome<Hosts> {
    let mut hosts: Hosts = Vec::new();
    for name in &agents.names {
        hosts.push(Box::new(FarHost::connect(name, &agents.secret)?));
    }
    Ok(hosts)
}

/// Asks agents something now and then, as long as there is somebody to ask for.
pub fn give_signs_of_life(hosts: &Arc<Mutex<Hosts>>) {
    let hosts = Arc::downgrade(hosts);
    thread::spawn(move || {
        loop {
            sleep(SIGN_OF_LIFE);
            let Some(hosts) = hosts.upgrade() else { return };
            for host in hosts.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
                // If it is lost, the next question that matters says so.
                let _lost = host.last_words(0);
            }
        }
    });
}
