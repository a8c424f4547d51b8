//! The outbox of one peer: frames that wait for its socket, and the threads that write them.
//!
//! ```text
//!   senders ── push ──► [chunk][chunk][chunk…] ── write ──► socket
//!                │                    ▲   ▲
//!                │                    │   the first thread that flushes writes for all; the
//!                │                    │   others leave their bytes and return
//!                └─► [long message][frames][long message] : one piece, or the frames between
//!                                           two long messages, each time the chunks are written
//! ```
//!
//! Any thread may append and any may write, but only one writes at a time, and it holds no lock
//! while it does. When the socket takes no more, the peer thread goes on once poll says writable.
//!
//! Invariants:
//! 1. Bytes leave in the order in which they were pushed, frames whole; but urgent frames
//!    overtake long messages, and all that waits behind them.
//! 2. Never more than `bytes_max` are held, and one longer message; of short frames and the
//!    piece that leaves never more than `bytes_max`, however long the others are. What would not
//!    fit is not taken.
//! 3. When nobody writes and the socket is not blocked, nothing is left that was flushed.
//!
//! It knows no sockets, only [`Write`].

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

use parking_lot::Mutex;

use super::frame;
use super::pieces::{Cut, PIECE};

/// Frames are gathered up to about this size; a longer one is a chunk of its own.
const CHUNK_BYTES: usize = 32 << 10;
/// Empty chunks kept for the next frames.
const SPARE_MAX: usize = 2;
/// Chunks given to the socket with one call.
const SLICES_MAX: usize = 16;
/// Rounds that one thread writes what others have pushed meanwhile.
const ROUNDS_MAX: usize = 4;

/// How a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOrder {
    /// Behind all that was pushed before.
    Next,
    /// Before long messages, and what waits behind them.
    Urgent,
    /// In pieces, behind all that was pushed before.
    Pieces,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// It would be too much.
    Full,
    /// The link is gone.
    Closed,
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Nothing is left for this thread to do: all is written, or the socket or another thread will
    /// see to it.
    Done,
    /// Other threads pushed as fast as this one wrote: a thread should flush again.
    More,
}

/// What leaves when the chunks before it have.
#[derive(Debug)]
enum QueuedItem {
    /// Frames.
    Chunk(Vec<u8>),
    /// A long message.
    Long(Cut),
}

#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<Vec<u8>>,
    /// A long message, and what was pushed behind it.
    waiting: VecDeque<QueuedItem>,
    /// Bytes of long messages that no piece has taken.
    long_bytes: usize,
    /// Bytes of the first chunk that are written already.
    sent: usize,
    /// Bytes held, those in a writer's hands among them.
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Some thread is writing.
    writing: bool,
    /// The socket is full; poll will report when it has room.
    blocked: bool,
    /// Poll reported room while a thread was writing.
    unblocked: bool,
    closed: bool,
}

impl Queue {
    /// Takes nothing more, and lets go of what it holds.
    fn close(&mut self) {
        self.closed = true;
        self.chunks.clear();
        self.waiting.clear();
        (self.bytes, self.long_bytes) = (0, 0);
    }

    /// Makes a chunk of what waits, if there is none.
    fn refill(&mut self) {
        while self.chunks.is_empty() {
            let Some(first) = self.waiting.front_mut() else { return };
            let mut chunk = Vec::new();
            let left_bytes = match first {
                QueuedItem::Chunk(frames) => {
                    std::mem::swap(&mut chunk, frames);
                    0
                }
                QueuedItem::Long(cut) => {
                    let before = cut.left_bytes();
                    cut.next(|parts| frame::encode(&mut chunk, PIECE, parts));
                    let left = cut.left_bytes();
                    self.long_bytes -= before - left;
                    self.bytes += chunk.len() - (before - left);
                    left
                }
            };
            if left_bytes == 0 {
                self.waiting.pop_front();
            }
            self.chunks.push_back(chunk);
        }
    }
}

/// The frames on their way to one peer.
#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<Queue>,
    bytes_max: usize,
}

impl Outbox {
    /// An outbox that holds at most `bytes_max`, and `first` already.
    pub fn new(bytes_max: usize, first: Vec<u8>) -> Self {
        let mut queue = Queue::default();
        if !first.is_empty() {
            queue.bytes = first.len();
            queue.chunks.push_back(first);
        }
        Self { queue: Mutex::new(queue), bytes_max }
    }

    /// Appends a message.
    ///
    /// # Errors
    /// If it is not taken; nothing is changed.
    pub fn push(&self, order: SendOrder, kind: u8, parts: &[&[u8]]) -> Result<(), PushError> {
        let body_bytes = parts.iter().map(|part| part.len()).sum();
        if order == SendOrder::Pieces {
            return self.push_long(kind, parts, body_bytes);
        }
        let (head, tail) = frame::seal(kind, parts);
        let bytes = frame::frame_bytes(body_bytes);
        let mut own = Vec::new();
        if bytes > CHUNK_BYTES {
            // Copied before the lock is taken, but not if it will surely not fit.
            self.check(&self.queue.lock(), bytes)?;
            own.reserve_exact(bytes);
            frame::put(&mut own, &head, parts, &tail);
        }
        let mut queue = self.queue.lock();
        self.check(&queue, bytes)?;
        queue.bytes += bytes;
        let waits = order == SendOrder::Next && !queue.waiting.is_empty();
        if waits && own.is_empty() {
            frame::put(&mut own, &head, parts, &tail);
        }
        if waits {
            let fits = |chunk: &Vec<u8>| chunk.len() + bytes <= CHUNK_BYTES;
            match queue.waiting.back_mut() {
                Some(QueuedItem::Chunk(chunk)) if fits(chunk) => chunk.extend_from_slice(&own),
                _ => queue.waiting.push_back(QueuedItem::Chunk(own)),
            }
            return Ok(());
        }
        if !own.is_empty() {
            queue.chunks.push_back(own);
            return Ok(());
        }
        let fits = |chunk: &Vec<u8>| chunk.len() + bytes <= CHUNK_BYTES;
        if !queue.chunks.back().is_some_and(fits) {
            let chunk = queue.spare.pop().unwrap_or_default();
            queue.chunks.push_back(chunk);
        }
        let chunk = queue.chunks.back_mut().expect("one was pushed if there was none");
        frame::put(chunk, &head, parts, &tail);
        Ok(())
    }

    fn check(&self, queue: &Queue, bytes: usize) -> Result<(), PushError> {
        match () {
            () if queue.closed => Err(PushError::Closed),
            () if queue.bytes - queue.long_bytes + bytes > self.bytes_max => Err(PushError::Full),
            () => Ok(()),
        }
    }

    fn push_long(&self, kind: u8, parts: &[&[u8]], bytes: usize) -> Result<(), PushError> {
        let check = |queue: &Queue| match () {
            () if queue.closed => Err(PushError::Closed),
            () if queue.long_bytes == 0 || queue.bytes + bytes <= self.bytes_max => Ok(()),
            () => Err(PushError::Full),
        };
        // Copied before the lock is taken, but not if it will surely not fit.
        check(&self.queue.lock())?;
        let cut = Cut::new(kind, parts);
        let mut queue = self.queue.lock();
        check(&queue)?;
        queue.bytes += bytes;
        queue.long_bytes += bytes;
        queue.waiting.push_back(QueuedItem::Long(cut));
        Ok(())
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.queue.lock().bytes
    }

    /// Takes nothing more, and lets go of what it holds.
    pub fn close(&self) {
        self.queue.lock().close();
    }

    /// Poll reports that the socket has room. Whether bytes wait for that: then flush.
    pub fn unblock(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.unblocked = queue.writing;
        std::mem::take(&mut queue.blocked)
    }

    /// Writes what is there, until the socket takes no more. `written` is told how many bytes.
    ///
    /// # Errors
    /// What the socket said; the outbox is closed.
    pub fn flush(&self, mut socket: impl Write, written: impl Fn(usize)) -> io::Result<Flushed> {
        for _ in 0..ROUNDS_MAX {
            let (mut chunks, mut sent) = {
                let mut queue = self.queue.lock();
                if queue.writing || queue.blocked {
                    return Ok(Flushed::Done);
                }
                queue.refill();
                if queue.chunks.is_empty() {
                    return Ok(Flushed::Done);
                }
                queue.writing = true;
                queue.unblocked = false;
                (std::mem::take(&mut queue.chunks), std::mem::take(&mut queue.sent))
            };
            let mut empty = Vec::new();
            let (bytes, result) = write_all(&mut socket, &mut chunks, &mut sent, &mut empty);
            written(bytes);
            let mut queue = self.queue.lock();
            queue.writing = false;
            if queue.closed {
                return Ok(Flushed::Done);
            }
            queue.bytes -= bytes;
            queue.sent = sent;
            chunks.append(&mut queue.chunks);
            queue.chunks = chunks;
            let room = SPARE_MAX.saturating_sub(queue.spare.len());
            queue.spare.extend(empty.into_iter().take(room));
            match result {
                // The poll may have told before this thread had seen it.
                Ok(Blocked(true)) => queue.blocked = !std::mem::take(&mut queue.unblocked),
                Ok(Blocked(false)) => {}
                Err(error) => {
                    queue.close();
                    return Err(error);
                }
            }
        }
        Ok(Flushed::More)
    }
}

struct Blocked(bool);

/// Writes chunks from the front. How many bytes went, and whether the socket was full.
fn write_all(
    socket: &mut impl Write,
    chunks: &mut VecDeque<Vec<u8>>,
    sent: &mut usize,
    empty: &mut Vec<Vec<u8>>,
) -> (usize, io::Result<Blocked>) {
    let mut total = 0;
    while let Some(first) = chunks.front() {
        let result = if chunks.len() == 1 {
            socket.write(&first[*sent..])
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = chunks.len().min(SLICES_MAX);
            for (slice, chunk) in slices.iter_mut().zip(chunks.iter()) {
                *slice = IoSlice::new(chunk);
            }
            slices[0] = IoSlice::new(&first[*sent..]);
            socket.write_vectored(&slices[..count])
        };
        match result {
            Ok(0) => return (total, Err(ErrorKind::WriteZero.into())),
            Ok(bytes) => {
                total += bytes;
                *sent += bytes;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return (total, Ok(Blocked(true)));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (total, Err(error)),
        }
        while let Some(mut chunk) = chunks.pop_front_if(|chunk| *sent >= chunk.len()) {
            *sent -= chunk.len();
            if chunk.capacity() <= 2 * CHUNK_BYTES {
                chunk.clear();
                empty.push(chunk);
            }
        }
    }
    (total, Ok(Blocked(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::frame::Decoder;
    use crate::peer::pieces::Assembly;

    /// A socket that takes so many bytes until it is told to take more.
    struct Socket {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for &mut Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(7_000);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn frames_leave_whole_and_in_order_however_little_the_socket_takes() {
        let outbox = Outbox::new(1 << 20, b"first".to_vec());
        let mut socket = Socket { taken: Vec::new(), room: 0 };
        for n in 0..100u8 {
            let body = vec![n; n as usize * 97 * usize::from(n % 10 + 1)];
            while outbox.push(SendOrder::Next, n, &[&body]) == Err(PushError::Full) {
                socket.room = 50_000;
                outbox.unblock();
                outbox.flush(&mut socket, |_| {}).unwrap();
            }
        }
        while outbox.bytes() > 0 {
            socket.room = 50_000;
            outbox.unblock();
            assert_eq!(outbox.flush(&mut socket, |_| {}).unwrap(), Flushed::Done);
        }
        assert_eq!(&socket.taken[..5], b"first");
        let mut decoder = Decoder::new(1 << 20, &socket.taken[5..]);
        for n in 0..100u8 {
            let frame = decoder.take().unwrap().unwrap();
            assert_eq!(
                (frame.kind, frame.body.len()),
                (n, n as usize * 97 * (n as usize % 10 + 1))
            );
        }
    }

    #[test]
    fn it_never_holds_more_than_its_limit() {
        let outbox = Outbox::new(100_000, Vec::new());
        let mut socket = Socket { taken: Vec::new(), room: 10_000 };
        let mut taken = 0;
        while outbox.push(SendOrder::Next, 1, &[&[0; 991]]).is_ok() {
            taken += 1;
        }
        assert_eq!((taken, outbox.bytes()), (100, 100_000));
        assert_eq!(outbox.push(SendOrder::Next, 1, &[&[0; 200_000]]), Err(PushError::Full));
        outbox.flush(&mut socket, |_| {}).unwrap();
        assert_eq!(outbox.bytes(), 90_000);
        outbox.close();
        assert_eq!(
            (outbox.bytes(), outbox.push(SendOrder::Next, 1, &[])),
            (0, Err(PushError::Closed))
        );
    }

    #[test]
    fn full_socket_is_not_written_until_poll_reports_room() {
        let outbox = Outbox::new(1 << 20, Vec::new());
        let mut socket = Socket { taken: Vec::new(), room: 3 };
        outbox.push(SendOrder::Next, 1, &[b"hello"]).unwrap();
        outbox.flush(&mut socket, |_| {}).unwrap();
        socket.room = 100;
        outbox.flush(&mut socket, |_| {}).unwrap();
        assert_eq!(socket.taken.len(), 3);
        outbox.unblock();
        outbox.flush(&mut socket, |_| {}).unwrap();
        assert_eq!(socket.taken.len(), frame::frame_bytes(5));
    }

    #[test]
    fn urgent_frames_overtake_long_messages_and_others_stay_in_order() {
        let outbox = Outbox::new(700_000, Vec::new());
        let mut socket = Socket { taken: Vec::new(), room: 0 };
        let long = |n: u8| vec![n; 1 << 20];
        outbox.push(SendOrder::Next, 1, &[b"before"]).unwrap();
        outbox.push(SendOrder::Pieces, 2, &[&long(2)]).unwrap();
        outbox.push(SendOrder::Next, 3, &[b"behind"]).unwrap();
        assert_eq!(outbox.push(SendOrder::Pieces, 4, &[&long(4)]), Err(PushError::Full));
        // Room for short ones is theirs alone.
        outbox.push(SendOrder::Next, 5, &[&[5; 400_000]]).unwrap();
        assert_eq!(outbox.push(SendOrder::Next, 6, &[&[6; 400_000]]), Err(PushError::Full));
        socket.room = 400_000;
        outbox.flush(&mut socket, |_| {}).unwrap();
        outbox.push(SendOrder::Urgent, 7, &[b"urgent"]).unwrap();
        while outbox.bytes() > 0 {
            socket.room = 100_000;
            outbox.unblock();
            outbox.flush(&mut socket, |_| {}).unwrap();
        }
        outbox.push(SendOrder::Pieces, 8, &[&long(8)]).unwrap();
        socket.room = 2 << 20;
        outbox.unblock();
        while outbox.flush(&mut socket, |_| {}).unwrap() == Flushed::More {}
        assert_eq!(outbox.bytes(), 0);
        let mut decoder = Decoder::new(1 << 20, &socket.taken);
        let (mut assembly, mut found) = (Assembly::default(), Vec::new());
        while let Some(frame) = decoder.take().unwrap() {
            let whole = match frame.kind {
                PIECE => assembly.take(frame.body).unwrap(),
                _ => Some(frame),
            };
            found.extend(whole.map(|frame| (frame.kind, frame.body.len())));
        }
        let long = 1 << 20;
        assert_eq!(found, [(1, 6), (7, 6), (2, long), (3, 6), (5, 400_000), (8, long)]);
    }

    #[test]
    fn many_threads_push_and_flush_and_nothing_is_left() {
        struct Sink(Mutex<Vec<u8>>);
        impl Write for &Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let mut taken = self.0.try_lock().expect("one writer at a time");
                taken.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (outbox, sink) = (Outbox::new(1 << 30, Vec::new()), Sink(Mutex::default()));
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let (outbox, sink) = (&outbox, &sink);
                scope.spawn(move || {
                    for n in 0..5_000u32 {
                        outbox.push(SendOrder::Next, thread, &[&n.to_le_bytes()]).unwrap();
                        while outbox.flush(sink, |_| {}).unwrap() == Flushed::More {}
                    }
                });
            }
        });
        assert_eq!(outbox.bytes(), 0);
        let mut decoder = Decoder::new(1 << 20, &sink.0.into_inner());
        let mut next = [0u32; 4];
        while let Some(frame) = decoder.take().unwrap() {
            let next = &mut next[usize::from(frame.kind)];
            assert_eq!(frame.body[..], next.to_le_bytes());
            *next += 1;
        }
        assert_eq!(next, [5_000; 4]);
    }
}
