//! Properties on which times depend besides operations: the program, the machine and the number of threads.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::UNIX_EPOCH;

use crate::simd::CpuSet;

/// The version of the file of times.
const FORMAT: u32 = 2;

/// A text that changes with the program, the machine, the instructions that kernels use and the number of threads.
pub(super) fn key(threads: usize) -> String {
    let (cpu, set) = (cpu(), CpuSet::current());
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "format {FORMAT}, lessen {version} ({:016x}), {cpu}, {set}, {threads} threads",
        build()
    )
}

/// A number that changes with the program: size and time of its file; 0 where there is none to see.
fn build() -> u64 {
    let metadata = std::env::current_exe().and_then(fs::metadata);
    let modified = |metadata: &fs::Metadata| metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok();
    let mut hasher = DefaultHasher::new();
    metadata
        .ok()
        .map(|metadata| (metadata.len(), modified(&metadata)))
        .hash(&mut hasher);
    hasher.finish()
}

/// The processor's name, as far as the system tells it.
fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or(std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string())
}
