//! The gradients of real images that are matched, chunk by chunk of a class (line 7 of algorithm 1).
//!
//! A chunk is small, so that its activations lie in caches and take little memory. Its size does not depend on the
//! budget: no budget changes a bit.

use crate::matching::{CLASS, Matching, class_index, labels_of, of_all, of_classes, weights_of};
use crate::network::{Network, matched};
use lessen_graph::{DType, Phase, Tensor};
use lessen_nn::{Cx, ParamSpec};

/// Most real images of a chunk.
pub(crate) const CHUNK: usize = 16;

/// Data input with the real images of a chunk, `[chunk, H, W, C]`, of one class.
pub(crate) const REAL: &str = "condensed.real";

/// Data input with the share of the chunk in the real images of its class, `f32[]`.
pub(crate) const SHARE: &str = "condensed.share";

/// Data input that is 0 for the first chunk of a class and 1 for others, `f32[]`.
pub(crate) const KEEP: &str = "condensed.keep";

/// Data input that is 0 for the first chunk of the first class and 1 for others, `f32[]`.
pub(crate) const KEEP_MEAN: &str = "condensed.keep_mean";

impl Matching {
    /// Adds the gradients of a chunk of real images to those of its class, and to the mean over all classes, as far as
    /// they are matched.
    pub fn add_real(&self, cx: Cx, network: &dyn Network, params: &[ParamSpec], chunk: usize) -> Vec<(String, Tensor)> {
        let trace = cx.trace();
        let real = cx.input(REAL, DType::F32, &self.set.images(chunk));
        let class = cx.input(CLASS, DType::I32, &[1]);
        let weights = weights_of(cx, params);
        let loss = network
            .logits(cx, self.changed(cx, real))
            .cross_entropy(labels_of(class, chunk));
        let gradients = loss.grad(&weights);
        trace.in_phase(Phase::Update, || {
            let number = |name: &str| cx.input(name, DType::F32, &[]);
            let share = number(SHARE);
            for (param, gradient) in matched(params).zip(gradients) {
                let gradient = gradient * share;
                if self.intra.is_some() {
                    let row = gradient.reshape(&[1, param.shape.iter().product()]);
                    let table = [self.set.classes, row.dim(1)];
                    let state = trace.state(&of_classes(&param.name), DType::F32, &table);
                    let sum = state.gather(class) * number(KEEP) + row;
                    trace.assign(state, state.update_slice(sum, class_index(class), 0));
                }
                if self.inter.is_some() {
                    let state = trace.state(&of_all(&param.name), DType::F32, &param.shape);
                    let part = gradient * (1.0 / self.set.classes as f64);
                    trace.assign(state, state * number(KEEP_MEAN) + part);
                }
            }
        });
        vec![("loss".to_string(), loss)]
    }
}
