//! What operations cost on a device, as far as plans go by it.

use lessen_graph::{Layout, Op, Type};

/// What operations cost on a device. It changes no bit of any result, only which of several plans is taken.
///
/// The default is the analytic model: rates of a present server core, which do not depend on the machine.
pub trait CostModel: Send + Sync {
    /// How fast the device works, all workers together.
    fn rates(&self) -> Rates {
        Rates::default()
    }

    /// What was measured of an operation; none where [`CostModel::rates`] have to do.
    fn measured(&self, _op: &dyn Op, _operands: &Operands<'_>) -> Option<Measured> {
        None
    }

    /// What was measured of the device's memory; none where nothing was.
    fn measured_memory(&self) -> Option<MeasuredMemory> {
        None
    }
}

/// How fast a device works, all workers together. Plans compare times by it, so that only the ratios matter; the
/// default is that of a present server core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Floating-point operations of products per second.
    pub products: f64,
    /// Those of products that read `bf16`.
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
    /// The rates of so many workers, each with these.
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

/// What an operation is applied to.
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

/// What was measured of a device's memory, all workers together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredMemory {
    /// Bytes per second between memory and workers. An array that is written without having been read counts twice,
    /// since a cache reads it first.
    pub rate: f64,
    /// Seconds of a plan step besides its work.
    pub step_overhead_seconds: f64,
}
