//! The certificate that clients are shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;

use super::files::{self, TlsError, fail};
use super::{CertificateFiles, Identity, VERSIONS};

/// Where a node's certificate for clients is, and whom it asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those that lead to its root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of those who sign clients' certificates; without it none is asked for.
    pub client_ca: Option<PathBuf>,
    /// Lists of clients' certificates that are revoked.
    pub client_crl: Option<PathBuf>,
}

/// The identity of a node towards clients, as it is now.
pub type Tls = Identity<TlsFiles>;

impl CertificateFiles for TlsFiles {
    type Config = ServerConfig;

    const SHOWN_TO: &'static str = "clients";

    fn cert(&self) -> &Path {
        &self.cert
    }

    fn all(&self) -> Vec<&Path> {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref(), self.client_crl.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect()
    }

    fn load(&self) -> Result<(Arc<ServerConfig>, i64), TlsError> {
        let (chain, ends_at) = files::chain(&self.cert)?;
        let builder = ServerConfig::builder_with_provider(files::provider())
            .with_protocol_versions(VERSIONS)
            .map_err(|why| fail(&self.cert, why))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = files::client_verifier(ca, self.client_crl.as_deref())?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(chain, files::key(&self.key)?)
            .map_err(|why| fail(&self.key, format!("it does not fit the certificate: {why}")))?;
        Ok((Arc::new(config), ends_at))
    }
}

impl api::http::TlsIdentity for Tls {
    fn config(&self) -> Arc<ServerConfig> {
        Tls::config(self)
    }
}
