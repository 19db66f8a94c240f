//! The machine that an experiment ran on, in words.

use std::fs;

use lessen_device::Backend;

/// CPU, cores, threads, instructions and system, such as `AMD EPYC, 2 logical cores, 2 used, avx512+vnni, linux on
/// x86_64`.
pub(super) fn describe(backend: &dyn Backend) -> String {
    let (cores, threads) = (
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        backend.target().limits().workers,
    );
    let instructions = match backend.instructions() {
        none if none.is_empty() => none,
        some => format!(" {some},"),
    };
    let (system, kind) = (std::env::consts::OS, std::env::consts::ARCH);
    let model = model().unwrap_or_else(|| "an unnamed CPU".to_string());
    format!("{model}, {cores} logical cores, {threads} used,{instructions} {system} on {kind}")
}

/// The name that the system gives the CPU.
fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
