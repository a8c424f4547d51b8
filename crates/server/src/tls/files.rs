//! Reads certificates and keys from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::FILE_BYTES_MAX;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct TlsError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// An error about a file.
pub(super) fn fail(file: &Path, why: impl std::fmt::Display) -> TlsError {
    TlsError { file: file.to_owned(), why: why.to_string() }
}

/// What encrypts: ring.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let bytes = std::fs::metadata(file).map_err(|why| fail(file, why))?.len();
    if bytes > FILE_BYTES_MAX {
        let why = format!("it has {bytes} bytes, and may have {FILE_BYTES_MAX}");
        return Err(fail(file, why));
    }
    std::fs::read(file).map_err(|why| fail(file, why))
}

/// The certificates in a file: one at least.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(file)?).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(fail(file, "there is no certificate in it (-----BEGIN CERTIFICATE-----)")),
        Err(why) => Err(fail(file, format!("it is not PEM: {why}"))),
    }
}

/// The private key in a file.
pub(super) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(file)?)
        .map_err(|why| fail(file, format!("there is no private key in it: {why}")))
}

/// A certificate with those that lead to its root, and when the first of them ends, in seconds
/// since 1970.
pub(super) fn chain(file: &Path) -> Result<(Vec<CertificateDer<'static>>, i64), TlsError> {
    let chain = certificates(file)?;
    let mut ends_at = i64::MAX;
    for certificate in &chain {
        let parsed = x509_parser::parse_x509_certificate(certificate);
        let (_, parsed) =
            parsed.map_err(|why| fail(file, format!("it is no certificate: {why}")))?;
        ends_at = ends_at.min(parsed.validity().not_after.timestamp());
    }
    match ends_at <= now() {
        true => Err(fail(file, "the certificate has expired; get a new one")),
        false => Ok((chain, ends_at)),
    }
}

/// The authorities in a file.
pub(super) fn roots(file: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|why| fail(file, why))?;
    }
    Ok(Arc::new(roots))
}

/// The lists of revoked certificates in a file: one at least.
pub(super) fn revocation_lists(
    file: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_slice_iter(&read(file)?).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(fail(
            file,
            "there is no list of revoked certificates in it (-----BEGIN X509 CRL-----)",
        )),
        Err(why) => Err(fail(file, format!("it is not PEM: {why}"))),
    }
}

/// Takes certificates of clients that the authorities in a file have signed, and have not revoked.
pub(super) fn client_verifier(
    ca: &Path,
    revoked: Option<&Path>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider());
    if let Some(file) = revoked {
        let lists = revocation_lists(file)?;
        verifier = verifier.with_crls(lists).only_check_end_entity_revocation();
    }
    verifier.build().map_err(|why| fail(revoked.unwrap_or(ca), why))
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(i64::MAX)
}
