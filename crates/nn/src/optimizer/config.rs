//! The optimizers and their settings.

use lessen_graph::ops::block_codes::blocks;
use lessen_graph::{DType, Type, numel};

/// The least number of elements of a parameter whose moments [`OptimizerConfig::AdamW8bit`] keeps in 8 bits.
const LEAST_OF_8_BITS: usize = 4096;

/// The settings of Adam and AdamW.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamSettings {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
}

impl AdamSettings {
    /// PyTorch's defaults: betas 0.9 and 0.999, eps 1e-8.
    pub fn new(weight_decay: f64) -> AdamSettings {
        AdamSettings {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay,
        }
    }
}

/// An optimizer and its settings. Weight decay applies to parameters of rank 2 or more, so not to biases and norms.
/// [`OptimizerConfig::states`] gives the states of a parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OptimizerConfig {
    /// AdamW (Loshchilov and Hutter 2019), with the states `m` and `v`. Weight decay is the share that is subtracted
    /// from the parameter, per unit of learning rate.
    AdamW(AdamSettings),
    /// AdamW whose moments are 8-bit codes, each block of 256 with a scale (Dettmers et al. 2022), with the states
    /// `m_codes`, `m_scales`, `v_codes` and `v_scales`; a parameter of less than 4096 elements has the states of AdamW.
    AdamW8bit(AdamSettings),
    /// Adam (Kingma and Ba 2015), with the states `m` and `v`. Weight decay is the multiple of the parameter that is
    /// added to its gradient (L2 penalty).
    Adam(AdamSettings),
    /// Adagrad (Duchi, Hazan and Singer 2011), with the state `sum`.
    Adagrad {
        /// Growth of the divisor of the learning rate, per step.
        lr_decay: f64,
        /// Added to the sum of squares under its root.
        initial_accumulator: f64,
        /// Added to the denominator.
        eps: f64,
        /// Multiple of the parameter that is added to its gradient (L2 penalty).
        weight_decay: f64,
    },
    /// Adadelta (Zeiler 2012), with the states `mean_gradient` and `mean_step`, both of squares.
    Adadelta {
        /// Decay of both means.
        rho: f64,
        /// Added to both means under their roots.
        eps: f64,
        /// Multiple of the parameter that is added to its gradient (L2 penalty).
        weight_decay: f64,
    },
    /// RMSprop (Tieleman and Hinton 2012), not centred, with the state `mean_square`, and `velocity` unless the
    /// momentum is 0.
    RmsProp {
        /// Decay of the mean square.
        alpha: f64,
        /// Added to the denominator.
        eps: f64,
        /// Decay of the velocity.
        momentum: f64,
        /// Multiple of the parameter that is added to its gradient (L2 penalty).
        weight_decay: f64,
    },
    /// Lion (Chen et al. 2023), with the state `mean`.
    Lion {
        /// Share of the mean in the value whose sign is the step.
        beta1: f64,
        /// Decay of the mean.
        beta2: f64,
        /// Decay of the parameter per unit of learning rate.
        weight_decay: f64,
    },
    /// Adafactor (Shazeer and Stern 2018) as `torch.optim.Adafactor`: without a first moment, with steps relative to
    /// the parameter. Its states are `row` and `column`, means of squares along the last axis and the one before it,
    /// and of parameters of rank below 2 `variance`.
    Adafactor {
        /// Step `t` has the share `t^beta2_decay` in the means.
        beta2_decay: f64,
        /// Least root of a mean square, which is a divisor.
        eps: f64,
        /// Least root mean square of a parameter that its step is multiplied by.
        least_scale: f64,
        /// Greatest root mean square of a step before it is multiplied, which is scaled down to it.
        clip_threshold: f64,
        /// Decay of the parameter per unit of learning rate.
        weight_decay: f64,
    },
    /// Stochastic gradient descent, with the state `momentum` unless that is 0.
    Sgd {
        /// Decay of the momentum buffer.
        momentum: f64,
        /// Whether Nesterov's look-ahead is used.
        nesterov: bool,
        /// Multiple of the parameter that is added to its gradient (L2 penalty).
        weight_decay: f64,
    },
}

impl OptimizerConfig {
    /// AdamW with [`AdamSettings::new`].
    pub fn adamw(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::AdamW(AdamSettings::new(weight_decay))
    }

    /// AdamW with 8-bit moments and [`AdamSettings::new`].
    pub fn adamw_8bit(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::AdamW8bit(AdamSettings::new(weight_decay))
    }

    /// Adam with [`AdamSettings::new`].
    pub fn adam(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::Adam(AdamSettings::new(weight_decay))
    }

    /// Adagrad with PyTorch's defaults: a learning rate that does not decay, a sum from 0, eps 1e-10.
    pub fn adagrad(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::Adagrad {
            lr_decay: 0.0,
            initial_accumulator: 0.0,
            eps: 1e-10,
            weight_decay,
        }
    }

    /// Adadelta with PyTorch's defaults: rho 0.9, eps 1e-6. PyTorch's learning rate is 1.
    pub fn adadelta(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::Adadelta {
            rho: 0.9,
            eps: 1e-6,
            weight_decay,
        }
    }

    /// RMSprop with PyTorch's defaults: alpha 0.99, eps 1e-8, no momentum. PyTorch's learning rate is 0.01.
    pub fn rmsprop(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::RmsProp {
            alpha: 0.99,
            eps: 1e-8,
            momentum: 0.0,
            weight_decay,
        }
    }

    /// Lion with the paper's betas 0.9 and 0.99. Its learning rate is 3 to 10 times smaller than AdamW's.
    pub fn lion(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::Lion {
            beta1: 0.9,
            beta2: 0.99,
            weight_decay,
        }
    }

    /// Adafactor with PyTorch's defaults: beta2_decay -0.8, eps of `f32`, least scale 1e-3, threshold 1. PyTorch's
    /// learning rate is 0.01.
    pub fn adafactor(weight_decay: f64) -> OptimizerConfig {
        OptimizerConfig::Adafactor {
            beta2_decay: -0.8,
            eps: f32::EPSILON.into(),
            least_scale: 1e-3,
            clip_threshold: 1.0,
            weight_decay,
        }
    }

    /// Names and types of the states of a parameter of this shape. Optimizers whose states have a name in common can go
    /// on with each other's.
    pub fn states(&self, shape: &[usize]) -> Vec<(&'static str, Type)> {
        let alike = |names: &[&'static str]| names.iter().map(|&name| (name, Type::f32(shape))).collect();
        match *self {
            OptimizerConfig::AdamW8bit(_) if numel(shape) >= LEAST_OF_8_BITS => {
                let codes = Type::new(DType::U8, shape);
                let scales = Type::f32(&[blocks(numel(shape))]);
                vec![
                    ("m_codes", codes.clone()),
                    ("m_scales", scales.clone()),
                    ("v_codes", codes),
                    ("v_scales", scales),
                ]
            }
            OptimizerConfig::AdamW(_) | OptimizerConfig::AdamW8bit(_) | OptimizerConfig::Adam(_) => alike(&["m", "v"]),
            OptimizerConfig::Adagrad { .. } => alike(&["sum"]),
            OptimizerConfig::Adadelta { .. } => alike(&["mean_gradient", "mean_step"]),
            OptimizerConfig::RmsProp { momentum: 0.0, .. } => alike(&["mean_square"]),
            OptimizerConfig::RmsProp { .. } => alike(&["mean_square", "velocity"]),
            OptimizerConfig::Lion { .. } => alike(&["mean"]),
            OptimizerConfig::Adafactor { .. } => match shape {
                [lead @ .., rows, columns] => vec![
                    ("row", Type::f32(&[lead, &[*rows, 1]].concat())),
                    ("column", Type::f32(&[lead, &[1, *columns]].concat())),
                ],
                _ => alike(&["variance"]),
            },
            OptimizerConfig::Sgd { momentum: 0.0, .. } => Vec::new(),
            OptimizerConfig::Sgd { .. } => alike(&["momentum"]),
        }
    }

    /// Whether an update depends on the number of steps since a parameter joined.
    pub fn counts_steps(&self) -> bool {
        match self {
            OptimizerConfig::AdamW(_)
            | OptimizerConfig::AdamW8bit(_)
            | OptimizerConfig::Adam(_)
            | OptimizerConfig::Adagrad { .. }
            | OptimizerConfig::Adafactor { .. } => true,
            OptimizerConfig::Adadelta { .. }
            | OptimizerConfig::RmsProp { .. }
            | OptimizerConfig::Lion { .. }
            | OptimizerConfig::Sgd { .. } => false,
        }
    }

    /// Returns the optimizer with this weight decay.
    pub fn with_weight_decay(mut self, decay: f64) -> OptimizerConfig {
        match &mut self {
            OptimizerConfig::AdamW(AdamSettings { weight_decay, .. })
            | OptimizerConfig::AdamW8bit(AdamSettings { weight_decay, .. })
            | OptimizerConfig::Adam(AdamSettings { weight_decay, .. })
            | OptimizerConfig::Adagrad { weight_decay, .. }
            | OptimizerConfig::Adadelta { weight_decay, .. }
            | OptimizerConfig::RmsProp { weight_decay, .. }
            | OptimizerConfig::Lion { weight_decay, .. }
            | OptimizerConfig::Adafactor { weight_decay, .. }
            | OptimizerConfig::Sgd { weight_decay, .. } => *weight_decay = decay,
        }
        self
    }
}
