//! `carillon certs dev`: an authority of one's own, and certificates that it has signed: to try
//! TLS.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};

use crate::exit::Exit;
use crate::output;

/// How long the authority itself is good for, at least: ten years.
const CA_DAYS: u64 = 3653;
/// The longest time that a certificate may be good for.
const DAYS_MAX: u64 = 3653;
/// The name that tells nodes from clients: the default of `peer_tls_name`.
const PEER_NAME: &str = "peer.carillon";
/// The certificates that were made, by name, with their numbers.
const ISSUED: &str = "issued";
/// Those of them that are revoked.
const REVOKED: &str = "revoked";
const SERIAL_BYTES: usize = 16;
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

const REVOKE_EXAMPLES: &str = "\
Examples:
  carillon start --resp-tls 127.0.0.1:6390 --tls-cert-file certs/server.pem \\
    --tls-key-file certs/server.key --tls-client-ca-file certs/ca.pem \\
    --tls-client-crl-file certs/crl.pem
  carillon certs revoke client               clients with it are refused
  carillon certs dev                         a new certificate, which is not";

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
    /// Revoke certificates that `carillon certs dev` has made.
    ///
    /// All of a name so far, also those that newer ones have replaced. Writes crl.pem, the list of
    /// all that are revoked: nodes with it as tls_client_crl_file or peer_tls_crl_file refuse them
    /// within seconds. Connections that are open stay.
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(RevokeArgs),
}

/// `carillon certs revoke`
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Where the files are.
    #[arg(long, value_name = "DIR", default_value = "certs")]
    pub dir: PathBuf,
    /// Whose: `client`, `peer` or `server`.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
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
    #[error("{}: there is no authority: `carillon certs dev` makes one", dir.display())]
    NoAuthority { dir: PathBuf },
    #[error("no certificate called {name} was made here: {} lists them", index.display())]
    NoSuchName { name: String, index: PathBuf },
    #[error("{}: line {line} is not `NAME SERIAL`", file.display())]
    Index { file: PathBuf, line: usize },
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
    let done = match &args.command {
        CertsCommand::Dev(args) => make(args),
        CertsCommand::Revoke(args) => revoke(args),
    };
    match done {
        Ok(text) => output::raw(text.as_bytes()),
        Err(error) => {
            output::complain(&error.to_string());
            match error {
                CertsError::Host { .. } | CertsError::NoSuchName { .. } => Exit::Usage,
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
    let serial = serial()?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let certificate = params.signed_by(&pair, issuer)?;
    // It is known by its number before anybody can use it.
    append(&dir.join(ISSUED), stem, &serial)?;
    // A node looks at both together once they have come to rest.
    write(&dir.join(format!("{stem}.key")), &pair.serialize_pem(), true)?;
    write(&dir.join(format!("{stem}.pem")), &certificate.pem(), false)
}

/// A number that no other certificate has.
fn serial() -> Result<[u8; SERIAL_BYTES], CertsError> {
    let (file, mut drawn) = (Path::new("/dev/urandom"), [0; SERIAL_BYTES]);
    let fail = |why| CertsError::File { file: file.to_owned(), why };
    fs::File::open(file).and_then(|mut random| random.read_exact(&mut drawn)).map_err(fail)?;
    // Above 0, and as long as it says.
    drawn[0] = drawn[0] & 0x7f | 0x40;
    Ok(drawn)
}

/// A line of a list of certificates.
fn append(file: &Path, name: &str, serial: &[u8]) -> Result<(), CertsError> {
    let serial: String = serial.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = read(file)?.unwrap_or_default();
    write(file, &format!("{lines}{name} {serial}\n"), false)
}

/// The lines of such a list: names and numbers.
fn listed(file: &Path) -> Result<Vec<(String, Vec<u8>)>, CertsError> {
    let text = read(file)?.unwrap_or_default();
    let lines = text.lines().enumerate().map(|(at, line)| {
        let wrong = || CertsError::Index { file: file.to_owned(), line: at + 1 };
        let (name, hex) = line.split_once(' ').ok_or_else(wrong)?;
        let is_serial = hex.len() == 2 * SERIAL_BYTES && hex.is_ascii();
        let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
        let serial = is_serial.then(|| bytes.collect::<Result<Vec<u8>, _>>().ok()).flatten();
        Ok((name.to_owned(), serial.ok_or_else(wrong)?))
    });
    lines.collect()
}

/// Writes the list of all certificates that are revoked.
fn write_revocations(dir: &Path, issuer: &Issuer<'_, KeyPair>) -> Result<usize, CertsError> {
    let now = SystemTime::now();
    let revoked = listed(&dir.join(REVOKED))?;
    let revoked_certs = revoked.iter().map(|(_, serial)| RevokedCertParams {
        serial_number: SerialNumber::from_slice(serial),
        revocation_time: now.into(),
        reason_code: None,
        invalidity_date: None,
    });
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let list = CertificateRevocationListParams {
        this_update: (now - BEFORE).into(),
        next_update: (now + Duration::from_secs(CA_DAYS * 86_400)).into(),
        crl_number: SerialNumber::from(since),
        issuing_distribution_point: None,
        revoked_certs: revoked_certs.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let text = list.signed_by(issuer)?.pem()?;
    write(&dir.join("crl.pem"), &text, false)?;
    Ok(revoked.len())
}

fn revoke(args: &RevokeArgs) -> Result<String, CertsError> {
    let RevokeArgs { dir, names } = args;
    if read(&dir.join("ca.key"))?.is_none() {
        return Err(CertsError::NoAuthority { dir: dir.clone() });
    }
    let (issued, already) = (listed(&dir.join(ISSUED))?, listed(&dir.join(REVOKED))?);
    if let Some(name) = names.iter().find(|name| !issued.iter().any(|(known, _)| known == *name)) {
        return Err(CertsError::NoSuchName { name: name.clone(), index: dir.join(ISSUED) });
    }
    let (issuer, _) = authority(dir)?;
    let new = issued.iter().filter(|one| names.contains(&one.0) && !already.contains(one));
    let mut count = 0;
    for (name, serial) in new {
        append(&dir.join(REVOKED), name, serial)?;
        count += 1;
    }
    let all = write_revocations(dir, &issuer)?;
    let dir = dir.display();
    Ok(format!("{dir}/crl.pem   {count} more revoked, {all} in all\n"))
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
    write_revocations(dir, &issuer)?;
    let dir = dir.display();
    let authority = if is_new { "a new authority" } else { "the authority that was there" };
    Ok(format!(
        "{dir}/ca.pem       {authority}: clients trust it\n\
         {dir}/server.pem   for nodes at {shown}; its key: {dir}/server.key\n\
         {dir}/client.pem   for a client named {client}; its key: {dir}/client.key\n\
         {dir}/peer.pem     for nodes towards each other; its key: {dir}/peer.key\n\
         {dir}/crl.pem      what `carillon certs revoke` has revoked\n\
         Good for {days} days. Who has {dir}/ca.key can make more: keep it to yourself.\n"
    ))
}
