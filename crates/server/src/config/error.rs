//! Why a configuration is refused, and what to write instead. The node has not started then.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a value came from. Displayed as its user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line: `--memory-max`.
    Flag(String),
    /// The environment: `CARILLON_MEMORY_MAX`.
    Environment(String),
    /// A file: `memory_max` in that file.
    File {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
    },
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Flag(name) | Origin::Environment(name) => f.write_str(name),
            Origin::File { key, path } => write!(f, "`{key}` in {}", path.display()),
        }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; `carillon start --help` lists all settings".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    )
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No setting has this name.
    #[error("unknown setting {origin}{}", suggestion(nearest.as_deref()))]
    Unknown {
        /// The name as written.
        origin: Origin,
        /// The closest name there is, in the same form.
        nearest: Option<String>,
    },
    /// The setting has a new name.
    #[error("the setting {origin} is now called `{name}`: write that instead. Nothing was started")]
    Renamed {
        /// The old name as written.
        origin: Origin,
        /// The new one, in the same form.
        name: String,
    },
    /// A value that its setting does not take.
    #[error("bad value {value:?} of {origin}: expected {expected}")]
    Value {
        /// The setting as written.
        origin: Origin,
        /// The value as written, cut if long.
        value: String,
        /// What would have been right.
        expected: String,
    },
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is longer than any configuration.
    #[error("the configuration file {} is longer than {bytes_max} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not valid TOML: {why}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where and why, in the parser's words.
        why: String,
    },
    /// A listener that others could reach, while nothing asks who they are.
    #[error(
        "{setting} = {address} could be reached from other machines, and is not both encrypted and \
         closed to strangers: anyone could read and change the data. Use a listener for TLS with a \
         password (password_file) or clients' certificates (tls_client_ca_file), listen on a \
         loopback address such as 127.0.0.1:{}, or add --insecure (CARILLON_INSECURE=true, \
         insecure = true) if the network itself keeps strangers out", address.port()
    )]
    Exposed {
        /// The listener's setting.
        setting: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// A password, and clients of volumes that cannot give it.
    #[error(
        "password_file is set, and clients of volumes cannot give a password: set nbd_tls = \
         required with tls_client_ca_file, so that they show certificates, or nbd = off"
    )]
    VolumesWithoutCertificates,
    /// TLS without a certificate.
    #[error(
        "{listener} needs a certificate: say --tls-cert-file and --tls-key-file \
         (CARILLON_TLS_CERT_FILE, CARILLON_TLS_KEY_FILE). `carillon certs` makes some to try"
    )]
    NoCertificate {
        /// The listener's setting.
        listener: &'static str,
    },
    /// Certificates for nodes, and not all files of them.
    #[error(
        "{setting} is not set: TLS between nodes needs peer_tls_cert_file, peer_tls_key_file and \
         peer_tls_ca_file. Set all three, or none for links that are not encrypted. `carillon \
         certs` makes some to try"
    )]
    PartOfPeerTls {
        /// The setting that is missing.
        setting: &'static str,
    },
    /// Revoked certificates, and nobody is asked for one.
    #[error(
        "{list} lists revoked certificates, but {ca} is not set: nobody is asked for one. Set {ca} \
         too, or take {list} away"
    )]
    RevocationsWithoutAuthority {
        /// The setting of the list.
        list: &'static str,
        /// The setting that is missing.
        ca: &'static str,
    },
    /// A listener for nodes that others could reach.
    #[error(
        "peer = {address} could be reached from other machines. Nodes prove to each other that \
         they know the secret, but what they send then is not encrypted: anyone on the path \
         could read and change it. Give the nodes certificates (peer_tls_cert_file), listen on a \
         loopback address such as 127.0.0.1:{}, or add --insecure (CARILLON_INSECURE=true, \
         insecure = true) if the network itself keeps \
         strangers out", address.port()
    )]
    ExposedPeer {
        /// Its address.
        address: SocketAddr,
    },
    /// Members are to be asked, but not spoken with.
    #[error(
        "join is set, but peer is off: nodes of a cluster need a listener for each other. Add \
         --peer, such as --peer 127.0.0.1:7600"
    )]
    JoinWithoutPeer,
    /// Replicas without nodes that could hold them.
    #[error(
        "replicas = {replicas} needs other nodes, but peer is off. Add --peer, such as --peer \
         127.0.0.1:7600, or leave replicas out"
    )]
    Alone {
        /// How many are wanted.
        replicas: u8,
    },
    /// Nodes would have nothing to know each other by.
    #[error(
        "peer is on, but peer_secret_file is not set: nodes authenticate each other with a secret \
         that all of them share, or with certificates (peer_tls_cert_file). Make one with `(umask \
         077; head -c 32 /dev/urandom | base64 > \
         FILE)`, copy it to every node, and add --peer-secret-file FILE"
    )]
    NoSecret,
    /// "Any address" is no place that others could go to.
    #[error(
        "peer = {address} listens on every address of this machine, and other nodes cannot know \
         which to use: name one with --advertise, such as --advertise 10.0.0.1"
    )]
    NothingToAdvertise {
        /// The listener's address.
        address: SocketAddr,
    },
    /// There are replicas in mode `cluster` only.
    #[error(
        "resp_replica is on, but only clients of a Redis Cluster ask for replicas: it needs \
         resp_mode = cluster, and resp on. Set both, or turn resp_replica off"
    )]
    ReplicaOfNoCluster,
    /// A port of Redis clients is advertised, but nobody listens.
    #[error(
        "{listener}_advertise_port = {port} is set, but {listener} is off: clients would be sent \
         to a port that no node serves. Give {listener} an address, such as 127.0.0.1:6379, or \
         leave {listener}_advertise_port out"
    )]
    PortOfNobody {
        /// The setting of the listener.
        listener: &'static str,
        /// The port.
        port: u64,
    },
    /// Two listeners at one address.
    #[error("{first} and {second} both listen on {address}: give one of them another port, or off")]
    SameAddress {
        /// One setting.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The address of both.
        address: SocketAddr,
    },
    /// A connection's buffer could not hold the longest request or reply.
    #[error(
        "{setting} = {bytes} is too small for keys of key_bytes_max and values of value_bytes_max: \
         at least {bytes_min} is needed"
    )]
    BufferTooSmall {
        /// The setting.
        setting: &'static str,
        /// Its value.
        bytes: u64,
        /// The least that works.
        bytes_min: u64,
    },
}
