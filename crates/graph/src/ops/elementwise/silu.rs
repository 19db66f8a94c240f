//! SiLU, also called swish (Elfwing, Uchibe, Doya 2017).

use crate::elementwise::Elementwise;
use crate::op::Vjp;
use crate::ops::elementwise::unary::UnaryKind;
use crate::trace::Tensor;

/// `y = x / (1 + e^-x)`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Silu;

named!("silu": Silu {});

impl Elementwise for Silu {
    const INPUTS: usize = 1;

    fn element(&self, x: &[f64]) -> f64 {
        x[0] * UnaryKind::Sigmoid.eval(x[0])
    }

    fn flops(&self) -> f64 {
        20.0
    }

    /// `dx = dy s (1 + x (1 - s))` with `s = 1 / (1 + e^-x)`.
    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>, dy: Tensor<'g>) -> Vec<Option<Tensor<'g>>> {
        let x = cx.inputs[0];
        let s = x.sigmoid();
        vec![Some(dy * s * (x * (1.0 - s) + 1.0))]
    }

    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Tensor<'g>> {
        Some(inputs[0] * inputs[0].sigmoid())
    }
}

impl<'g> Tensor<'g> {
    /// `x / (1 + e^-x)`
    #[track_caller]
    pub fn silu(self) -> Tensor<'g> {
        self.trace().apply1(Silu, &[self])
    }
}
