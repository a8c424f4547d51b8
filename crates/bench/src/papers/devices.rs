//! Devices that programs read and write: exports over the network block device protocol, and files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use rustix::fs::{Advice, fadvise};

use crate::Outcome;
use crate::driver::nbd::{Ask, Handshake, REPLY_BYTES, error_name, put_request, reply};

/// Pieces of a device that are read one after the other, as the kernel reads ahead.
pub const PIECE_BYTES: usize = 128 << 10;
/// Pieces that are asked for before the first has come.
pub const PIECES_AHEAD: u64 = 4;
/// Writes that are under way, as the kernel's are.
const WRITES_MAX: usize = 32;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Something with bytes by their offsets. Reads and writes are whole blocks.
pub trait Device {
    /// Reads bytes from an offset.
    ///
    /// # Errors
    /// They cannot be read.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Outcome<()>;

    /// Writes bytes to an offset; this may go on after it returns, and later reads see it.
    ///
    /// # Errors
    /// They cannot be written, or those of before could not.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Outcome<()>;

    /// Waits until all is written, and on disk where the device promises that.
    ///
    /// # Errors
    /// Something could not be written.
    fn flush(&mut self) -> Outcome<()>;

    /// Reads the first bytes of the device from start to end, in pieces of `piece` bytes, and up to
    /// `ahead` of them before they are wanted. Files leave that to the kernel.
    ///
    /// # Errors
    /// They cannot be read.
    fn read_through(
        &mut self,
        length: u64,
        (piece, ahead): (usize, u64),
        each: &mut dyn FnMut(&[u8]),
    ) -> Outcome<()> {
        let _kernel = ahead;
        let mut bytes = vec![0; piece];
        for offset in (0..length).step_by(piece) {
            let bytes = &mut bytes[..piece.min((length - offset) as usize)];
            self.read(offset, bytes)?;
            each(bytes);
        }
        Ok(())
    }
}

/// An export of a server.
pub struct NbdDevice {
    stream: BufReader<TcpStream>,
    cookie: u64,
    /// Reads under way, and the bytes that each brings.
    reads: BTreeMap<u64, usize>,
    /// What came before it was wanted.
    came: BTreeMap<u64, Vec<u8>>,
    /// Writes and flushes under way: offset and length.
    writes: BTreeMap<u64, (u64, u64)>,
}

impl NbdDevice {
    /// Connects to an export.
    ///
    /// # Errors
    /// It is refused, or nobody listens.
    pub fn connect(address: &str, export: &str) -> Outcome<Self> {
        let mut stream =
            TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut out = Vec::new();
        Handshake::begin(export, &mut out);
        stream.write_all(&out)?;
        // Nothing comes after what ends it until a request was sent.
        let (mut handshake, mut input, mut piece) =
            (Handshake::default(), BytesMut::new(), [0; 512]);
        while handshake.step(&mut input)?.is_none() {
            match stream.read(&mut piece)? {
                0 => return Err(format!("{address}: closed before {export} was chosen").into()),
                len => input.extend_from_slice(&piece[..len]),
            }
        }
        Ok(Self {
            stream: BufReader::with_capacity(PIECE_BYTES, stream),
            cookie: 0,
            reads: BTreeMap::new(),
            came: BTreeMap::new(),
            writes: BTreeMap::new(),
        })
    }

    fn send(&mut self, ask: Ask, offset: u64, length: usize, bytes: &[u8]) -> Outcome<u64> {
        self.cookie += 1;
        let mut out = Vec::with_capacity(28 + bytes.len());
        put_request(ask, self.cookie, offset, length as u32, &mut out);
        out.extend_from_slice(bytes);
        self.stream.get_mut().write_all(&out)?;
        Ok(self.cookie)
    }

    fn ask_for(&mut self, offset: u64, length: usize) -> Outcome<u64> {
        // The protocol gives a read no place behind writes that are not answered.
        self.wait_for_writes(offset, length)?;
        let cookie = self.send(Ask::Read, offset, length, &[])?;
        self.reads.insert(cookie, length);
        Ok(cookie)
    }

    fn wait_for_writes(&mut self, offset: u64, length: usize) -> Outcome<()> {
        let end = offset + length as u64;
        while self.writes.values().any(|(start, length)| *start < end && start + length > offset) {
            self.take_reply()?;
        }
        Ok(())
    }

    fn take_reply(&mut self) -> Outcome<()> {
        let mut head = [0; REPLY_BYTES];
        self.stream.read_exact(&mut head)?;
        let (error, cookie) = reply(&head)?;
        if error != 0 {
            return Err(format!("a request of a device failed: {}", error_name(error)).into());
        }
        match self.reads.remove(&cookie) {
            Some(length) => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes)?;
                self.came.insert(cookie, bytes);
            }
            None => {
                self.writes.remove(&cookie).ok_or("a reply to no request")?;
            }
        }
        Ok(())
    }

    fn take(&mut self, cookie: u64) -> Outcome<Vec<u8>> {
        loop {
            match self.came.remove(&cookie) {
                Some(bytes) => return Ok(bytes),
                None => self.take_reply()?,
            }
        }
    }
}

impl Device for NbdDevice {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Outcome<()> {
        let cookie = self.ask_for(offset, bytes.len())?;
        bytes.copy_from_slice(&self.take(cookie)?);
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Outcome<()> {
        // Of two writes under way to one block either may be last.
        self.wait_for_writes(offset, bytes.len())?;
        while self.writes.len() >= WRITES_MAX {
            self.take_reply()?;
        }
        let cookie = self.send(Ask::Write, offset, bytes.len(), bytes)?;
        self.writes.insert(cookie, (offset, bytes.len() as u64));
        Ok(())
    }

    fn flush(&mut self) -> Outcome<()> {
        while !self.writes.is_empty() {
            self.take_reply()?;
        }
        let cookie = self.send(Ask::Flush, 0, 0, &[])?;
        self.writes.insert(cookie, (0, 0));
        while !self.writes.is_empty() {
            self.take_reply()?;
        }
        Ok(())
    }

    fn read_through(
        &mut self,
        length: u64,
        (piece, ahead): (usize, u64),
        each: &mut dyn FnMut(&[u8]),
    ) -> Outcome<()> {
        let (mut asked, mut cookies) = (0, std::collections::VecDeque::new());
        loop {
            while asked < length && (cookies.len() as u64) < ahead.max(1) {
                let bytes = (piece as u64).min(length - asked);
                cookies.push_back(self.ask_for(asked, bytes as usize)?);
                asked += bytes;
            }
            let Some(cookie) = cookies.pop_front() else { return Ok(()) };
            each(&self.take(cookie)?);
        }
    }
}

/// A file.
pub struct FileDevice(File);

impl FileDevice {
    /// Opens a file, and makes it if it is not there.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(path: &Path) -> Outcome<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        Ok(Self(file.map_err(|error| format!("{}: {error}", path.display()))?))
    }

    /// Has the kernel forget what it holds of the file in memory.
    ///
    /// # Errors
    /// The system refuses.
    pub fn drop_cache(&self) -> Outcome<()> {
        self.0.sync_all()?;
        fadvise(&self.0, 0, None, Advice::DontNeed)?;
        Ok(())
    }
}

impl Device for FileDevice {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Outcome<()> {
        Ok(self.0.read_exact_at(bytes, offset)?)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Outcome<()> {
        Ok(self.0.write_all_at(bytes, offset)?)
    }

    fn flush(&mut self) -> Outcome<()> {
        Ok(self.0.sync_data()?)
    }
}
