//! Which past time does a client mean? The forms of times that every protocol and the command line
//! take.
//!
//! | form | means |
//! |---|---|
//! | `110537293516800005` | a timestamp, as replies show it |
//! | `1686665245312ms` | milliseconds since 1970: the first instant of that millisecond |
//! | `1686665245312.5` | both parts of a timestamp, as messages show them |
//! | `2026-11-27T19:31:37.25Z`, `…+01:00` | RFC 3339, to the millisecond |
//! | `10m ago` | so long before now: `ms`, `s`, `m`, `h` or `d` |
//! | `snap-00c0ffee00c0ffee-7-110537293516800005` | a snapshot: cluster, lease and timestamp |

use std::fmt;
use std::ops::Range;

use crate::timestamp::Timestamp;

/// Milliseconds since 1970 at the beginning of 2000 and of 2200: no timestamp of a node is so small
/// a number, but times that lack their unit are.
const LIKELY_MILLIS: Range<u64> = 946_684_800_000..7_258_118_400_000;
/// Timestamps have 48 bits of milliseconds.
const MILLIS_MAX: u64 = u64::MAX >> 16;
const TOKEN: &str = "snap-";

/// A time as a client has named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This.
    At(Timestamp),
    /// So many milliseconds before now.
    Ago(u64),
    /// That of a snapshot.
    Snapshot(SnapshotToken),
}

/// The name of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotToken {
    /// The cluster that it was taken in.
    pub cluster: u64,
    /// Its lease.
    pub lease: u64,
    /// Its time.
    pub at: Timestamp,
}

impl fmt::Display for SnapshotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{TOKEN}{:016x}-{}-{}", self.cluster, self.lease, self.at.0)
    }
}

impl Moment {
    /// Reads any of the forms.
    ///
    /// # Errors
    /// Why the text is none of them, as a clause.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(token) = text.strip_prefix(TOKEN) {
            let token = snapshot(token).ok_or_else(|| {
                format!("{text:?} is no snapshot: its form is {TOKEN}CLUSTER-ID-TIMESTAMP")
            })?;
            return Ok(Moment::Snapshot(token));
        }
        if let Some(age) = text.strip_suffix("ago") {
            // Forms write a blank as a plus.
            let age = millis_of(age.trim_end_matches([' ', '+'])).ok_or_else(|| {
                format!("{text:?} is no age: its form is `10m ago`, with ms, s, m, h or d")
            })?;
            return Ok(Moment::Ago(age));
        }
        if text.len() > 4 && text.as_bytes()[4] == b'-' {
            return match rfc_3339(text) {
                Some(millis) => Ok(Moment::At(Timestamp::from_millis(millis))),
                None => Err(format!("{text:?} is no time of RFC 3339: 2026-11-27T19:31:37.25Z")),
            };
        }
        timestamp(text).map(Moment::At)
    }

    /// The time that it is at `now`, in the cluster of this id.
    ///
    /// # Errors
    /// That it is a snapshot of another cluster, as a clause.
    pub fn resolve(self, now: Timestamp, cluster: Option<u64>) -> Result<Timestamp, String> {
        match self {
            Moment::At(at) => Ok(at),
            Moment::Ago(millis) => Ok(Timestamp::from_millis(now.millis().saturating_sub(millis))),
            Moment::Snapshot(token) if cluster.is_none_or(|id| id == token.cluster) => Ok(token.at),
            Moment::Snapshot(token) => Err(format!(
                "the snapshot is of cluster {:016x}, and this is cluster {:016x}",
                token.cluster,
                cluster.unwrap_or_default()
            )),
        }
    }
}

/// A whole number: digits only, no sign.
fn number(text: &str) -> Option<u64> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

fn snapshot(text: &str) -> Option<SnapshotToken> {
    let mut parts = text.split('-');
    let cluster = parts.next()?;
    let is_hex = cluster.len() == 16 && cluster.bytes().all(|byte| byte.is_ascii_hexdigit());
    let cluster = u64::from_str_radix(cluster, 16).ok().filter(|_| is_hex)?;
    let token = SnapshotToken {
        cluster,
        lease: number(parts.next()?)?,
        at: Timestamp(number(parts.next()?)?),
    };
    parts.next().is_none().then_some(token)
}

/// A duration: a whole number and `ms`, `s`, `m`, `h` or `d`.
pub fn millis_of(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number(count)?.checked_mul(unit)
}

/// A timestamp in one of its three forms.
///
/// # Errors
/// Why it is none, as a clause; also if it seems to be milliseconds or seconds without their unit.
pub fn timestamp(text: &str) -> Result<Timestamp, String> {
    let bad = || format!("{text:?} is no time");
    let (millis, logical) = match (text.strip_suffix("ms"), text.split_once('.')) {
        (Some(millis), _) => (millis, "0"),
        (None, Some(parts)) => parts,
        (None, None) => return bare_timestamp(number(text).ok_or_else(bad)?),
    };
    match (number(millis), number(logical)) {
        (Some(millis @ 0..=MILLIS_MAX), Some(logical @ 0..=0xffff)) => {
            Ok(Timestamp(Timestamp::from_millis(millis).0 + logical))
        }
        (Some(_), Some(_)) => Err(format!("{text:?}: there is no such time")),
        _ => Err(bad()),
    }
}

fn bare_timestamp(number: u64) -> Result<Timestamp, String> {
    let meant = [number, number.saturating_mul(1000)];
    match meant.iter().find(|millis| LIKELY_MILLIS.contains(millis)) {
        None => Ok(Timestamp(number)),
        Some(millis) => Err(format!(
            "{number}, which as a timestamp would be on the first day of 1970; did you mean \
             {millis}ms?"
        )),
    }
}

/// Milliseconds since 1970 of a time of RFC 3339. What is below a millisecond is dropped.
fn rfc_3339(text: &str) -> Option<u64> {
    let field = |from: usize, digits: usize| number(text.get(from..from + digits)?);
    let is =
        |at: usize, allowed: &[u8]| text.as_bytes().get(at).is_some_and(|b| allowed.contains(b));
    let marks = is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":");
    let (year, month, day) = (field(0, 4)?, field(5, 2)?, field(8, 2)?);
    let (hours, minutes, seconds) = (field(11, 2)?, field(14, 2)?, field(17, 2)?);
    let mut rest = text.get(19..)?;
    let mut millis = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let places = fraction.get(..digits.min(3)).filter(|places| !places.is_empty())?;
        millis = number(places)? * 10_u64.pow(3 - places.len() as u32);
        rest = &fraction[digits..];
    }
    let offset_minutes: i64 = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = rest.get(1..)?.split_once(':')?;
            let is_fit = hours.len() == 2 && minutes.len() == 2;
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let offset = (hours * 60 + minutes) as i64;
            Some(sign * offset).filter(|_| is_fit && hours < 24 && minutes < 60)?
        }
    };
    // A leap second is the first of the next minute.
    let is_time = hours < 24 && minutes < 60 && seconds <= 60;
    if !marks || !is_time || !(1..=days_of(year, month)?).contains(&day) {
        return None;
    }
    let before_year = |year: u64| year * 365 + year / 4 - year / 100 + year / 400;
    let days = before_year(year.checked_sub(1)?).checked_sub(before_year(1969))?
        + (1..month).filter_map(|month| days_of(year, month)).sum::<u64>()
        + day
        - 1;
    let minutes = (days * 24 + hours) * 60 + minutes;
    let minutes = u64::try_from(minutes as i64 - offset_minutes).ok()?;
    Some((minutes * 60 + seconds) * 1000 + millis)
}

fn days_of(year: u64, month: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    Some(match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Result<Moment, String> {
        Ok(Moment::At(Timestamp::from_millis(millis)))
    }

    #[test]
    fn times_of_rfc_3339_are_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T01:00:00+01:00", 0),
            ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("2026-11-27T19:31:37Z", 1_795_807_897_000),
            ("2026-11-27t19:31:37.25z", 1_795_807_897_250),
            ("2026-11-27 19:31:37.2509Z", 1_795_807_897_250),
            ("2026-11-27T14:31:37.007-05:00", 1_795_807_897_007),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ] {
            assert_eq!(Moment::parse(text), at(millis), "{text}");
        }
        for bad in [
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:30:00+01:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-27",
            "2026-11-27T19:31",
            "2026-11-27T19:31:37",
            "2026-11-27T24:00:00Z",
            "2026-11-27T19:31:37.Z",
            "2026-11-27T19:31:37+1:00",
            "2026-11-27T19:31:37+01:60",
            "2026-11-27T19:31:37ü",
            "2026-ü1-27T19:31:37Z",
        ] {
            let why = Moment::parse(bad).unwrap_err();
            assert!(why.contains("RFC 3339"), "{bad}: {why}");
        }
    }

    #[test]
    fn ages_are_counted_from_now() {
        let now = Timestamp::from_millis(1_000_000);
        for (text, millis) in
            [("1s ago", 999_000), ("1000msago", 999_000), ("2m ago", 880_000), ("1d ago", 0)]
        {
            let at = Moment::parse(text).unwrap().resolve(now, None);
            assert_eq!(at, Ok(Timestamp::from_millis(millis)), "{text}");
        }
        for bad in ["ago", "m ago", "10 ago", "-1s ago", "1w ago", "99999999999999999999s ago"] {
            assert!(Moment::parse(bad).unwrap_err().contains("no age"), "{bad}");
        }
    }

    #[test]
    fn snapshot_is_of_its_cluster() {
        let token = SnapshotToken { cluster: 0xc0ffee, lease: 7, at: Timestamp(65) };
        let text = token.to_string();
        assert_eq!(text, "snap-0000000000c0ffee-7-65");
        let read = Moment::parse(&text).unwrap();
        assert_eq!(read, Moment::Snapshot(token));
        assert_eq!(read.resolve(Timestamp(9), Some(0xc0ffee)), Ok(token.at));
        let why = read.resolve(Timestamp(9), Some(1)).unwrap_err();
        assert_eq!(
            why,
            "the snapshot is of cluster 0000000000c0ffee, and this is cluster 0000000000000001"
        );
        for bad in [
            "snap-",
            "snap-c0ffee-7-65",
            "snap-0000000000c0ffee-7",
            "snap-0000000000c0ffee-7-65-1",
            "snap-0000000000c0ffee-+7-65",
        ] {
            assert!(Moment::parse(bad).unwrap_err().contains("is no snapshot"), "{bad}");
        }
    }

    #[test]
    fn timestamps_have_three_forms() {
        assert_eq!(timestamp("65536"), Ok(Timestamp(65536)));
        assert_eq!(timestamp("1ms"), Ok(Timestamp(65536)));
        assert_eq!(timestamp("1.2"), Ok(Timestamp(65538)));
        let why = timestamp("1795675401288").unwrap_err();
        assert!(why.contains("did you mean 1795675401288ms?"), "{why}");
        assert!(timestamp("1795675401").unwrap_err().contains("1795675401000ms?"));
        for bad in ["", "ms", "-1", "1s", "281474976710656ms", "1.65536", "1.", ".1", "+5ms"] {
            assert!(timestamp(bad).is_err(), "{bad}");
        }
    }
}
