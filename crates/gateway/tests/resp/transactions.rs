//! MULTI, the commands queued after it, and EXEC.

use command::ObservedVersion;
use gateway::resp::Session;
use keyspace::{KeyspaceId, Moment, Timestamp};

use crate::context::{send, session};

/// What each line is, and what is replied at once.
fn told(session: &mut Session, lines: &[&str]) -> Vec<String> {
    let one = |line: &&str| {
        let (request, out) = send(session, line.as_bytes());
        let out = String::from_utf8(out).unwrap();
        if request == "Answered" { out.trim_end().to_owned() } else { request }
    };
    lines.iter().map(one).collect()
}

#[test]
fn commands_wait_for_exec() {
    let mut session = session();
    let lines = ["MULTI", "GET a", "set b 1 EX 10", "PING", "UNWATCH", "EXEC"];
    let replies = told(&mut session, &lines);
    assert_eq!(replies, ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED", "Exec"]);
    let queue = session.take_queue().unwrap();
    let words = |at: usize| {
        let args = queue.commands().nth(at).unwrap();
        args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(queue.len(), 4);
    assert_eq!(words(0), ["GET", "a"]);
    assert_eq!(words(1), ["set", "b", "1", "EX", "10"]);
    assert_eq!(words(3), ["UNWATCH"]);
    // It has to be put off, comes again, and ends.
    let watched = session.take_watched();
    session.queue_again(queue, watched);
    assert!(session.describe(0, 0, 0, 0).contains(" flags=x ") && session.is_queueing());
    assert!(session.describe(0, 0, 0, 0).contains(" multi=4 "));
    assert_eq!(told(&mut session, &["EXEC"]), ["Exec"]);
    session.end_transaction();
    assert_eq!(told(&mut session, &["EXEC"]), ["-ERR EXEC without MULTI"]);
}

#[test]
fn unqueueable_command_ends_in_execabort() {
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    let refusals = [
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("nosuch", "-ERR unknown command 'nosuch', with args beginning with:"),
        ("WAIT 1 0", "-ERR WAIT is not allowed in transactions"),
        ("CLIENT REPLY OFF", "-ERR CLIENT REPLY is not allowed in transactions"),
        ("HELLO 3", "-ERR HELLO is not allowed in transactions"),
    ];
    for (line, refusal) in refusals {
        let mut session = session();
        let replies = told(&mut session, &["MULTI", "SET a 1", line, "SET b 1", "EXEC", "EXEC"]);
        let expected = ["+OK", "+QUEUED", refusal, "+QUEUED", abort, "-ERR EXEC without MULTI"];
        assert_eq!(replies, expected, "{line}");
    }
    let taken = ["FLUSHDB", "FLUSHALL ASYNC", "FUNCTION LOAD x", "SCRIPT FLUSH", "FUNCTION KILL"];
    for line in taken {
        let replies = told(&mut session(), &["MULTI", line, "KEYS *", "SET a 1", "EXEC"]);
        assert_eq!(replies, ["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "Exec"], "{line}");
    }
    // Nor are these, but they change nothing.
    let mut session = session();
    let replies = told(&mut session, &["MULTI", "MULTI", "WATCH a", "SET a 1", "EXEC"]);
    let nested = "-ERR MULTI calls can not be nested";
    let watch = "-ERR WATCH inside MULTI is not allowed";
    assert_eq!(replies, ["+OK", nested, watch, "+QUEUED", "Exec"]);
    let replies = told(&mut session, &["EXEC now", "EXEC"]);
    let wrong = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
                 command";
    assert_eq!(replies, [wrong, "-ERR EXEC without MULTI"]);
}

#[test]
fn discard_and_reset_forget_all() {
    let mut session = session();
    let seen = |key: &'static [u8]| [(key, ObservedVersion::Version(Timestamp(5)))];
    session.watch(KeyspaceId(0), &seen(b"a")).unwrap();
    assert_eq!(told(&mut session, &["MULTI", "GET a", "DISCARD"]), ["+OK", "+QUEUED", "+OK"]);
    assert!(session.watched().is_empty() && !session.is_queueing());
    assert_eq!(told(&mut session, &["DISCARD"]), ["-ERR DISCARD without MULTI"]);
    session.watch(KeyspaceId(0), &seen(b"a")).unwrap();
    assert_eq!(told(&mut session, &["MULTI", "RESET"]), ["+OK", "Reset"]);
    assert!(session.watched().is_empty() && !session.is_queueing());
    session.watch(KeyspaceId(0), &seen(b"a")).unwrap();
    assert_eq!(told(&mut session, &["UNWATCH"]), ["+OK"]);
    assert!(session.watched().is_empty());
}

#[test]
fn keys_are_watched_as_they_were_first_seen_and_of_one_keyspace() {
    let mut session = session();
    let (early, late) =
        (ObservedVersion::Absent(Timestamp(5)), ObservedVersion::Version(Timestamp(9)));
    assert_eq!(told(&mut session, &["WATCH a b"]), ["Watch([[97], [98]])"]);
    session.watch(KeyspaceId(0), &[(b"a", early)]).unwrap();
    session.watch(KeyspaceId(0), &[(b"b", late), (b"a", late)]).unwrap();
    let watched: Vec<_> = session.watched().keys().collect();
    assert_eq!(watched, [(&b"a"[..], early), (&b"b"[..], late)]);
    // A keyspace of the same name that is made meanwhile is another.
    session.watch(KeyspaceId(7), &[(b"c", late)]).unwrap();
    assert!(session.watched().is_of(KeyspaceId(0)) && !session.watched().is_of(KeyspaceId(7)));
    session.selected("5");
    let refused = session.watch(KeyspaceId(0), &[(b"c", late)]).unwrap_err();
    assert!(refused.text().starts_with(b"ERR keys of keyspace '0' are watched"), "{refused:?}");
    assert_eq!(session.watched().keys().len(), 3);
}

#[test]
fn a_queue_is_bounded_by_commands_arguments_and_bytes() {
    let last = |lines: &[&str], times: usize| {
        let mut session = session();
        told(&mut session, &["MULTI"]);
        let replies = (0..times).map(|_| told(&mut session, lines).pop().unwrap());
        let refused: Vec<_> = replies.filter(|reply| reply != "+QUEUED").collect();
        let exec = told(&mut session, &["EXEC"]).pop().unwrap();
        assert!(exec.starts_with("-EXECABORT"), "{exec}");
        refused
    };
    let refused = last(&["PING"], 65_537);
    assert_eq!(refused, ["-ERR a transaction has at most 65536 commands"]);
    let many = format!("EXISTS{}", " k".repeat(9_999));
    let refused = last(&[&many], 27);
    assert_eq!(refused, ["-ERR the commands of a transaction have at most 262144 arguments"]);
    let long = format!("SET k {}", "x".repeat(60_000));
    let refused = last(&[&long], 560);
    assert_eq!(refused[0], "-ERR the commands of a transaction have at most 33554432 bytes");
    let mut session = session();
    let keys: Vec<Vec<u8>> = (0..70u8).map(|n| vec![n; 60_000]).collect();
    let seen: Vec<_> =
        keys.iter().map(|key| (&key[..], ObservedVersion::Absent(Timestamp(1)))).collect();
    assert!(
        session
            .watch(KeyspaceId(0), &seen)
            .unwrap_err()
            .text()
            .starts_with(b"ERR keys of at most 4194304")
    );
    assert!(session.watched().is_empty());
    session.watch(KeyspaceId(0), &seen[..69]).unwrap();
}

#[test]
fn transaction_that_begins_with_at_reads_that_time_and_writes_nothing() {
    let mut session = session();
    let lines = ["MULTI", "AT 1700000000000ms", "GET a", "STATE b", "PING", "KEYS *", "EXEC"];
    let replies = told(&mut session, &lines);
    let queued = "+QUEUED";
    assert_eq!(replies, ["+OK", queued, queued, queued, queued, queued, "Exec"]);
    let at = Timestamp::from_millis(1_700_000_000_000);
    assert_eq!(session.queued_at(), Some(Moment::At(at)));
    assert_eq!(session.take_queue().unwrap().len(), 5);
    session.end_transaction();
    assert_eq!(told(&mut session, &["MULTI", "GET a"]), ["+OK", "+QUEUED"]);
    assert_eq!(session.queued_at(), None, "the next reads the newest values again");
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    for (lines, refusal) in [
        (["AT 5", "SET a 1"], "-ERR SET cannot run at a past time; nothing was done. This"),
        (["AT 5", "DEL a"], "-ERR DEL cannot run at a past time"),
        (["AT 5", "EVAL x 0"], "-ERR EVAL cannot run at a past time"),
        (["AT 5", "SELECT 1"], "-ERR SELECT cannot run at a past time"),
        (["GET a", "AT 5"], "-ERR AT must be the first command behind MULTI"),
        (["PING", "AT 5 GET a"], "-ERR AT with a command is not allowed in transactions"),
        (["PING", "CLIENT AT 5"], "-ERR CLIENT AT is not allowed in transactions"),
        (["PING", "CARILLON GC"], "-ERR CARILLON GC is not allowed in transactions"),
        (["PING", "AT soon"], "-ERR AT must be"),
        (["AT 5", "STATE"], "-ERR wrong number of arguments for 'state' command"),
    ] {
        let mut session = crate::context::session();
        let replies = told(&mut session, &["MULTI", lines[0], lines[1], "EXEC"]);
        assert_eq!((&*replies[1], &*replies[3]), (queued, abort), "{lines:?}");
        assert!(replies[2].starts_with(refusal), "{lines:?}: {}", replies[2]);
    }
    let mut session = crate::context::session();
    let replies = told(&mut session, &["MULTI", "AT soon", "EXEC"]);
    assert!(replies[1].starts_with("-ERR the time: \"soon\""), "{replies:?}");
    assert_eq!(replies[2], abort);
    session.watch(KeyspaceId(0), &[(b"a", ObservedVersion::Absent(Timestamp(5)))]).unwrap();
    let replies = told(&mut session, &["MULTI", "AT 5"]);
    assert!(replies[1].starts_with("-ERR keys are watched"), "{replies:?}");
}

#[test]
fn connection_that_reads_a_past_time_reads_nothing_else_and_writes_nothing() {
    let mut session = session();
    let asked = told(&mut session, &["CLIENT AT 5", "CLIENT AT OFF", "CLIENT AT soon"]);
    assert_eq!(asked[..2], ["ReadAt(Some(At(0.5)))", "ReadAt(None)"]);
    assert!(asked[2].starts_with("-ERR the time:"), "{asked:?}");
    session.read_at(Some(Timestamp(5)));
    for (line, wanted) in [
        ("GET a", "Past(PastRequest { moment: At(0.5), read: Keys(Get("),
        ("TTL a", "Past(PastRequest { moment: At(0.5), read: Keys(Ttl"),
        ("STATE a", "Past(PastRequest { moment: At(0.5), read: State("),
        ("DBSIZE", "Past(PastRequest { moment: At(0.5), read: Keyspace(Size)"),
        ("AT 7 GET a", "Past(PastRequest { moment: At(0.7), read: Keys(Get("),
        ("SET a 1", "-ERR SET cannot run at a past time"),
        ("DEL a b", "-ERR DEL cannot run at a past time"),
        ("EXPIRE a 5", "-ERR EXPIRE cannot run at a past time"),
        ("FLUSHALL", "-ERR FLUSHALL cannot run at a past time"),
        ("RANDOMKEY", "-ERR RANDOMKEY cannot run at a past time"),
        ("OBJECT ENCODING a", "-ERR OBJECT ENCODING cannot run at a past time"),
        ("WATCH a", "-ERR WATCH cannot run at a past time"),
        ("BEGIN", "-ERR BEGIN cannot run at a past time"),
        ("EVAL x 0", "-ERR EVAL cannot run at a past time"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("PING", "+PONG"),
        ("SELECT 3", "Select("),
    ] {
        let reply = told(&mut session, &[line]).pop().unwrap();
        assert!(reply.starts_with(wanted), "{line}: {reply}");
    }
    // A transaction is of its time, too.
    assert_eq!(told(&mut session, &["MULTI", "GET a", "EXEC"]), ["+OK", "+QUEUED", "Exec"]);
    assert_eq!(session.queued_at(), Some(Moment::At(Timestamp(5))));
    assert_eq!(told(&mut session, &["RESET"]), ["Reset"]);
    assert_eq!(session.reads_at(), None);
    let refused = told(&mut session, &["STATE a"]).pop().unwrap();
    assert!(refused.starts_with("-ERR STATE needs a time"), "{refused}");
}

#[test]
fn collection_is_asked_for_by_name_and_time() {
    let mut session = session();
    for (line, wanted) in [
        ("CARILLON GC", "Collect(CollectRequest { keyspace: None, at: None, why: false })"),
        ("CARILLON GC WHY", "Collect(CollectRequest { keyspace: None, at: None, why: true })"),
        (
            "carillon gc keyspace a at 5",
            "Collect(CollectRequest { keyspace: Some([97]), at: Some(At(",
        ),
        ("CARILLON GC WHY AT 5", "-ERR syntax error"),
        ("CARILLON GC KEYSPACE", "-ERR syntax error"),
        ("CARILLON GC KEYSPACE a KEYSPACE b", "-ERR syntax error"),
        ("CARILLON GC AT soon", "-ERR the time:"),
    ] {
        let reply = told(&mut session, &[line]).pop().unwrap();
        assert!(reply.starts_with(wanted), "{line}: {reply}");
    }
}
