//! Derivatives from outputs, in random programs.

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Tensor, Type};

use super::Writer;

impl Writer {
    pub(super) fn by_outputs(&mut self) {
        match self.random.below(4) {
            0 => self.activation_from_output(),
            1 => self.norm_from_output(),
            2 => self.rms_norm_from_output(),
            _ => self.scale_shift_from_output(),
        }
    }

    /// Outputs that are data, since there is no derivative for them, and away from the minimum, where it is as a root.
    fn activation_from_output(&mut self) {
        let (dy, _) = self.value();
        let shape = dy.shape();
        let y = Array::from_fn(Type::f32(&shape), |_| {
            let at = self.random.unit();
            if at < 0.0 { 0.12 * at } else { 2.0 * at }
        });
        let side = Array::from_fn(Type::new(DType::Bool, &shape), |_| f64::from(self.random.chance(60)));
        let inputs = [self.data(y), self.data(side), dy];
        let dx = match self.random.below(3) {
            0 => self.trace.apply1(SiluBackwardFromOutput, &inputs),
            kind => self.trace.apply1(GeluBackwardFromOutput { tanh: kind == 1 }, &inputs),
        };
        // The kernel errs by up to 2e-5 beyond rounding, more than programs may; a hundredth of that is not seen.
        self.push(dx * 0.01, false);
    }

    /// A vector of numbers around 1.
    fn scale(&mut self, shape: &[usize]) -> Tensor {
        self.leaf(shape) * 0.25 + 1.0
    }

    /// A norm's output of at least this rank, and a cotangent of it.
    fn output(&mut self, rank: usize) -> [Tensor; 2] {
        let (y, _) = self.ranked(rank);
        let dy = self.partner(y).0.broadcast_to(&y.shape());
        [y, dy]
    }

    fn norm_from_output(&mut self) {
        let [y, dy] = self.output(1);
        let (shape, c) = (y.shape(), y.dim(-1));
        let (gamma, rstd) = (self.scale(&[c]), self.scale(&shape[..shape.len() - 1]));
        let inputs = [y, gamma, self.leaf(&[c]), rstd, dy];
        for value in self.trace.apply(LayerNormBackwardFromOutput, &inputs) {
            self.push(value, false);
        }
    }

    fn rms_norm_from_output(&mut self) {
        let [y, dy] = self.output(1);
        let (shape, c) = (y.shape(), y.dim(-1));
        let inputs = [y, self.scale(&[c]), self.scale(&shape[..shape.len() - 1]), dy];
        for value in self.trace.apply(RmsNormBackwardFromOutput, &inputs) {
            self.push(value, false);
        }
    }

    fn scale_shift_from_output(&mut self) {
        let [y, dy] = self.output(2);
        let columns = [y.dim(-1)];
        let (scale, shift) = (self.scale(&columns), self.leaf(&columns));
        let (by, plus) = (self.leaf(&columns), self.leaf(&columns));
        let again = self.trace.apply1(ScaleShiftFromOutput, &[y, scale, shift, by, plus]);
        self.push(again, false);
        for sum in self.trace.apply(ScaleShiftSumsFromOutput, &[y, scale, shift, dy]) {
            self.push(sum, false);
        }
    }
}
