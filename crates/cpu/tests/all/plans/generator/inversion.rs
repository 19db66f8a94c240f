//! Derivatives from outputs, in random programs.

use lessen_graph::ops::*;
use lessen_graph::{Array, DType, Type};

use super::Writer;

impl<'g> Writer<'g> {
    /// Outputs that are data, since there is no derivative for them, and away from the minimum, where it is as a root.
    pub(super) fn activation_from_output(&mut self) {
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
}
