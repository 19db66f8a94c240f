//! What the tests share: a device.

use lessen_cpu::CpuBackend;
use lessen_device::Backend;
use lessen_nn::OptimizerConfig;
use lessen_train::TrainerOptions;

/// A CPU with this number of threads.
pub fn device(threads: usize) -> Box<dyn Backend> {
    Box::new(CpuBackend::new(threads).unwrap())
}

/// Plain gradient descent with plans of this allowed error and budget, so that a step says what the gradient is.
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
