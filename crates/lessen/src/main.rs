//! The `lessen` command.
#![forbid(unsafe_code)]

use lessen_cpu::CountingAllocator;
use std::process::ExitCode;

/// Counts what is allocated, for the reports of runs.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    ALLOCATOR.hold_little();
    lessen::command::main_with(std::env::args_os().collect()).into()
}
