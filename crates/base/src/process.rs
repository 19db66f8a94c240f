//! What the system tells of this process.

use std::fs;

/// Bytes in a row of `/proc/self/status`, such as `VmRSS`; none where the system does not tell.
pub fn status_bytes(row: &str) -> Option<usize> {
    bytes_of_row(&fs::read_to_string("/proc/self/status").ok()?, row)
}

/// Bytes in a row such as `MemAvailable:   12345 kB`.
pub fn bytes_of_row(rows: &str, row: &str) -> Option<usize> {
    let line = rows.lines().find(|line| line.split(':').next() == Some(row))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
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
}
