//! From a command's arguments to a [`Request`], or to a reply that is known at once.

use command::{Read, Write};

use super::{ReplyMode, Session};
use crate::access::{Access, Principal};
use crate::resp::args::Args;
use crate::resp::commands::{Call, past, transaction};
use crate::resp::context::Context;
use crate::resp::error::{self, CommandError};
use crate::resp::request::Request;
use crate::resp::table::{self, CommandSpec};

/// Whether this is a line of an HTTP request: some web page makes a browser send commands here.
/// Redis closes such a connection without a word.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Whether a client of RESP2 that subscribes may send this command.
fn is_open_to_subscribers(name: &str) -> bool {
    matches!(
        name,
        "subscribe"
            | "unsubscribe"
            | "psubscribe"
            | "punsubscribe"
            | "ssubscribe"
            | "sunsubscribe"
            | "ping"
            | "quit"
            | "reset"
    )
}

impl Session {
    /// What a command asks for. `args` must not be empty. Replies that are known already, errors
    /// among them, are appended to `out`.
    #[inline]
    pub fn translate<'a>(
        &mut self,
        args: Args<'a>,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        self.muted = match self.reply {
            ReplyMode::On => false,
            ReplyMode::Off => true,
            ReplyMode::SkipNext => {
                self.reply = ReplyMode::On;
                true
            }
        };
        if self.queue.is_some() {
            return self.enqueue(args, ctx, out);
        }
        if self.is_confined() || self.reads_at.is_some() {
            return self.translate_by_table(args, ctx, out);
        }
        if args.len() == 2 && args.name_of_three() == Some(*b"get") && self.may(Access::Read) {
            let key = args.at(1);
            if key.len() <= self.limits.key_bytes_max {
                (self.last_command, self.is_uncounted) = ("get", true);
                return Request::Read(Read::Get(key));
            }
        } else if let Some((key, value)) = args.plain_set(self.limits.key_bytes_max)
            && self.may(Access::Write)
        {
            (self.last_command, self.is_uncounted) = ("set", true);
            return Request::Write(Write::set(key, value));
        }
        self.translate_by_table(args, ctx, out)
    }

    fn translate_by_table<'a>(
        &mut self,
        args: Args<'a>,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        let before = out.len();
        let spec = self.checked_spec(args).map_err(|error| self.ends_exec(args, error));
        let request = spec.and_then(|spec| {
            (self.last_command, self.is_uncounted) = (spec.name, true);
            let reads_at = self.reads_at;
            let mut call = Call { session: self, ctx, out, spec };
            match reads_at {
                Some(time) => past::as_of(&mut call, args, time),
                None => (spec.run)(&mut call, args),
            }
        });
        let request = request.unwrap_or_else(|error| {
            if is_http(args.at(0)) {
                return Request::Close;
            }
            out.truncate(before);
            self.writer(out).error(error.text());
            Request::Answered
        });
        if self.muted {
            out.truncate(before);
        }
        request
    }

    /// A command between MULTI and EXEC, most of which wait for that.
    #[cold]
    fn enqueue<'a>(&mut self, args: Args<'a>, ctx: &dyn Context, out: &mut Vec<u8>) -> Request<'a> {
        let spec = self.checked_spec(args);
        let is_done_at_once =
            spec.as_ref().is_ok_and(|spec| transaction::is_done_at_once(spec.name));
        if is_done_at_once || args.is(0, "exec") || is_http(args.at(0)) {
            return self.translate_by_table(args, ctx, out);
        }
        let mut queue = self.queue.take().expect("it is asked before");
        let queued = spec.and_then(|spec| match () {
            () if spec.name == "at" => {
                queue.at = Some(self.begin_at(&queue, args)?);
                queue.add(args)
            }
            () if transaction::is_left_out(spec.name) => {
                let name = spec.name.replace('|', " ").to_ascii_uppercase();
                Err(CommandError::formatted(format!("ERR {name} is not allowed in transactions")))
            }
            () if queue.at.is_some() && !past::is_queued_at(spec.name) => {
                Err(past::refused(spec.name, "This transaction"))
            }
            () => queue.add(args),
        });
        queue.is_broken |= queued.is_err();
        self.queue = Some(queue);
        if !self.muted {
            let mut writer = self.writer(out);
            match queued {
                Ok(()) => writer.simple("QUEUED"),
                Err(error) => writer.error(error.text()),
            }
        }
        Request::Answered
    }

    /// A malformed EXEC ends the transaction, as in Redis; other errors change nothing.
    fn ends_exec(&mut self, args: Args<'_>, error: CommandError) -> CommandError {
        if !args.is(0, "exec") {
            return error;
        }
        self.end_transaction();
        let text = String::from_utf8_lossy(error.text());
        let why = text.trim_start_matches("ERR ");
        CommandError::formatted(format!("EXECABORT Transaction discarded because of: {why}"))
    }

    /// A command that was queued, at EXEC.
    pub fn translate_queued<'a>(
        &mut self,
        args: Args<'a>,
        ctx: &dyn Context,
        out: &mut Vec<u8>,
    ) -> Request<'a> {
        self.translate_by_table(args, ctx, out)
    }

    /// The command, if it is one, its arguments are enough and its keys short enough.
    #[inline]
    pub(crate) fn checked_spec(
        &self,
        args: Args<'_>,
    ) -> Result<&'static CommandSpec, CommandError> {
        let spec = table::lookup(args)?;
        if !spec.fits(args.len()) {
            return Err(error::arity(spec.name));
        }
        let is_stranger = self.peer.principal == Principal::Stranger;
        if is_stranger {
            // AUTH, HELLO, QUIT and RESET.
            if !spec.flags.split(' ').any(|flag| flag == "no_auth") {
                return Err(error::NO_AUTH);
            }
        } else if !self.may(spec.access) {
            return Err(error::no_permission(self.peer.principal.user(), spec.name));
        }
        // One with keys is sent on to who leads there.
        let mut flags = spec.flags.split(' ');
        if self.is_replica && !spec.has_keys() && flags.any(|flag| flag == "write") {
            return Err(error::READ_ONLY_REPLICA);
        }
        // A bad count of keys is refused by the command itself, in words of its own.
        for index in spec.keys_in(args).into_iter().flatten() {
            if args.at(index).len() > self.limits.key_bytes_max {
                return Err(error::key_too_long(self.limits.key_bytes_max));
            }
        }
        if self.is_confined() && !is_open_to_subscribers(spec.name) {
            return Err(error::not_for_subscribers(spec.name));
        }
        Ok(spec)
    }
}
