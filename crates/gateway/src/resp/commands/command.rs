//! `COMMAND …`: the command table, for clients.

use command::Sink;

use super::{Call, Outcome};
use crate::resp::args::Args;
use crate::resp::error::{CommandError, SYNTAX};
use crate::resp::table::{self, CommandSpec, KeySpec, shown_commands};
use crate::resp::writer::RespWriter;
use ::command::glob;

/// `COMMAND`
pub fn all<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| {
        writer.array(shown_commands().count());
        shown_commands().for_each(|spec| write_info(writer, spec));
    })
}

/// `COMMAND COUNT`
pub fn count<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.answer(|writer| writer.int(shown_commands().count() as i64))
}

/// Names in one COMMAND INFO or COMMAND DOCS: a reply is many times as long as the name.
const NAMES_MAX: usize = 1024;

fn limited(names: Args<'_>) -> Result<Args<'_>, CommandError> {
    if names.len() > NAMES_MAX {
        return Err(CommandError::formatted(format!("ERR more than {NAMES_MAX} names")));
    }
    Ok(names)
}

/// `COMMAND INFO [name …]`
pub fn info<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    if args.len() == 2 {
        return all(call, args);
    }
    let names = limited(args.from(2))?;
    call.answer(|writer| {
        writer.array(names.len());
        for name in names.iter() {
            match table::find_shown(name) {
                Some(spec) => write_info(writer, spec),
                None => writer.nil(),
            }
        }
    })
}

fn words(text: &'static str) -> impl Iterator<Item = &'static str> + Clone {
    text.split(' ').filter(|word| !word.is_empty())
}

fn write_words(writer: &mut RespWriter<'_>, text: &'static str, before: &str) {
    writer.set(words(text).count());
    words(text).for_each(|word| writer.simple(&format!("{before}{word}")));
}

fn write_info(writer: &mut RespWriter<'_>, spec: &CommandSpec) {
    writer.array(10);
    writer.bulk(spec.name.as_bytes());
    writer.int(i64::from(spec.arity));
    write_words(writer, spec.flags, "");
    for place in [spec.first_key, spec.last_key, spec.key_step] {
        writer.int(i64::from(place));
    }
    write_words(writer, spec.categories, "@");
    writer.set(spec.tips.len());
    spec.tips.iter().for_each(|tip| writer.bulk(tip.as_bytes()));
    writer.set(spec.key_specs.len());
    spec.key_specs.iter().for_each(|keys| write_key_spec(writer, keys));
    // As in Redis: none are an empty set, some an array.
    match spec.shown_subcommands().count() {
        0 => writer.set(0),
        len => writer.array(len),
    }
    spec.shown_subcommands().for_each(|sub| write_info(writer, sub));
}

fn write_key_spec(writer: &mut RespWriter<'_>, keys: &KeySpec) {
    writer.map(if keys.notes.is_empty() { 3 } else { 4 });
    if !keys.notes.is_empty() {
        writer.bulk(b"notes");
        writer.bulk(keys.notes.as_bytes());
    }
    writer.bulk(b"flags");
    write_words(writer, keys.flags, "");
    writer.bulk(b"begin_search");
    write_place(writer, "index", &[("index", keys.index)]);
    writer.bulk(b"find_keys");
    if keys.is_counted {
        let count = [("keynumidx", 0), ("firstkey", 1), ("keystep", keys.step)];
        return write_place(writer, "keynum", &count);
    }
    let range = [("lastkey", keys.last), ("keystep", keys.step), ("limit", 0)];
    write_place(writer, "range", &range);
}

fn write_place(writer: &mut RespWriter<'_>, kind: &str, numbers: &[(&str, i8)]) {
    writer.map(2);
    writer.bulk(b"type");
    writer.bulk(kind.as_bytes());
    writer.bulk(b"spec");
    writer.map(numbers.len());
    for (name, number) in numbers {
        writer.bulk(name.as_bytes());
        writer.int(i64::from(*number));
    }
}

/// `COMMAND DOCS [name …]`
pub fn docs<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let specs: Vec<_> = if args.len() == 2 {
        shown_commands().collect()
    } else {
        limited(args.from(2))?.iter().filter_map(table::find_shown).collect()
    };
    call.answer(|writer| {
        writer.map(specs.len());
        specs.into_iter().for_each(|spec| write_docs(writer, spec));
    })
}

fn write_docs(writer: &mut RespWriter<'_>, spec: &CommandSpec) {
    let subcommands = spec.shown_subcommands();
    let has_subcommands = subcommands.clone().next().is_some();
    let deprecated = if spec.deprecated.is_some() { 3 } else { 0 };
    writer.bulk(spec.name.as_bytes());
    writer.map(4 + deprecated + usize::from(has_subcommands));
    let texts = [
        ("summary", spec.summary),
        ("since", spec.since),
        ("group", spec.group),
        ("complexity", spec.complexity),
    ];
    for (name, text) in texts {
        writer.bulk(name.as_bytes());
        writer.bulk(text.as_bytes());
    }
    if let Some((since, by)) = spec.deprecated {
        writer.bulk(b"doc_flags");
        write_words(writer, "deprecated", "");
        writer.bulk(b"deprecated_since");
        writer.bulk(since.as_bytes());
        writer.bulk(b"replaced_by");
        writer.bulk(by.as_bytes());
    }
    if has_subcommands {
        writer.bulk(b"subcommands");
        writer.map(subcommands.clone().count());
        subcommands.for_each(|sub| write_docs(writer, sub));
    }
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`
pub fn list<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let wanted: Box<dyn Fn(&CommandSpec) -> bool + 'a> = match args.len() {
        2 => Box::new(|_| true),
        5 if args.is(2, "FILTERBY") => {
            let value = args.at(4);
            match () {
                () if args.is(3, "MODULE") => Box::new(|_| false),
                () if args.is(3, "ACLCAT") => Box::new(move |spec| {
                    words(spec.categories).any(|word| word.as_bytes().eq_ignore_ascii_case(value))
                }),
                () if args.is(3, "PATTERN") => {
                    Box::new(move |spec| glob::matches_nocase(value, spec.name.as_bytes()))
                }
                () => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    };
    let with_subcommands =
        shown_commands().flat_map(|spec| std::iter::once(spec).chain(spec.shown_subcommands()));
    let names: Vec<_> =
        with_subcommands.filter(|spec| wanted(spec)).map(|spec| spec.name).collect();
    call.answer(|writer| {
        writer.array(names.len());
        names.iter().for_each(|name| writer.bulk(name.as_bytes()));
    })
}

/// A call within a COMMAND GETKEYS: its command, its arguments, and which of them are keys.
type KeyedCall<'a> = (&'static CommandSpec, Args<'a>, Vec<usize>);

/// The call within a COMMAND GETKEYS.
fn inner<'a>(args: Args<'a>) -> Result<KeyedCall<'a>, CommandError> {
    let inner = args.from(2);
    let spec =
        table::lookup(inner).map_err(|_| CommandError::Fixed("ERR Invalid command specified"))?;
    if !spec.has_keys() {
        return Err(CommandError::Fixed("ERR The command has no key arguments"));
    }
    if !spec.fits(inner.len()) {
        return Err(CommandError::Fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys: Vec<usize> = spec.keys_in(inner).into_iter().flatten().collect();
    let needs_keys = !words(spec.flags).any(|flag| flag == "no_mandatory_keys");
    if keys.is_empty() && needs_keys {
        return Err(CommandError::Fixed("ERR Invalid arguments specified for command"));
    }
    Ok((spec, inner, keys))
}

/// `COMMAND GETKEYS command [argument …]`
pub fn getkeys<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (_, inner, keys) = inner(args)?;
    call.answer(|writer| {
        writer.array(keys.len());
        keys.into_iter().for_each(|index| writer.bulk(inner.at(index)));
    })
}

/// `COMMAND GETKEYSANDFLAGS command [argument …]`
pub fn getkeysandflags<'a>(call: &mut Call<'_>, args: Args<'a>) -> Outcome<'a> {
    let (spec, inner, keys) = inner(args)?;
    // A key's flags are those of the last spec that begins at or before it.
    let flags = |index: usize| {
        let of = spec.key_specs.iter().rfind(|keys| keys.index as usize <= index);
        of.map_or("", |keys| keys.flags_in(inner))
    };
    call.answer(|writer| {
        writer.array(keys.len());
        for index in keys {
            writer.array(2);
            writer.bulk(inner.at(index));
            write_words(writer, flags(index), "");
        }
    })
}

/// `COMMAND HELP`
pub fn help<'a>(call: &mut Call<'_>, _: Args<'a>) -> Outcome<'a> {
    call.help(
        "COMMAND",
        &[
            "(no subcommand)",
            "    Return how all commands are called.",
            "COUNT",
            "    Return the number of commands.",
            "DOCS [<command-name> ...]",
            "    Return the documentation of commands; of all, if none is named.",
            "GETKEYS <full-command>",
            "    Return the keys in a command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys in a command and how it accesses them.",
            "INFO [<command-name> ...]",
            "    Return how commands are called; of all, if none is named.",
            "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
            "    Return the names of commands.",
        ],
    )
}
