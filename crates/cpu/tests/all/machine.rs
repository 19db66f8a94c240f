//! The machine: its memory, its CPU level, the number of threads.

use std::fs;
use std::path::PathBuf;

use lessen_cpu::simd::CpuLevel;
use lessen_cpu::test_entries::{folders_of_groups, group_bytes, level_of, limit_of_row, not_below_zero, threads_of};

#[test]
fn a_level_is_named_and_one_of_the_machine() {
    assert_eq!(level_of(" avx2 ", CpuLevel::V4), Ok(CpuLevel::V3));
    assert_eq!(level_of("amx", CpuLevel::Amx), Ok(CpuLevel::Amx));
    for text in ["amx", "sse", "", "V3"] {
        let error = level_of(text, CpuLevel::V4).unwrap_err().to_string();
        assert!(
            error.contains("LESSEN_CPU") && error.contains("baseline, avx2, avx512, or"),
            "{error}"
        );
    }
}

#[test]
fn the_number_of_threads_is_checked() {
    assert_eq!(threads_of(" 3 "), Ok(3));
    for text in ["0", "-1", "two", "", "2000"] {
        let error = threads_of(text).unwrap_err().to_string();
        assert!(error.contains("LESSEN_THREADS") && error.contains(text), "{error}");
    }
}

#[test]
fn bits_are_in_their_places() {
    for level in CpuLevel::ALL {
        level.on_this_thread(|| {
            for i in 0..64 {
                for x in [1e-30, f32::NAN, f32::INFINITY] {
                    let mut all = [0.0; 64];
                    all[(i + 1) % 64] = -1.0;
                    all[(i + 2) % 64] = f32::NEG_INFINITY;
                    all[i] = x;
                    assert_eq!(not_below_zero(&all), 1 << i, "{level:?}");
                }
            }
        });
    }
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
