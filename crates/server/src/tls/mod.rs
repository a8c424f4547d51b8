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
//! | … and how often the log says so | [`WARN_EVERY`] | |

mod clients;
mod files;
mod peers;
mod session;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use rustls::SupportedProtocolVersion;

pub use clients::{Tls, TlsFiles};
pub use files::TlsError;
pub use peers::{PeerConfig, PeerTls, PeerTlsFiles};
pub use session::TlsSession;

/// Bytes of a file of certificates or a key.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// How often the files are looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a handshake may take.
pub const HANDSHAKE_MS: u64 = 10_000;
/// How long before a certificate ends that is announced: 14 days.
pub const WARN_SECONDS: i64 = 14 * 86_400;
/// How often the log says that a certificate ends soon.
pub const WARN_EVERY: Duration = Duration::from_secs(86_400);

/// What is spoken: nothing older.
const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

/// Files that make an identity.
pub trait CertificateFiles: Send + Sync + 'static {
    /// What connections begin with.
    type Config: Send + Sync;

    /// To whom the certificate is shown.
    const SHOWN_TO: &'static str;

    /// The file of the certificate.
    fn cert(&self) -> &Path;

    /// All files.
    fn all(&self) -> Vec<&Path>;

    /// Reads them: what they make, and when the certificate ends, in seconds since 1970.
    ///
    /// # Errors
    /// The first file that is wrong.
    fn load(&self) -> Result<(Arc<Self::Config>, i64), TlsError>;
}

/// The identity of a node, as it is now.
pub struct Identity<F: CertificateFiles> {
    files: F,
    config: ArcSwap<F::Config>,
    ends_at: AtomicI64,
}

impl<F: CertificateFiles + std::fmt::Debug> std::fmt::Debug for Identity<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<F: CertificateFiles> Identity<F> {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that is wrong.
    pub fn load(files: F) -> Result<Self, TlsError> {
        let (config, ends_at) = files.load()?;
        Ok(Self { files, config: ArcSwap::from(config), ends_at: AtomicI64::new(ends_at) })
    }

    /// What a new connection begins with.
    pub fn config(&self) -> Arc<F::Config> {
        self.config.load_full()
    }
}

/// An identity whose files are looked at.
trait Watched: Send + Sync {
    /// To whom the certificate is shown.
    fn shown_to(&self) -> &'static str;
    /// When the certificate ends, in seconds since 1970.
    fn ends_at(&self) -> i64;
    /// The file of the certificate.
    fn cert(&self) -> &Path;
    /// The times and lengths of the files; none of one that is not there.
    fn state(&self) -> Vec<Option<(SystemTime, u64)>>;
    /// Reads the files again. If one is wrong, all goes on as before.
    fn reload(&self) -> Result<(), TlsError>;
}

impl<F: CertificateFiles> Watched for Identity<F> {
    fn shown_to(&self) -> &'static str {
        F::SHOWN_TO
    }

    fn ends_at(&self) -> i64 {
        self.ends_at.load(Ordering::Relaxed)
    }

    fn cert(&self) -> &Path {
        self.files.cert()
    }

    fn state(&self) -> Vec<Option<(SystemTime, u64)>> {
        let state = |file: &Path| {
            let found = std::fs::metadata(file).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        self.files.all().into_iter().map(state).collect()
    }

    fn reload(&self) -> Result<(), TlsError> {
        let (config, ends_at) = self.files.load()?;
        self.config.store(config);
        self.ends_at.store(ends_at, Ordering::Relaxed);
        Ok(())
    }
}

/// The certificates of a node.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// The one that clients are shown.
    pub clients: Option<Arc<Tls>>,
    /// The one that other nodes are shown.
    pub peers: Option<Arc<PeerTls>>,
}

impl Certificates {
    fn all(&self) -> impl Iterator<Item = Arc<dyn Watched>> {
        let clients = self.clients.clone().map(|one| one as Arc<dyn Watched>);
        clients.into_iter().chain(self.peers.clone().map(|one| one as Arc<dyn Watched>))
    }

    /// To whom each is shown, and when it ends, in seconds since 1970.
    pub fn ends(&self) -> Vec<(&'static str, i64)> {
        self.all().map(|one| (one.shown_to(), one.ends_at())).collect()
    }

    /// A sentence about each that ends soon, or has ended.
    pub fn warnings(&self) -> Vec<String> {
        self.all().filter_map(|one| warning(&*one, files::now())).collect()
    }
}

fn warning(identity: &dyn Watched, now: i64) -> Option<String> {
    let (left, to) = (identity.ends_at() - now, identity.shown_to());
    let file = identity.cert().display();
    let when = match left {
        ..=0 => "has ended".to_owned(),
        1..=172_799 => format!("ends in {} hours", left / 3600),
        _ => format!("ends in {} days", left / 86_400),
    };
    let text = format!(
        "the certificate for {to} in {file} {when}: replace the file, and it is taken at once"
    );
    (left <= WARN_SECONDS).then_some(text)
}

/// What is known of the files of one identity.
struct Look {
    identity: Arc<dyn Watched>,
    before: Vec<Option<(SystemTime, u64)>>,
    announced: Option<Instant>,
}

impl Look {
    fn new(identity: Arc<dyn Watched>) -> Self {
        let before = identity.state();
        Self { identity, before, announced: None }
    }

    fn again(&mut self) {
        let is_due = self.announced.is_none_or(|at| at.elapsed() >= WARN_EVERY);
        if let Some(text) = warning(&*self.identity, files::now()).filter(|_| is_due) {
            tracing::warn!("{text}");
            self.announced = Some(Instant::now());
        }
        let state = self.identity.state();
        // Files that are being replaced are read when they have come to rest.
        if state == self.before || state.contains(&None) {
            return;
        }
        self.before = state;
        let to = self.identity.shown_to();
        match self.identity.reload() {
            Ok(()) => {
                self.announced = None;
                tracing::info!("new TLS certificates for {to} are in use for new connections");
            }
            Err(error) => tracing::error!(
                "new TLS certificates for {to} are not used, the old ones are: {error}"
            ),
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
    /// Begins to look, if there is anything to look at.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn spawn(certificates: &Certificates) -> io::Result<Option<Self>> {
        let mut looks: Vec<Look> = certificates.all().map(Look::new).collect();
        if looks.is_empty() {
            return Ok(None);
        }
        let (ends, ended) = channel();
        let run = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                looks.iter_mut().for_each(Look::again);
            }
        };
        Ok(Some(Self { ends, thread: thread::Builder::new().name("tls".into()).spawn(run)? }))
    }

    /// Ends it.
    pub fn stop(self) {
        drop(self.ends);
        // A panic there was reported when it happened.
        let _panicked = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ends(i64);

    impl Watched for Ends {
        fn shown_to(&self) -> &'static str {
            "clients"
        }

        fn ends_at(&self) -> i64 {
            self.0
        }

        fn cert(&self) -> &Path {
            Path::new("a.pem")
        }

        fn state(&self) -> Vec<Option<(SystemTime, u64)>> {
            Vec::new()
        }

        fn reload(&self) -> Result<(), TlsError> {
            Ok(())
        }
    }

    #[test]
    fn the_end_of_a_certificate_is_announced_fourteen_days_ahead() {
        let said = |left: i64| warning(&Ends(1_000_000 + left), 1_000_000);
        assert_eq!(said(WARN_SECONDS + 1), None);
        assert!(said(WARN_SECONDS).unwrap().contains("a.pem ends in 14 days"));
        assert!(said(172_799).unwrap().contains("ends in 47 hours"));
        assert!(said(60).unwrap().contains("ends in 0 hours"));
        assert!(said(0).unwrap().contains("has ended") && said(-5).unwrap().contains("has ended"));
    }
}
