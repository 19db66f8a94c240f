//! The order of the names of classes, and the names of classes that JSON writes as numbers.

use std::cmp::Ordering;

/// Most digits of a whole number, or of a fraction, that is written without an exponent.
const LONGEST: usize = 40;

/// Sorts names: whole numbers of any length by their size, others by their characters.
pub(crate) fn sort(names: &mut [String]) {
    if names.iter().all(|name| Whole::of(name).is_some()) {
        names.sort_by(|one, other| Whole::of(one).cmp(&Whole::of(other)).then_with(|| one.cmp(other)));
    } else {
        names.sort();
    }
}

/// A whole number in decimal digits.
#[derive(PartialEq, Eq)]
struct Whole<'a> {
    is_negative: bool,
    /// Without zeros in front.
    digits: &'a str,
}

impl Whole<'_> {
    fn of(name: &str) -> Option<Whole<'_>> {
        let (is_negative, digits) = match name.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, name.strip_prefix('+').unwrap_or(name)),
        };
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let digits = digits.trim_start_matches('0');
        is_whole.then_some(Whole {
            is_negative: is_negative && !digits.is_empty(),
            digits,
        })
    }
}

impl Ord for Whole<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |whole: &Self| (whole.digits.len(), whole.digits.to_string());
        match (self.is_negative, other.is_negative) {
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Whole<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The name of a class that JSON writes as this number. All ways to write a number (`1`, `1.0`, `10e-1`) have one name,
/// and two numbers have two, whatever their length.
pub(crate) fn of_number(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return "0".to_string();
    }
    // The number is `kept` times ten to the power `power`.
    let zeros = (digits.len() - kept.len()) as i64;
    let exponent: Option<i64> = exponent.parse().ok();
    let Some(power) = exponent.and_then(|exponent| exponent.checked_add(zeros)?.checked_sub(fraction.len() as i64))
    else {
        return text.to_string();
    };
    let length = kept.len() as i64;
    match power {
        0.. if length.saturating_add(power) <= LONGEST.max(kept.len()) as i64 => {
            format!("{sign}{kept}{}", "0".repeat(power as usize))
        }
        _ if power < 0 && power > -(LONGEST as i64) && power > -length => {
            let (whole, fraction) = kept.split_at((length + power) as usize);
            format!("{sign}{whole}.{fraction}")
        }
        _ if power < 0 && power > -(LONGEST as i64) => {
            format!("{sign}0.{}{kept}", "0".repeat((-power - length) as usize))
        }
        _ => format!("{sign}{kept}e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::SplitMix64;

    #[test]
    fn whole_numbers_of_any_length_are_sorted_by_size() {
        let sorted = |names: &[&str]| {
            let mut names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            sort(&mut names);
            names
        };
        let long = [
            "12345678901234567890124",
            "12345678901234567890123",
            "7",
            "-3",
            "-12",
            "0",
        ];
        let expected = [
            "-12",
            "-3",
            "0",
            "7",
            "12345678901234567890123",
            "12345678901234567890124",
        ];
        assert_eq!(sorted(&long), expected);
        assert_eq!(sorted(&["10", "9", "b"]), ["10", "9", "b"]);
        assert_eq!(sorted(&["2.5", "10", ""]), ["", "10", "2.5"]);
    }

    #[test]
    fn a_number_has_one_name_however_it_is_written() {
        for (text, name) in [
            ("1", "1"),
            ("1.0", "1"),
            ("1e0", "1"),
            ("10E-1", "1"),
            ("-0.0", "0"),
            ("0", "0"),
            ("1200", "1200"),
            ("1.2e+3", "1200"),
            ("2.50", "2.5"),
            ("-0.025", "-0.025"),
            ("25e-3", "0.025"),
            ("1e-7", "0.0000001"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("12345678901234567890123.0", "12345678901234567890123"),
            ("1e400", "1e400"),
            ("10e399", "1e400"),
            ("1.5e-300", "15e-301"),
        ] {
            assert_eq!(of_number(text), name, "{text}");
        }
        let long = "9".repeat(400);
        assert_eq!(of_number(&long), long);
    }

    #[test]
    fn names_of_numbers_are_equal_where_the_numbers_are() {
        let seed = 7;
        let mut random = SplitMix64::new(seed);
        for _ in 0..2000 {
            let number = random.below(2_000_001) as i64 - 1_000_000;
            let places = random.below(6) as i32;
            let exact = format!("{number}e-{places}");
            let written = [
                exact.clone(),
                format!("{number}0e-{}", places + 1),
                format!("{number}.00E-{places}"),
                format!("{number}e-0{places}"),
            ];
            for text in &written {
                assert_eq!(of_number(text), of_number(&exact), "seed {seed}: {text} and {exact}");
            }
            let other = format!("{}e-{places}", number + 1);
            assert_ne!(of_number(&other), of_number(&exact), "seed {seed}: {other} and {exact}");
            // The name is the number.
            let value: f64 = of_number(&exact).parse().unwrap();
            assert_eq!(value, exact.parse::<f64>().unwrap(), "seed {seed}: {exact}");
        }
    }
}
