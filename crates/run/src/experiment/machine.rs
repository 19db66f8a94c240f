//! The machine that an experiment ran on, in words.

use std::fs;

/// CPU, cores, threads, instruction set and system, such as `AMD EPYC, 2 cores, 2 threads, AVX-512, Linux on x86_64`.
pub(super) fn describe(threads: usize) -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (system, kind) = (std::env::consts::OS, std::env::consts::ARCH);
    let model = model().unwrap_or_else(|| "an unnamed CPU".to_string());
    format!(
        "{model}, {cores} logical cores, {threads} used, {}, {system} on {kind}",
        instructions()
    )
}

/// The name that the system gives the CPU.
fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// The widest instructions for vectors of `f32`.
fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return "AVX2 with FMA";
        }
    }
    "the base instructions"
}
