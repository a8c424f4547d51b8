//! The certificate that nodes show each other: both ends of a link have one.
//!
//! A certificate makes its holder a node if an authority of `peer_tls_ca_file` has signed it *and*
//! it bears the name of `peer_tls_name`. The name tells nodes from clients, whose certificates the
//! same authority may sign. It says that its holder is a node of this cluster, and not which:
//! nodes trust each other with everything (docs/decisions/0064-peer-tls.md).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

use super::files::{self, TlsError, fail};
use super::{CertificateFiles, Identity};

/// Nodes are of one kind: nothing older is spoken between them.
const PEER_VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Where a node's certificate for other nodes is, and whose it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTlsFiles {
    /// The certificate, with those that lead to its root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of those who sign nodes' certificates.
    pub ca: PathBuf,
    /// Lists of nodes' certificates that are revoked.
    pub crl: Option<PathBuf>,
    /// The name that each node's certificate bears.
    pub name: String,
}

/// What both ends of a link begin with.
#[derive(Debug)]
pub struct PeerConfig {
    /// Who accepts.
    pub server: Arc<ServerConfig>,
    /// Who dials.
    pub client: Arc<ClientConfig>,
    /// Whom it expects.
    pub name: ServerName<'static>,
}

/// The identity of a node towards other nodes, as it is now.
pub type PeerTls = Identity<PeerTlsFiles>;

impl CertificateFiles for PeerTlsFiles {
    type Config = PeerConfig;

    const SHOWN_TO: &'static str = "peers";

    fn cert(&self) -> &Path {
        &self.cert
    }

    fn all(&self) -> Vec<&Path> {
        [&self.cert, &self.key, &self.ca]
            .into_iter()
            .chain(&self.crl)
            .map(PathBuf::as_path)
            .collect()
    }

    fn load(&self) -> Result<(Arc<PeerConfig>, i64), TlsError> {
        let (chain, ends_at) = files::chain(&self.cert)?;
        let key = files::key(&self.key)?;
        let name = ServerName::try_from(self.name.clone()).map_err(|why| fail(&self.cert, why))?;
        // A node that others would refuse does not start.
        let own = ParsedCertificate::try_from(&chain[0]).map_err(|why| fail(&self.cert, why))?;
        verify_server_name(&own, &name).map_err(|_| {
            fail(&self.cert, format!("it does not bear the name {} (peer_tls_name)", self.name))
        })?;
        let unfit = |why| fail(&self.key, format!("it does not fit the certificate: {why}"));

        let inner = files::client_verifier(&self.ca, self.crl.as_deref())?;
        let asks = NamedPeers { inner, name: name.clone() };
        let mut server = ServerConfig::builder_with_provider(files::provider())
            .with_protocol_versions(PEER_VERSIONS)
            .map_err(|why| fail(&self.cert, why))?
            .with_client_cert_verifier(Arc::new(asks))
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unfit)?;
        // A link is resumed by a whole handshake: each is judged by certificates of now.
        server.send_tls13_tickets = 0;

        let roots = files::roots(&self.ca)?;
        let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, files::provider());
        if let Some(file) = &self.crl {
            let lists = files::revocation_lists(file)?;
            verifier = verifier.with_crls(lists).only_check_end_entity_revocation();
        }
        let mut client = ClientConfig::builder_with_provider(files::provider())
            .with_protocol_versions(PEER_VERSIONS)
            .map_err(|why| fail(&self.cert, why))?
            .with_webpki_verifier(verifier.build().map_err(|why| fail(&self.ca, why))?)
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        let (server, client) = (Arc::new(server), Arc::new(client));
        Ok((Arc::new(PeerConfig { server, client, name }), ends_at))
    }
}

/// Takes certificates that are signed as they must be, and bear the name of a node.
#[derive(Debug)]
struct NamedPeers {
    inner: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for NamedPeers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
