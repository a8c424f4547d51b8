//! TLS: certificates from files, read again when they change.
//!
//! ```text
//!   files ──► Identity (a certificate, its key, whom it trusts) ──► each new connection
//!     └─ they change: a new Identity, or an error in the log, and the old one stays
//! ```
//!
//! Connections that are open keep the identity that they began with.
//!
//! | limit | bound | beyond |
//! |---|---|---|
//! | bytes of a file | [`FILE_BYTES_MAX`] | an error |
//! | time between looks at the files | [`LOOK_EVERY`] | |
//! | time of a handshake | [`HANDSHAKE_MS`] | the connection is closed |
//! | time before a certificate's end in which it is announced | [`WARN_SECONDS`] | |

mod stream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

pub use stream::TlsStream;

/// Bytes of a file of certificates or a key.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// How often the files are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a handshake may take.
pub const HANDSHAKE_MS: u64 = 10_000;
/// How long before a certificate ends that is announced: 14 days.
pub const WARN_SECONDS: i64 = 14 * 86_400;

/// What is spoken: nothing older.
const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

/// Where a node's certificates are, and whom it asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those that lead to its root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of those who sign clients' certificates; without it none is asked for.
    pub client_ca: Option<PathBuf>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// The identity of a node, as it is now.
pub struct Tls {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    /// When the certificate ends, in seconds since 1970.
    ends_at: AtomicI64,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

fn fail(file: &Path, why: impl std::fmt::Display) -> TlsError {
    TlsError { file: file.to_owned(), why: why.to_string() }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let bytes = std::fs::metadata(file).map_err(|why| fail(file, why))?.len();
    if bytes > FILE_BYTES_MAX {
        let why = format!("it has {bytes} bytes, and may have {FILE_BYTES_MAX}");
        return Err(fail(file, why));
    }
    std::fs::read(file).map_err(|why| fail(file, why))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(file)?).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(fail(file, "there is no certificate in it (-----BEGIN CERTIFICATE-----)")),
        Err(why) => Err(fail(file, format!("it is not PEM: {why}"))),
    }
}

/// When a certificate ends, in seconds since 1970.
fn end_of(file: &Path, certificate: &CertificateDer<'_>) -> Result<i64, TlsError> {
    let parsed = x509_parser::parse_x509_certificate(certificate);
    let (_, parsed) = parsed.map_err(|why| fail(file, format!("it is no certificate: {why}")))?;
    Ok(parsed.validity().not_after.timestamp())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(i64::MAX)
}

/// The configuration that the files make, and when the certificate ends.
fn load(files: &TlsFiles) -> Result<(Arc<ServerConfig>, i64), TlsError> {
    let chain = certificates(&files.cert)?;
    let ends_at = end_of(&files.cert, &chain[0])?;
    if ends_at <= now() {
        return Err(fail(&files.cert, "the certificate has expired; get a new one"));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|why| fail(&files.key, format!("there is no private key in it: {why}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(VERSIONS)
        .map_err(|why| fail(&files.cert, why))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|why| fail(file, why))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|why| fail(file, why))?)
        }
    };
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|why| fail(&files.key, format!("it does not fit the certificate: {why}")))?;
    Ok((Arc::new(config), ends_at))
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that is wrong.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let (config, ends_at) = load(&files)?;
        let (config, ends_at) = (ArcSwap::from(config), AtomicI64::new(ends_at));
        Ok(Self { files, config, ends_at })
    }

    /// What a new connection begins with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// When the certificate ends, in seconds since 1970.
    pub fn ends_at(&self) -> i64 {
        self.ends_at.load(Ordering::Relaxed)
    }

    /// How many seconds the certificate has left, if those are so few that it is announced.
    pub fn ends_soon(&self) -> Option<i64> {
        let left = self.ends_at() - now();
        (left <= WARN_SECONDS).then_some(left.max(0))
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// The first file that is wrong; all goes on as before.
    pub fn reload(&self) -> Result<(), TlsError> {
        let (config, ends_at) = load(&self.files)?;
        self.config.store(config);
        self.ends_at.store(ends_at, Ordering::Relaxed);
        Ok(())
    }

    fn state(&self) -> Vec<Option<(SystemTime, u64)>> {
        let files = [Some(&self.files.cert), Some(&self.files.key), self.files.client_ca.as_ref()];
        let state = |file: &PathBuf| {
            let found = std::fs::metadata(file).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        files.into_iter().flatten().map(state).collect()
    }

    /// Looks at the files from time to time, until `ends`.
    pub fn watch(&self, mut ends: impl FnMut(Duration) -> bool) {
        let mut before = self.state();
        let mut announced = false;
        while !ends(LOOK_EVERY) {
            if let Some(left) = self.ends_soon().filter(|_| !announced) {
                let file = self.files.cert.display();
                tracing::warn!("the certificate of {file} ends in {} hours", left / 3600);
                announced = true;
            }
            let state = self.state();
            // Files that are being replaced are read when they have come to rest.
            if state == before || state.contains(&None) {
                continue;
            }
            before = state;
            match self.reload() {
                Ok(()) => {
                    announced = false;
                    tracing::info!("new TLS certificates are in use for new connections");
                }
                Err(error) => {
                    tracing::error!("new TLS certificates are not used, the old ones are: {error}");
                }
            }
        }
    }
}

/// The thread that looks at the files.
#[derive(Debug)]
pub struct TlsWatch {
    ends: Sender<()>,
    thread: JoinHandle<()>,
}

impl TlsWatch {
    /// Begins to look.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn spawn(tls: Arc<Tls>) -> io::Result<Self> {
        let (ends, ended) = channel();
        let is_over = move |wait| ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        let thread = thread::Builder::new().name("tls".into());
        Ok(Self { ends, thread: thread.spawn(move || tls.watch(is_over))? })
    }

    /// Ends it.
    pub fn stop(self) {
        drop(self.ends);
        // A panic there was reported when it happened.
        let _panicked = self.thread.join();
    }
}

impl api::http::TlsIdentity for Tls {
    fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}
