//! What client and server agree on before requests come.
//!
//! ```text
//!   flags ──► options … ──► transmission (EXPORT_NAME, GO)  or  the end (ABORT, or nonsense)
//! ```
//!
//! Each option is answered before the next is looked at. A client chooses replies
//! (`STRUCTURED_REPLY`, or `EXTENDED_HEADERS`, which has them too), then contexts of an export,
//! then the export. Contexts count for the export that they were chosen for, as the protocol says.

use super::request::Transmission;
use super::{
    ALLOCATION, ALLOCATION_CONTEXT, NAME_BYTES_MAX, OPTION_BYTES_MAX, OPTIONS_MAX,
    PAYLOAD_BYTES_MAX, be_u16, be_u32, be_u64, put_u16, put_u32, put_u64,
};

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943; // NBDMAGIC
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054; // IHAVEOPT
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

/// What the server says first.
pub const GREETING: [u8; 18] = {
    let mut bytes = [0; 18];
    let (init, option) = (INIT_MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes());
    let mut at = 0;
    while at < 8 {
        bytes[at] = init[at];
        bytes[8 + at] = option[at];
        at += 1;
    }
    bytes[17] = (FIXED_NEWSTYLE | NO_ZEROES) as u8;
    bytes
};

mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    pub const ERR_UNSUP: u32 = 0x8000_0001;
    pub const ERR_INVALID: u32 = 0x8000_0003;
    pub const ERR_TLS_REQD: u32 = 0x8000_0005;
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
    pub const ERR_TOO_BIG: u32 = 0x8000_0009;
}

mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

mod flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
}

/// A volume as its clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// What people are told of it.
    pub description: String,
    /// Its size in bytes.
    pub size: u64,
    /// The bytes that are written whole, and read and written best.
    pub block: u32,
    /// Whether it can only be read.
    pub is_read_only: bool,
    /// Whether each of its connections sees what others have flushed.
    pub has_multi_conn: bool,
}

impl Export {
    fn flags(&self, has_structured: bool) -> u16 {
        let when = |is: bool, flag| if is { flag } else { 0 };
        let all = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_CACHE;
        let writes = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES;
        all | when(!self.is_read_only, writes)
            | when(self.is_read_only, flag::READ_ONLY)
            | when(self.has_multi_conn, flag::CAN_MULTI_CONN)
            | when(has_structured, flag::SEND_DF)
    }
}

/// What a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// This.
    Export(Export),
    /// Nothing that can be had, and why.
    Refused(String),
    /// That is not known yet: the same option is given again when it is.
    Later,
}

/// The volumes that a client may choose from.
pub trait Exports {
    /// The one of a name; of the empty name, the one that is served if no other is asked for.
    fn find(&self, name: &str) -> Found;
    /// All names, for `LIST`.
    fn names(&self) -> Vec<String>;
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The export.
    pub export: Export,
    /// The form of requests and replies.
    pub transmission: Transmission,
}

/// What comes after the bytes that were taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// It is not known yet what a name stands for ([`Found::Later`]); no byte was taken.
    Wait,
    /// Requests come.
    Chosen(Box<Negotiated>),
    /// The connection ends when what was written has been sent.
    End,
    /// What was written is sent, and all that follows is TLS, in both directions. A client that has
    /// sent more by then is not to be trusted: the connection ends.
    StartTls,
}

/// Whether a client may begin TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsOffer {
    /// It cannot.
    #[default]
    None,
    /// It may.
    Optional,
    /// It must, before anything else.
    Required,
    /// It has.
    Begun,
}

/// A negotiation under way.
#[derive(Debug, Default)]
pub struct Negotiation {
    has_flags: bool,
    has_no_zeroes: bool,
    has_structured: bool,
    has_extended: bool,
    /// The export whose allocation is asked for.
    context_of: Option<String>,
    /// Bytes of an option that is too long, to be skipped.
    skip: u64,
    options: u32,
    tls: TlsOffer,
}

impl Negotiation {
    /// One whose client is offered TLS, or not.
    pub fn new(tls: TlsOffer) -> Self {
        Self { tls, ..Self::default() }
    }

    /// Takes one option from the front of `input`, or what else comes there, and appends what is
    /// answered. Returns how many bytes were taken, and what comes next. After [`Step::More`] with
    /// bytes taken it can be asked again; so the caller says how many answers may pile up.
    pub fn step(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> (usize, Step) {
        if self.skip > 0 {
            let taken = input.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            self.skip -= taken as u64;
            return (taken, Step::More);
        }
        if !self.has_flags {
            let Some(flags) = be_u32(input, 0) else { return (0, Step::More) };
            self.has_flags = true;
            self.has_no_zeroes = flags & u32::from(NO_ZEROES) != 0;
            let is_known = flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) == 0;
            return (4, if is_known { Step::More } else { Step::End });
        }
        let Some(len) = be_u32(input, 12) else { return (0, Step::More) };
        let option = be_u32(input, 8).unwrap_or_default();
        self.options += 1;
        if be_u64(input, 0) != Some(OPTION_MAGIC) || self.options > OPTIONS_MAX {
            return (16, Step::End);
        }
        if len > OPTION_BYTES_MAX {
            if option == option::EXPORT_NAME {
                return (16, Step::End);
            }
            self.skip = len.into();
            refuse(out, option, answer::ERR_TOO_BIG, "the option is too long");
            return (16, Step::More);
        }
        let Some(data) = input.get(16..16 + len as usize) else {
            self.options -= 1;
            return (0, Step::More);
        };
        match self.answer(option, data, exports, out) {
            Step::Wait => {
                self.options -= 1;
                (0, Step::Wait)
            }
            step => (16 + data.len(), step),
        }
    }

    fn answer(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Step {
        let needs_tls = !matches!(option, option::STARTTLS | option::ABORT);
        if self.tls == TlsOffer::Required && needs_tls {
            // This one has no answer for a refusal.
            if option == option::EXPORT_NAME {
                return Step::End;
            }
            refuse(out, option, answer::ERR_TLS_REQD, "begin TLS first (STARTTLS)");
            return Step::More;
        }
        match option {
            option::STARTTLS => return self.start_tls(data, out),
            option::EXPORT_NAME => return self.chosen_by_name(data, exports, out),
            option::ABORT => {
                reply(out, option, answer::ACK, &[]);
                return Step::End;
            }
            option::LIST if data.is_empty() => {
                for name in exports.names() {
                    let mut entry = Vec::with_capacity(4 + name.len());
                    put_u32(&mut entry, name.len() as u32);
                    entry.extend_from_slice(name.as_bytes());
                    reply(out, option, answer::SERVER, &entry);
                }
                reply(out, option, answer::ACK, &[]);
            }
            option::INFO | option::GO => return self.info(option, data, exports, out),
            option::STRUCTURED_REPLY if data.is_empty() && !self.has_extended => {
                self.has_structured = true;
                reply(out, option, answer::ACK, &[]);
            }
            option::EXTENDED_HEADERS if data.is_empty() => {
                // Contexts are chosen anew for the other form of replies.
                (self.has_structured, self.has_extended) = (true, true);
                self.context_of = None;
                reply(out, option, answer::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                return self.contexts(option, data, exports, out);
            }
            option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
                refuse(out, option, answer::ERR_INVALID, "it takes no data, and comes once");
            }
            _ => refuse(out, option, answer::ERR_UNSUP, "the option is not supported"),
        }
        Step::More
    }

    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let option = option::STARTTLS;
        match self.tls {
            TlsOffer::None => refuse(out, option, answer::ERR_UNSUP, "there is no TLS here"),
            TlsOffer::Begun => refuse(out, option, answer::ERR_INVALID, "it has begun already"),
            _ if !data.is_empty() => refuse(out, option, answer::ERR_INVALID, "it takes no data"),
            TlsOffer::Optional | TlsOffer::Required => {
                reply(out, option, answer::ACK, &[]);
                // What was agreed on before could be somebody else's on the way.
                (self.has_structured, self.has_extended) = (false, false);
                self.context_of = None;
                self.tls = TlsOffer::Begun;
                return Step::StartTls;
            }
        }
        Step::More
    }

    /// The old way to choose: it has no answer for a name that nobody knows.
    fn chosen_by_name(&self, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Step {
        let export = match std::str::from_utf8(data).map(|name| exports.find(name)) {
            Ok(Found::Export(export)) => export,
            Ok(Found::Later) => return Step::Wait,
            Ok(Found::Refused(_)) | Err(_) => return Step::End,
        };
        put_u64(out, export.size);
        put_u16(out, export.flags(self.has_structured));
        if !self.has_no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        self.chosen(export, data)
    }

    fn chosen(&self, export: Export, name: &[u8]) -> Step {
        let has_context = self.context_of.as_ref().is_some_and(|of_it| of_it.as_bytes() == name);
        let transmission = Transmission {
            has_structured: self.has_structured,
            has_extended: self.has_extended,
            has_context,
            size: export.size,
            block: export.block,
            is_read_only: export.is_read_only,
        };
        Step::Chosen(Box::new(Negotiated { export, transmission }))
    }

    fn info(&self, option: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Step {
        let Some((name, asked)) = read_info(data) else {
            refuse(out, option, answer::ERR_INVALID, "its lengths do not fit its bytes");
            return Step::More;
        };
        let export = match exports.find(name) {
            Found::Export(export) => export,
            Found::Later => return Step::Wait,
            Found::Refused(why) => {
                refuse(out, option, answer::ERR_UNKNOWN, &why);
                return Step::More;
            }
        };
        let mut item = Vec::new();
        let mut tell = |kind: u16, write: &dyn Fn(&mut Vec<u8>)| {
            item.clear();
            put_u16(&mut item, kind);
            write(&mut item);
            reply(out, option, answer::INFO, &item);
        };
        tell(info::EXPORT, &|item| {
            put_u64(item, export.size);
            put_u16(item, export.flags(self.has_structured));
        });
        tell(info::BLOCK_SIZE, &|item| {
            for bytes in [export.block, export.block, PAYLOAD_BYTES_MAX] {
                put_u32(item, bytes);
            }
        });
        for kind in asked.chunks_exact(2).filter_map(|kind| be_u16(kind, 0)) {
            match kind {
                info::NAME => tell(kind, &|item| item.extend_from_slice(export.name.as_bytes())),
                info::DESCRIPTION => {
                    tell(kind, &|item| item.extend_from_slice(export.description.as_bytes()));
                }
                _ => {}
            }
        }
        reply(out, option, answer::ACK, &[]);
        match option {
            option::GO => self.chosen(export, name.as_bytes()),
            _ => Step::More,
        }
    }

    fn contexts(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Step {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            self.context_of = None;
        }
        if !self.has_structured {
            refuse(out, option, answer::ERR_INVALID, "it needs structured replies");
            return Step::More;
        }
        let Some((name, queries)) = read_queries(data) else {
            refuse(out, option, answer::ERR_INVALID, "its lengths do not fit its bytes");
            return Step::More;
        };
        match exports.find(name) {
            Found::Export(_) => {}
            Found::Later => return Step::Wait,
            Found::Refused(why) => {
                refuse(out, option, answer::ERR_UNKNOWN, &why);
                return Step::More;
            }
        }
        let matches = |query: &[u8]| match is_set {
            true => query == ALLOCATION.as_bytes(),
            false => query == ALLOCATION.as_bytes() || query == b"base:",
        };
        let is_asked = queries.iter().any(|query| matches(query));
        if is_asked || (!is_set && queries.is_empty()) {
            let mut entry = Vec::new();
            // A list gives no ids.
            put_u32(&mut entry, if is_set { ALLOCATION_CONTEXT } else { 0 });
            entry.extend_from_slice(ALLOCATION.as_bytes());
            reply(out, option, answer::META_CONTEXT, &entry);
            if is_set {
                self.context_of = Some(name.to_owned());
            }
        }
        reply(out, option, answer::ACK, &[]);
        Step::More
    }
}

/// Name, and the kinds of information that are asked for.
fn read_info(data: &[u8]) -> Option<(&str, &[u8])> {
    let len = be_u32(data, 0)? as usize;
    let name = read_name(data.get(4..4usize.checked_add(len)?)?)?;
    let count = usize::from(be_u16(data, 4 + len)?);
    let asked = data.get(4 + len + 2..)?;
    (asked.len() == 2 * count).then_some((name, asked))
}

/// Name, and queries for contexts.
fn read_queries(data: &[u8]) -> Option<(&str, Vec<&[u8]>)> {
    let len = be_u32(data, 0)? as usize;
    let name = read_name(data.get(4..4usize.checked_add(len)?)?)?;
    let count = be_u32(data, 4 + len)?;
    let mut at = 4 + len + 4;
    let mut queries = Vec::new();
    for _ in 0..count {
        let len = be_u32(data, at)? as usize;
        queries.push(data.get(at + 4..(at + 4).checked_add(len)?)?);
        at += 4 + len;
    }
    (at == data.len()).then_some((name, queries))
}

fn read_name(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| name.len() <= NAME_BYTES_MAX)
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    put_u64(out, REPLY_MAGIC);
    put_u32(out, option);
    put_u32(out, kind);
    put_u32(out, data.len() as u32);
    out.extend_from_slice(data);
}

fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, why: &str) {
    // Texts may repeat what a client has sent; the protocol bounds them.
    let why = &why[..why.floor_char_boundary(NAME_BYTES_MAX)];
    reply(out, option, kind, why.as_bytes());
}
