//! Fourier transforms of any length.

use std::f64::consts::PI;

/// A complex number.
pub(super) type Complex = [f64; 2];

pub(super) fn product([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

/// e^(i angle).
fn turn(angle: f64) -> Complex {
    [angle.cos(), angle.sin()]
}

/// What transforms lines of one length: `y[k]` is the sum over n of `x[n] e^(sign 2 pi i k n / length)`.
pub(super) struct Fourier {
    length: usize,
    sign: f64,
    /// Of lengths that are no power of two: Bluestein's chirp, and the transform of its conjugate.
    chirp: Option<(Vec<Complex>, Vec<Complex>)>,
}

impl Fourier {
    /// The transform of lines of a length; the inverse one is not divided by the length.
    pub(super) fn new(length: usize, is_inverse: bool) -> Fourier {
        let sign = if is_inverse { 1.0 } else { -1.0 };
        let chirp = (!length.is_power_of_two() && length > 0).then(|| {
            let period = 2 * length as u128;
            let angle = |n: usize| {
                let square = n as u128 * n as u128 % period;
                sign * PI * square as f64 / length as f64
            };
            let chirp: Vec<Complex> = (0..length).map(|n| turn(angle(n))).collect();
            let mut other = vec![[0.0; 2]; (2 * length).next_power_of_two()];
            let size = other.len();
            for (n, [re, im]) in chirp.iter().enumerate() {
                other[n] = [*re, -im];
                other[(size - n) % size] = [*re, -im];
            }
            power_of_two(&mut other, -1.0);
            (chirp, other)
        });
        Fourier { length, sign, chirp }
    }

    /// Transforms a line.
    pub(super) fn transform(&self, line: &mut [Complex]) {
        let Some((chirp, other)) = &self.chirp else {
            return power_of_two(line, self.sign);
        };
        let mut all = vec![[0.0; 2]; other.len()];
        for ((out, x), turn) in all.iter_mut().zip(&*line).zip(chirp) {
            *out = product(*x, *turn);
        }
        power_of_two(&mut all, -1.0);
        all.iter_mut()
            .zip(other)
            .for_each(|(x, other)| *x = product(*x, *other));
        power_of_two(&mut all, 1.0);
        let size = all.len() as f64;
        for ((x, [re, im]), turn) in line.iter_mut().zip(all).zip(chirp).take(self.length) {
            *x = product([re / size, im / size], *turn);
        }
    }
}

/// The transform of a line whose length is a power of two, in place.
fn power_of_two(line: &mut [Complex], sign: f64) {
    let n = line.len();
    if n < 2 {
        return;
    }
    let unused = usize::BITS - n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> unused;
        if i < j {
            line.swap(i, j);
        }
    }
    let turns: Vec<Complex> = (0..n / 2)
        .map(|i| turn(sign * 2.0 * PI * i as f64 / n as f64))
        .collect();
    let mut half = 1;
    while half < n {
        let step = n / (2 * half);
        for part in line.chunks_exact_mut(2 * half) {
            let (even, odd) = part.split_at_mut(half);
            for (i, (a, b)) in even.iter_mut().zip(odd).enumerate() {
                let [re, im] = product(*b, turns[i * step]);
                *b = [a[0] - re, a[1] - im];
                *a = [a[0] + re, a[1] + im];
            }
        }
        half *= 2;
    }
}
