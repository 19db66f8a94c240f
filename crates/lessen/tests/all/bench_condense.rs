//! `lessen bench condense`.

use crate::support::{json, refuse, succeed};

const SIZES: [&str; 14] = [
    "bench",
    "condense",
    "--network",
    "lenet",
    "--classes",
    "2",
    "--per-class",
    "1",
    "--real",
    "3",
    "--updates",
    "2",
    "--epochs",
    "2",
];

#[test]
fn a_benchmark_of_condensing_takes_the_memory_that_was_planned() {
    let dir = tempfile::tempdir().unwrap();
    let args = [&SIZES[..], &["--outer", "adaptive", "--operations", "--json"]].concat();
    let found = json(dir.path(), &args);
    for what in ["update_ms", "epoch_ms"] {
        let times = ["_min", "", "_max"].map(|end| found[format!("{what}{end}")].as_f64().unwrap());
        assert!(times[0] > 0.0 && times.is_sorted(), "{found}");
    }
    assert!(found["outer_s"]["adaptive"].as_f64().unwrap() > 0.0);
    assert_eq!(found["planned_peak_bytes"], found["measured_peak_bytes"]);
    let functions = found["functions"].as_array().unwrap();
    let names: Vec<&str> = functions.iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["real 3", "mean", "update", "step 2"]);
    for function in functions {
        assert!(!function["schedule"].as_array().unwrap().is_empty(), "{function}");
    }
}

#[test]
fn a_benchmark_of_condensing_says_what_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    let printed = succeed(dir.path(), &SIZES);
    assert!(
        printed.starts_with("lenet, 2 classes of 3 real and 1 synthetic images\n"),
        "{printed}"
    );
    let refused = refuse(dir.path(), &[&SIZES[..], &["--budget", "1KiB"]].concat());
    assert!(refused.contains("floor"), "{refused}");
}
