//! What the system tells of this process.

use std::fs;

/// Bytes in a row of `/proc/self/status`, such as `VmRSS`; none where the system does not tell.
pub fn status_bytes(row: &str) -> Option<usize> {
    bytes_of_row(&fs::read_to_string("/proc/self/status").ok()?, row)
}

/// Number of threads of this process; none where the system does not tell.
pub fn threads() -> Option<usize> {
    let rows = fs::read_to_string("/proc/self/status").ok()?;
    let row = rows.lines().find_map(|line| line.strip_prefix("Threads:"))?;
    row.trim().parse().ok()
}

/// Forgets the highest resident size of the past, where the system allows it.
pub fn reset_peak_resident() {
    // A system that does not allow it counts the past, too.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The highest resident size of this process, in bytes, since its start or [`reset_peak_resident`]; none where the
/// system does not tell.
pub fn peak_resident() -> Option<usize> {
    status_bytes("VmHWM")
}

/// Bytes in a row such as `MemAvailable:   12345 kB`.
pub fn bytes_of_row(rows: &str, row: &str) -> Option<usize> {
    let line = rows.lines().find(|line| line.split(':').next() == Some(row))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes of the files that are mapped into this process, that is, of its program and libraries: the most of them that
/// can be resident. None where the system does not tell.
pub fn mapped_file_bytes() -> Option<usize> {
    Some(bytes_of_mapped_files(&fs::read_to_string("/proc/self/maps").ok()?))
}

/// Bytes of the rows of mapped files that are accessible.
fn bytes_of_mapped_files(rows: &str) -> usize {
    let bytes = |row: &str| {
        let mut fields = row.split_whitespace();
        let (range, access) = (fields.next()?, fields.next()?);
        if !fields.nth(3)?.starts_with('/') || access.starts_with("---") {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        address(end)?.checked_sub(address(start)?)
    };
    rows.lines().filter_map(bytes).fold(0, usize::saturating_add)
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
    fn mapped_files_are_summed_up_without_gaps_and_memory_of_no_file() {
        let maps = "00400000-00402000 r-xp 00000000 fe:00 42   /usr/bin/a name\n\
                    00602000-00603000 rw-p 00002000 fe:00 42   /usr/bin/a name\n\
                    01000000-02000000 rw-p 00000000 00:00 0    [heap]\n\
                    7f0000000000-7f0000001000 ---p 00001000 fe:00 7  /lib/b.so\n\
                    7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n";
        assert_eq!(bytes_of_mapped_files(maps), 0x3000);
        #[cfg(target_os = "linux")]
        assert!(mapped_file_bytes().unwrap() > 0x1000);
    }
}
