//! TLS of one connection of the load. It trusts any target: what is measured is its cost.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

/// Encrypted bytes that wait to be sent.
const UNSENT_BYTES_MAX: usize = 256 << 10;

/// Takes any certificate, but checks that its holder has the key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The client's side.
pub struct Tls {
    session: ClientConnection,
}

impl Tls {
    /// Before its handshake.
    ///
    /// # Errors
    /// There is no TLS.
    pub fn new(host: std::net::IpAddr) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let anybody = Arc::new(Anybody(provider.clone()));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(anybody)
            .with_no_client_auth();
        let session = ClientConnection::new(Arc::new(config), host.into());
        let mut session = session.map_err(io::Error::other)?;
        session.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Self { session })
    }

    /// Sends what is encrypted, as far as the socket takes it.
    ///
    /// # Errors
    /// It is broken.
    pub fn send(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut &*socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes bytes to be sent.
    ///
    /// # Errors
    /// It takes no more now, or is broken.
    pub fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.send(socket)?;
        let taken = self.session.writer().write(bytes)?;
        self.send(socket)?;
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Reads what has come: all there is, or until the buffer is full.
    ///
    /// # Errors
    /// Nothing has come, or it is broken.
    pub fn read(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            match self.session.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(read) => {
                    filled += read;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(filled),
                Err(error) => return Err(error),
            }
            match self.session.read_tls(&mut &*socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) if filled > 0 => return Ok(filled),
                Err(error) => return Err(error),
            }
            let processed = self.session.process_new_packets();
            self.send(socket)?;
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }
}
