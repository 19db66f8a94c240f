//! The memory of the machine, as far as it is for this process: what is still available, and the limit of its control
//! group.

use crate::process::{bytes_of_row, status_bytes};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// Bytes of address space that the stack of a thread takes, with the page that guards it.
const STACK: usize = (2 << 20) + (64 << 10);

/// Threads that a program may still start beside one for each core: those that read data, answer and listen.
const THREADS: usize = 2;

/// Bytes that this process can have at most: the least limit of its control groups, or else the machine's memory. None
/// where the system does not tell.
pub fn whole_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let whole = bytes_of_row(&meminfo, "MemTotal")?;
    Some(limit_of_groups().map_or(whole, |limit| limit.min(whole)))
}

/// The least limit of the control groups of this process, in bytes; none where none of them has one.
pub fn limit_of_groups() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    folders_of_groups(&groups)
        .iter()
        .filter_map(|group| limit_of_group(group))
        .min()
}

/// The limit of a control group (version 2 or 1) in bytes; none where it has none.
pub fn limit_of_group(group: &Path) -> Option<usize> {
    let limit: usize = read(group, ["memory.max", "memory.limit_in_bytes"])?
        .trim()
        .parse()
        .ok()?;
    // Version 1 says that there is no limit by the largest number of whole pages.
    (limit < isize::MAX as usize / 2).then_some(limit)
}

/// Bytes that can still be allocated without swapping: the bytes that the system has available, and no more than the
/// control groups and the limits of this process allow. A limit of the address space (`ulimit -v`) also has to hold the
/// stacks of threads that are still to come. None where the system does not tell.
pub fn available_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = bytes_of_row(&meminfo, "MemAvailable")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = folders_of_groups(&groups)
        .into_iter()
        .filter_map(|group| group_bytes(&group));
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    // Mapped memory counts there also where nothing touches it, such as most of a stack.
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let stacks = STACK * (THREADS + cores);
    let of_limits = [("Max data size", "VmData", 0), ("Max address space", "VmSize", stacks)];
    let of_limits = of_limits.map(|(limit, used, to_come)| {
        let left = limit_of_row(&limits, limit)?.saturating_sub(status_bytes(used)?);
        Some(left.saturating_sub(to_come))
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
    let limit = limit_of_group(group)?;
    let used: usize = read(group, ["memory.current", "memory.usage_in_bytes"])?
        .trim()
        .parse()
        .ok()?;
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

/// The first of two files that a control group has.
fn read(group: &Path, names: [&str; 2]) -> Option<String> {
    names
        .into_iter()
        .find_map(|name| fs::read_to_string(group.join(name)).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_group_has_a_limit_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(limit_of_group(dir.path()), None);
        write("memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit_of_group(dir.path()), None);
        write("memory.limit_in_bytes", "4096\n");
        assert_eq!(limit_of_group(dir.path()), Some(4096));
        write("memory.max", "max\n");
        assert_eq!(limit_of_group(dir.path()), None);
        write("memory.max", "8192\n");
        assert_eq!(limit_of_group(dir.path()), Some(8192));
    }
}
