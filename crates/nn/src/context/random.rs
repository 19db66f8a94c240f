//! Random numbers of a model function, other ones at every step.

use lessen_graph::Tensor;

use super::Cx;

/// Numbers follow from [`Cx::key`] and the place of the call: a trainer gives another key to every step, and the same
/// to steps that are repeated. A session gives another key to every run of a function, which follows from its seed,
/// unless the caller gives one, `u32[2]`, as the input [`KEY`](crate::names::KEY).
impl Cx {
    /// Random numbers of this shape, normal with mean 0 and deviation 1; see [`Tensor::normal`].
    ///
    /// # Panics
    /// If the size of the shape cannot be counted.
    #[track_caller]
    pub fn normal(self, shape: &[usize]) -> Tensor {
        self.key().normal(shape)
    }

    /// Random numbers of this shape, uniform in `[0, 1)`; see [`Tensor::uniform`].
    ///
    /// # Panics
    /// If the size of the shape cannot be counted.
    #[track_caller]
    pub fn uniform(self, shape: &[usize]) -> Tensor {
        self.key().uniform(shape)
    }

    /// Random truth values of this shape, `bool`, each true with probability `p`; see [`Tensor::bernoulli`].
    ///
    /// # Panics
    /// If `p` is not in `[0, 1]`, or the size of the shape cannot be counted.
    #[track_caller]
    pub fn bernoulli(self, shape: &[usize], p: f64) -> Tensor {
        self.key().bernoulli(shape, p)
    }
}
