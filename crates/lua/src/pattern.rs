//! Lua's patterns, matched with a budget of steps.
//!
//! The rules are Lua 5.1's, in which a pattern ends at its first zero byte. A pattern of stars can
//! take exponential time, so every step is [charged](charge). Where Lua's own matcher would exhaust
//! the C stack, this one raises `pattern too complex`.

use std::ffi::{CStr, c_int};

use mlua::ffi;

use crate::context::charge;
use crate::stack::{fail, lua_State, push};

const CAPTURES_MAX: usize = 32;
/// Repetitions and captures that a match may have open.
const DEPTH_MAX: u32 = 3_000;
const ESCAPE: u8 = b'%';

#[derive(Clone, Copy)]
enum Length {
    Open,
    Position,
    Closed(usize),
}

#[derive(Clone, Copy)]
struct Capture {
    start: usize,
    length: Length,
}

/// One subject and pattern. Nothing in it needs to be dropped.
pub(crate) struct Matcher<'a> {
    l: *mut lua_State,
    subject: &'a [u8],
    pattern: &'a [u8],
    level: usize,
    captures: [Capture; CAPTURES_MAX],
    depth: u32,
    steps: u64,
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(l: *mut lua_State, subject: &'a [u8], pattern: &'a [u8]) -> Self {
        let none = Capture { start: 0, length: Length::Open };
        let captures = [none; CAPTURES_MAX];
        Self { l, subject, pattern: until_zero(pattern), level: 0, captures, depth: 0, steps: 0 }
    }

    /// Matches at `start` exactly; returns the end.
    pub(crate) unsafe fn match_at(&mut self, start: usize) -> Option<usize> {
        unsafe {
            self.level = 0;
            self.depth = 0;
            self.run(start, 0)
        }
    }

    fn at(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    fn subject_at(&self, s: usize) -> u8 {
        self.subject.get(s).copied().unwrap_or(0)
    }

    unsafe fn error(&self, message: &CStr) -> ! {
        unsafe { fail(self.l, message) }
    }

    unsafe fn step(&mut self) {
        self.steps += 1;
        if self.steps >= 512 {
            self.steps = 0;
            unsafe { charge(self.l, 512) };
        }
    }

    /// Matches the rest of the pattern, one level deeper.
    unsafe fn descend(&mut self, s: usize, p: usize) -> Option<usize> {
        unsafe {
            if self.depth == DEPTH_MAX {
                self.error(c"pattern too complex");
            }
            self.depth += 1;
            let end = self.run(s, p);
            self.depth -= 1;
            end
        }
    }

    unsafe fn run(&mut self, mut s: usize, mut p: usize) -> Option<usize> {
        unsafe {
            loop {
                self.step();
                match (self.at(p), self.at(p + 1)) {
                    (0, _) => return Some(s),
                    (b'(', b')') => return self.open(s, p + 2, Length::Position),
                    (b'(', _) => return self.open(s, p + 1, Length::Open),
                    (b')', _) => return self.close(s, p + 1),
                    (b'$', 0) => return (s == self.subject.len()).then_some(s),
                    (ESCAPE, b'b') => {
                        s = self.balance(s, p + 2)?;
                        p += 4;
                    }
                    (ESCAPE, b'f') => p = self.frontier(s, p + 2)?,
                    (ESCAPE, digit) if digit.is_ascii_digit() => {
                        s = self.back_reference(s, digit)?;
                        p += 2;
                    }
                    _ => {
                        let end = self.class_end(p);
                        let matches = self.single(s, p, end);
                        match self.at(end) {
                            b'?' => {
                                if matches && let Some(found) = self.descend(s + 1, end + 1) {
                                    return Some(found);
                                }
                                p = end + 1;
                            }
                            b'*' => return self.greedy(s, p, end),
                            b'+' if matches => return self.greedy(s + 1, p, end),
                            b'-' => return self.lazy(s, p, end),
                            b'+' => return None,
                            _ if matches => {
                                s += 1;
                                p = end;
                            }
                            _ => return None,
                        }
                    }
                }
            }
        }
    }

    /// Where the single class at `p` ends.
    unsafe fn class_end(&self, p: usize) -> usize {
        unsafe {
            match self.at(p) {
                ESCAPE => {
                    if self.at(p + 1) == 0 {
                        self.error(c"malformed pattern (ends with '%')");
                    }
                    p + 2
                }
                b'[' => {
                    let mut p = if self.at(p + 1) == b'^' { p + 2 } else { p + 1 };
                    loop {
                        let byte = self.at(p);
                        if byte == 0 {
                            self.error(c"malformed pattern (missing ']')");
                        }
                        p += 1;
                        if byte == ESCAPE && self.at(p) != 0 {
                            p += 1;
                        }
                        if self.at(p) == b']' {
                            return p + 1;
                        }
                    }
                }
                _ => p + 1,
            }
        }
    }

    unsafe fn single(&mut self, s: usize, p: usize, end: usize) -> bool {
        unsafe {
            let Some(&byte) = self.subject.get(s) else { return false };
            match self.at(p) {
                b'.' => true,
                ESCAPE => in_class(byte, self.at(p + 1)),
                b'[' => {
                    // A long set costs as much as it has members.
                    self.steps += (end - p) as u64 / 8;
                    self.step();
                    self.in_set(byte, p, end - 1)
                }
                other => other == byte,
            }
        }
    }

    /// Is the byte in the set between `[` at `p` and `]` at `last`?
    fn in_set(&self, byte: u8, mut p: usize, last: usize) -> bool {
        let negated = self.at(p + 1) == b'^';
        if negated {
            p += 1;
        }
        p += 1;
        while p < last {
            if self.at(p) == ESCAPE {
                p += 1;
                if in_class(byte, self.at(p)) {
                    return !negated;
                }
            } else if self.at(p + 1) == b'-' && p + 2 < last {
                if (self.at(p)..=self.at(p + 2)).contains(&byte) {
                    return !negated;
                }
                p += 2;
            } else if self.at(p) == byte {
                return !negated;
            }
            p += 1;
        }
        negated
    }

    unsafe fn balance(&mut self, s: usize, p: usize) -> Option<usize> {
        unsafe {
            let (open, close) = (self.at(p), self.at(p + 1));
            if open == 0 || close == 0 {
                self.error(c"unbalanced pattern");
            }
            if self.subject_at(s) != open {
                return None;
            }
            let mut depth = 1_usize;
            for at in s + 1..self.subject.len() {
                self.step();
                let byte = self.subject[at];
                if byte == close {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                } else if byte == open {
                    depth += 1;
                }
            }
            None
        }
    }

    unsafe fn frontier(&mut self, s: usize, p: usize) -> Option<usize> {
        unsafe {
            if self.at(p) != b'[' {
                self.error(c"missing '[' after '%f' in pattern");
            }
            let end = self.class_end(p);
            let before = if s == 0 { 0 } else { self.subject[s - 1] };
            let is_edge =
                !self.in_set(before, p, end - 1) && self.in_set(self.subject_at(s), p, end - 1);
            is_edge.then_some(end)
        }
    }

    unsafe fn greedy(&mut self, s: usize, p: usize, end: usize) -> Option<usize> {
        unsafe {
            let mut count = 0;
            while self.single(s + count, p, end) {
                self.step();
                count += 1;
            }
            loop {
                if let Some(found) = self.descend(s + count, end + 1) {
                    return Some(found);
                }
                count = count.checked_sub(1)?;
            }
        }
    }

    unsafe fn lazy(&mut self, mut s: usize, p: usize, end: usize) -> Option<usize> {
        unsafe {
            loop {
                if let Some(found) = self.descend(s, end + 1) {
                    return Some(found);
                }
                if !self.single(s, p, end) {
                    return None;
                }
                s += 1;
            }
        }
    }

    unsafe fn open(&mut self, s: usize, p: usize, length: Length) -> Option<usize> {
        unsafe {
            if self.level >= CAPTURES_MAX {
                self.error(c"too many captures");
            }
            self.captures[self.level] = Capture { start: s, length };
            self.level += 1;
            let found = self.descend(s, p);
            if found.is_none() {
                self.level -= 1;
            }
            found
        }
    }

    unsafe fn close(&mut self, s: usize, p: usize) -> Option<usize> {
        unsafe {
            let open = (0..self.level)
                .rev()
                .find(|level| matches!(self.captures[*level].length, Length::Open));
            let Some(level) = open else { self.error(c"invalid pattern capture") };
            self.captures[level].length = Length::Closed(s - self.captures[level].start);
            let found = self.descend(s, p);
            if found.is_none() {
                self.captures[level].length = Length::Open;
            }
            found
        }
    }

    unsafe fn back_reference(&mut self, s: usize, digit: u8) -> Option<usize> {
        unsafe {
            let level = usize::from(digit).wrapping_sub(usize::from(b'1'));
            let capture = (level < self.level).then(|| self.captures[level]);
            let length = match capture.map(|capture| capture.length) {
                Some(Length::Closed(length)) => length,
                // A position is as long as it is in C: longer than anything.
                Some(Length::Position) => return None,
                Some(Length::Open) | None => self.error(c"invalid capture index"),
            };
            let start = self.captures[level].start;
            self.steps += length as u64 / 64;
            let rest = self.subject.get(s..s + length)?;
            (rest == &self.subject[start..start + length]).then_some(s + length)
        }
    }

    /// Pushes one capture, or the whole match if the pattern has none.
    pub(crate) unsafe fn push_capture(&self, index: usize, start: usize, end: usize) {
        unsafe {
            if index >= self.level {
                if index != 0 {
                    self.error(c"invalid capture index");
                }
                push(self.l, &self.subject[start..end]);
                return;
            }
            let capture = self.captures[index];
            match capture.length {
                Length::Open => self.error(c"unfinished capture"),
                Length::Position => ffi::lua_pushnumber(self.l, (capture.start + 1) as f64),
                Length::Closed(len) => {
                    push(self.l, &self.subject[capture.start..capture.start + len]);
                }
            }
        }
    }

    /// Pushes all captures; the whole match if there are none and `whole` says so.
    pub(crate) unsafe fn push_captures(&self, whole: Option<(usize, usize)>) -> c_int {
        unsafe {
            let count = if self.level == 0 && whole.is_some() { 1 } else { self.level };
            ffi::luaL_checkstack(self.l, count as c_int, c"too many captures".as_ptr());
            let (start, end) = whole.unwrap_or_default();
            for index in 0..count {
                self.push_capture(index, start, end);
            }
            count as c_int
        }
    }
}

fn until_zero(pattern: &[u8]) -> &[u8] {
    &pattern[..memchr::memchr(0, pattern).unwrap_or(pattern.len())]
}

/// Does a pattern, up to its first zero, have anything but plain characters?
pub(crate) fn is_special(pattern: &[u8]) -> bool {
    until_zero(pattern).iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// The class `%x`; a capital letter negates it.
fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
