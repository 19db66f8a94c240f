//! The suite of all devices, on the CPU.

use lessen_cpu::CpuBackend;
use lessen_cpu::simd::CpuSet;
use lessen_device::device_suite;
use lessen_device::suite::{VIEWS, assert_passes};

device_suite!(|workers| Box::new(CpuBackend::new(workers).unwrap()));

/// Checks the views with every second set of instructions that the machine has, from this one on.
fn every_second_set_reads_views(first: usize) {
    for set in CpuSet::detect().subsets().skip(first).step_by(2) {
        // One thread is the caller's, which has the set.
        set.on_this_thread(|| assert_passes(VIEWS, &|_| Box::new(CpuBackend::new(1).unwrap())));
    }
}

#[test]
fn every_standard_operation_reads_views_as_the_reference_does_at_even_levels() {
    every_second_set_reads_views(0);
}

#[test]
fn every_standard_operation_reads_views_as_the_reference_does_at_odd_levels() {
    every_second_set_reads_views(1);
}
