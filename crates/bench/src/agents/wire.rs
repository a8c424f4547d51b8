//! Frames between controller and agent, authenticated by a secret that both know.
//!
//! ```text
//!   agent        "carillon-bench 1\n" · nonce a (32 bytes)
//!   controller   nonce c (32 bytes) · HMAC(secret, "controller" a c)
//!   agent        HMAC(secret, "agent" a c)
//!   then frames  length (u32, big-endian) · HMAC(key, direction · number · body) · body (JSON)
//!                key = HMAC(secret, "frames" a c)
//! ```
//!
//! HMAC is that of SHA-256. A frame that was changed, repeated, left out or sent back breaks the
//! connection. Nothing is encrypted.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use super::LOST_AFTER;
use crate::run::RunError;

/// What an agent begins with: the protocol's name and version.
const HELLO: &[u8; 17] = b"carillon-bench 1\n";
/// The longest frame: a phase's histograms, or a program.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest secret.
const SECRET_BYTES_MIN: usize = 16;
const TAG_BYTES: usize = 32;
/// After this time without a word the kernel asks whether the other host is still there.
const PROBE_AFTER: Duration = Duration::from_secs(2);
/// Between two such questions.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// So many without an answer, and the connection is broken.
const PROBES_MAX: u32 = 3;

type Tag = [u8; TAG_BYTES];

/// What controller and agents know.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// Says nothing of it.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Reads it from a file that only its owner can read.
    ///
    /// # Errors
    /// It cannot be read, or is no secret.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let failed = |why: String| RunError::Files { path: path.display().to_string(), why };
        let mode = fs::metadata(path).map_err(|error| failed(error.to_string()))?.mode();
        if mode & 0o077 != 0 {
            return Err(failed("others can read this secret: chmod 600 it".to_owned()));
        }
        let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let bytes = bytes.trim_ascii();
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(failed(format!("a secret has at least {SECRET_BYTES_MIN} bytes")));
        }
        Ok(Self::new(bytes))
    }

    fn tag(&self, role: &str, nonces: &[Tag; 2]) -> Hmac<Sha256> {
        mac(&self.0, [role.as_bytes(), &nonces[0], &nonces[1]])
    }
}

fn mac<const N: usize>(key: &[u8], pieces: [&[u8]; N]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    pieces.iter().for_each(|piece| mac.update(piece));
    mac
}

fn finish(mac: Hmac<Sha256>) -> Tag {
    mac.finalize().into_bytes().into()
}

fn nonce() -> io::Result<Tag> {
    let mut nonce = [0; TAG_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

/// Has the kernel break a connection whose other host is gone or cut off: nobody says so then, and
/// an agent would go on with its load.
fn watch(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, PROBES_MAX)?;
    // What was sent and is not acknowledged for so long: an agent says each second that it lives.
    sockopt::set_tcp_user_timeout(stream, LOST_AFTER.as_millis() as u32)?;
    Ok(())
}

/// Reads so many bytes, all of them until then: one that sends a byte now and then is not waited
/// for.
fn read_until(stream: &mut TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<()> {
    let mut have = 0;
    while have < bytes.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, "took too long to greet"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[have..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => have += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn not_ours(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_owned())
}

/// A connection whose other end has proved that it knows the secret.
pub struct Channel {
    stream: TcpStream,
    key: Tag,
    is_agent: bool,
    sent: u64,
    received: u64,
}

impl Channel {
    /// The agent's end.
    ///
    /// # Errors
    /// The other end does not know the secret, or does not answer.
    pub fn accept(mut stream: TcpStream, secret: &Secret) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
        watch(&stream)?;
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        let ours = nonce()?;
        stream.write_all(&[HELLO.as_slice(), &ours].concat())?;
        let mut theirs = [0; TAG_BYTES];
        read_until(&mut stream, &mut theirs, until)?;
        let mut proof = [0; TAG_BYTES];
        read_until(&mut stream, &mut proof, until)?;
        let nonces = [ours, theirs];
        let expected = secret.tag("controller", &nonces);
        expected.verify_slice(&proof).map_err(|_| not_ours("it knows another secret"))?;
        stream.write_all(&finish(secret.tag("agent", &nonces)))?;
        let key = finish(secret.tag("frames", &nonces));
        Ok(Self { stream, key, is_agent: true, sent: 0, received: 0 })
    }

    /// The controller's end.
    ///
    /// # Errors
    /// The other end is no agent, or knows another secret.
    pub fn open(mut stream: TcpStream, secret: &Secret) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
        watch(&stream)?;
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut hello = [0; HELLO.len()];
        let silent = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                not_ours("no greeting: it serves another controller, or is no agent")
            }
            _ => error,
        };
        read_until(&mut stream, &mut hello, until).map_err(silent)?;
        if hello != *HELLO {
            return Err(not_ours("not an agent of this version of carillon bench"));
        }
        let mut theirs = [0; TAG_BYTES];
        read_until(&mut stream, &mut theirs, until)?;
        let ours = nonce()?;
        let nonces = [theirs, ours];
        let proof = finish(secret.tag("controller", &nonces));
        stream.write_all(&[ours, proof].concat())?;
        let mut answer = [0; TAG_BYTES];
        let other = |_| not_ours("it knows another secret");
        read_until(&mut stream, &mut answer, until).map_err(other)?;
        secret.tag("agent", &nonces).verify_slice(&answer).map_err(|error| other_mac(&error))?;
        let key = finish(secret.tag("frames", &nonces));
        Ok(Self { stream, key, is_agent: false, sent: 0, received: 0 })
    }

    /// The same connection, for a second thread that only shuts it down.
    ///
    /// # Errors
    /// The system has no room.
    pub fn handle(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    fn tag(&self, from_agent: bool, number: u64, body: &[u8]) -> Hmac<Sha256> {
        mac(&self.key, [&[u8::from(from_agent)], &number.to_be_bytes(), body])
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection is broken, or the message too long.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        if body.len() > FRAME_BYTES_MAX {
            return Err(not_ours("a message that is too long"));
        }
        let tag = finish(self.tag(self.is_agent, self.sent, &body));
        self.sent += 1;
        let length = (body.len() as u32).to_be_bytes();
        self.stream.write_all(&[&length, tag.as_slice(), &body].concat())
    }

    /// Receives the next message, which may take so long to begin.
    ///
    /// # Errors
    /// Nothing came in time, the connection is broken, or what came is not of the other end.
    pub fn receive<T: DeserializeOwned>(&mut self, most: Duration) -> io::Result<T> {
        self.stream.set_read_timeout(Some(most))?;
        let (tag, body) = read_frame(&mut self.stream).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                io::Error::new(ErrorKind::TimedOut, format!("silent for {most:?}"))
            }
            _ => error,
        })?;
        let expected = self.tag(!self.is_agent, self.received, &body);
        expected.verify_slice(&tag).map_err(|error| other_mac(&error))?;
        self.received += 1;
        serde_json::from_slice(&body).map_err(|error| not_ours(&format!("a message: {error}")))
    }

    /// Whether the other end has closed the connection, or sent something.
    pub fn has_event(&self) -> bool {
        let mut byte = [0];
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let peeked = self.stream.peek(&mut byte);
        let is_back = self.stream.set_nonblocking(false).is_ok();
        let is_quiet = peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        !(is_quiet && is_back)
    }
}

/// A frame's tag and body. A length that is announced takes no memory before bytes of it have come.
fn read_frame(from: &mut impl Read) -> io::Result<(Tag, Vec<u8>)> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "closed the connection"),
        _ => error,
    })?;
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(not_ours("a frame that is too long"));
    }
    let mut tag = [0; TAG_BYTES];
    from.read_exact(&mut tag)?;
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    match body.len() == length {
        true => Ok((tag, body)),
        false => Err(io::Error::new(ErrorKind::UnexpectedEof, "closed within a frame")),
    }
}

fn other_mac(_: &hmac::digest::MacError) -> io::Error {
    not_ours("a message that was not sent by it: the secrets differ, or somebody interferes")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const MOST: Duration = Duration::from_secs(10);

    fn pair(one: &[u8], two: &[u8]) -> (io::Result<Channel>, io::Result<Channel>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let secret = Secret::new(one);
        let agent = thread::spawn(move || Channel::accept(listener.accept().unwrap().0, &secret));
        let stream = TcpStream::connect(address).unwrap();
        let controller = Channel::open(stream, &Secret::new(two));
        (agent.join().unwrap(), controller)
    }

    #[test]
    fn messages_go_both_ways() {
        let (agent, controller) = pair(b"0123456789abcdef", b"0123456789abcdef");
        let (mut agent, mut controller) = (agent.unwrap(), controller.unwrap());
        controller.send(&"one").unwrap();
        controller.send(&vec![2]).unwrap();
        agent.send(&"three").unwrap();
        assert_eq!(agent.receive::<String>(MOST).unwrap(), "one");
        assert_eq!(agent.receive::<Vec<u8>>(MOST).unwrap(), [2]);
        assert_eq!(controller.receive::<String>(MOST).unwrap(), "three");
        assert!(!agent.has_event());
        let silent = agent.receive::<String>(Duration::from_millis(20)).unwrap_err();
        assert!(silent.to_string().contains("silent for"), "{silent}");
        drop(controller);
        let closed = agent.receive::<String>(MOST).unwrap_err();
        assert!(closed.to_string().contains("closed"), "{closed}");
        assert!(agent.has_event());
    }

    #[test]
    fn another_secret_is_refused_by_both() {
        let (agent, controller) = pair(b"0123456789abcdef", b"0123456789abcdeX");
        for end in [agent, controller] {
            let why = end.err().unwrap().to_string();
            assert!(why.contains("another secret"), "{why}");
        }
    }

    #[test]
    fn one_that_greets_a_byte_at_a_time_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let trickle = thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                // It is closed in the end.
                let _closed = slow.write_all(b"x");
                thread::sleep(HANDSHAKE_TIMEOUT / 10);
            }
        });
        let begun = Instant::now();
        let secret = Secret::new(b"0123456789abcdef");
        let why = Channel::accept(listener.accept().unwrap().0, &secret).err().unwrap();
        assert!(matches!(why.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{why}");
        assert!(begun.elapsed() < HANDSHAKE_TIMEOUT * 2, "64 bytes would take six times as long");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        trickle.join().unwrap();
    }

    #[test]
    fn changed_and_repeated_frames_are_refused() {
        for is_changed in [true, false] {
            let (agent, controller) = pair(b"0123456789abcdef", b"0123456789abcdef");
            let (mut agent, mut controller) = (agent.unwrap(), controller.unwrap());
            let body = b"\"x\"";
            let mut frame = vec![0, 0, 0, 3];
            frame.extend_from_slice(&finish(controller.tag(false, 0, body)));
            frame.extend_from_slice(if is_changed { b"\"y\"" } else { body });
            controller.stream.write_all(&frame).unwrap();
            controller.stream.write_all(&frame).unwrap();
            let first = agent.receive::<String>(MOST);
            assert_eq!(first.is_ok(), !is_changed);
            assert!(agent.receive::<String>(MOST).is_err(), "the second has the first's number");
        }
    }

    #[test]
    fn no_bytes_make_frames_or_messages_panic() {
        let good = serde_json::to_vec(&super::super::message::Order::Time).unwrap();
        let mut frame = (good.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&[7; TAG_BYTES]);
        frame.extend_from_slice(&good);
        assert_eq!(read_frame(&mut &frame[..]).unwrap(), ([7; TAG_BYTES], good));
        let mut random = crate::load::random::Random::new(3);
        for _ in 0..20_000 {
            let mut bytes = frame.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.bits() as u8;
            }
            bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
            if let Ok((_, body)) = read_frame(&mut &bytes[..]) {
                assert!(body.len() <= bytes.len());
                super::super::decode(&body);
            }
        }
        let long = [&u32::to_be_bytes(FRAME_BYTES_MAX as u32)[..], &[0; TAG_BYTES]].concat();
        assert!(read_frame(&mut &long[..]).is_err(), "announced, and not sent");
    }

    #[test]
    fn frames_that_are_too_long_are_refused() {
        let (agent, controller) = pair(b"0123456789abcdef", b"0123456789abcdef");
        let (mut agent, mut controller) = (agent.unwrap(), controller.unwrap());
        controller.stream.write_all(&[0xff; 40]).unwrap();
        assert!(agent.receive::<String>(MOST).unwrap_err().to_string().contains("too long"));
    }
}
