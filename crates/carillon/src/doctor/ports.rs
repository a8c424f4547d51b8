//! Whether the listeners of a node can listen.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use server::config::Config;

use super::Finding;

/// All of them: one finding if all is well.
pub(super) fn look(config: &Config) -> Vec<Finding> {
    let listeners = config.listeners();
    let addresses: Vec<(&'static str, SocketAddr)> = listeners
        .iter()
        .filter_map(|row| row.listen.address().map(|address| (row.protocol.name(), address)))
        .collect();
    let mut findings: Vec<Finding> = addresses
        .iter()
        .filter_map(|(protocol, address)| {
            // Held no longer than it takes to know.
            TcpListener::bind(address).err().map(|error| taken(protocol, *address, &error))
        })
        .collect();
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.ok().as_deref().and_then(outgoing);
    let reserved = fs::read_to_string("/proc/sys/net/ipv4/ip_local_reserved_ports");
    let reserved = reserved.unwrap_or_default();
    let inside = addresses.iter().map(|(_, address)| address.port()).filter(|port| {
        let is_outgoing = range.as_ref().is_some_and(|range| range.contains(port));
        is_outgoing && !is_reserved(&reserved, *port)
    });
    let inside: Vec<String> = inside.map(|port| port.to_string()).collect();
    if let (false, Some(range)) = (inside.is_empty(), range) {
        findings.push(among_outgoing(&inside, &range));
    }
    if findings.is_empty() {
        let ports: Vec<String> =
            addresses.iter().map(|(_, address)| address.port().to_string()).collect();
        findings.push(Finding::well("ports", format!("{} are free", ports.join(", "))));
    }
    findings
}

fn taken(protocol: &str, address: SocketAddr, error: &io::Error) -> Finding {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "stop what listens there (`ss -ltnp` names it), or choose another one"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root: choose a higher one, or give the program \
             CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: `ip address` lists those that it has"
        }
        _ => "choose another one",
    };
    Finding::bad("ports", format!("{protocol} cannot listen on {address}: {error}"), advice)
}

/// The ports that the kernel gives to outgoing connections.
fn outgoing(text: &str) -> Option<RangeInclusive<u16>> {
    let mut bounds = text.split_whitespace().map(str::parse);
    Some(bounds.next()?.ok()?..=bounds.next()?.ok()?)
}

/// Whether it never gives out this one: a list like `7600-7602,9000`.
fn is_reserved(list: &str, port: u16) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first.parse().ok().zip(last.parse().ok());
        bounds.is_some_and(|(first, last): (u16, u16)| (first..=last).contains(&port))
    })
}

fn among_outgoing(ports: &[String], range: &RangeInclusive<u16>) -> Finding {
    let ports = ports.join(", ");
    Finding::uneasy(
        "ports",
        format!("{ports}: among those that outgoing connections get, {range:?}"),
        format!(
            "a start fails if one has it just then. Choose lower ones, or `sysctl -w \
             net.ipv4.ip_local_reserved_ports={}`",
            ports.replace(' ', "")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_named() {
        let held = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = held.local_addr().expect("it is bound");
        let error = TcpListener::bind(address).expect_err("it is taken");
        let finding = taken("resp", address, &error);
        assert_eq!(finding.verdict, Verdict::Bad);
        assert!(finding.found.contains(&address.to_string()), "{finding:?}");
        assert!(finding.advice.is_some_and(|advice| advice.contains("ss -ltnp")));
    }

    #[test]
    fn ports_of_outgoing_connections_are_a_range_with_holes() {
        let range = outgoing("32768\t60999\n").expect("a range");
        assert!(range.contains(&40_000) && !range.contains(&7_600));
        assert_eq!(outgoing("x"), None);
        assert!(is_reserved("7600-7602,9000\n", 7_601) && is_reserved("9000", 9_000));
        assert!(!is_reserved("\n", 7_601) && !is_reserved("7600-7602", 7_603));
        assert_eq!(among_outgoing(&["40000".into()], &range).verdict, Verdict::Uneasy);
    }
}
