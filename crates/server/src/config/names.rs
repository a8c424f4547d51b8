//! Kinds of settings about other nodes: addresses, what this node advertises, replicas of a key.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::kind::{Kind, Toml};
use overlay::LookupChoice;

/// The longest host name (RFC 1035), in bytes.
const HOST_BYTES_MAX: usize = 255;
/// No more addresses are dialled.
const SEEDS_MAX: usize = 16;

/// Whether it could be a host name, or is an address.
fn is_host(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !text.is_empty() && text.len() <= HOST_BYTES_MAX && text.chars().all(letter)
}

/// A host, with a port or without: `db1`, `db1:7600`, `10.0.0.1`, `::1`, `[::1]:7600`.
fn split(text: &str) -> Option<(String, Option<u16>)> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some((ip.to_string(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.port() != 0).then(|| (address.ip().to_string(), Some(address.port())));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port != 0)?)),
        None => (text, None),
    };
    is_host(host).then(|| (host.to_owned(), port))
}

/// `HOST:PORT`, in brackets where the host is an IPv6 address.
pub fn host_and_port(host: &str, port: u16) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

/// The address of this node that others get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// Host name or address, for other nodes and for clients.
    pub host: String,
    /// The port for other nodes, if not the one that this node listens on.
    pub port: Option<u16>,
}

/// `HOST` or `HOST:PORT`; empty: not given.
pub struct Advertise;

impl Kind for Advertise {
    type Value = Option<Advertised>;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<Option<Advertised>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let (host, port) = split(text).ok_or_else(|| self.accepts())?;
        match host.parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() => Err(self.accepts()),
            _ => Ok(Some(Advertised { host, port })),
        }
    }

    fn accepts(&self) -> String {
        "a host that other nodes can reach, such as db1.example or 10.0.0.1, and perhaps a port: \
         db1.example:7600"
            .into()
    }
}

/// How owners are looked for: `chord recursive noimages`.
pub struct Lookup;

/// … or as for all listeners: empty.
pub struct ListenerLookup;

const LOOKUPS: &str = "a lookup (full, chord, chord-sharp, linear or lh), and perhaps a form \
                       (iterative, recursive or semi-recursive) and noimages: chord recursive";

impl Kind for Lookup {
    type Value = LookupChoice;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<LookupChoice, String> {
        let mut words = text.split_ascii_whitespace().peekable();
        let starts =
            words.peek().is_some_and(|word| overlay::Kind::named(word.as_bytes()).is_some());
        let way = LookupChoice::parse(words.map(str::as_bytes)).ok();
        way.filter(|_| starts).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        LOOKUPS.to_owned()
    }
}

impl Kind for ListenerLookup {
    type Value = Option<LookupChoice>;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<Option<LookupChoice>, String> {
        if text.is_empty() { Ok(None) } else { Lookup.parse(text).map(Some) }
    }

    fn accepts(&self) -> String {
        Lookup.accepts()
    }
}

/// `HOST:PORT[,…]`; empty: none.
pub struct Seeds;

impl Kind for Seeds {
    type Value = Vec<String>;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<Vec<String>, String> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let seed = |text: &str| match split(text.trim())? {
            (host, Some(port)) => Some(host_and_port(&host, port)),
            (_, None) => None,
        };
        let seeds: Option<Vec<String>> = text.split(',').map(seed).collect();
        seeds.filter(|seeds| seeds.len() <= SEEDS_MAX).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        format!(
            "one to {SEEDS_MAX} peer addresses of members, each with its port, such as \
             10.0.0.1:7600,db2.example:7600"
        )
    }
}

/// A path, or nothing.
pub struct OptionalPath;

impl Kind for OptionalPath {
    type Value = Option<PathBuf>;
    const TOML: Toml = Toml::Text;

    fn parse(&self, text: &str) -> Result<Option<PathBuf>, String> {
        match text {
            "" => Ok(None),
            _ if text.contains('\0') => Err(self.accepts()),
            _ => Ok(Some(text.into())),
        }
    }

    fn accepts(&self) -> String {
        "a path".into()
    }
}

/// An odd number up to 9; `auto` leaves it to whether there are other nodes.
pub struct Replicas;

impl Kind for Replicas {
    type Value = Option<u8>;
    const TOML: Toml = Toml::Number;

    fn parse(&self, text: &str) -> Result<Option<u8>, String> {
        match text {
            "auto" => Ok(None),
            "1" | "3" | "5" | "7" | "9" => Ok(text.parse().ok()),
            _ => Err(self.accepts()),
        }
    }

    fn accepts(&self) -> String {
        "1, 3, 5, 7, 9 or auto (an even number survives no more failures than one fewer)".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let parsed =
            |text| Advertise.parse(text).unwrap().map(|address| (address.host, address.port));
        assert_eq!(parsed(""), None);
        assert_eq!(parsed("db1"), Some(("db1".into(), None)));
        assert_eq!(parsed("db1:7"), Some(("db1".into(), Some(7))));
        assert_eq!(parsed("::1"), Some(("::1".into(), None)));
        assert_eq!(parsed("[::1]:7"), Some(("::1".into(), Some(7))));
        for wrong in ["db1:", ":7", "db1:0", "0.0.0.0", "::", "[::]:7", "a b", "a:b:7", "x:70000"] {
            assert!(Advertise.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seeds_have_ports() {
        let seeds = Seeds.parse("a:1, 10.0.0.1:2,[::1]:3").unwrap();
        assert_eq!(seeds, ["a:1", "10.0.0.1:2", "[::1]:3"]);
        for wrong in ["a", "a:1,", ",", "10.0.0.1", "a:1;b:2", &"a:1,".repeat(17)] {
            assert!(Seeds.parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn even_numbers_of_replicas_are_refused_with_the_reason() {
        assert_eq!(Replicas.parse("5"), Ok(Some(5)));
        assert_eq!(Replicas.parse("auto"), Ok(None));
        for wrong in ["0", "2", "4", "11", "three", "", "03"] {
            assert!(Replicas.parse(wrong).unwrap_err().contains("no more failures"), "{wrong}");
        }
    }
}
