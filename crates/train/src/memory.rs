//! How much memory this process takes and may still take.

use crate::size::show_size;
use lessen_base::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The bytes that can still be allocated without swapping: what the system has available, and no more than the
/// control groups and the limits of this process allow. None where the system does not tell.
pub fn available_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = bytes_of_row(&meminfo, "MemAvailable")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = folders_of_groups(&groups)
        .into_iter()
        .filter_map(|group| group_bytes(&group));
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let of_limits = [("Max data size", "VmData"), ("Max address space", "VmSize")].map(|(limit, used)| {
        let left = limit_of_row(&limits, limit)?.saturating_sub(own_bytes(used)?);
        Some(left)
    });
    Some(
        of_groups
            .chain(of_limits.into_iter().flatten())
            .fold(available, usize::min),
    )
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

/// The soft limit in a row such as `Max data size   1048576   unlimited   bytes`; none where there is no limit.
fn limit_of_row(rows: &str, row: &str) -> Option<usize> {
    let values = rows.lines().find_map(|line| line.strip_prefix(row))?;
    values.split_whitespace().next()?.parse().ok()
}

/// The folders of the control groups that `/proc/self/cgroup` names, and of those around them. In a container the names
/// may be those outside of it, so the outermost folders are always among them.
fn folders_of_groups(own: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(name)) = (fields.next(), fields.next()) else {
            continue;
        };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            _ if controllers.split(',').any(|controller| controller == "memory") => Path::new("/sys/fs/cgroup/memory"),
            _ => continue,
        };
        let own = Path::new(name).strip_prefix("/").unwrap_or(Path::new(name));
        folders.extend(own.ancestors().map(|group| root.join(group)));
    }
    folders
}

/// What a control group (version 2 or 1) leaves: its limit less what it uses, where cached files do not count. None
/// without a limit.
fn group_bytes(group: &Path) -> Option<usize> {
    let read = |names: [&str; 2]| {
        names
            .into_iter()
            .find_map(|name| fs::read_to_string(group.join(name)).ok())
    };
    let limit: usize = read(["memory.max", "memory.limit_in_bytes"])?.trim().parse().ok()?;
    let used: usize = read(["memory.current", "memory.usage_in_bytes"])?.trim().parse().ok()?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let rows: Vec<(&str, &str)> = statistics.lines().filter_map(|line| line.split_once(' ')).collect();
    let bytes = |row: &str| {
        let found = rows.iter().find(|(name, _)| *name == row)?;
        found.1.trim().parse::<usize>().ok()
    };
    let cached = ["active_file", "inactive_file"].map(|row| bytes(&format!("total_{row}")).or_else(|| bytes(row)));
    let cached: usize = cached.into_iter().flatten().sum();
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
        write("memory.stat", "anon 500\ninactive_file 150\nactive_file 50\n");
        assert_eq!(group_bytes(dir.path()), Some(500));
        write(
            "memory.stat",
            "inactive_file 1\nactive_file 1\ntotal_inactive_file 300\ntotal_active_file 0\n",
        );
        assert_eq!(group_bytes(dir.path()), Some(600));
        write("memory.max", "max\n");
        assert_eq!(group_bytes(dir.path()), None);
    }

    #[test]
    fn the_groups_of_a_process_are_its_own_and_those_around_it() {
        let two = folders_of_groups("0::/user.slice/job\n");
        let expected = [
            "/sys/fs/cgroup/user.slice/job",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup/",
        ];
        assert_eq!(two, expected.map(PathBuf::from));
        let one = folders_of_groups("9:name=systemd:/a\n4:cpu,memory:/job\n3:cpuset:/\n");
        assert_eq!(
            one,
            ["/sys/fs/cgroup/memory/job", "/sys/fs/cgroup/memory/"].map(PathBuf::from)
        );
    }

    #[test]
    fn limits_are_read_from_their_rows() {
        let rows = "Limit   Soft Limit   Hard Limit   Units\nMax data size   2048   unlimited   bytes\n\
                    Max address space   unlimited   unlimited   bytes\n";
        assert_eq!(limit_of_row(rows, "Max data size"), Some(2048));
        assert_eq!(limit_of_row(rows, "Max address space"), None);
        assert_eq!(limit_of_row(rows, "Max stack size"), None);
    }
}
