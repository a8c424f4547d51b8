//! Are several keys that are always written and read together like one key?
//!
//! Every write gives all of them a value that no other write gives. So a read that returns
//! different values has seen half of a write. If no read does, the keys are one register, and the
//! checker knows which write each read has seen. The times of each value alone then decide whether
//! some order explains all operations (Gibbons and Korach, "Testing Shared Memories", 1997):
//!
//! ```text
//!   value 1   ├ write ┤        ├ read ┤          lives from its first answer to its last call:
//!                     └────────┘                 no other value may live within that time, in part
//!   value 2                ├ write ┤             or, if all of it was under way at one moment,
//!                                                as a whole
//! ```

/// A write or a read of all the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterAccess {
    /// When the client sent it.
    pub call: u64,
    /// When the answer came; `None` if the outcome is unknown.
    pub back: Option<u64>,
    /// What it was.
    pub what: RegisterOp,
}

/// An operation on the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterOp {
    /// All were given this value, which is not 0.
    Wrote(u64),
    /// These were their values; 0 for none.
    Read(Vec<u64>),
}

/// One value: when it was first known to be there, and when the last read that saw it was sent.
struct ValueLifetime {
    value: u64,
    first_back: u64,
    last_call: u64,
}

/// The first violation, if there is one. Reads without an answer are left out.
pub fn register(history: &[RegisterAccess]) -> Option<String> {
    let mut lives = vec![ValueLifetime { value: 0, first_back: 0, last_call: 0 }];
    let mut calls = vec![0];
    for RegisterAccess { call, back, what } in history {
        if let RegisterOp::Wrote(value) = what {
            lives.push(ValueLifetime {
                value: *value,
                first_back: back.unwrap_or(u64::MAX),
                last_call: *call,
            });
            calls.push(*call);
        }
    }
    for RegisterAccess { call, back, what } in history {
        let RegisterOp::Read(values) = what else { continue };
        if values.iter().any(|value| *value != values[0]) {
            return Some(format!("half of a write was read at {call}: {values:?}"));
        }
        let value = values[0];
        let Some(at) = lives.iter().position(|life| life.value == value) else {
            return Some(format!("{value} was read at {call}; nobody wrote it"));
        };
        let back = back.unwrap_or(u64::MAX);
        if back < calls[at] {
            return Some(format!("{value} was read at {call}, before it was written"));
        }
        let life = &mut lives[at];
        life.first_back = life.first_back.min(back);
        life.last_call = life.last_call.max(*call);
    }
    // What nobody has seen, and maybe nobody did, is in nobody's way.
    lives.retain(|life| life.first_back < u64::MAX);
    let (mut long, short): (Vec<_>, Vec<_>) =
        lives.into_iter().partition(|life| life.value == 0 || life.first_back < life.last_call);
    long.sort_by_key(|life| life.first_back);
    for two in long.windows(2) {
        if two[1].first_back < two[0].last_call {
            return Some(told(&two[0], &two[1]));
        }
    }
    for life in &short {
        let before = long.partition_point(|other| other.first_back < life.last_call);
        let around = before.checked_sub(1).map(|at| &long[at]);
        if let Some(other) = around.filter(|other| life.first_back < other.last_call) {
            return Some(told(other, life));
        }
    }
    None
}

fn told(one: &ValueLifetime, other: &ValueLifetime) -> String {
    let ValueLifetime { value, first_back, last_call } = one;
    format!("{value} was there at {first_back} and at {last_call}, and {} in between", other.value)
}

#[cfg(test)]
mod tests {
    use command::{Expiry, Reply, SetIf, SetReply};

    use super::*;
    use crate::check::linear::{Linearizability, ObservedCommand, is_linear};
    use crate::command::{Command, Value};
    use crate::rng::Rng;

    fn wrote(call: u64, back: u64, value: u64) -> RegisterAccess {
        RegisterAccess { call, back: Some(back), what: RegisterOp::Wrote(value) }
    }

    fn read(call: u64, back: u64, value: u64) -> RegisterAccess {
        RegisterAccess { call, back: Some(back), what: RegisterOp::Read(vec![value; 2]) }
    }

    #[test]
    fn register_checker_reports_violations() {
        let good = [read(1, 2, 0), wrote(3, 9, 1), read(4, 5, 0), read(6, 7, 1), wrote(8, 12, 2)];
        assert_eq!(register(&good), None);
        let half = RegisterAccess { call: 3, back: Some(4), what: RegisterOp::Read(vec![1, 0]) };
        let found = register(&[wrote(1, 2, 1), half]).expect("both keys were written");
        assert_eq!(found, "half of a write was read at 3: [1, 0]");
        assert!(register(&[wrote(1, 2, 1), read(3, 4, 0)]).is_some(), "an old value");
        assert!(register(&[wrote(1, 2, 1), wrote(3, 4, 2), read(5, 6, 1)]).is_some());
        let back_again = [wrote(1, 9, 1), wrote(2, 9, 2), read(3, 4, 1), read(5, 6, 2)];
        assert_eq!(register(&back_again), None);
        assert!(register(&[&back_again[..], &[read(7, 8, 1)]].concat()).is_some());
        assert!(register(&[read(1, 2, 7)]).is_some(), "nobody wrote that");
        assert!(register(&[read(1, 2, 1), wrote(3, 4, 1)]).is_some(), "too early");
        let open = RegisterAccess { call: 1, back: None, what: RegisterOp::Wrote(1) };
        assert_eq!(register(&[open.clone(), read(2, 3, 0), read(4, 5, 1)]), None);
        assert!(register(&[open, read(2, 3, 1), read(4, 5, 0)]).is_some());
    }

    /// As the search for an order says that tries all.
    #[test]
    fn the_search_for_an_order_agrees() {
        let (mut good, mut bad) = (0, 0);
        for seed in 0..6_000 {
            let rng = &mut Rng::new(seed);
            let mut times: Vec<u64> = (1..=14).collect();
            times = rng.some(times.len(), times);
            let mut history = Vec::new();
            for (number, two) in (1..).zip(times.chunks(2)) {
                let (call, back) = (two[0].min(two[1]), two[0].max(two[1]));
                let is_write = rng.one_in(2);
                let what = match is_write {
                    true => RegisterOp::Wrote(number),
                    false => RegisterOp::Read(vec![rng.below(8)]),
                };
                let back = if is_write && rng.one_in(4) { None } else { Some(back) };
                history.push(RegisterAccess { call, back, what });
            }
            let is_known = |value: &u64| {
                *value == 0 || history.iter().any(|access| access.what == RegisterOp::Wrote(*value))
            };
            let read = |access: &RegisterAccess| match &access.what {
                RegisterOp::Read(values) => is_known(&values[0]),
                RegisterOp::Wrote(_) => true,
            };
            let mut history: Vec<RegisterAccess> =
                history.iter().filter(|access| read(access)).cloned().collect();
            history.sort_by_key(|access| access.call);
            let linear = is_linear(&[None], &history.iter().map(seen).collect::<Vec<_>>());
            let found = register(&history);
            assert_eq!(
                found.is_none(),
                linear == Linearizability::Yes,
                "{seed}: {history:?}: {found:?}"
            );
            *(if found.is_none() { &mut good } else { &mut bad }) += 1;
        }
        assert!(good > 500 && bad > 500, "{good} good, {bad} bad");
    }

    fn seen(access: &RegisterAccess) -> ObservedCommand {
        let value = |value: u64| value.to_string().into_bytes();
        let (command, reply) = match &access.what {
            RegisterOp::Wrote(number) => {
                let (value, when) = (Value(value(*number)), SetIf::Always);
                let (expiry, reply) = (Expiry::Never, SetReply::Ok);
                (Command::Set { value, when, expiry, reply }, Reply::Ok)
            }
            RegisterOp::Read(values) if values[0] == 0 => (Command::Get, Reply::Nil),
            RegisterOp::Read(values) => (Command::Get, Reply::Bulk(value(values[0]).into())),
        };
        ObservedCommand {
            command,
            places: vec![0],
            client: 0,
            call: access.call,
            back: access.back.unwrap_or(u64::MAX),
            low_ms: 0,
            high_ms: 0,
            replies: access.back.map(|_| vec![reply]),
        }
    }
}
