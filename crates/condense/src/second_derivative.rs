//! Whether a network can be differentiated twice, which gradient and trajectory matching do.

use crate::network::{Network, matched};
use lessen_base::{Error, Result};
use lessen_graph::{DType, Tensor, Trace};
use lessen_nn::Cx;

/// Refuses a network with an operation that has no first or second derivative, which the sentence names.
pub(crate) fn check_second_derivative(network: &dyn Network, [height, width, channels]: [usize; 3]) -> Result<()> {
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let images = cx.input("images", DType::F32, &[1, height, width, channels]);
    let label = trace.full(DType::I32, &[1], 0.0);
    let loss = trace.attempt(|| network.logits(cx, images).cross_entropy(label))?;
    let params = cx.params();
    let weights: Vec<Tensor> = matched(&params).map(|param| trace.tensor(param.value)).collect();
    let derived = trace.attempt_described(|| {
        let squares = loss
            .grad(&weights)
            .into_iter()
            .map(|gradient| (gradient * gradient).sum());
        if let Some(total) = squares.reduce(|a, b| a + b) {
            total.grad(&[images]);
        }
    });
    derived.map_err(|error| {
        Error::user(format!(
            "the condensation needs the second derivative of the network, and {}; build the network of other \
             operations, or give this one a derivative that can be differentiated again",
            error.message()
        ))
    })
}
