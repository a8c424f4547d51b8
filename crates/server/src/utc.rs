//! Formats a time for people: date and time of day, in UTC.

const DAY_SECS: u64 = 86_400;

/// Milliseconds since 1970 as `2026-11-26 09:15:58 UTC`.
pub fn utc(millis: u64) -> String {
    let secs = millis / 1000;
    let (mut year, mut days) = (1970, secs / DAY_SECS);
    while days >= year_days(year) {
        days -= year_days(year);
        year += 1;
    }
    let february = year_days(year) - 337;
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    let (month, day) = (month + 1, days + 1);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

fn year_days(year: u64) -> u64 {
    let leaps = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    365 + u64::from(leaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399_999), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_684_558_000), "2026-11-26 09:15:58 UTC");
        assert_eq!(utc(4_107_542_400_000), "2100-03-01 00:00:00 UTC");
    }
}
