//! What the tests share: a device, and a small model.

use lessen_cpu::CpuBackend;
use lessen_device::Backend;
use lessen_graph::{DType, Tensor};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{Trainer, TrainerOptions};

/// A CPU with this number of threads.
pub fn device(threads: usize) -> Box<dyn Backend> {
    Box::new(CpuBackend::new(threads).unwrap())
}

/// Plain gradient descent with plans of this allowed error and budget, so that a step shows the gradient.
pub fn descent(lr: f64, allowed_error: f64, budget: Option<usize>) -> TrainerOptions {
    TrainerOptions {
        optimizer: OptimizerConfig::Sgd {
            momentum: 0.0,
            nesterov: false,
            weight_decay: 0.0,
        },
        allowed_error,
        budget,
        ..TrainerOptions::new(lr)
    }
}

/// A loss over four numbers, `x`, with the parameters `w` and `b`.
pub fn line(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[4]);
    let y = x * cx.param("w", &[4], Init::Constant(0.5)) + cx.param("b", &[1], Init::Constant(0.25));
    (y * y).mean()
}

/// A trainer of [`line`] with steps of `accumulate` batches.
pub fn train_line(device: Box<dyn Backend>, accumulate: usize) -> Trainer {
    let options = TrainerOptions {
        accumulate,
        ..TrainerOptions::new(0.1)
    };
    Trainer::new(device, options, line).unwrap()
}
