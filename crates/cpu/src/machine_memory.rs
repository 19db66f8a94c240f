//! How much memory the machine can still give to this process.

use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::process::{bytes_of_row, status_bytes};

/// Bytes that can still be allocated without swapping: the bytes that the system has available, and no more than the
/// control groups and the limits of this process allow. None where the system does not tell.
pub(crate) fn available_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = bytes_of_row(&meminfo, "MemAvailable")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = folders_of_groups(&groups)
        .into_iter()
        .filter_map(|group| group_bytes(&group));
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let of_limits = [("Max data size", "VmData"), ("Max address space", "VmSize")].map(|(limit, used)| {
        let left = limit_of_row(&limits, limit)?.saturating_sub(status_bytes(used)?);
        Some(left)
    });
    Some(
        of_groups
            .chain(of_limits.into_iter().flatten())
            .fold(available, usize::min),
    )
}

/// The soft limit in a row such as `Max data size   1048576   unlimited   bytes`; none where there is no limit.
pub fn limit_of_row(rows: &str, row: &str) -> Option<usize> {
    let values = rows.lines().find_map(|line| line.strip_prefix(row))?;
    values.split_whitespace().next()?.parse().ok()
}

/// The folders of the control groups that `/proc/self/cgroup` names, and of the groups around them. In a container the
/// names may be names outside of the container, so the outermost folders are always in the result.
pub fn folders_of_groups(own: &str) -> Vec<PathBuf> {
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

/// Bytes that a control group (version 2 or 1) leaves: its limit less the bytes that it uses, where cached files do not
/// count. None without a limit.
pub fn group_bytes(group: &Path) -> Option<usize> {
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
