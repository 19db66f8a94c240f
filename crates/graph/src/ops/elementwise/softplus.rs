//! Softplus, a smooth approximation of ReLU.

use crate::tensor::Tensor;

impl Tensor {
    /// `ln(1 + e^x)`, element by element, for any finite `x`: `x` itself where `x` is large, and not 0 where `e^x` is
    /// small. Its derivative of any order is that of the logistic function.
    #[track_caller]
    pub fn softplus(self) -> Tensor {
        // ln(1 + e^x) = m + ln(e^-m + e^(x - m)) for every m, so that m has no derivative.
        let m = self.maximum(self.scalar_like(0.0)).stop_gradient();
        let (a, b) = ((-m).exp(), (self - m).exp());
        let sum = a + b;
        // One of the two is 1. The rounding of the sum would lose small ones of the other.
        let lost = a.minimum(b) - (sum - 1.0);
        m + (sum.log() + (lost / sum).stop_gradient())
    }
}
