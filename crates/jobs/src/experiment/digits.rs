//! Digits of the numbers on a page: a spread is shown with two digits, and its mean as far as these reach.

/// Sizes from which on a number is shown with a power of ten, and up to which.
const POWERS: (f64, f64) = (1e7, 1e-3);

/// A number without a spread.
pub(super) fn alone(number: f64, digits: Option<usize>) -> String {
    match digits {
        Some(digits) => format!("{number:.digits$}"),
        None => match power_of(number) {
            Some(power) => with_power(&format!("{:.3}", number / 10f64.powi(power)), power),
            None if number.abs() >= 1e5 => format!("{number:.0}"),
            None if number.abs() >= 100.0 => format!("{number:.1}"),
            None => format!("{number:.4}"),
        },
    }
}

/// A number that someone wrote, with the digits that it has, up to six.
pub(super) fn given(number: f64) -> String {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    match power_of(rounded) {
        Some(_) => format!("{rounded:e}"),
        None => rounded.to_string(),
    }
}

/// A number whose spread is known but stands elsewhere.
pub(super) fn with_digits_of(number: f64, spread: f64, digits: Option<usize>) -> String {
    let power = power_of(number.abs().max(spread)).filter(|_| digits.is_none());
    match (digits.or_else(|| places(spread, power.unwrap_or(0))), power) {
        (None, _) => alone(number, None),
        (Some(places), None) => format!("{number:.places$}"),
        (Some(places), Some(power)) => with_power(&format!("{:.places$}", number / 10f64.powi(power)), power),
    }
}

/// A mean and its spread: `1.24 ± 0.17`.
pub(super) fn spread(mean: f64, spread: f64, digits: Option<usize>) -> String {
    if let Some(digits) = digits {
        return format!("{mean:.digits$} ± {spread:.digits$}");
    }
    let power = power_of(mean.abs().max(spread));
    match (places(spread, power.unwrap_or(0)), power) {
        (None, _) => format!("{} ± 0", alone(mean, None)),
        (Some(places), None) => format!("{mean:.places$} ± {spread:.places$}"),
        (Some(places), Some(power)) => {
            let unit = 10f64.powi(power);
            let both = format!("({:.places$} ± {:.places$})", mean / unit, spread / unit);
            with_power(&both, power)
        }
    }
}

/// The digits after the point with which a spread over `10^power` has two digits; none of a spread of zero.
fn places(spread: f64, power: i32) -> Option<usize> {
    if !(spread > 0.0 && spread.is_finite()) {
        return None;
    }
    // Rounding to two digits may make the first one move: 0.0996 is 0.10.
    let rounded = format!("{spread:.1e}");
    let size: i32 = rounded.split_once('e')?.1.parse().ok()?;
    Some(usize::try_from(1 - (size - power)).unwrap_or(0).min(17))
}

/// The power of ten that a number is shown with, where it is very small or large.
fn power_of(number: f64) -> Option<i32> {
    let size = number.abs();
    let is_plain = size == 0.0 || !size.is_finite() || (POWERS.1..POWERS.0).contains(&size);
    (!is_plain).then(|| size.log10().floor() as i32)
}

fn with_power(digits: &str, power: i32) -> String {
    format!("{digits}e{power}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::SplitMix64;

    #[test]
    fn a_mean_has_the_digits_of_its_spread() {
        for (mean, deviation, expected) in [
            (1.27936, 0.16971, "1.28 ± 0.17"),
            (1.27936, 0.02, "1.279 ± 0.020"),
            (1.27936, 0.0996, "1.28 ± 0.10"),
            (1.27936, 0.0000123, "1.279360 ± 0.000012"),
            (17.53, 29.94, "18 ± 30"),
            (1234.5, 678.9, "1234 ± 679"),
            (-0.0213, 0.3, "-0.02 ± 0.30"),
            (1.25, 0.0, "1.2500 ± 0"),
            (2.0e-7, 1.23e-8, "(2.00 ± 0.12)e-7"),
            (104_857_600.0, 4096.0, "(1.048576 ± 0.000041)e8"),
            (0.0, 0.5, "0.00 ± 0.50"),
        ] {
            assert_eq!(spread(mean, deviation, None), expected);
        }
        assert_eq!(spread(17.53, 29.94, Some(1)), "17.5 ± 29.9");
    }

    #[test]
    fn numbers_alone_have_four_digits_or_more() {
        let shown = [0.0, 1.25, 12.3456, 123.456, 123456.7, 1.5e-7, -2e9].map(|number| alone(number, None));
        assert_eq!(
            shown,
            ["0.0000", "1.2500", "12.3456", "123.5", "123457", "1.500e-7", "-2.000e9"]
        );
        let shown = [0.9 * 100.0, 0.1 + 0.2, 1.0, 0.125, 2.5e-8].map(given);
        assert_eq!(shown, ["90", "0.3", "1", "0.125", "2.5e-8"]);
        assert_eq!(with_digits_of(0.0385, 0.4687, None), "0.04");
        assert_eq!(with_digits_of(3e-8, 1.2e-8, None), "3.0e-8");
        assert_eq!(with_digits_of(0.0385, 0.0, None), "0.0385");
        assert_eq!(with_digits_of(0.0385, 0.4687, Some(3)), "0.038");
    }

    #[test]
    fn any_spread_has_two_digits_as_far_as_a_point_allows() {
        const SEED: u64 = 6;
        let mut random = SplitMix64::new(SEED);
        for case in 0..2000 {
            let deviation = 10f64.powf(random.unit() * 20.0 - 12.0);
            let mean = (random.unit() - 0.5) * 10f64.powf(random.unit() * 8.0 - 4.0) * deviation;
            let text = spread(mean, deviation, None);
            let told = format!("seed {SEED}, case {case}: {mean} ± {deviation} is {text}");
            let (inner, power) = match text.strip_prefix('(').and_then(|text| text.split_once(")e")) {
                Some((inner, power)) => (inner, power.parse::<i32>().unwrap()),
                None => (text.as_str(), 0),
            };
            let (a, b) = inner.split_once(" ± ").unwrap();
            let places = |text: &str| text.split_once('.').map_or(0, |(_, part)| part.len());
            assert_eq!(places(a), places(b), "{told}");
            let digits = b.replace('.', "").trim_start_matches('0').len();
            assert!(digits == 2 || (digits > 2 && places(b) == 0), "{told}");
            let value = |text: &str| format!("{text}e{power}").parse::<f64>().unwrap();
            assert!((value(b) - deviation).abs() <= 0.051 * deviation, "{told}");
            assert!((value(a) - mean).abs() <= 0.051 * deviation, "{told}");
        }
    }
}
