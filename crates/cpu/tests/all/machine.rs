//! The machine: its CPU level, the number of threads.

use lessen_cpu::simd::CpuLevel;
use lessen_cpu::test_entries::{level_of, not_below_zero, threads_of};

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
