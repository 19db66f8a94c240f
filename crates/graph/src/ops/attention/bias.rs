//! Additive position biases of attention scores: ALiBi (Press et al. 2022) and FIRE (Li et al. 2024).

use crate::array::Array;
use crate::tensor::Tensor;

/// Bias of a score by the positions of query and key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AttentionBias {
    /// Nothing.
    #[default]
    None,
    /// `-slope_h |p - j|` for a query at position `p` and a key at `j`; see [`alibi_slope`].
    Alibi,
    /// `f_h(psi(|p - j|) / (psi(max(L, p)) + e))`; see [`Fire`].
    Fire,
}

impl AttentionBias {
    /// All of them.
    pub const ALL: [AttentionBias; 3] = [AttentionBias::None, AttentionBias::Alibi, AttentionBias::Fire];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            AttentionBias::None => "none",
            AttentionBias::Alibi => "alibi",
            AttentionBias::Fire => "fire",
        }
    }
}

function_names!(AttentionBias);

/// The slope of a head in ALiBi: `2^(-8 (h + 1) / H)` where the number of heads `H` is a power of two; otherwise the
/// slopes of the power of two below, and then every other slope of the power above.
pub fn alibi_slope(head: usize, heads: usize) -> f64 {
    let below = if heads.is_power_of_two() {
        heads
    } else {
        heads.next_power_of_two() / 2
    };
    let exponent = if head < below {
        8.0 * (head + 1) as f64 / below as f64
    } else {
        8.0 * (2 * (head - below) + 1) as f64 / (2 * below) as f64
    };
    (-exponent).exp2()
}

/// The parameters of FIRE. With `psi(x) = log(|c x| + 1)` and `L = |l| FIRE_LENGTH`, the bias of head `h` for a query
/// at position `p` and a key at distance `r` is `f_h(u)`, `u = psi(r) / (psi(max(L, p)) + FIRE_EPSILON)`, where
/// `f(u) = w2 relu(w1 u + b1) + b2`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fire<T> {
    /// `[]`
    pub c: T,
    /// `[]`
    pub l: T,
    /// `[W]`
    pub w1: T,
    /// `[W]`
    pub b1: T,
    /// `[H, W]`
    pub w2: T,
    /// `[H]`
    pub b2: T,
}

/// The length that FIRE's parameter `l` multiplies.
pub const FIRE_LENGTH: f64 = 512.0;

/// Number that FIRE adds to its denominators.
pub const FIRE_EPSILON: f64 = 1e-6;

impl<T> Fire<T> {
    /// Number of parameters.
    pub const COUNT: usize = 6;

    /// The parameters in order.
    pub fn into_array(self) -> [T; 6] {
        [self.c, self.l, self.w1, self.b1, self.w2, self.b2]
    }

    /// Parameters from this order.
    pub fn from_array([c, l, w1, b1, w2, b2]: [T; 6]) -> Fire<T> {
        Fire { c, l, w1, b1, w2, b2 }
    }
}

/// A second hidden layer of FIRE's function, between the first one and `w2`: `f(u) = w2 relu(w relu(w1 u + b1) + b) +
/// b2`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FireMiddle<T> {
    /// `[W, W]`
    pub w: T,
    /// `[W]`
    pub b: T,
}

impl Fire<Tensor> {
    /// The biases `[H, Tq, Tk]` of queries at positions `[Tq, 1]` for keys at distances `[Tq, Tk]`, with one hidden
    /// layer or two; a batch may be in front of all three.
    pub(super) fn biases(&self, middle: Option<FireMiddle<Tensor>>, positions: Tensor, distances: Tensor) -> Tensor {
        let psi = |x: Tensor| ((x * self.c).abs() + 1.0).log();
        let length = self.l.abs() * FIRE_LENGTH;
        let u = psi(distances) / (psi(positions.maximum(length)) + FIRE_EPSILON);
        let first = (u.unsqueeze(-1) * self.w1 + self.b1).relu();
        let hidden = middle.map_or(first, |middle| (first.matmul_t(middle.w) + middle.b).relu());
        let biases = hidden.matmul_t(self.w2) + self.b2;
        match distances.shape().len() {
            2 => biases.permute(&[2, 0, 1]),
            _ => biases.permute(&[0, 3, 1, 2]),
        }
    }
}

/// FIRE's function of one query and key, and its derivatives.
pub(super) struct FireRow<'a> {
    parameters: Fire<&'a Array>,
    position: f64,
    /// `psi(max(L, p)) + FIRE_EPSILON`
    denominator: f64,
}

impl<'a> FireRow<'a> {
    pub(super) fn new(parameters: Fire<&'a Array>, position: f64) -> FireRow<'a> {
        let reach = position.max(parameters.l.item().abs() * FIRE_LENGTH);
        let denominator = (parameters.c.item() * reach).abs().ln_1p() + FIRE_EPSILON;
        FireRow {
            parameters,
            position,
            denominator,
        }
    }

    fn argument(&self, distance: f64) -> f64 {
        (self.parameters.c.item() * distance).abs().ln_1p() / self.denominator
    }

    fn width(&self) -> usize {
        self.parameters.w1.data.len()
    }

    /// The bias of a head at a distance.
    pub(super) fn bias(&self, head: usize, distance: f64) -> f64 {
        let Fire { w1, b1, w2, b2, .. } = self.parameters;
        let u = self.argument(distance);
        let hidden = |k: usize| (w1.data[k] * u + b1.data[k]).max(0.0);
        b2.data[head] + (0..self.width()).map(|k| w2.at(&[head, k]) * hidden(k)).sum::<f64>()
    }

    /// Adds the derivatives of `d` times the bias to `into`, in the order of the parameters. At `p = L` half of the
    /// derivative reaches `l`.
    pub(super) fn add_derivatives(&self, head: usize, distance: f64, d: f64, into: &mut [Array]) {
        let Fire { c, l, w1, b1, w2, .. } = self.parameters;
        let (u, width) = (self.argument(distance), self.width());
        let mut slope = 0.0;
        for k in 0..width {
            let before = w1.data[k] * u + b1.data[k];
            if before <= 0.0 {
                continue;
            }
            let through = d * w2.at(&[head, k]);
            into[2].data[k] += through * u;
            into[3].data[k] += through;
            into[4].data[head * width + k] += d * before;
            slope += through * w1.data[k];
        }
        into[5].data[head] += d;
        let (c, l) = (c.item(), l.item());
        let length = l.abs() * FIRE_LENGTH;
        let reach = self.position.max(length);
        let sign = if c == 0.0 { 0.0 } else { c.signum() };
        let of_c = |x: f64| sign * x.abs() / ((c * x).abs() + 1.0);
        into[0].data[0] += slope * (of_c(distance) - u * of_c(reach)) / self.denominator;
        let share = match self.position.total_cmp(&length) {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        };
        let of_reach = c.abs() * reach.signum() / ((c * reach).abs() + 1.0);
        into[1].data[0] -= slope * u * of_reach / self.denominator * share * FIRE_LENGTH * l.signum();
    }
}
