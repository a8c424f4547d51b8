//! `carillon certs dev`: an authority of one's own, and certificates that it has signed: to try
//! TLS.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::exit::Exit;
use crate::output;

/// How long the authority itself is good for, at least: ten years.
const CA_DAYS: u64 = 3653;
/// The longest time that a certificate may be good for.
const DAYS_MAX: u64 = 3653;
/// The name that tells nodes from clients: the default of `peer_tls_name`.
const PEER_NAME: &str = "peer.carillon";
/// So long before now a certificate begins, for clocks that are behind.
const BEFORE: Duration = Duration::from_secs(3600);

const EXAMPLES: &str = "\
Examples:
  carillon certs dev                         ./certs, for this machine
  carillon certs dev --host db1 --host 10.0.0.7
  carillon start --resp-tls 127.0.0.1:6390 --http-tls 127.0.0.1:7490 \\
    --tls-cert-file certs/server.pem --tls-key-file certs/server.key
  redis-cli -p 6390 --tls --cacert certs/ca.pem
  curl --cacert certs/ca.pem https://127.0.0.1:7490/v1/status
With --tls-client-ca-file certs/ca.pem clients must show a certificate:
  redis-cli -p 6390 --tls --cacert certs/ca.pem --cert certs/client.pem --key certs/client.key";

/// `carillon certs`
#[derive(Debug, Args)]
pub struct CertsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CertsCommand,
}

/// What can be done with certificates.
#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Make an authority, and certificates for nodes and clients, to try TLS.
    ///
    /// If the directory has an authority already, that signs new certificates in place of the old
    /// ones: nodes that run take them by themselves.
    #[command(after_help = EXAMPLES)]
    Dev(DevCertsArgs),
}

/// `carillon certs dev`
#[derive(Debug, Args)]
pub struct DevCertsArgs {
    /// Where the files go; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "certs")]
    pub dir: PathBuf,
    /// A name or an address of nodes, beside localhost, 127.0.0.1 and ::1; may be repeated.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// The client's name in its certificate.
    #[arg(long, value_name = "NAME", default_value = "client")]
    pub client: String,
    /// How many days the certificates are good for.
    #[arg(long, value_name = "DAYS", default_value_t = 90,
        value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX))]
    pub days: u64,
}

#[derive(Debug, thiserror::Error)]
enum CertsError {
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: io::Error },
    #[error("{}: it is no authority that this program has made: {why}", file.display())]
    Authority { file: PathBuf, why: rcgen::Error },
    #[error("--host {host}: it is no name and no address: {why}")]
    Host { host: String, why: rcgen::Error },
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Runs it.
pub fn certs(args: &CertsArgs) -> Exit {
    let CertsCommand::Dev(args) = &args.command;
    match make(args) {
        Ok(text) => output::raw(text.as_bytes()),
        Err(error) => {
            eprintln!("carillon: {error}");
            match error {
                CertsError::Host { .. } => Exit::Usage,
                _ => Exit::Refused,
            }
        }
    }
}

/// Writes a file whole, under its name from one moment to the next; a key for its owner alone.
fn write(file: &Path, text: &str, is_secret: bool) -> Result<(), CertsError> {
    let fail = |why| CertsError::File { file: file.to_owned(), why };
    let new = file.with_extension("new");
    let mode = if is_secret { 0o600 } else { 0o644 };
    // What an earlier run has left may have another mode.
    match fs::remove_file(&new) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(fail(why)),
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new);
    let mut opened = opened.map_err(fail)?;
    opened.write_all(text.as_bytes()).and_then(|()| opened.sync_all()).map_err(fail)?;
    fs::rename(&new, file).map_err(fail)
}

fn read(file: &Path) -> Result<Option<String>, CertsError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(CertsError::File { file: file.to_owned(), why }),
    }
}

fn params(names: Vec<String>, name: &str, days: u64) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + Duration::from_secs(days * 86_400)).into();
    Ok(params)
}

/// The authority of the directory, or a new one.
fn authority(dir: &Path) -> Result<(Issuer<'static, KeyPair>, bool), CertsError> {
    let (cert, key) = (dir.join("ca.pem"), dir.join("ca.key"));
    if let (Some(cert_text), Some(key_text)) = (read(&cert)?, read(&key)?) {
        let wrong = |file: &Path| {
            let file = file.to_owned();
            move |why| CertsError::Authority { file, why }
        };
        let pair = KeyPair::from_pem(&key_text).map_err(wrong(&key))?;
        let issuer = Issuer::from_ca_cert_pem(&cert_text, pair).map_err(wrong(&cert))?;
        return Ok((issuer, false));
    }
    let mut params = params(Vec::new(), "Carillon development authority", CA_DAYS)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let pair = KeyPair::generate()?;
    let certificate = params.self_signed(&pair)?;
    write(&key, &pair.serialize_pem(), true)?;
    write(&cert, &certificate.pem(), false)?;
    Ok((Issuer::new(params, pair), true))
}

fn sign(
    dir: &Path,
    stem: &str,
    mut params: CertificateParams,
    issuer: &Issuer<'_, KeyPair>,
    purposes: &[ExtendedKeyUsagePurpose],
) -> Result<(), CertsError> {
    params.extended_key_usages = purposes.to_vec();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let pair = KeyPair::generate()?;
    let certificate = params.signed_by(&pair, issuer)?;
    // A node looks at both together once they have come to rest.
    write(&dir.join(format!("{stem}.key")), &pair.serialize_pem(), true)?;
    write(&dir.join(format!("{stem}.pem")), &certificate.pem(), false)
}

/// Makes the files of an authority in `dir`, and certificates for this machine; why it cannot.
pub fn make_in(dir: &Path) -> Result<(), String> {
    let (host, client) = (Vec::new(), "client".to_owned());
    let args = DevCertsArgs { dir: dir.to_owned(), host, client, days: 90 };
    make(&args).map(drop).map_err(|error| error.to_string())
}

fn make(args: &DevCertsArgs) -> Result<String, CertsError> {
    let DevCertsArgs { dir, host, client, days } = args;
    for host in host {
        let wrong = |why| CertsError::Host { host: host.clone(), why };
        CertificateParams::new(vec![host.clone()]).map_err(wrong)?;
    }
    fs::create_dir_all(dir).map_err(|why| CertsError::File { file: dir.clone(), why })?;
    let (issuer, is_new) = authority(dir)?;
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let names: Vec<String> = own.into_iter().chain(host.iter().cloned()).collect();
    let shown = names.join(", ");
    let server = params(names, "carillon", *days)?;
    sign(dir, "server", server, &issuer, &[ExtendedKeyUsagePurpose::ServerAuth])?;
    let for_client = params(Vec::new(), client, *days)?;
    sign(dir, "client", for_client, &issuer, &[ExtendedKeyUsagePurpose::ClientAuth])?;
    let for_peer = params(vec![PEER_NAME.to_owned()], "carillon node", *days)?;
    let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    sign(dir, "peer", for_peer, &issuer, &both)?;
    let dir = dir.display();
    let authority = if is_new { "a new authority" } else { "the authority that was there" };
    Ok(format!(
        "{dir}/ca.pem       {authority}: clients trust it\n\
         {dir}/server.pem   for nodes at {shown}; its key: {dir}/server.key\n\
         {dir}/client.pem   for a client named {client}; its key: {dir}/client.key\n\
         {dir}/peer.pem     for nodes towards each other; its key: {dir}/peer.key\n\
         Good for {days} days. Who has {dir}/ca.key can make more: keep it to yourself.\n"
    ))
}
