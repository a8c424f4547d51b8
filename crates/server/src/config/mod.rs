//! The node's configuration.
//!
//! Every setting can be given as a flag, as an environment variable or in a TOML file, always in
//! the same words; the earlier wins:
//!
//! ```text
//!   --memory-max 2GiB   >   CARILLON_MEMORY_MAX=2GiB   >   memory_max = "2GiB"   >   60%
//!                                                          in --config FILE          the default
//! ```
//!
//! Invariants:
//! 1. One table ([`SETTINGS`]) is the only place that knows a setting's name, bounds and default.
//! 2. An unknown name is an error, never ignored: a misspelt `memry_max` must not start a node
//!    without its limit. The error suggests the nearest name, or the new one of a renamed setting.
//! 3. A [`Config`] that [`load`] returned is consistent: see [`Config::check`].
//!
//! It does not know the command line's syntax (the binary builds its flags from the table), nor
//! whether an address can be bound or a directory used: the start of the node shows that.

mod error;
pub mod kind;
pub mod memory;
pub mod names;
mod settings;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::listeners::{Listener, Protocol, TransportKind};
use crate::tls::{PeerTlsFiles, TlsFiles};
use gateway::resp::Mode;
use keyspace::VersionRange;
use overlay::LookupChoice;

pub use api::nearest::nearest;
pub use error::{ConfigError, Origin};
pub use kind::{Listen, MemoryMax, NbdTls};
pub use settings::{Config, RENAMED, SETTINGS, Setting};

/// What the name of each variable of ours begins with.
pub const VARIABLE_PREFIX: &str = "CARILLON_";
/// Names the configuration file, if `--config` does not.
pub const FILE_VARIABLE: &str = "CARILLON_CONFIG";
/// Names the socket of `carillon dev`, which sets it for its nodes.
pub const DEV_VARIABLE: &str = "CARILLON_DEV_CONTROL";
/// No configuration is longer.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A value in an error is cut to about this length.
const SHOWN_CHARS_MAX: usize = 80;
/// Room in a buffer beside one key and one value: names of commands, headers, lengths.
const FRAME_BYTES: u64 = 16 << 10;

/// The configuration of the flags `(name without dashes, value)`, the environment (other programs'
/// variables are passed over) and the file of `--config` or [`FILE_VARIABLE`], if any.
///
/// # Errors
/// See [`ConfigError`]; nothing has been started or changed.
pub fn load(
    file: Option<PathBuf>,
    flags: &[(String, String)],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    let environment = ours(environment);
    let named = || environment.iter().find(|(name, _)| name == FILE_VARIABLE);
    let file = file.or_else(|| named().map(|(_, path)| PathBuf::from(path)));
    let text = file.as_deref().map(read).transpose()?;

    let mut config = Config::default();
    if let (Some(path), Some(text)) = (&file, &text) {
        apply_file(&mut config, path, text)?;
    }
    let dev = environment.iter().find(|(name, _)| name == DEV_VARIABLE);
    config.dev_control = dev.map(|(_, path)| PathBuf::from(path));
    apply_environment(&mut config, &environment)?;
    apply_flags(&mut config, flags)?;
    config.check()?;
    Ok(config)
}

/// The settings that the text of a configuration file says; all others have their defaults.
///
/// # Errors
/// [`ConfigError`]: the first thing in it that is no setting, or no value of one, or does not fit.
pub fn parse(text: &str) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    apply_file(&mut config, Path::new("the text"), text)?;
    config.check()?;
    Ok(config)
}

fn ours(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(String, OsString)> {
    let named = environment.into_iter().map(|(name, value)| (name.to_string_lossy().into(), value));
    let mut ours: Vec<(String, OsString)> =
        named.filter(|(name, _): &(String, _)| name.starts_with(VARIABLE_PREFIX)).collect();
    // Whichever error there is comes first on every run.
    ours.sort();
    ours
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.into(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::TooLong { path: path.into(), bytes_max: FILE_BYTES_MAX });
    }
    Ok(text)
}

/// Sets what a file's text says.
fn apply_file(config: &mut Config, path: &Path, text: &str) -> Result<(), ConfigError> {
    let table: toml::Table = text.parse().map_err(|why: toml::de::Error| ConfigError::Toml {
        path: path.into(),
        why: why.to_string().trim_end().to_owned(),
    })?;
    for (key, value) in &table {
        let origin = Origin::File { key: key.clone(), path: path.into() };
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == key) else {
            if let Some(new) = renamed(|old| old == key) {
                return Err(ConfigError::Renamed { origin, name: new.name.to_owned() });
            }
            let nearest = nearest(key, SETTINGS.iter().map(|setting| setting.name));
            return Err(ConfigError::Unknown { origin, nearest: nearest.map(str::to_owned) });
        };
        let written = match (value, setting.toml) {
            (toml::Value::String(text), _) => Some(text.clone()),
            (toml::Value::Integer(number), kind::Toml::Number) => Some(number.to_string()),
            (toml::Value::Boolean(on), kind::Toml::Switch) => Some(on.to_string()),
            _ => None,
        };
        match written {
            Some(text) => set(config, setting, origin, &text)?,
            None => {
                let (value, expected) = (shown(&value.to_string()), (setting.accepts)());
                return Err(ConfigError::Value { origin, value, expected });
            }
        }
    }
    Ok(())
}

fn apply_environment(
    config: &mut Config,
    environment: &[(String, OsString)],
) -> Result<(), ConfigError> {
    let is_setting = |name: &str| name != FILE_VARIABLE && name != DEV_VARIABLE;
    for (name, value) in environment.iter().filter(|(name, _)| is_setting(name)) {
        let origin = Origin::Environment(name.clone());
        let Some(setting) = SETTINGS.iter().find(|setting| setting.variable() == *name) else {
            if let Some(new) = renamed(|old| settings::variable(old) == *name) {
                return Err(ConfigError::Renamed { origin, name: new.variable() });
            }
            let names: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
            let all = names.iter().map(String::as_str).chain([FILE_VARIABLE]);
            let nearest = nearest(name, all).map(str::to_owned);
            return Err(ConfigError::Unknown { origin, nearest });
        };
        match value.to_str() {
            Some(text) => set(config, setting, origin, text)?,
            None => {
                let (value, expected) = (shown(&value.to_string_lossy()), "Unicode text".into());
                return Err(ConfigError::Value { origin, value, expected });
            }
        }
    }
    Ok(())
}

fn apply_flags(config: &mut Config, flags: &[(String, String)]) -> Result<(), ConfigError> {
    for (name, value) in flags {
        let origin = Origin::Flag(format!("--{name}"));
        let Some(setting) = SETTINGS.iter().find(|setting| setting.flag() == *name) else {
            if let Some(new) = renamed(|old| settings::flag(old) == *name) {
                return Err(ConfigError::Renamed { origin, name: format!("--{}", new.flag()) });
            }
            let names: Vec<String> = SETTINGS.iter().map(Setting::flag).collect();
            let nearest = nearest(name, names.iter().map(String::as_str));
            let nearest = nearest.map(|name| format!("--{name}"));
            return Err(ConfigError::Unknown { origin, nearest });
        };
        set(config, setting, origin, value)?;
    }
    Ok(())
}

/// The setting that an old name, which `is_it` recognises, has become.
fn renamed(is_it: impl Fn(&str) -> bool) -> Option<&'static Setting> {
    let (_, name) = RENAMED.iter().find(|(old, _)| is_it(old))?;
    SETTINGS.iter().find(|setting| setting.name == *name)
}

fn set(
    config: &mut Config,
    setting: &Setting,
    origin: Origin,
    text: &str,
) -> Result<(), ConfigError> {
    (setting.set)(config, text).map_err(|expected| ConfigError::Value {
        origin,
        value: shown(text),
        expected,
    })
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((cut, _)) => format!("{}…", &value[..cut]),
        None => value.to_owned(),
    }
}

impl Config {
    /// How many threads run scripts.
    pub fn script_threads_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(2, usize::from);
        match self.script_threads {
            0 => cores().max(5),
            // The first serves queues only, the second short scripts, and one must take long ones.
            threads => (threads as usize).max(3),
        }
    }

    /// The listeners, one row each, those that are off among them.
    pub fn listeners(&self) -> [Listener; 9] {
        let row = |protocol, listen, lookup: Option<LookupChoice>| Listener {
            protocol,
            listen,
            transport: TransportKind::Plain,
            lookup: lookup.unwrap_or(self.lookup),
        };
        let tls = |row: Listener| Listener { transport: TransportKind::Tls, ..row };
        [
            row(Protocol::Resp, self.resp, self.resp_lookup),
            row(Protocol::RespReplica, self.resp_replica, self.resp_lookup),
            row(Protocol::Native, self.native, None),
            row(Protocol::Nbd, self.nbd, None),
            row(Protocol::Http, self.http, self.http_lookup),
            row(Protocol::Peer, self.peer, None),
            tls(row(Protocol::Resp, self.resp_tls, self.resp_lookup)),
            tls(row(Protocol::Native, self.native_tls, None)),
            tls(row(Protocol::Http, self.http_tls, self.http_lookup)),
        ]
    }

    /// Where a row's listener is.
    pub fn listen_mut(&mut self, row: &Listener) -> &mut Listen {
        match row.protocol {
            Protocol::Resp if row.transport == TransportKind::Tls => &mut self.resp_tls,
            Protocol::Native if row.transport == TransportKind::Tls => &mut self.native_tls,
            Protocol::Http if row.transport == TransportKind::Tls => &mut self.http_tls,
            Protocol::Resp => &mut self.resp,
            Protocol::RespReplica => &mut self.resp_replica,
            Protocol::Native => &mut self.native,
            Protocol::Nbd => &mut self.nbd,
            Protocol::Http => &mut self.http,
            Protocol::Peer => &mut self.peer,
        }
    }

    /// How HTTP clients' keys are looked up, unless they say otherwise.
    pub fn http_way(&self) -> LookupChoice {
        self.http_lookup.unwrap_or(self.lookup)
    }

    /// The HTTP server's limits; the start of the node draws `incarnation`.
    pub fn http_options(&self, incarnation: u64) -> api::http::Options {
        api::http::Options {
            connections_max: self.http_connections_max as usize,
            key_bytes_max: self.key_bytes_max,
            value_bytes_max: self.value_bytes_max,
            request_timeout: Duration::from_millis(self.request_timeout_ms),
            way: self.http_way(),
            dev_control: self.dev_control.clone(),
            ..api::http::Options::new(incarnation)
        }
    }

    /// Whether other nodes are spoken with.
    pub fn has_peers(&self) -> bool {
        self.peer != Listen::Off
    }

    /// The cluster versions that the node supports: up to `cluster_version_max`.
    pub fn supported_versions(&self) -> VersionRange {
        let highest =
            u8::try_from(self.cluster_version_max).ok().and_then(keyspace::ClusterVersion::new);
        highest.and_then(VersionRange::up_to).expect("cluster_version_max is within its bounds")
    }

    /// Replicas of keyspaces that do not say how many.
    pub fn replicas_count(&self) -> u8 {
        let default = if self.has_peers() { 3 } else { 1 };
        self.replicas.unwrap_or(default)
    }

    /// … at this durability: below sync nothing is replicated (SAFETY G9).
    pub fn replicas_at(&self, durability: api::Durability) -> u8 {
        match durability {
            api::Durability::Sync => self.replicas_count(),
            _ => 1,
        }
    }

    /// What other nodes and clients are told, if the peer listener is at `address`: a host, and
    /// where on it other nodes connect. None if all are told to listen is "any address".
    pub fn advertised(&self, address: SocketAddr) -> Option<(String, String)> {
        let (host, port) = match &self.advertise {
            Some(said) => (said.host.clone(), said.port),
            None if address.ip().is_unspecified() => return None,
            None => (address.ip().to_string(), None),
        };
        let peer = names::host_and_port(&host, port.unwrap_or(address.port()));
        Some((host, peer))
    }

    /// The port of Redis clients that others are told; none if nobody listens there.
    pub fn resp_port_advertised(&self) -> Option<u16> {
        port_advertised(self.resp, self.resp_advertise_port)
    }

    /// The port of Redis clients that ask for replicas that others are told; none if nobody listens
    /// there.
    pub fn resp_replica_port_advertised(&self) -> Option<u16> {
        port_advertised(self.resp_replica, self.resp_replica_advertise_port)
    }

    /// Bytes that all connections together may leave unread.
    pub fn unread_bytes_max(&self) -> u64 {
        self.output_bytes_total_max.max(self.output_bytes_max)
    }

    /// Event loops: `threads`, or if that is 0 one for each core but one, which fsyncs and the
    /// rest of the machine need (docs/decisions/0002).
    pub fn threads_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).max(1)),
            threads => threads as usize,
        }
    }

    /// What a keyspace that is made on first use is like.
    pub fn keyspace_options(&self) -> keyspace::KeyspaceOptions {
        keyspace::KeyspaceOptions {
            durability: self.durability.into(),
            retention_ms: self.retention_ms,
            replicas: self.replicas_at(self.durability),
            ..keyspace::KeyspaceOptions::default()
        }
    }

    /// `snapshot_bytes_max` in bytes, here and now.
    pub fn snapshot_bytes_max(&self) -> u64 {
        self.snapshot_bytes_max.bytes(memory::total_bytes())
    }

    /// `memory_max` in bytes, here and now.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_max.bytes(memory::total_bytes())
    }

    /// Whether the settings fit each other: only loopback without `insecure`, no two listeners at
    /// one address, all that a node with peers needs, buffers that hold the longest key and value.
    ///
    /// # Errors
    /// The first that does not fit, with its remedy.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_listeners()?;
        self.check_tls()?;
        self.check_peers()?;
        let ports = [
            ("resp", self.resp, self.resp_advertise_port),
            ("resp_replica", self.resp_replica, self.resp_replica_advertise_port),
        ];
        if let Some((listener, _, port)) =
            ports.into_iter().find(|(_, listen, port)| *port != 0 && listen.address().is_none())
        {
            return Err(ConfigError::PortOfNobody { listener, port });
        }
        let replica_fits = self.resp_mode == Mode::Cluster && self.resp.address().is_some();
        if self.resp_replica.address().is_some() && !replica_fits {
            return Err(ConfigError::ReplicaOfNoCluster);
        }
        let bytes_min = self.key_bytes_max + self.value_bytes_max + FRAME_BYTES;
        let buffers = [
            ("input_bytes_max", self.input_bytes_max),
            ("output_bytes_max", self.output_bytes_max),
        ];
        for (setting, bytes) in buffers {
            if bytes < bytes_min {
                return Err(ConfigError::BufferTooSmall { setting, bytes, bytes_min });
            }
        }
        Ok(())
    }

    fn check_listeners(&self) -> Result<(), ConfigError> {
        let on = self.listeners().map(|row| Some((row, row.listen.address()?)));
        let on: Vec<(Listener, SocketAddr)> = on.into_iter().flatten().collect();
        for (place, &(row, address)) in on.iter().enumerate() {
            let setting = row.name();
            let asks = self.authenticates_clients(&row);
            if !self.insecure && !is_loopback(address.ip()) && !asks {
                return Err(match row.protocol {
                    Protocol::Peer => ConfigError::ExposedPeer { address },
                    _ => ConfigError::Exposed { setting, address },
                });
            }
            let earlier = on[..place].iter().find(|(_, other)| *other == address);
            if let Some((first, _)) = earlier
                && address.port() != 0
            {
                let first = first.name();
                return Err(ConfigError::SameAddress { first, second: setting, address });
            }
        }
        Ok(())
    }

    /// Where the certificates are, if a listener needs them.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        let (cert, key) = (self.tls_cert_file.clone()?, self.tls_key_file.clone()?);
        let client_ca = self.tls_client_ca_file.clone();
        Some(TlsFiles { cert, key, client_ca, client_crl: self.tls_client_crl_file.clone() })
    }

    /// Whether a listener speaks TLS, and admits only clients that show a certificate of the
    /// operator's own authority, or give the password.
    fn authenticates_clients(&self, row: &Listener) -> bool {
        let is_tls = row.transport == TransportKind::Tls;
        match row.protocol {
            _ if is_tls && self.tls_client_ca_file.is_some() => true,
            Protocol::Resp | Protocol::Http => is_tls && self.password_file.is_some(),
            Protocol::Peer => self.peer_tls_cert_file.is_some(),
            Protocol::Nbd => self.nbd_tls == NbdTls::Required && self.tls_client_ca_file.is_some(),
            _ => false,
        }
    }

    /// Where the certificates for other nodes are, if there are any.
    pub fn peer_tls_files(&self) -> Option<PeerTlsFiles> {
        Some(PeerTlsFiles {
            cert: self.peer_tls_cert_file.clone()?,
            key: self.peer_tls_key_file.clone()?,
            ca: self.peer_tls_ca_file.clone()?,
            crl: self.peer_tls_crl_file.clone(),
            name: self.peer_tls_name.clone(),
        })
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        let is_on =
            |row: &Listener| row.transport == TransportKind::Tls && row.listen.address().is_some();
        let files = [
            ("peer_tls_cert_file", &self.peer_tls_cert_file),
            ("peer_tls_key_file", &self.peer_tls_key_file),
            ("peer_tls_ca_file", &self.peer_tls_ca_file),
        ];
        for (list, of, ca, what) in [
            (
                "tls_client_crl_file",
                &self.tls_client_crl_file,
                &self.tls_client_ca_file,
                "tls_client_ca_file",
            ),
            (
                "peer_tls_crl_file",
                &self.peer_tls_crl_file,
                &self.peer_tls_ca_file,
                "peer_tls_ca_file",
            ),
        ] {
            if of.is_some() && ca.is_none() {
                return Err(ConfigError::RevocationsWithoutAuthority { list, ca: what });
            }
        }
        let missing = files.iter().find(|(_, file)| file.is_none());
        if let Some((setting, _)) = missing.filter(|_| files.iter().any(|(_, f)| f.is_some())) {
            return Err(ConfigError::PartOfPeerTls { setting });
        }
        let volumes_ask = self.nbd_tls == NbdTls::Required && self.tls_client_ca_file.is_some();
        // Their clients have no password to give.
        if self.password_file.is_some() && self.nbd.address().is_some() && !volumes_ask {
            return Err(ConfigError::VolumesWithoutCertificates);
        }
        let starts_tls = self.nbd_tls != NbdTls::Off && self.nbd.address().is_some();
        let row = self.listeners().into_iter().find(is_on);
        let row = row.map(|row| row.name()).or(starts_tls.then_some("nbd_tls"));
        let Some(listener) = row else { return Ok(()) };
        match (&self.tls_cert_file, &self.tls_key_file) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err(ConfigError::NoCertificate { listener }),
        }
    }

    fn check_peers(&self) -> Result<(), ConfigError> {
        let Some(address) = self.peer.address() else {
            return match self.replicas {
                _ if !self.join.is_empty() => Err(ConfigError::JoinWithoutPeer),
                Some(replicas) if replicas > 1 => Err(ConfigError::Alone { replicas }),
                _ => Ok(()),
            };
        };
        if self.peer_secret_file.is_none() && self.peer_tls_cert_file.is_none() {
            return Err(ConfigError::NoSecret);
        }
        match self.advertised(address) {
            Some(_) => Ok(()),
            None => Err(ConfigError::NothingToAdvertise { address }),
        }
    }
}

/// The port that others are told of a listener; none if it is off.
fn port_advertised(listen: Listen, advertised: u64) -> Option<u16> {
    let listened = listen.address()?.port();
    match advertised {
        0 => Some(listened),
        port => u16::try_from(port).ok(),
    }
}

/// Whether only this machine reaches an address.
pub fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
