//! A client of a volume: the network block device protocol with simple replies, blocking.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An error of the protocol: writing is not permitted.
pub const PERM: u32 = 1;
/// The request makes no sense.
pub const INVALID: u32 = 22;
/// There is no room.
pub const NO_SPACE: u32 = 28;
/// None of the protocol: nobody listens.
pub const NOBODY: u32 = u32::MAX;

/// A client of one export, by simple replies.
pub struct Disk {
    /// The connection.
    pub stream: TcpStream,
    /// The size of the export in bytes.
    pub size: u64,
    cookie: u64,
}

impl Disk {
    /// Connects and chooses an export; or the number of the error.
    pub fn open(address: SocketAddr, export: &str) -> Result<Self, u32> {
        Self::choose(address, export).map_err(|(error, _)| error)
    }

    /// The same; with the error comes its text.
    pub fn choose(address: SocketAddr, export: &str) -> Result<Self, (u32, String)> {
        let stream = TcpStream::connect(address);
        let mut stream = stream.map_err(|why| (NOBODY, why.to_string()))?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time can be set");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        let mut asked = 3_u32.to_be_bytes().to_vec();
        asked.extend_from_slice(b"IHAVEOPT");
        asked.extend_from_slice(&7_u32.to_be_bytes());
        asked.extend_from_slice(&(export.len() as u32 + 6).to_be_bytes());
        asked.extend_from_slice(&(export.len() as u32).to_be_bytes());
        asked.extend_from_slice(export.as_bytes());
        asked.extend_from_slice(&0_u16.to_be_bytes());
        stream.write_all(&asked).expect("the server reads");
        let mut size = 0;
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head).expect("a reply to the option");
            let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            let (kind, length) = (number(12), number(16));
            let mut data = vec![0; length as usize];
            stream.read_exact(&mut data).expect("the reply's data");
            match kind {
                1 => return Ok(Self { stream, size, cookie: 0 }),
                3 if data[..2] == [0, 0] => {
                    size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                }
                3 => {}
                error => return Err((error, String::from_utf8_lossy(&data).into_owned())),
            }
        }
    }

    /// Sends a request.
    pub fn ask(&mut self, kind: u16, offset: u64, length: u32, bytes: &[u8]) {
        self.cookie += 1;
        let mut asked = 0x2560_9513_u32.to_be_bytes().to_vec();
        asked.extend_from_slice(&[0, 0]);
        asked.extend_from_slice(&kind.to_be_bytes());
        asked.extend_from_slice(&self.cookie.to_be_bytes());
        asked.extend_from_slice(&offset.to_be_bytes());
        asked.extend_from_slice(&length.to_be_bytes());
        asked.extend_from_slice(bytes);
        self.stream.write_all(&asked).expect("the server reads");
    }

    /// The error of the next reply, and its cookie.
    pub fn reply(&mut self) -> (u32, u64) {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).expect("a reply");
        assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(head[8..].try_into().unwrap()))
    }

    /// Writes bytes; the error, 0 if it was done.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> u32 {
        self.ask(1, offset, bytes.len() as u32, bytes);
        self.reply().0
    }

    /// Reads bytes, or the error.
    pub fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, u32> {
        self.ask(0, offset, length as u32, &[]);
        match self.reply().0 {
            0 => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).expect("the bytes");
                Ok(bytes)
            }
            error => Err(error),
        }
    }

    /// Sends a request without bytes; the error, 0 if it was done.
    pub fn act(&mut self, kind: u16, offset: u64, length: u32) -> u32 {
        self.ask(kind, offset, length, &[]);
        self.reply().0
    }
}

/// A kind of request: what was written is to be durable.
pub const FLUSH: u16 = 3;
/// Bytes are not needed any more.
pub const TRIM: u16 = 4;
/// Bytes are to be zeroes.
pub const WRITE_ZEROES: u16 = 6;
