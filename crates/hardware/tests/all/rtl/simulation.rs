//! Simulations of the generated Verilog: its results are those of the models, to the bit.

use std::path::Path;
use std::process::{Command, Stdio};

use lessen_hardware::rtl::{
    Bench, Dot, Exponent, Fire, FireHead, Flare, Gelu, Number, Order, Relu, RowBuffer, Skip, Softmax, Unit, check_rows,
};

/// The seed of all random rows.
const SEED: u64 = 5;

/// Small units of every function, format and method.
fn units() -> Vec<Box<dyn Unit>> {
    let fixed = |integer, fraction| Number::fixed(integer, fraction).expect("a format");
    let (q8, q16, bf16) = (fixed(3, 4), fixed(5, 10), Number::Bf16);
    let mut units: Vec<Box<dyn Unit>> = Vec::new();
    units.push(Box::new(Relu::new(fixed(15, 16), 1).unwrap()));
    units.push(Box::new(Relu::new(bf16, 3).unwrap()));
    for skip in [Skip::Compare, Skip::Add] {
        units.push(Box::new(Flare::new(q8, 1, skip).unwrap()));
        units.push(Box::new(Flare::new(q16, 4, skip).unwrap()));
        units.push(Box::new(Flare::new(bf16, 2, skip).unwrap()));
    }
    for order in [Order::TwoPass, Order::Online] {
        for exponent in [Exponent::Table, Exponent::Polynomial] {
            units.push(Box::new(Softmax::new(q8, 1, 16, order, exponent).unwrap()));
            units.push(Box::new(Softmax::new(q16, 4, 100, order, exponent).unwrap()));
            units.push(Box::new(Softmax::new(bf16, 3, 64, order, exponent).unwrap()));
        }
    }
    units.push(Box::new(
        Softmax::new(fixed(0, 3), 8, 1, Order::TwoPass, Exponent::Table).unwrap(),
    ));
    units.push(Box::new(
        Softmax::normalized(q16, 3, 64, Exponent::Polynomial, 1.0).unwrap(),
    ));
    units.push(Box::new(Softmax::normalized(q8, 1, 16, Exponent::Table, 0.5).unwrap()));
    for number in [q8, q16, fixed(0, 3), fixed(3, 12), bf16] {
        units.push(Box::new(Gelu::new(number, 2).unwrap()));
    }
    let head = FireHead {
        hidden: vec![[2.0, -0.5, 1.5], [-1.0, 0.7, 3.0], [0.0, 1.0, 1.0], [1.0, -0.9, -4.0]],
        offset: -0.25,
    };
    for number in [q8, q16, fixed(7, 0), fixed(15, 15)] {
        units.push(Box::new(Fire::new(number, 2, head.clone()).unwrap()));
    }
    units.push(Box::new(Dot::new(q8, 1, 9).unwrap()));
    units.push(Box::new(Dot::new(q16, 3, 9).unwrap()));
    units.push(Box::new(RowBuffer::new(q8, 2, 9).unwrap()));
    units
}

/// Whether a program answers when it is asked for its version.
fn installed(program: &str, flag: &str) -> bool {
    let asked = Command::new(program)
        .arg(flag)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok()
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("a program that runs");
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A folder with the module and the bench of random and corner rows.
fn folder(unit: &dyn Unit) -> (tempfile::TempDir, Bench) {
    let folder = tempfile::tempdir().expect("a folder");
    let bench = Bench::new(unit, &check_rows(unit, SEED, 20));
    bench.write(folder.path()).expect("files");
    std::fs::write(folder.path().join("unit.v"), unit.verilog()).expect("a file");
    (folder, bench)
}

#[test]
fn simulated_modules_print_what_the_models_compute() {
    let icarus = installed("iverilog", "-V");
    if !icarus {
        println!("iverilog is not installed; modules are written and not simulated");
    }
    for unit in units() {
        let name = unit.name();
        let text = unit.verilog();
        let count = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
        assert!(
            text.contains(&format!("module {name} (")),
            "{name} is not in its own text"
        );
        assert_eq!(count("module "), count("endmodule"), "{name}");
        let (folder, bench) = folder(unit.as_ref());
        let folder = folder.path();
        assert_eq!(bench.stimulus().lines().count(), bench.cycles(), "{name}");
        if icarus {
            run(folder, "iverilog", &["-g2005", "-o", "bench", "testbench.v", "unit.v"]);
            run(folder, "vvp", &["-n", "bench"]);
            let results = std::fs::read_to_string(folder.join("results.hex")).expect("results");
            let expected = bench.expected();
            for (at, (got, want)) in results.lines().zip(expected.lines()).enumerate() {
                assert_eq!(
                    got,
                    want,
                    "{name}, seed {SEED}: result {at} of {}",
                    expected.lines().count()
                );
            }
            assert_eq!(
                results.lines().count(),
                expected.lines().count(),
                "{name}: number of results"
            );
        }
    }
}

#[test]
fn modules_have_no_lint() {
    if !installed("verilator", "--version") {
        println!("verilator is not installed; modules are not linted");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text: String = units().iter().map(|unit| unit.verilog()).collect();
    std::fs::write(folder.path().join("units.v"), text).expect("a file");
    let flags = [
        "--lint-only",
        "-Wall",
        "-Wno-DECLFILENAME",
        "-Wno-UNUSED",
        "-Wno-MULTITOP",
        "units.v",
    ];
    run(folder.path(), "verilator", &flags);
}

#[test]
fn a_bench_of_a_wrong_module_fails() {
    if !installed("iverilog", "-V") {
        println!("iverilog is not installed; modules are not simulated");
        return;
    }
    let unit = Relu::new(Number::fixed(3, 4).unwrap(), 2).unwrap();
    let (folder, bench) = folder(&unit);
    let wrong = unit.verilog().replace("{~x_0[", "{x_0[");
    assert_ne!(wrong, unit.verilog());
    std::fs::write(folder.path().join("unit.v"), wrong).unwrap();
    run(
        folder.path(),
        "iverilog",
        &["-g2005", "-o", "bench", "testbench.v", "unit.v"],
    );
    run(folder.path(), "vvp", &["-n", "bench"]);
    assert_ne!(
        std::fs::read_to_string(folder.path().join("results.hex")).unwrap(),
        bench.expected()
    );
}
