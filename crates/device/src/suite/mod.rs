//! The suite of tests that every device passes. A test of a new device runs it with one line:
//!
//! ```
//! use lessen_device::{ReferenceBackend, device_suite};
//!
//! device_suite!(|_workers| Box::new(ReferenceBackend::default()));
//! # fn main() {}
//! ```
//!
//! Each check takes a function that makes a fresh device with about a given number of workers, and returns a sentence
//! where the device breaks its promises.

mod budgets;
mod determinism;
mod kernels;
mod models;
mod operation;
mod plan_checker;
pub mod programs;
mod random;
mod random_programs;
mod row_samples;
mod runner;
mod safety;
mod sample;
mod samples;
mod view_samples;
mod views;

pub use operation::check_operation;
pub use plan_checker::check as check_plan;
pub use random::Random;
pub use sample::Sample;
pub use samples::samples;

use crate::backend::Backend;

/// Makes a fresh device with about the given number of workers.
pub type NewDevice<'a> = &'a dyn Fn(usize) -> Box<dyn Backend>;

/// Result of a check: nothing, or a sentence that names the mistake of the device.
pub type Found = Result<(), String>;

/// A check of a device.
#[derive(Clone, Copy)]
pub struct Check {
    /// The promise that a device that passes the check keeps.
    pub name: &'static str,
    /// Checks a device.
    pub run: fn(NewDevice<'_>) -> Found,
}

/// Checks of every standard operation against the reference evaluator.
pub const KERNELS: &[Check] = kernels::CHECKS;

/// Checks of every standard operation on views, against the reference evaluator.
pub const VIEWS: &[Check] = views::CHECKS;

/// Checks of random programs, forward and backward, against the reference evaluator.
pub const PROGRAMS: &[Check] = random_programs::CHECKS;

/// Checks of budgets and of announced memory.
pub const BUDGETS: &[Check] = budgets::CHECKS;

/// Checks that wrong inputs, indices and states are refused and change nothing.
pub const SAFETY: &[Check] = safety::CHECKS;

/// Checks of models, states and results.
pub const MODELS: &[Check] = models::CHECKS;

/// Checks that bits depend on inputs and states alone.
pub const DETERMINISM: &[Check] = determinism::CHECKS;

/// All checks.
pub fn all() -> impl Iterator<Item = Check> {
    let groups = [KERNELS, VIEWS, PROGRAMS, BUDGETS, SAFETY, MODELS, DETERMINISM];
    groups.into_iter().flatten().copied()
}

/// Runs checks on a device; one sentence for each that fails.
pub fn failures(checks: impl IntoIterator<Item = Check>, new: NewDevice<'_>) -> Vec<String> {
    let fails = |check: Check| {
        let sentence = (check.run)(new).err()?;
        Some(format!("{}: {sentence}", check.name))
    };
    checks.into_iter().filter_map(fails).collect()
}

/// Runs checks on a device, as a test.
///
/// # Panics
/// If one fails.
pub fn assert_passes(checks: &[Check], new: NewDevice<'_>) {
    let failures = failures(checks.iter().copied(), new);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Tests of a device: one for each group of checks of the suite. The argument makes a fresh device with about the given
/// number of workers.
#[macro_export]
macro_rules! device_suite {
    ($new:expr) => {
        fn new_device(workers: usize) -> Box<dyn $crate::Backend> {
            let new: fn(usize) -> Box<dyn $crate::Backend> = $new;
            new(workers)
        }

        #[test]
        fn every_standard_operation_computes_what_the_reference_does() {
            $crate::suite::assert_passes($crate::suite::KERNELS, &new_device);
        }

        #[test]
        fn every_standard_operation_reads_views_as_the_reference_does() {
            $crate::suite::assert_passes($crate::suite::VIEWS, &new_device);
        }

        #[test]
        fn random_programs_compute_what_the_reference_does() {
            $crate::suite::assert_passes($crate::suite::PROGRAMS, &new_device);
        }

        #[test]
        fn budgets_bind_and_memory_is_what_is_announced() {
            $crate::suite::assert_passes($crate::suite::BUDGETS, &new_device);
        }

        #[test]
        fn what_is_wrong_is_refused_and_changes_nothing() {
            $crate::suite::assert_passes($crate::suite::SAFETY, &new_device);
        }

        #[test]
        fn models_states_and_results_are_kept_apart() {
            $crate::suite::assert_passes($crate::suite::MODELS, &new_device);
        }

        #[test]
        fn bits_depend_on_inputs_and_states_alone() {
            $crate::suite::assert_passes($crate::suite::DETERMINISM, &new_device);
        }
    };
}
