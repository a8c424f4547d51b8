//! Takes requests to start, stop, kill and add nodes, at a Unix socket in the cluster's directory.
//!
//! ```text
//!   carillon dev kill node-2 ─┐                                 ┌─► the main thread, which has
//!   a node, for its page ─────┴─► socket ─► thread `control` ───┴─◄ started all processes
//! ```
//!
//! Requests are taken one after the other; one that does not come, or whose reply is not read, is
//! dropped after [`STALL_TIMEOUT`].

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use api::dev::{
    DevRefusal, DevRefusalKind, DevReply, DevRequest, REQUEST_BYTES_MAX, SOCKET_NAME, short_path,
};

use super::Wake;

/// For a request to come, and for its reply to be read.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
/// For the main thread to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// After a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request, by which process it was sent, and where its reply goes.
pub struct ControlRequest {
    /// What is asked.
    pub request: DevRequest,
    /// The process that asks.
    pub pid: u32,
    /// The reply goes there.
    pub reply: Sender<DevReply>,
}

/// The socket, which is removed when this is dropped.
pub struct Control(PathBuf);

impl Control {
    /// The socket of a directory.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(SOCKET_NAME)
    }

    /// Listens; requests go to `wake`.
    ///
    /// # Errors
    /// If the socket cannot be made, or another `carillon dev` runs in the directory.
    pub fn listen(dir: &Path, wake: Sender<Wake>) -> io::Result<Self> {
        let socket = Self::path(dir);
        let (path, _held) = short_path(&socket)?;
        let listener = match UnixListener::bind(&path) {
            Err(why) if why.kind() == ErrorKind::AddrInUse => {
                if UnixStream::connect(&path).is_ok() {
                    let why = "another `carillon dev` runs in this directory";
                    return Err(io::Error::new(ErrorKind::AddrInUse, why));
                }
                // Left by one that was killed.
                fs::remove_file(&socket)?;
                UnixListener::bind(&path)?
            }
            other => other?,
        };
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
        let name = "control".to_owned();
        thread::Builder::new().name(name).spawn(move || serve(&listener, &wake))?;
        Ok(Self(socket))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // If it stays, the next run removes it.
        let _left = fs::remove_file(&self.0);
    }
}

fn serve(listener: &UnixListener, wake: &Sender<Wake>) {
    loop {
        match listener.accept() {
            // What was not done is told to who asks, or who asks has gone.
            Ok((stream, _)) => _ = answer(&stream, wake),
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn answer(stream: &UnixStream, wake: &Sender<Wake>) -> io::Result<()> {
    stream.set_read_timeout(Some(STALL_TIMEOUT))?;
    stream.set_write_timeout(Some(STALL_TIMEOUT))?;
    let peer = peer(stream)?;
    // SAFETY: it only reads a number.
    if peer.uid != unsafe { libc::geteuid() } {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let reply = match DevRequest::of_line(&line) {
        Ok(request) => {
            let (reply, answer) = mpsc::channel();
            let asked = ControlRequest { request, pid: peer.pid.cast_unsigned(), reply };
            let ending = || refusal(DevRefusalKind::Ending, "carillon dev is ending");
            match wake.send(Wake::Control(asked)) {
                // Without an answer the connection ends without a reply: nobody knows.
                Ok(()) => answer.recv_timeout(ANSWER_TIMEOUT).map_err(io::Error::other)?,
                Err(_) => ending(),
            }
        }
        Err(why) => refusal(DevRefusalKind::BadRequest, why),
    };
    let mut stream = stream;
    stream.write_all(reply.to_line().as_bytes())
}

/// A reply of which nothing was done.
pub fn refusal(kind: DevRefusalKind, why: impl Into<String>) -> DevReply {
    DevReply::Refused(DevRefusal { kind, why: why.into() })
}

/// The process at the other end.
fn peer(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: it writes so many bytes at most into `peer`, which outlives the call.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    if done == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}

/// Sends a request to the `carillon dev` of a directory.
///
/// # Errors
/// In words; `true` if it may have been done.
pub fn ask(dir: &Path, request: &DevRequest) -> Result<DevReply, (String, bool)> {
    let socket = Control::path(dir);
    let not_there = |why: io::Error| {
        let dir = dir.display();
        (format!("no `carillon dev` runs in {dir} ({why}); nothing was done"), false)
    };
    let (path, _held) = short_path(&socket).map_err(not_there)?;
    let mut stream = UnixStream::connect(path).map_err(not_there)?;
    let failed = |why: io::Error| (format!("`carillon dev` does not answer: {why}"), true);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT + STALL_TIMEOUT)).map_err(failed)?;
    stream.write_all(request.to_line().as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(failed)?;
    DevReply::of_line(&line).map_err(|why| (format!("`carillon dev` ended: {why}"), true))
}
