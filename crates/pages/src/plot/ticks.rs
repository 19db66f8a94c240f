//! Ticks of axes: values at 1, 2 or 5 times a power of ten, and their labels. A label is a short decimal; what all
//! labels of an axis have in common, a power of ten or a value that is subtracted, stands beside the axis once.

/// Limit of characters of a label.
pub const WIDEST: usize = 6;

/// Least number of equal parts of an axis: a step between ticks is at least this part of it.
const PARTS: f64 = 6.0;

/// Limit of powers of ten on a logarithmic axis.
const POWERS: i32 = 10;

/// Letters for powers of ten, the largest last.
const LETTERS: [(i32, &str); 4] = [(3, "k"), (6, "M"), (9, "G"), (12, "T")];

/// A place on an axis, and its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    /// At most [`WIDEST`] characters.
    pub label: String,
}

/// The ticks of an axis, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    pub all: Vec<Tick>,
    /// What all labels have in common, such as `in 10⁻⁶` or `above 2.302`; empty where they are the values themselves.
    common: String,
}

impl Ticks {
    /// The name of the axis, or its unit, with what all labels have in common.
    pub fn named(&self, name: &str) -> String {
        match (name, self.common.as_str()) {
            (name, "") => name.to_string(),
            ("", common) => common.to_string(),
            (name, common) => format!("{name}, {common}"),
        }
    }

    /// Equally distant values from `low` to `high`, which lie further apart than a billionth of either.
    pub(super) fn even(low: f64, high: f64) -> Ticks {
        // A step, or a tick at an end, is not lost to rounding.
        let slack = 1e-9;
        let rough = (high - low) / PARTS * (1.0 - slack);
        let mut power = rough.log10().floor() as i32;
        let fits = |digits: &i64| Decimal::new(*digits, power).value() >= rough;
        let digits = [1, 2, 5].into_iter().find(fits).unwrap_or_else(|| {
            power += 1;
            1
        });
        let step = Decimal::new(digits, power).value();
        let (first, last) = ((low / step - slack).ceil() as i64, (high / step + slack).floor() as i64);
        labelled(
            (first..=last)
                .map(|number| Decimal::new(number * digits, power))
                .collect(),
        )
    }

    /// Values from `10^low` to `10^high`, at least ten times as large: powers of ten, and 2 and 5 times these where
    /// there are few.
    pub(super) fn powers(low: f64, high: f64) -> Ticks {
        let digits: &[i64] = if high - low < 2.5 { &[1, 2, 5] } else { &[1] };
        let (first, last) = (low.floor() as i32, high.floor() as i32);
        let apart = [1, 2, 5, 10, 20, 50]
            .into_iter()
            .find(|apart| (last - first) / apart < POWERS);
        let apart = apart.unwrap_or(100);
        let powers = (first..=last).filter(|power| power.rem_euclid(apart) == 0);
        let all = powers.flat_map(|power| digits.iter().map(move |digits| Decimal::new(*digits, power)));
        let slack = 1e-9;
        let within = |tick: &Decimal| (low - slack..=high + slack).contains(&tick.value().log10());
        labelled(all.filter(within).collect())
    }
}

/// A decimal number: `digits * 10^power`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decimal {
    digits: i64,
    power: i32,
}

impl Decimal {
    /// The number without zeros at the end of its digits.
    fn new(mut digits: i64, mut power: i32) -> Decimal {
        if digits == 0 {
            return Decimal { digits, power: 0 };
        }
        while digits % 10 == 0 {
            (digits, power) = (digits / 10, power + 1);
        }
        Decimal { digits, power }
    }

    /// The nearest `f64`.
    fn value(self) -> f64 {
        format!("{}e{}", self.digits, self.power).parse().unwrap_or(f64::NAN)
    }

    /// The power of ten of its first digit; none of zero.
    fn size(self) -> Option<i32> {
        let length = self.digits.unsigned_abs().checked_ilog10()?;
        Some(length as i32 + self.power)
    }

    /// The number over `10^unit`, without an exponent.
    fn text(self, unit: i32) -> String {
        let (places, digits) = (self.power - unit, self.digits.unsigned_abs().to_string());
        let sign = if self.digits < 0 { "-" } else { "" };
        if self.digits == 0 {
            return digits;
        }
        if places >= 0 {
            return format!("{sign}{digits}{}", "0".repeat(places as usize));
        }
        let after = places.unsigned_abs() as usize;
        let padded = format!("{digits:0>width$}", width = after + 1);
        let (whole, part) = padded.split_at(padded.len() - after);
        format!("{sign}{whole}.{part}")
    }
}

/// Ticks with the shortest labels that tell them apart.
fn labelled(numbers: Vec<Decimal>) -> Ticks {
    let (labels, common) = plain(&numbers)
        .or_else(|| in_unit(&numbers))
        .or_else(|| as_powers(&numbers))
        .unwrap_or_else(|| above(&numbers));
    let all = numbers.iter().zip(labels).map(|(number, label)| Tick {
        value: number.value(),
        label,
    });
    Ticks {
        all: all.collect(),
        common,
    }
}

/// Labels, and what they have in common.
type Labels = (Vec<String>, String);

/// The numbers over `10^unit`, with a letter that stands for the power; none where one is too long.
fn texts(numbers: &[Decimal], unit: i32, letter: &str) -> Option<Vec<String>> {
    let text = |number: &Decimal| {
        let letter = if number.digits == 0 { "" } else { letter };
        format!("{}{letter}", number.text(unit))
    };
    let texts: Vec<String> = numbers.iter().map(text).collect();
    texts.iter().all(|text| text.chars().count() <= WIDEST).then_some(texts)
}

/// The power of ten, a multiple of three, in which the greatest number has one to three digits before the point.
fn unit_of(numbers: &[Decimal]) -> i32 {
    let greatest = numbers.iter().filter_map(|number| number.size()).max();
    greatest.unwrap_or(0).div_euclid(3) * 3
}

/// The numbers themselves, or with a letter for a power of ten, whichever is shorter: `0.25`, `200k`.
fn plain(numbers: &[Decimal]) -> Option<Labels> {
    let is_long = numbers.iter().any(|number| number.size() >= Some(4));
    let letter = LETTERS.iter().find(|(power, _)| is_long && *power == unit_of(numbers));
    let short = letter.and_then(|(power, letter)| texts(numbers, *power, letter));
    let length = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    let found = match (texts(numbers, 0, ""), short) {
        (Some(whole), Some(short)) => Some(if length(&short) < length(&whole) { short } else { whole }),
        (whole, short) => whole.or(short),
    };
    Some((found?, String::new()))
}

/// The numbers over a common power of ten.
fn in_unit(numbers: &[Decimal]) -> Option<Labels> {
    let unit = unit_of(numbers);
    Some((texts(numbers, unit, "")?, in_power(unit)))
}

/// Powers of ten: `10⁻⁷`.
fn as_powers(numbers: &[Decimal]) -> Option<Labels> {
    let powers = numbers.iter().all(|number| number.digits == 1);
    powers.then(|| {
        (
            numbers.iter().map(|number| power_of_ten(number.power)).collect(),
            String::new(),
        )
    })
}

/// The numbers less a round one below the least of them.
fn above(numbers: &[Decimal]) -> Labels {
    // Evenly distant numbers, of a few digits at the least power; both are so by their making.
    let power = numbers
        .iter()
        .filter(|number| number.digits != 0)
        .map(|number| number.power)
        .min();
    let power = power.unwrap_or(0);
    let whole = |number: &Decimal| {
        i128::from(number.digits) * 10i128.pow(number.power.saturating_sub(power).clamp(0, 19) as u32)
    };
    let whole: Vec<i128> = numbers.iter().map(whole).collect();
    let (first, last) = (whole.first().copied().unwrap_or(0), whole.last().copied().unwrap_or(0));
    let mut round = 10;
    while round < last - first {
        round *= 10;
    }
    let base = first.div_euclid(round) * round;
    let small = |number: i128| Decimal::new(i64::try_from(number).unwrap_or(i64::MAX), power);
    let rest: Vec<Decimal> = whole.iter().map(|number| small(number - base)).collect();
    let base = format!("above {}", scientific(small(base)));
    let unit = unit_of(&rest);
    match texts(&rest, 0, "") {
        Some(texts) => (texts, base),
        None => {
            let texts = rest.iter().map(|number| number.text(unit)).collect();
            (texts, format!("{} {base}", in_power(unit)))
        }
    }
}

/// A number as a decimal, or as digits times a power of ten where that would be long.
fn scientific(number: Decimal) -> String {
    const LONG: usize = 12;
    let (whole, size) = (number.text(0), number.size().unwrap_or(0));
    if whole.len() <= LONG {
        whole
    } else {
        format!("{}·{}", number.text(size), power_of_ten(size))
    }
}

fn in_power(power: i32) -> String {
    format!("in {}", power_of_ten(power))
}

fn power_of_ten(power: i32) -> String {
    let raised = |digit: char| match digit {
        '-' => '⁻',
        digit => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit.to_digit(10).unwrap_or(0) as usize],
    };
    format!("10{}", power.to_string().chars().map(raised).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;
    use lessen_base::SplitMix64;

    fn ticks(low: f64, high: f64, log: bool) -> Ticks {
        Scale::over([low, high].into_iter(), log, 0.0, (0.0, 1.0)).ticks()
    }

    fn shown(low: f64, high: f64, log: bool) -> String {
        let found = ticks(low, high, log);
        let labels: Vec<&str> = found.all.iter().map(|tick| tick.label.as_str()).collect();
        found.named(&labels.join(" "))
    }

    #[test]
    fn labels_are_short_decimals() {
        for ((low, high), expected) in [
            ((0.0, 100.0), "0 20 40 60 80 100"),
            ((-1.0, 1.0), "-1 -0.5 0 0.5 1"),
            ((1.51, 1.74), "1.55 1.6 1.65 1.7"),
            ((0.1, 0.7), "0.1 0.2 0.3 0.4 0.5 0.6 0.7"),
            ((0.0, 0.0003), "0 50 100 150 200 250 300, in 10⁻⁶"),
            ((0.0, 1.2e-7), "0 20 40 60 80 100 120, in 10⁻⁹"),
            ((0.0, 3e7), "0 5M 10M 15M 20M 25M 30M"),
            ((0.0, 1_500_000.0), "0 0.5M 1M 1.5M"),
            ((0.0, 20_000.0), "0 5k 10k 15k 20k"),
            ((200.0, 1_400.0), "200 400 600 800 1000 1200 1400"),
            ((2.30241, 2.30249), "20 40 60 80, in 10⁻⁶ above 2.3024"),
            (
                (-3.3025, -3.3019),
                "0.0005 0.0006 0.0007 0.0008 0.0009 0.001 0.0011, above -3.303",
            ),
            ((1e20, 3e20), "100 150 200 250 300, in 10¹⁸"),
        ] {
            assert_eq!(shown(low, high, false), expected);
        }
    }

    #[test]
    fn labels_of_logarithmic_axes_are_decimals_or_powers() {
        for ((low, high), expected) in [
            ((0.001, 100.0), "0.001 0.01 0.1 1 10 100"),
            ((2.0, 5.0), "2 2.5 3 3.5 4 4.5 5"),
            ((0.3, 20.0), "0.5 1 2 5 10 20"),
            ((1e-6, 1e-4), "1 2 5 10 20 50 100, in 10⁻⁶"),
            ((1e-7, 1.0), "10⁻⁷ 10⁻⁶ 10⁻⁵ 10⁻⁴ 10⁻³ 10⁻² 10⁻¹ 10⁰"),
            ((1e-20, 1e20), "10⁻²⁰ 10⁻¹⁵ 10⁻¹⁰ 10⁻⁵ 10⁰ 10⁵ 10¹⁰ 10¹⁵ 10²⁰"),
        ] {
            assert_eq!(shown(low, high, true), expected);
        }
    }

    /// The digits of `10⁻⁷` and its like.
    fn power_in(text: &str) -> i32 {
        let plain = |c: char| match c {
            '⁻' => '-',
            c => "⁰¹²³⁴⁵⁶⁷⁸⁹"
                .chars()
                .position(|raised| raised == c)
                .map_or(c, |digit| (b'0' + digit as u8) as char),
        };
        let digits: String = text.strip_prefix("10").unwrap().chars().map(plain).collect();
        digits.parse().unwrap()
    }

    /// The value that a reader takes from a label, with what the axis says of all of them.
    fn read(label: &str, common: &str) -> f64 {
        let (unit, base) = match common.split_once("above ") {
            Some((unit, base)) => (unit, Some(base)),
            None => (common, None),
        };
        let mut power = unit.trim().strip_prefix("in ").map_or(0, power_in);
        let mut digits = label;
        if label.contains(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".contains(c)) {
            (digits, power) = ("1", power_in(label));
        }
        for (more, letter) in LETTERS {
            if let Some(rest) = digits.strip_suffix(letter) {
                (digits, power) = (rest, more);
            }
        }
        let base: f64 = base.map_or(0.0, |base| match base.split_once('·') {
            Some((digits, power)) => format!("{digits}e{}", power_in(power)).parse().unwrap(),
            None => base.parse().unwrap(),
        });
        base + format!("{digits}e{power}").parse::<f64>().unwrap()
    }

    #[test]
    fn ticks_of_random_curves_are_few_short_distinct_and_say_their_values() {
        const SEED: u64 = 35;
        let mut random = SplitMix64::new(SEED);
        for case in 0..20_000 {
            let log = random.below(3) == 0;
            let centre = (random.unit() - if log { 0.0 } else { 0.5 }) * 10f64.powf(random.unit() * 40.0 - 20.0);
            let width = 10f64.powf(random.unit() * -12.0) * if random.below(2) == 0 { 1.0 } else { 1e4 };
            let values: Vec<f64> = (0..1 + random.below(20))
                .map(|_| {
                    if log {
                        centre * 10f64.powf(width * random.unit())
                    } else {
                        centre * (1.0 + width * random.unit())
                    }
                })
                .collect();
            let scale = Scale::over(values.iter().copied(), log, 0.05, (0.0, 1.0));
            let found = scale.ticks();
            let told = format!("seed {SEED}, case {case}: {values:?} give {found:?}");
            assert!((2..=10).contains(&found.all.len()), "{told}");
            assert!(
                found.all.iter().all(|tick| tick.label.chars().count() <= WIDEST),
                "{told}"
            );
            assert!(found.all.windows(2).all(|pair| pair[0].value < pair[1].value), "{told}");
            assert!(
                found.all.windows(2).all(|pair| pair[0].label != pair[1].label),
                "{told}"
            );
            for tick in &found.all {
                assert!((-1e-6..=1.0 + 1e-6).contains(&scale.place(tick.value)), "{told}");
                let error = (read(&tick.label, &found.common) - tick.value).abs();
                assert!(error <= 1e-13 * tick.value.abs(), "{}: {told}", tick.label);
            }
            assert!(!found.all.iter().any(|tick| tick.label.contains('e')), "{told}");
        }
    }

    #[test]
    fn an_axis_of_any_numbers_has_ticks() {
        for log in [false, true] {
            for (low, high) in [
                (0.0, 0.0),
                (f64::NAN, f64::INFINITY),
                (1e-320, 1e-310),
                (-1e308, 1e308),
                (f64::MIN_POSITIVE, f64::MAX),
                (5e300, 5e300),
                (1.0, 1.0 + f64::EPSILON),
                (-7.0, -7.0),
            ] {
                let found = ticks(low, high, log);
                assert!((2..=10).contains(&found.all.len()), "{low} to {high}: {found:?}");
                assert!(
                    found
                        .all
                        .iter()
                        .all(|tick| tick.value.is_finite() && tick.label.chars().count() <= WIDEST)
                );
            }
        }
    }
}
