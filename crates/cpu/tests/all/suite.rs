//! The suite of all devices, on the CPU.

use lessen_cpu::CpuBackend;
use lessen_device::device_suite;
use lessen_device::suite::{VIEWS, assert_passes};

use crate::kernels::support::at_all_levels;

device_suite!(|workers| Box::new(CpuBackend::new(workers).unwrap()));

#[test]
fn every_standard_operation_reads_views_as_the_reference_does_at_all_levels() {
    // One thread is the caller's, which has the level.
    at_all_levels(|_| assert_passes(VIEWS, &|_| Box::new(CpuBackend::new(1).unwrap())));
}
