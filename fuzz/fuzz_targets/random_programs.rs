//! A random program: every pass keeps what it computes, every plan keeps its promises, and the CPU computes what the
//! reference evaluator does.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/cpu/tests/all/plans/mod.rs"]
#[allow(dead_code, unused_imports)]
mod plans;
#[path = "../../crates/cpu/tests/all/random.rs"]
#[allow(dead_code)]
mod random;

fuzz_target!(|seed: u64| {
    plans::programs::check_seed(seed).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
});
