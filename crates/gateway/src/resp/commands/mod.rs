//! One function for each command: it turns the arguments into a [`Request`] or a refusal.

pub(super) mod client;
pub(super) mod cluster;
pub(super) mod command;
pub(super) mod config;
pub(super) mod connection;
pub(super) mod expiry;
pub(super) mod generic;
pub(super) mod info;
pub(super) mod keyspace;
pub(super) mod lookup;
pub(super) mod memory;
pub(super) mod past;
pub(super) mod pubsub;
pub(super) mod scripting;
pub(super) mod server;
pub(super) mod slow;
pub(super) mod string;
pub(super) mod tracking;
pub(super) mod transaction;

use ::command::Sink;

use super::args::Args;
use super::context::Context;
use super::error::{self, CommandError};
use super::number::parse_i64;
use super::request::Request;
use super::session::Session;
use super::table::CommandSpec;
use super::writer::RespWriter;

/// All that a command may look at and change, besides its arguments.
pub struct Call<'c> {
    pub(super) session: &'c mut Session,
    pub(super) ctx: &'c dyn Context,
    pub(super) out: &'c mut Vec<u8>,
    pub(super) spec: &'static CommandSpec,
}

/// What a command comes to. An error's text is the reply.
pub type Outcome<'a> = Result<Request<'a>, CommandError>;

/// The meaning of a command. Its name and arity have been checked.
pub type Handler = for<'a> fn(&mut Call<'_>, Args<'a>) -> Outcome<'a>;

impl Call<'_> {
    fn writer(&mut self) -> RespWriter<'_> {
        self.session.writer(self.out)
    }

    fn answer<'a>(&mut self, write: impl FnOnce(&mut RespWriter<'_>)) -> Outcome<'a> {
        write(&mut self.writer());
        Ok(Request::Answered)
    }

    fn ok<'a>(&mut self) -> Outcome<'a> {
        self.answer(|writer| writer.ok())
    }

    /// The lines of a HELP subcommand: what every one begins and ends with around its own.
    fn help<'a>(&mut self, command: &str, lines: &[&str]) -> Outcome<'a> {
        let intro = format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        self.answer(|writer| {
            writer.array(lines.len() + 3);
            writer.simple(&intro);
            lines.iter().for_each(|line| writer.simple(line));
            writer.simple("HELP");
            writer.simple("    Prints this help.");
        })
    }

    fn wrong_arity(&self) -> CommandError {
        error::arity(self.spec.name)
    }
}

/// An argument as an integer.
fn integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_i64(text).ok_or(error::NOT_INTEGER)
}

/// One of two words, else a syntax error.
fn one_of(args: Args<'_>, index: usize, yes: &str, no: &str) -> Result<bool, CommandError> {
    match () {
        () if args.is(index, yes) => Ok(true),
        () if args.is(index, no) => Ok(false),
        () => Err(error::SYNTAX),
    }
}
