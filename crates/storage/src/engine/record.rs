//! How is one version of one key laid out? One allocation, header first, then key, then value.
//!
//! ```text
//!  0        8          16          24        28         32        32+k       32+k+v
//!  ├────────┼──────────┼───────────┼─────────┼──────────┼─────────┼──────────┤
//!  │ older  │timestamp │ expiry_ms │ key_len │value_len │ key     │ value    │
//!  │ or null│          │ 0 = never │ + flags │          │         │          │
//!  └────────┴──────────┴───────────┴─────────┴──────────┴─────────┴──────────┘
//! ```
//! The two highest bits of `key_len` are the flags [`TOMBSTONE`] and [`QUEUED`].
//!
//! A [`Record`] is a bare handle. Reading is safe because all obligations lie with the few `unsafe`
//! writers: a caller that frees or changes a record must ensure that no reference to its content
//! is left. The engine ensures that: references leave it only under `&MemoryEngine`, writers run
//! under `&mut MemoryEngine`, and a freed record is in no index, chain or queue.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use keyspace::Timestamp;

/// The longest key the engine takes.
pub const KEY_BYTES_MAX: usize = (1 << 20) - 1;
/// The longest value the engine takes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// The key has no value from this version on.
const TOMBSTONE: u32 = 1 << 31;
/// The collection queue holds this record, once.
const QUEUED: u32 = 1 << 30;
const LEN_MASK: u32 = QUEUED - 1;

#[repr(C)]
struct Header {
    older: Option<Record>,
    timestamp: u64,
    expiry_ms: u64,
    key_len_and_flags: u32,
    value_len: u32,
}

/// Bytes of a record before its key.
pub(super) const HEADER_BYTES: usize = size_of::<Header>();
const ALIGN: usize = align_of::<Header>();
const _: () = assert!(HEADER_BYTES == 32 && ALIGN == 8 && size_of::<Option<Record>>() == 8);

/// What a new version says.
#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    /// A value: the parts one after the other; `expiry_ms` 0 never expires.
    Value { parts: &'a [&'a [u8]], expiry_ms: u64 },
    /// No value.
    Tombstone,
}

impl Body<'_> {
    pub(super) fn value_len(&self) -> usize {
        match self {
            Body::Value { parts, .. } => parts.iter().map(|part| part.len()).sum(),
            Body::Tombstone => 0,
        }
    }
}

/// A handle on one version of one key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Record(NonNull<Header>);

impl Record {
    /// Makes a version in an allocation of its own.
    ///
    /// Panics if key or value is above its limit: callers check those at the door.
    pub(super) fn new(
        key: &[u8],
        body: Body<'_>,
        timestamp: Timestamp,
        older: Option<Record>,
    ) -> Self {
        let value_len = body.value_len();
        assert!(key.len() <= KEY_BYTES_MAX, "key above KEY_BYTES_MAX");
        assert!(value_len <= VALUE_BYTES_MAX, "value above VALUE_BYTES_MAX");
        let layout = layout(key.len() + value_len);
        let (expiry_ms, flags) = match body {
            Body::Value { expiry_ms, .. } => (expiry_ms, 0),
            Body::Tombstone => (0, TOMBSTONE),
        };
        // SAFETY: the layout has at least HEADER_BYTES; header and key are written inside it.
        let record = unsafe {
            let Some(start) = NonNull::new(alloc(layout).cast::<Header>()) else {
                handle_alloc_error(layout)
            };
            start.write(Header {
                older,
                timestamp: timestamp.0,
                expiry_ms,
                key_len_and_flags: key.len() as u32 | flags,
                value_len: value_len as u32,
            });
            let record = Record(start);
            ptr::copy_nonoverlapping(key.as_ptr(), record.key_start(), key.len());
            record
        };
        // SAFETY: the record is ours alone and its value has exactly these bytes.
        unsafe { record.write_value(body) };
        record
    }

    /// Frees this version only, not older ones.
    ///
    /// # Safety
    /// Nothing uses this handle, or anything read through it, afterwards.
    pub(super) unsafe fn free(self) {
        assert!(!self.is_queued(), "a queued record is freed");
        let layout = layout(self.key_len() + self.value_len());
        // SAFETY: allocated with the same layout; the lengths never change.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }

    /// Overwrites value and expiry by a body of the same length and kind.
    ///
    /// # Safety
    /// The caller has the engine to itself and holds no reference to the value.
    pub(super) unsafe fn overwrite(self, body: Body<'_>) {
        assert!(body.value_len() == self.value_len(), "overwritten by another length");
        // SAFETY: as promised by the caller; the length is the same.
        unsafe {
            if let Body::Value { expiry_ms, .. } = body {
                self.set_expiry(expiry_ms);
            }
            self.write_value(body);
        }
    }

    /// # Safety
    /// As [`Record::overwrite`]; the body has `value_len` bytes.
    unsafe fn write_value(self, body: Body<'_>) {
        let Body::Value { parts, .. } = body else { return };
        // SAFETY: the parts together are exactly the value's room behind the key.
        unsafe {
            let mut to = self.key_start().add(self.key_len());
            for part in parts {
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
        }
    }

    /// # Safety
    /// The caller has the engine to itself.
    pub(super) unsafe fn set_expiry(self, expiry_ms: u64) {
        // SAFETY: the record lives.
        unsafe { (*self.0.as_ptr()).expiry_ms = expiry_ms }
    }

    /// # Safety
    /// The caller has the engine to itself.
    pub(super) unsafe fn set_queued(self, queued: bool) {
        // SAFETY: the record lives.
        let word = unsafe { &mut (*self.0.as_ptr()).key_len_and_flags };
        if queued { *word |= QUEUED } else { *word &= !QUEUED }
    }

    /// Cuts the chain below this record and returns what hung there.
    ///
    /// # Safety
    /// The caller has the engine to itself.
    pub(super) unsafe fn take_older(self) -> Option<Record> {
        // SAFETY: the record lives.
        unsafe { (*self.0.as_ptr()).older.take() }
    }

    /// Hangs a chain, or nothing, on the oldest record of another.
    ///
    /// # Safety
    /// The caller has the engine to itself; nothing hangs here, and the chain hangs nowhere else.
    pub(super) unsafe fn set_older(self, older: Option<Record>) {
        // SAFETY: the record lives.
        unsafe { (*self.0.as_ptr()).older = older }
    }

    #[inline]
    pub(super) fn older(self) -> Option<Record> {
        // SAFETY: a handle in use is a live record.
        unsafe { (*self.0.as_ptr()).older }
    }

    #[inline]
    pub(super) fn timestamp(self) -> Timestamp {
        // SAFETY: as in `older`.
        Timestamp(unsafe { (*self.0.as_ptr()).timestamp })
    }

    #[inline]
    pub(super) fn expiry_ms(self) -> u64 {
        // SAFETY: as in `older`.
        unsafe { (*self.0.as_ptr()).expiry_ms }
    }

    #[inline]
    fn key_len_and_flags(self) -> u32 {
        // SAFETY: as in `older`.
        unsafe { (*self.0.as_ptr()).key_len_and_flags }
    }

    #[inline]
    pub(super) fn key_len(self) -> usize {
        (self.key_len_and_flags() & LEN_MASK) as usize
    }

    #[inline]
    pub(super) fn value_len(self) -> usize {
        // SAFETY: as in `older`.
        unsafe { (*self.0.as_ptr()).value_len as usize }
    }

    #[inline]
    pub(super) fn is_tombstone(self) -> bool {
        self.key_len_and_flags() & TOMBSTONE != 0
    }

    #[inline]
    pub(super) fn is_queued(self) -> bool {
        self.key_len_and_flags() & QUEUED != 0
    }

    /// Has no value at `at`, whatever it had before: deleted or expired.
    #[inline]
    pub(super) fn is_dead(self, at: Timestamp) -> bool {
        self.has_expired(at) || self.is_tombstone()
    }

    /// Had a value that has expired at `at`.
    #[inline]
    pub(super) fn has_expired(self, at: Timestamp) -> bool {
        let expiry_ms = self.expiry_ms();
        expiry_ms != 0 && expiry_ms <= at.millis()
    }

    /// Bytes asked of the allocator.
    #[inline]
    pub(super) fn bytes(self) -> u64 {
        (HEADER_BYTES + self.key_len() + self.value_len()) as u64
    }

    /// Where the key starts; [`Record::of_key`] is the way back.
    #[inline]
    pub(super) fn key_start(self) -> *mut u8 {
        // SAFETY: the header is inside the allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(HEADER_BYTES) }
    }

    /// The record whose key starts here.
    ///
    /// # Safety
    /// `key_start` came from [`Record::key_start`] of a live record.
    pub(super) unsafe fn of_key(key_start: *const u8) -> Self {
        // SAFETY: the header lies right before, in the same allocation.
        unsafe { Record(NonNull::new_unchecked(key_start.sub(HEADER_BYTES).cast_mut().cast())) }
    }

    #[inline]
    pub(super) fn key<'a>(self) -> &'a [u8] {
        // SAFETY: written by `new`; outlives 'a by the module's contract.
        unsafe { std::slice::from_raw_parts(self.key_start(), self.key_len()) }
    }

    #[inline]
    pub(super) fn value<'a>(self) -> &'a [u8] {
        // SAFETY: written by `new`; outlives 'a by the module's contract.
        unsafe {
            std::slice::from_raw_parts(self.key_start().add(self.key_len()), self.value_len())
        }
    }

    /// Asks the processor for the line the record starts in.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch(self.0.as_ptr());
    }
}

/// Asks the processor for the cache line at `address`, without waiting; a hint only.
#[inline]
pub(super) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches no memory that the program could see.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

fn layout(body_bytes: usize) -> Layout {
    Layout::from_size_align(HEADER_BYTES + body_bytes, ALIGN).expect("lengths are limited")
}
