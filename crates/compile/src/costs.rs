//! Costs of operations on a device, as far as plans depend on them.

use lessen_graph::{Layout, Op, Type};

/// Costs of operations on a device. They change no bit of any result, only which of several plans is taken.
///
/// The default is the analytic model: rates of a present server core, which do not depend on the machine.
pub trait CostModel: Send + Sync {
    /// Rates of the device, all workers together.
    fn rates(&self) -> Rates {
        Rates::default()
    }

    /// Measured time of an operation; none where no time was measured and [`CostModel::rates`] estimate it.
    fn measured(&self, _op: &dyn Op, _operands: &Operands<'_>) -> Option<Measured> {
        None
    }

    /// Measured rate and step overhead of the device's memory; none where they were not measured.
    fn measured_memory(&self) -> Option<MeasuredMemory> {
        None
    }
}

/// Rates at which a device works, all workers together. Plans compare times by the rates, so that only their ratios
/// matter; the default is the rates of a present server core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Floating-point operations of products per second.
    pub products: f64,
    /// Floating-point operations per second of products that read `bf16`.
    pub narrow_products: f64,
    /// All other operations per second.
    pub others: f64,
    /// Bytes per second that are read from memory or written there.
    pub memory: f64,
    /// Seconds of a plan step besides its work.
    pub step_overhead_seconds: f64,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates {
            products: 1e11,
            narrow_products: 1.8e11,
            others: 3e10,
            memory: 1.5e10,
            step_overhead_seconds: 4e-6,
        }
    }
}

impl Rates {
    /// The rates of `workers` workers together, where `self` is the rates of each.
    pub fn of_workers(self, workers: usize) -> Rates {
        let workers = workers as f64;
        Rates {
            products: self.products * workers,
            narrow_products: self.narrow_products * workers,
            others: self.others * workers,
            memory: self.memory * workers,
            step_overhead_seconds: self.step_overhead_seconds,
        }
    }
}

/// The analytic cost model with given rates.
impl CostModel for Rates {
    fn rates(&self) -> Rates {
        *self
    }
}

/// Inputs and outputs of an operation: their types, and the layouts of the inputs.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// Types of its inputs.
    pub inputs: &'a [Type],
    /// Layouts of its inputs in their base arrays.
    pub layouts: Vec<&'a Layout>,
    /// Types of its outputs.
    pub outputs: &'a [Type],
}

/// Measured time of an operation, all workers together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Measured {
    /// Seconds in a group of rows, where its operands are in a cache.
    InCache(f64),
    /// Seconds by itself, with reads from memory and writes to memory.
    Whole(f64),
}

impl Measured {
    /// The seconds, with or without transfers between memory and caches.
    pub fn seconds(self) -> f64 {
        match self {
            Measured::InCache(seconds) | Measured::Whole(seconds) => seconds,
        }
    }
}

/// Measured rate and step overhead of a device's memory, all workers together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredMemory {
    /// Bytes per second between memory and workers. An array that is written without having been read counts twice,
    /// since a cache reads it first.
    pub rate: f64,
    /// Seconds of a plan step besides its work.
    pub step_overhead_seconds: f64,
}
