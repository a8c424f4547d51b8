//! The commands of a file, in the forms in which they may be written.
//!
//! ```text
//!   file    = { command [ . ] }                   % begins a comment, to the end of the line
//!   command = name { [ , ] term }                 a line of words:   up k1 42
//!           | name ( [ term { , term } ] )        a call:            up(k1, 42)
//!           | { name { , term } }                 a tuple:           {up, k1, 42}
//! ```
//!
//! A line of words ends with its line; the others may have several.

use super::terms::{Parser, SyntaxError, Term};

/// The longest sleep: an hour.
const SLEEP_MS_MAX: u64 = 3_600_000;

/// What one command asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// `up KEY VALUE`
    Update {
        /// The key.
        key: Term,
        /// The value.
        value: Term,
    },
    /// `read KEY`: its newest value.
    Read(Term),
    /// `snapshot_read [KEY, …] [TIME]`: values of one moment.
    SnapshotRead {
        /// The keys.
        keys: Vec<Term>,
        /// The moment, in the words of `--at`; none: now.
        at: Option<String>,
    },
    /// `gc`: have old versions collected.
    Collect,
    /// `sleep MILLISECONDS`
    Sleep(u64),
    /// `exit`: the client ends here.
    Exit,
}

/// A command, and the line where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The line, from 1.
    pub line: usize,
    /// What it asks for.
    pub operation: Operation,
}

/// Reads a whole file.
pub fn parse(text: &str) -> Result<Vec<Command>, SyntaxError> {
    let mut parser = Parser::new(text);
    let mut commands = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        parser.skip_blanks(true);
        if parser.peek().is_none() {
            return Ok(commands);
        }
        let begin = parser.place();
        line += text[counted..begin].matches('\n').count();
        counted = begin;
        let (name, terms) = command(&mut parser)?;
        let operation = operation(&parser, (begin, &name), terms)?;
        commands.push(Command { line, operation });
    }
}

/// A term, and where it begins.
type Placed = (usize, Term);

/// The name of a command, and its terms.
fn command(parser: &mut Parser<'_>) -> Result<(String, Vec<Placed>), SyntaxError> {
    let begin = parser.place();
    if parser.peek() == Some('{') {
        parser.takes('{');
        parser.skip_blanks(true);
        let name = name(parser)?;
        parser.skip_blanks(true);
        let mut terms = Vec::new();
        while !parser.takes('}') {
            if !parser.takes(',') {
                return Err(parser.expected("',' or '}'"));
            }
            parser.skip_blanks(true);
            terms.push(placed(parser)?);
            parser.skip_blanks(true);
        }
        end(parser)?;
        return Ok((name, terms));
    }
    let name = name(parser).map_err(|_| parser.error_at(begin, "expected a command"))?;
    let mut terms = Vec::new();
    if parser.takes('(') {
        parser.skip_blanks(true);
        while !parser.takes(')') {
            if !terms.is_empty() {
                if !parser.takes(',') {
                    return Err(parser.expected("',' or ')'"));
                }
                parser.skip_blanks(true);
            }
            terms.push(placed(parser)?);
            parser.skip_blanks(true);
        }
        end(parser)?;
        return Ok((name, terms));
    }
    loop {
        parser.skip_blanks(false);
        if is_over(parser) {
            break;
        }
        if parser.takes(',') {
            parser.skip_blanks(false);
        }
        terms.push(placed(parser)?);
    }
    end(parser)?;
    Ok((name, terms))
}

fn placed(parser: &mut Parser<'_>) -> Result<Placed, SyntaxError> {
    let begin = parser.place();
    Ok((begin, parser.term()?))
}

fn name(parser: &mut Parser<'_>) -> Result<String, SyntaxError> {
    match parser.word() {
        "" => Err(parser.expected("the name of a command")),
        word => Ok(word.to_owned()),
    }
}

fn is_over(parser: &Parser<'_>) -> bool {
    matches!(parser.peek(), None | Some('\n' | '.'))
}

/// The end of a command: a point, or the end of its line.
fn end(parser: &mut Parser<'_>) -> Result<(), SyntaxError> {
    parser.skip_blanks(false);
    let has_point = parser.takes('.');
    parser.skip_blanks(false);
    match parser.peek() {
        None | Some('\n') => Ok(()),
        Some(_) if has_point => Ok(()),
        Some(_) => Err(parser.expected("the end of the command")),
    }
}

/// What a command means. Errors stand where its terms do.
fn operation(
    parser: &Parser<'_>,
    (begin, name): (usize, &str),
    terms: Vec<Placed>,
) -> Result<Operation, SyntaxError> {
    let fail = |at: usize, why: &str| Err(parser.error_at(at, why));
    let mut terms = terms.into_iter();
    let found = match name {
        "up" => match (terms.next(), terms.next()) {
            (Some((_, key)), Some((_, value))) => Operation::Update { key, value },
            _ => return fail(begin, "up needs a key and a value: up KEY VALUE"),
        },
        "read" => match terms.next() {
            Some((_, first)) if terms.len() == 0 => Operation::Read(first),
            Some((_, first)) => {
                let keys = [first].into_iter().chain(terms.by_ref().map(|(_, key)| key)).collect();
                Operation::SnapshotRead { keys, at: None }
            }
            None => return fail(begin, "read needs a key: read KEY"),
        },
        "snapshot_read" => match terms.next() {
            Some((_, Term::List(keys))) => {
                let at = match terms.next() {
                    None => None,
                    Some((_, Term::Text(text) | Term::Integer(text))) => Some(text),
                    Some((at, _)) => {
                        return fail(at, "a time is a number or a text, such as \"10m ago\"");
                    }
                };
                Operation::SnapshotRead { keys, at }
            }
            Some((_, first)) => {
                let keys = [first].into_iter().chain(terms.by_ref().map(|(_, key)| key)).collect();
                Operation::SnapshotRead { keys, at: None }
            }
            None => return fail(begin, "snapshot_read needs keys: snapshot_read [KEY, KEY]"),
        },
        "gc" => Operation::Collect,
        "sleep" => match terms.next() {
            Some((at, Term::Integer(digits))) => match digits.parse() {
                Ok(ms @ 0..=SLEEP_MS_MAX) => Operation::Sleep(ms),
                _ => return fail(at, "sleep takes 0 to 3600000 milliseconds"),
            },
            Some((at, _)) => return fail(at, "sleep takes a number of milliseconds"),
            None => return fail(begin, "sleep needs a time: sleep MILLISECONDS"),
        },
        "exit" => Operation::Exit,
        _ => {
            let why = format!(
                "{name} is no command: there are up, read, snapshot_read, gc, sleep and exit"
            );
            return fail(begin, &why);
        }
    };
    match terms.next() {
        None => Ok(found),
        Some((at, _)) => fail(at, &format!("this is one term too many for {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atom(text: &str) -> Term {
        Term::Atom(text.to_owned())
    }

    #[test]
    fn all_forms_of_a_command_mean_the_same() {
        let text = "up k [1, 2]\n up(k, [1,2]). {up,k,\n  [1,2]}.\n\n% nothing\nup k, [1,2]. exit";
        let commands = parse(text).unwrap();
        let lines: Vec<usize> = commands.iter().map(|command| command.line).collect();
        assert_eq!(lines, [1, 2, 2, 6, 6]);
        assert!(commands[..4].iter().all(|one| one.operation == commands[0].operation));
        assert_eq!(commands[4].operation, Operation::Exit);
        let keys = vec![atom("a"), atom("b")];
        for text in
            ["read a b", "snapshot_read a b", "snapshot_read [a, b]", "{snapshot_read,[a,b]}."]
        {
            let wanted = Operation::SnapshotRead { keys: keys.clone(), at: None };
            assert_eq!(parse(text).unwrap()[0].operation, wanted, "{text}");
        }
        let at = |text: &str| match &parse(text).unwrap()[0].operation {
            Operation::SnapshotRead { at, .. } => at.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(at("snapshot_read [a] \"10m ago\"").as_deref(), Some("10m ago"));
        assert_eq!(
            at("snapshot_read([a], 117683810323398657)").as_deref(),
            Some("117683810323398657")
        );
    }

    #[test]
    fn malformed_files_are_refused_with_line_and_column() {
        for (text, place, why) in [
            ("up a", (1, 1), "up needs a key and a value: up KEY VALUE"),
            ("gc\n  up a 1 2", (2, 10), "this is one term too many for up"),
            (
                "gc\nput a 1",
                (2, 1),
                "put is no command: there are up, read, snapshot_read, gc, sleep \
                                     and exit",
            ),
            ("{up, a, 1", (1, 10), "expected ',' or '}', and the file ends here"),
            ("{up, a, 1} gc", (1, 12), "expected the end of the command, and 'g' stands here"),
            ("read ä", (1, 6), "expected a term, and 'ä' stands here"),
            ("up ä", (1, 4), "expected a term, and 'ä' stands here"),
            ("'ä' x", (1, 1), "expected a command"),
            ("sleep soon", (1, 7), "sleep takes a number of milliseconds"),
            ("sleep -1", (1, 7), "sleep takes 0 to 3600000 milliseconds"),
            ("sleep 3600001", (1, 7), "sleep takes 0 to 3600000 milliseconds"),
            ("snapshot_read [a] now", (1, 19), "a time is a number or a text, such as \"10m ago\""),
            ("up \"ä\" Key", (1, 8), "Key is a variable, and has no value here; write 'Key'"),
            ("{up,\na,\n  Key}", (3, 3), "Key is a variable, and has no value here; write 'Key'"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(((error.line, error.column), &*error.why), (place, why), "{text}");
        }
    }
}
