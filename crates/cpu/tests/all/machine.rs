//! The machine: its instructions, the number of threads.

use lessen_cpu::simd::{CpuSet, Feature};
use lessen_cpu::test_entries::{not_below_zero, set_of, threads_of};

/// Machines of each kind: Skylake, Cascade and Ice Lake, Zen 4, Sapphire Rapids, and Haswell and Alder Lake.
fn machines() -> [CpuSet; 6] {
    let vnni = CpuSet::AVX512.with(Feature::Vnni);
    [
        CpuSet::AVX512,
        vnni,
        vnni.with(Feature::Bf16),
        CpuSet::ALL,
        CpuSet::AVX2,
        CpuSet::AVX2.with(Feature::Vnni),
    ]
}

#[test]
fn sets_are_named_and_of_the_machine() {
    let [skylake, ice_lake, zen, sapphire_rapids, haswell, alder_lake] = machines();
    // Names that a variable could have before sets were joined.
    for (name, set) in [
        ("baseline", CpuSet::BASELINE),
        (" avx2 ", haswell),
        ("avx512", skylake),
        ("avx512bf16", zen),
        ("amx", sapphire_rapids),
    ] {
        assert_eq!(set_of(name, CpuSet::ALL), Ok(set), "{name}");
    }
    for (name, set) in [
        ("avx512+vnni", ice_lake),
        ("vnni + avx512", ice_lake),
        ("avx2+avxvnni", alder_lake),
        ("avx512+bf16", CpuSet::AVX512.with(Feature::Bf16)),
        ("avx512+vnni+bf16", zen),
        ("baseline+avx2", haswell),
    ] {
        assert_eq!(set_of(name, CpuSet::ALL), Ok(set), "{name}");
    }
    let lists = [
        "baseline, avx2, avx512,",
        "baseline, avx2, avxvnni, avx512, vnni,",
        "baseline, avx2, avxvnni, avx512, vnni, bf16, avx512bf16,",
        "baseline, avx2, avxvnni, avx512, vnni, bf16, avx512bf16, amx,",
        "baseline, avx2,",
        "baseline, avx2, avxvnni,",
    ];
    for (machine, list) in machines().into_iter().zip(lists) {
        for text in ["sse", "", "V3", "avx2,avx512", "avx2+", "avx2+sse"] {
            let error = set_of(text, machine).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("LESSEN_CPU is \"{text}\", but there is no ")),
                "{error}"
            );
            assert!(
                error.contains(&format!("on this machine it can be {list} or several joined by +")),
                "{error}"
            );
        }
        let error = set_of("avx512+amx", machine).map_err(|error| error.to_string());
        match error {
            Ok(set) => assert_eq!((set, machine), (CpuSet::ALL, CpuSet::ALL)),
            Err(error) => {
                let lacks = if machine.has(Feature::Avx512) { "amx" } else { "avx512" };
                assert!(
                    error.contains(&format!("but this machine lacks \"{lacks}\"; ")),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn every_set_has_a_name_and_what_its_features_need() {
    let all: Vec<CpuSet> = CpuSet::ALL.subsets().collect();
    let names: Vec<String> = all.iter().map(CpuSet::to_string).collect();
    let expected = [
        "baseline",
        "avx2",
        "avx512",
        "avx2+avxvnni",
        "avx512+vnni",
        "avx512+bf16",
        "avx512+vnni+bf16",
        "avx512+vnni+bf16+amx",
    ];
    assert_eq!(names, expected);
    for (name, set) in names.iter().zip(&all) {
        assert_eq!(set_of(name, *set), Ok(*set), "{name}");
        assert!(
            set.subsets().all(|part| part.is_within(*set) && all.contains(&part)),
            "{name}"
        );
    }
}

/// What kernels use with a set is in the set: products of integers ask for VNNI, not for what comes with it elsewhere.
#[test]
fn features_are_used_by_name() {
    use Feature::{Amx, Avx2, Avx512, Bf16, Vnni};
    for set in CpuSet::detect().subsets() {
        set.on_this_thread(|| {
            for feature in [Avx2, Avx512, Vnni, Bf16, Amx] {
                assert_eq!(feature.is_used(), set.has(feature), "{feature:?} of {set}");
            }
        });
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
    for set in CpuSet::detect().subsets() {
        set.on_this_thread(|| {
            for i in 0..64 {
                for x in [1e-30, f32::NAN, f32::INFINITY] {
                    let mut all = [0.0; 64];
                    all[(i + 1) % 64] = -1.0;
                    all[(i + 2) % 64] = f32::NEG_INFINITY;
                    all[i] = x;
                    assert_eq!(not_below_zero(&all), 1 << i, "{set}");
                }
            }
        });
    }
}
