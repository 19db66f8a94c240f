//! Adafactor (Shazeer and Stern 2018), as `torch.optim.Adafactor`: a composition of operations.

use lessen_graph::Tensor;

/// The settings of [`OptimizerConfig::Adafactor`](super::OptimizerConfig::Adafactor).
#[derive(Clone, Copy)]
pub(super) struct Adafactor {
    pub beta2_decay: f64,
    pub eps: f64,
    pub least_scale: f64,
    pub clip_threshold: f64,
    pub weight_decay: f64,
}

impl Adafactor {
    /// The new parameter and states, of the inputs parameter `p`, gradient `g`, states, `lr` and `t`. With `w =
    /// t^beta2_decay` and the means along the last axis and the one before it, the states become `r' = r + w
    /// (mean(g^2) - r)` and likewise `c'`, and the variance is `V = r' c' / max(mean(r'), eps)`; of a vector it is
    /// itself the state. The step is `u = g / sqrt(max(V, eps^2))`, `p' = p (1 - lr weight_decay) - max(least_scale,
    /// rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / clip_threshold)`.
    pub fn updated(self, inputs: &[Tensor]) -> Vec<Tensor> {
        let [p, g, states @ .., lr, t] = inputs else {
            panic!("Adafactor takes parameter, gradient, states, learning rate and step number");
        };
        let (p, g) = (*p, *g);
        let squares = g * g;
        let share = t.pow(t.scalar_like(self.beta2_decay));
        let moved = |mean: Tensor, towards: Tensor| mean + (towards - mean) * share;
        let (variance, states) = match *states {
            [row, column] => {
                let row = moved(row, squares.mean_last());
                let column = moved(column, mean_before_last(squares));
                let mean = mean_before_last(row);
                let variance = row * column / mean.maximum(mean.scalar_like(self.eps));
                (variance, vec![row, column])
            }
            _ => {
                let variance = moved(states[0], squares);
                (variance, vec![variance])
            }
        };
        let step = g * variance.maximum(variance.scalar_like(self.eps * self.eps)).rsqrt();
        let excess = root_mean_square(step) / self.clip_threshold;
        let scale = root_mean_square(p);
        let rate = scale.maximum(scale.scalar_like(self.least_scale)) * lr.minimum(t.rsqrt());
        let decayed = match self.weight_decay {
            0.0 => p,
            decay => p * (1.0 - *lr * decay),
        };
        let new = decayed - step * (rate / excess.maximum(excess.scalar_like(1.0)));
        [vec![new], states].concat()
    }
}

/// The mean along the axis before the last one, which stays with extent 1.
fn mean_before_last(x: Tensor) -> Tensor {
    x.mean_axes(&[x.axis(-2)]).unsqueeze(-2)
}

/// The root of the mean square of all elements.
fn root_mean_square(x: Tensor) -> Tensor {
    (x * x).mean().sqrt()
}
