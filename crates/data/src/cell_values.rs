//! What a cell of a table says: nothing, a number, or a date.

/// Words that stand for a missing value, in lower case.
const MISSING: [&str; 9] = ["", "na", "nan", "null", "?", "none", "n/a", "<na>", "nil"];

/// Longest of these words.
const LONGEST_MISSING: usize = 5;

/// Whether a cell stands for a missing value.
pub(crate) fn is_missing(cell: &str) -> bool {
    let cell = cell.trim();
    cell.len() <= LONGEST_MISSING && MISSING.iter().any(|word| cell.eq_ignore_ascii_case(word))
}

/// The finite number that a cell holds.
pub(crate) fn number(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    // Words such as `inf` are numbers to the parser alone.
    let starts = cell
        .trim_start_matches(['+', '-'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    starts
        .then(|| cell.parse().ok())
        .flatten()
        .filter(|number: &f64| number.is_finite())
}

/// The days from 1970-01-01 to the date that a cell holds, with the time of day as a fraction: `2024-03-01`,
/// `2024/03/01`, `2024-03-01 12:30`, `2024-03-01T12:30:00.5Z`, `2024-03-01T12:30:00+02:00`.
pub(crate) fn date(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    let day = cell.get(..10)?;
    let separator = match day.as_bytes()[4] {
        mark @ (b'-' | b'/') => mark,
        _ => return None,
    };
    if day.as_bytes()[7] != separator {
        return None;
    }
    let (year, month, day) = (digits(&day[..4])?, digits(&day[5..7])?, digits(&day[8..10])?);
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let days = days_since_1970(year, month, day) as f64;
    match cell[10..].strip_prefix(['T', 't', ' ']) {
        None => cell[10..].is_empty().then_some(days),
        Some(time) => Some(days + seconds(time)? / 86_400.0),
    }
}

/// The number that digits stand for.
fn digits(text: &str) -> Option<i64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// The seconds of a time of day, less the offset of its zone.
fn seconds(time: &str) -> Option<f64> {
    let (clock, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => (time[..at].trim_end(), zone(&time[at..])?),
        None => (time, 0.0),
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second = parts.next().map_or(Some(0.0), number)?;
    let is_time = hour <= 24 && minute < 60 && (0.0..=60.0).contains(&second) && parts.next().is_none();
    is_time.then_some(hour as f64 * 3600.0 + minute as f64 * 60.0 + second - offset)
}

/// The seconds of a zone before the time of Greenwich: `Z`, `+02:00`, `+0200`, `+02`.
fn zone(text: &str) -> Option<f64> {
    let sign = match text.as_bytes().first()? {
        b'Z' | b'z' => return (text.len() == 1).then_some(0.0),
        b'-' => -1.0,
        _ => 1.0,
    };
    let own: String = text[1..].chars().filter(|c| *c != ':').collect();
    let minutes = match own.len() {
        2 => digits(&own)? * 60,
        4 if own.is_ascii() => digits(&own[..2])? * 60 + digits(&own[2..])?,
        _ => return None,
    };
    Some(sign * minutes as f64 * 60.0)
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days from 1970-01-01 in the Gregorian calendar, counted in years that begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_nothing_are_missing_values() {
        for cell in ["", " ", "NA", "NaN", "nan", "NULL", "?", "None", "n/a", "N/A", " na "] {
            assert!(is_missing(cell), "{cell:?}");
        }
        for cell in ["0", "no", "nothing", "-", "Nan Goldin", "nanny"] {
            assert!(!is_missing(cell), "{cell:?}");
        }
    }

    #[test]
    fn numbers_are_finite_and_written_in_digits() {
        assert_eq!(number(" -1.5e2 "), Some(-150.0));
        assert_eq!(
            (number(".5"), number("+3"), number("007")),
            (Some(0.5), Some(3.0), Some(7.0))
        );
        for cell in ["inf", "nan", "1e999", "1,5", "0x10", "3 kg", "", "-", "2024-03-01"] {
            assert_eq!(number(cell), None, "{cell}");
        }
    }

    #[test]
    fn dates_are_days_since_1970() {
        for (cell, days) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11_016.0),
            ("2024-03-01", 19_783.0),
            ("2024/03/01", 19_783.0),
            ("2024-03-01 12:00", 19_783.5),
            ("2024-03-01T06:00:00.0Z", 19_783.25),
            ("2024-03-01T08:00:00+02:00", 19_783.25),
            ("2024-03-01T00:00:00-0600", 19_783.25),
        ] {
            assert_eq!(date(cell), Some(days), "{cell}");
        }
        for cell in [
            "2023-02-29",
            "2024-13-01",
            "2024-03/01",
            "2024-03-01x",
            "2024-3-1",
            "20240301",
            "1.5",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(date(cell), None, "{cell}");
        }
    }
}
