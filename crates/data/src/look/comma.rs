//! Numbers that are written with commas: `3,14` and `1,250,000`.

use crate::cell_values::number;
use crate::files::quoted;
use crate::table::profile::{Profile, ValueKind};

/// Share of the values of a column that are numbers, and of them that have a comma, from which on they are meant so.
const MOST: f64 = 0.9;
const SOME: f64 = 0.2;

/// Says of a column that it has numbers with commas, which are words to a reader.
pub(super) fn remark(name: &str, profile: &Profile) -> Option<String> {
    let example = comma_number(profile)?;
    Some(format!(
        "the column {} has numbers with commas, such as {}, which are taken for words; write them with a point and \
         nothing between thousands",
        quoted(name),
        quoted(example)
    ))
}

/// The first number with a comma of a column of words that is meant to be one of numbers.
fn comma_number(profile: &Profile) -> Option<&str> {
    if profile.kind() != ValueKind::Words {
        return None;
    }
    let (mut all, mut numbers, mut with_comma, mut first) = (0, 0, 0, None);
    for (value, count) in &profile.counts {
        all += count;
        if has_comma(value) {
            with_comma += count;
            first = first.into_iter().chain([&value[..]]).min();
        } else if number(value).is_some() {
            numbers += count;
        }
    }
    let share = |count: u64| count as f64 / all.max(1) as f64;
    first.filter(|_| share(numbers + with_comma) >= MOST && share(with_comma) >= SOME)
}

/// Whether a value is a number with a comma before its fraction, or with commas between thousands.
fn has_comma(value: &str) -> bool {
    let bare = value.strip_prefix(['+', '-']).unwrap_or(value);
    let (whole, fraction) = bare.split_once('.').unwrap_or((bare, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = whole.split(',').collect();
    let are_thousands = parts[1..].iter().all(|part| part.len() == 3);
    let is_fraction = parts.len() == 2 && !bare.contains('.');
    parts.len() > 1 && parts.iter().all(|part| digits(part)) && digits(fraction) && (are_thousands || is_fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str]) -> Option<String> {
        let mut profile = Profile::new();
        values.iter().for_each(|value| profile.add(value));
        comma_number(&profile).map(str::to_string)
    }

    #[test]
    fn numbers_with_commas_are_told_from_words_and_lists() {
        assert_eq!(found(&["3,14", "-2,5", "7"]).as_deref(), Some("-2,5"));
        assert_eq!(
            found(&["1,250,000.50", "999", "12,000"]).as_deref(),
            Some("1,250,000.50")
        );
        assert_eq!(found(&["1,2,3", "2,1", "1,3,4"]), None);
        assert_eq!(found(&["Bonn, 3", "Trier", "3,5"]), None);
        assert_eq!(found(&["1.5", "2"]), None);
        assert_eq!(found(&[]), None);
    }
}
