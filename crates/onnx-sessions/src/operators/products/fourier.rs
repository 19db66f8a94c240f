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

/// The largest prime factor of lengths that are transformed in single precision.
const LARGEST_FACTOR: usize = 13;

/// Transforms a line in single precision, as floats of 32 bits round; false where its length has a large prime factor.
///
/// A length of p times m takes m transforms of length p, turned, and p transforms of length m.
pub(super) fn in_single_precision(line: &mut [Complex], is_inverse: bool) -> bool {
    let (mut rest, mut factors) = (line.len().max(1), Vec::new());
    for factor in 2..=LARGEST_FACTOR {
        while rest % factor == 0 {
            factors.push(factor);
            rest /= factor;
        }
    }
    if rest > 1 {
        return false;
    }
    let given: Vec<[f32; 2]> = line.iter().map(|[re, im]| [*re as f32, *im as f32]).collect();
    let sign = if is_inverse { 1.0 } else { -1.0 };
    for (out, [re, im]) in line.iter_mut().zip(by_factors(given, &factors, sign)) {
        *out = [re.into(), im.into()];
    }
    true
}

/// The transform of a line whose length has these prime factors.
fn by_factors(line: Vec<[f32; 2]>, factors: &[usize], sign: f64) -> Vec<[f32; 2]> {
    let [p, later @ ..] = factors else {
        return line;
    };
    let (length, m) = (line.len(), line.len() / p);
    let mut parts = vec![vec![[0f32; 2]; m]; *p];
    let single = |[re, im]: Complex| [re as f32, im as f32];
    let roots: Vec<[f32; 2]> = (0..*p).map(|i| single(turn(2.0 * PI * i as f64 / *p as f64))).collect();
    let mut all = vec![[0f32; 2]; *p];
    for n in 0..m {
        all.iter_mut().enumerate().for_each(|(j, x)| *x = line[n + j * m]);
        for (q, part) in parts.iter_mut().enumerate() {
            let [re, im] = short(&all, q, &roots, sign as f32);
            let [cosine, sine] = single(turn(sign * 2.0 * PI * (q * n) as f64 / length as f64));
            part[n] = [re * cosine - im * sine, re * sine + im * cosine];
        }
    }
    let parts: Vec<Vec<[f32; 2]>> = parts.into_iter().map(|part| by_factors(part, later, sign)).collect();
    (0..length).map(|k| parts[k % p][k / p]).collect()
}

/// The sum of a short line times powers of a root, where elements from both ends are added first.
fn short(all: &[[f32; 2]], q: usize, roots: &[[f32; 2]], sign: f32) -> [f32; 2] {
    let p = all.len();
    let (mut even, mut odd) = (all[0], [0f32; 2]);
    for j in 1..p.div_ceil(2) {
        let (a, b) = (all[j], all[p - j]);
        let [cosine, sine] = roots[q * j % p];
        for part in 0..2 {
            even[part] += cosine * (a[part] + b[part]);
            odd[part] += sine * (a[part] - b[part]);
        }
    }
    if p == 2 {
        let side = if q == 0 { 1.0 } else { -1.0 };
        return [even[0] + side * all[1][0], even[1] + side * all[1][1]];
    }
    [even[0] - sign * odd[1], even[1] + sign * odd[0]]
}
