//! Axes: which values they show, and where these lie.

use super::ticks::Ticks;

/// Values of this size and more are left out of a scale: their differences would be infinite.
const HUGE: f64 = 1e300;

/// Values of at most this size are zero to a scale.
const TINY: f64 = 1e-290;

/// One axis: values, and where they lie.
pub struct Scale {
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
    /// A scale from the least to the greatest of some values, and a little wider where a curve must not touch its end.
    /// Values that differ by less than a billionth count as one, which lies in the middle.
    pub fn over(values: impl Iterator<Item = f64>, log: bool, margin: f64, (from, to): (f64, f64)) -> Scale {
        let fits = |value: &f64| value.abs() < HUGE && (!log || *value > TINY);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(fits) {
            let value = if value.abs() < TINY { 0.0 } else { value };
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if log {
            (low, high) = (low.log10(), high.log10());
        }
        let (span, size) = (high - low, low.abs().max(high.abs()));
        let room = match () {
            () if span > 1e-9 * if log { 1.0 } else { size } => span * margin,
            () if log => 0.05,
            () if size == 0.0 => 1.0,
            () => size * 0.05,
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
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.log {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        };
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round values within the scale, with their labels.
    pub fn ticks(&self) -> Ticks {
        match self.log {
            true if self.high - self.low >= 1.0 => Ticks::powers(self.low, self.high),
            true => Ticks::even(10f64.powf(self.low), 10f64.powf(self.high)),
            false => Ticks::even(self.low, self.high),
        }
    }
}
