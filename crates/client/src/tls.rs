//! TLS of a client: whom it trusts, and which certificate it shows.
//!
//! ```no_run
//! let files = client::TlsFiles { ca: Some("certs/ca.pem".into()), ..Default::default() };
//! let tls = client::Tls::load(&files)?;
//! let node = client::http::Client::new("https://127.0.0.1:7490")?.with_tls(tls);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Bytes of a file of certificates or a key.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The files of a client, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that it trusts; without it, those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate that it shows, then those that lead to its root.
    pub cert: Option<PathBuf>,
    /// That certificate's private key.
    pub key: Option<PathBuf>,
}

/// Why there is no TLS. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// See the front page. Clones share what was read.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
}

fn fail(file: &Path, why: impl std::fmt::Display) -> TlsError {
    TlsError { file: file.to_owned(), why: why.to_string() }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let bytes = std::fs::metadata(file).map_err(|why| fail(file, why))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(fail(file, format!("it has {bytes} bytes, and may have {FILE_BYTES_MAX}")));
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

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that is wrong.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let system = || SYSTEM_FILES.iter().map(PathBuf::from).find(|file| file.exists());
        let given = files.ca.clone();
        let ca = given.or_else(system).unwrap_or_else(|| SYSTEM_FILES[0].into());
        let mut roots = RootCertStore::empty();
        // A system may trust what is none: that is passed over.
        let (good, _) = roots.add_parsable_certificates(certificates(&ca)?);
        if good == 0 {
            return Err(fail(&ca, "there is no authority in it"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| fail(&ca, why))?
            .with_root_certificates(roots);
        let config = match (&files.cert, &files.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key_file)) => {
                let key = PrivateKeyDer::from_pem_slice(&read(key_file)?).map_err(|why| {
                    fail(key_file, format!("there is no private key in it: {why}"))
                })?;
                let unfit = |why| fail(key_file, format!("it does not fit the certificate: {why}"));
                builder.with_client_auth_cert(certificates(cert)?, key).map_err(unfit)?
            }
            (Some(file), None) => return Err(fail(file, "its private key is not given")),
            (None, Some(file)) => return Err(fail(file, "its certificate is not given")),
        };
        Ok(Self { config: Arc::new(config) })
    }

    /// A connection with the node at `HOST:PORT`, before its handshake.
    pub(crate) fn connection(&self, address: &str) -> std::io::Result<ClientConnection> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        ClientConnection::new(self.config.clone(), name).map_err(std::io::Error::other)
    }
}
