//! Checks before the start: the directory with its secret, and free ports.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use storage::manifest::MANIFEST_NAME;

use super::DevError;
use super::plan::{NODES_MAX, NodePlan, certs_dir, name, secret_path};

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The nodes, counted from 1, that have data in `dir`.
pub fn used(dir: &Path) -> Vec<usize> {
    (1..=NODES_MAX).filter(|number| dir.join(name(*number)).join(MANIFEST_NAME).exists()).collect()
}

/// Creates the directory, and in it the nodes' secret, unless they exist; with `tls` also
/// certificates.
///
/// # Errors
/// What the system says; the directory may have been made.
pub fn prepare(dir: &Path, tls: bool) -> Result<(), DevError> {
    let path = secret_path(dir);
    let made = fs::create_dir_all(dir).and_then(|()| write_secret(&path));
    made.map_err(|source| DevError::Directory { path, source })?;
    if tls {
        // The authority stays, so that clients that trust it go on.
        crate::certs::make_in(&certs_dir(dir)).map_err(|why| DevError::Certs { why })?;
    }
    Ok(())
}

fn write_secret(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut random = [0; SECRET_BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    // Under its name only when it is whole: a node must not read half of it after a crash.
    let unfinished = path.with_extension("new");
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).to_owned();
    let mut file = options.open(&unfinished)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Whether all ports are free: all are held at once, and let go for the nodes to take.
///
/// # Errors
/// The first that is not.
pub fn ports_are_free(nodes: &[NodePlan]) -> Result<(), DevError> {
    let all = nodes.iter().flat_map(|node| node.listeners().map(move |listener| (node, listener)));
    let held = all.map(|(node, (protocol, address))| {
        TcpListener::bind(address).map_err(|source| {
            let node = node.name();
            DevError::Port { node, protocol, address, source }
        })
    });
    let _held = held.collect::<Result<Vec<TcpListener>, DevError>>()?;
    Ok(())
}

/// What would not do, and what to do instead.
pub(super) fn port_remedy(error: &io::Error, address: &SocketAddr) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process listens on {address}. Stop it (`ss -ltnp` names it), or move all \
             ports with --base-port"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("port {} is for root only. Choose a higher --base-port", address.port())
        }
        _ => format!("{error}. Choose another --base-port"),
    }
}

/// The program to start: this one, wherever it lies.
///
/// # Errors
/// If the system does not say.
pub fn program() -> Result<PathBuf, DevError> {
    std::env::current_exe().map_err(|source| DevError::Program { source })
}
