//! Gradient descent with momentum in functions over parameters, for networks that are trained without a trainer.

use crate::session::Session;
use lessen_base::Result;
use lessen_device::HostArray;
use lessen_graph::ops::Sgd;
use lessen_graph::{DType, Phase, Tensor, numel};
use lessen_nn::{Cx, ParamSpec};

/// Updates by SGD with momentum and weight decay of all parameters, as `torch.optim.SGD`.
#[derive(Clone, Copy, Debug)]
pub struct Descent {
    /// The name of the data input with the learning rate, `f32[]`.
    pub rate: &'static str,
    /// The name of the state with the momentum of a parameter.
    pub momentum_of: fn(&str) -> String,
    /// Momentum.
    pub momentum: f64,
    /// Weight decay, which is added to gradients.
    pub weight_decay: f64,
    /// Greatest magnitude of an element of a gradient, if there is one.
    pub clip: Option<f64>,
}

impl Descent {
    /// Adds an update of all parameters so that a loss falls.
    pub fn add(&self, cx: Cx, params: &[ParamSpec], loss: Tensor) {
        let gradients = gradients(cx, params, loss);
        let trace = cx.trace();
        trace.in_phase(Phase::Update, || {
            let rate = cx.input(self.rate, DType::F32, &[]);
            let rule = Sgd {
                momentum: self.momentum,
                nesterov: false,
                weight_decay: self.weight_decay,
            };
            for (param, tensor, gradient) in gradients {
                let momentum = trace.state(&(self.momentum_of)(&param.name), DType::F32, &param.shape);
                let gradient = self.clip.map_or(gradient, |clip| gradient.clamp(-clip, clip));
                let new = trace.apply(rule, &[tensor, gradient, momentum, rate]);
                trace.assign(tensor, new[0]);
                trace.assign(momentum, new[1]);
            }
        });
    }
}

/// The parameters without buffers, as tensors and with the derivatives of a loss.
pub fn gradients(cx: Cx, params: &[ParamSpec], loss: Tensor) -> Vec<(&ParamSpec, Tensor, Tensor)> {
    let trained: Vec<&ParamSpec> = params.iter().filter(|param| !param.is_buffer).collect();
    let declared = |param: &&ParamSpec| cx.param(&param.name, &param.shape, param.init);
    let tensors: Vec<Tensor> = trained.iter().map(declared).collect();
    let gradients = loss.grad(&tensors);
    let pairs = tensors.into_iter().zip(gradients);
    trained
        .into_iter()
        .zip(pairs)
        .map(|(param, (tensor, gradient))| (param, tensor, gradient))
        .collect()
}

/// Sets the momentum of all parameters to 0.
///
/// # Errors
/// A device that fails; a session without these states.
pub fn forget_momentum(session: &mut Session, params: &[ParamSpec], momentum_of: fn(&str) -> String) -> Result<()> {
    for param in params.iter().filter(|param| !param.is_buffer) {
        let zeros = HostArray::F32(vec![0.0; numel(&param.shape)]);
        session.set_state(&momentum_of(&param.name), &zeros)?;
    }
    Ok(())
}
