//! How much memory this process takes and may still take.

use crate::size::show_size;
use lessen_base::{Error, Result};
use std::fs;
use std::path::Path;

/// The bytes that can still be allocated without swapping: what the system has available, and no more than the
/// control group of this process allows. None where the system does not tell.
pub fn available_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = bytes_of_row(&meminfo, "MemAvailable")?;
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];
    let limits = groups.into_iter().filter_map(|group| group_bytes(Path::new(group)));
    Some(limits.fold(available, usize::min))
}

/// Refuses what the memory of this machine cannot hold.
///
/// # Errors
/// A plan that needs more than is available, with both figures.
pub fn check_memory(needed: usize) -> Result<()> {
    match available_bytes() {
        Some(available) if needed > available => Err(Error::user(format!(
            "the plan needs {} of memory but only {} are available; take a smaller batch or model, or set a budget",
            show_size(needed),
            show_size(available)
        ))),
        _ => Ok(()),
    }
}

/// How far the resident memory of this process grows.
#[derive(Clone, Copy, Debug)]
pub struct ResidentGrowth {
    start: usize,
}

impl ResidentGrowth {
    /// Begins to watch. None where the system does not tell.
    pub fn watch() -> Option<ResidentGrowth> {
        // The highest size of the past is forgotten; where that is not allowed, it counts too.
        let _ = fs::write("/proc/self/clear_refs", "5");
        let start = own_bytes("VmRSS")?;
        Some(ResidentGrowth { start })
    }

    /// The highest resident size since then, over the size then, in bytes.
    pub fn peak(&self) -> Option<usize> {
        Some(own_bytes("VmHWM")?.saturating_sub(self.start))
    }
}

fn own_bytes(row: &str) -> Option<usize> {
    bytes_of_row(&fs::read_to_string("/proc/self/status").ok()?, row)
}

/// A row such as `MemAvailable:   12345 kB`.
fn bytes_of_row(rows: &str, row: &str) -> Option<usize> {
    let line = rows.lines().find(|line| line.split(':').next() == Some(row))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// What a control group (version 2 or 1) leaves: its limit less what it uses, where cached files that are inactive
/// at present do not count. None without a limit.
fn group_bytes(group: &Path) -> Option<usize> {
    let read = |names: [&str; 2]| {
        names
            .into_iter()
            .find_map(|name| fs::read_to_string(group.join(name)).ok())
    };
    let limit: usize = read(["memory.max", "memory.limit_in_bytes"])?.trim().parse().ok()?;
    let used: usize = read(["memory.current", "memory.usage_in_bytes"])?.trim().parse().ok()?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = statistics
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == "inactive_file" || *name == "total_inactive_file")
        .and_then(|(_, bytes)| bytes.trim().parse().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_whole_name() {
        let meminfo = "MemTotal:       16000 kB\nMemAvailable:    2048 kB\nAvailable: 1 kB\n";
        assert_eq!(bytes_of_row(meminfo, "MemAvailable"), Some(2 << 20));
        assert_eq!(bytes_of_row(meminfo, "Mem"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_was_touched_and_given_back_counts_as_growth() {
        let growth = ResidentGrowth::watch().unwrap();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        drop(touched);
        assert!(growth.peak().unwrap() >= 60 << 20);
    }

    #[test]
    fn a_group_leaves_its_limit_less_what_is_used_and_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(group_bytes(dir.path()), None);
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        assert_eq!(group_bytes(dir.path()), Some(300));
        write("memory.stat", "anon 500\ninactive_file 150\n");
        assert_eq!(group_bytes(dir.path()), Some(450));
        write("memory.max", "max\n");
        assert_eq!(group_bytes(dir.path()), None);
    }
}
