//! Axes: which values they show, where these lie, round values for ticks.

/// One axis: values, and where they lie.
pub(crate) struct Scale {
    /// The least value; of a logarithmic axis its decimal logarithm.
    pub low: f64,
    /// The greatest one, likewise.
    pub high: f64,
    /// Whether it is logarithmic.
    pub log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale from the least to the greatest of some values, which is a little wider than they are where it is not
    /// logarithmic.
    pub(crate) fn over(values: impl Iterator<Item = f64>, log: bool, margin: f64, (from, to): (f64, f64)) -> Scale {
        let fits = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(fits) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if log {
            (low, high) = (low.log10(), high.log10());
        }
        let room = match high - low {
            span if span > 0.0 => span * margin,
            _ if low == 0.0 && !log => 1.0,
            _ => (low.abs() * 0.05).max(if log { 0.05 } else { 1e-9 }),
        };
        Scale {
            low: low - room,
            high: high + room,
            log,
            from,
            to,
        }
    }

    /// Where a value lies.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let value = if self.log {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        };
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round values within the scale.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let span = self.high - self.low;
        if self.log && span >= 1.0 {
            let decades = (self.low.floor() as i32)..=(self.high.floor() as i32);
            let within: &[f64] = if span < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let ticks = decades.flat_map(|power| within.iter().map(move |step| step * 10f64.powi(power)));
            return ticks
                .filter(|tick| (self.low..=self.high).contains(&tick.log10()))
                .collect();
        }
        let (low, high) = if self.log {
            (10f64.powf(self.low), 10f64.powf(self.high))
        } else {
            (self.low, self.high)
        };
        let rough = (high - low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = power * steps.iter().find(|&&step| step * power >= rough).unwrap_or(&10.0);
        let first = (low / step).ceil() as i64;
        let last = (high / step).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

/// A tick as short as it can be read.
pub(crate) fn shown(value: f64) -> String {
    if value != 0.0 && (value.abs() >= 1e6 || value.abs() < 1e-4) {
        return format!("{value:e}");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_string()
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_scale() {
        let ticks = |low: f64, high: f64, log| {
            let scale = Scale::over([low, high].into_iter(), log, 0.0, (0.0, 1.0));
            scale.ticks().into_iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(0.0, 100.0, false), "0 20 40 60 80 100");
        assert_eq!(ticks(-1.0, 1.0, false), "-1 -0.5 0 0.5 1");
        assert_eq!(ticks(1.51, 1.74, false), "1.55 1.6 1.65 1.7");
        assert_eq!(ticks(0.001, 100.0, true), "0.001 0.01 0.1 1 10 100");
        assert_eq!(ticks(2.0, 5.0, true), "2 3 4 5");
        assert_eq!(ticks(0.3, 20.0, true), "0.5 1 2 5 10 20");
        assert_eq!(ticks(0.0, 3e7, false), "0 5e6 1e7 1.5e7 2e7 2.5e7 3e7");
    }
}
