//! Writes the Verilog of all units with their test benches: `cargo run -p lessen-hardware --example rtl -- OUT_DIR
//! [SEED]`.
//!
//! The folder gets a folder for each unit: `UNIT.v`, and for the rows that check it (`check`) and those that its power
//! is measured with (`activity0`, ...) a test bench with its stimulus and the results that it must print; and
//! `units.json`, which lists them.

use std::fs::create_dir_all;
use std::path::Path;
use std::process::ExitCode;

use lessen_base::atomic::{unwritable, write_file};
use lessen_base::{Error, Result, SplitMix64};
use lessen_hardware::rtl::{Bench, CatalogueUnit, Row, Unit, catalogue, check_rows, scores};
use serde_json::{Value, json};

/// Random rows of each unit's check.
const RANDOM_ROWS: usize = 60;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (out, seed) = match arguments {
        [out] => (out, 1),
        [out, seed] => {
            let seed = seed
                .parse()
                .map_err(|_| Error::user(format!("the seed {seed} is not a number")))?;
            (out, seed)
        }
        _ => {
            return Err(Error::user(
                "give a folder, and a seed if it is not 1: rtl OUT_DIR [SEED]",
            ));
        }
    };
    let out = Path::new(out);
    let units: Result<Vec<Value>> = catalogue()?.iter().map(|entry| write_unit(out, entry, seed)).collect();
    let units = units?;
    let text = serde_json::to_string_pretty(&json!({ "seed": seed, "units": units }))
        .map_err(|error| Error::internal(error.to_string()))?;
    write_file(&out.join("units.json"), text.as_bytes())?;
    println!("{} units in {}", units.len(), out.display());
    Ok(())
}

/// Writes the folder of a unit; its lines of `units.json`.
fn write_unit(out: &Path, entry: &CatalogueUnit, seed: u64) -> Result<Value> {
    let unit = entry.unit.as_ref();
    let folder = out.join(unit.name());
    let checks = check_rows(unit, seed, RANDOM_ROWS);
    write_bench(&folder.join("check"), unit, &checks)?;
    write_file(&folder.join(format!("{}.v", unit.name())), unit.verilog().as_bytes())?;
    let mut activities = Vec::new();
    for (at, activity) in entry.activities.iter().enumerate() {
        let mut random = SplitMix64::named(seed, &format!("{} {}", unit.name(), activity.name));
        let rows: Vec<Row> = (0..activity.rows)
            .map(|_| scores(unit, &mut random, activity.length, activity.scores))
            .collect();
        let bench = write_bench(&folder.join(format!("activity{at}")), unit, &rows)?;
        let (mean, greatest) = differences(unit, &rows)?;
        activities.push(json!({
            "name": activity.name, "rows": activity.rows, "length": activity.length,
            "cycles": bench.cycles(), "elements": bench.elements(),
            "mean_error": mean, "greatest_error": greatest,
        }));
    }
    // Cycles depend on the length alone.
    let longest = unit.longest().unwrap_or(unit.lanes());
    let operands = (0..unit.operands().len()).map(|_| vec![0; longest]);
    let cycles = unit.feed(&operands.collect()).len();
    Ok(json!({
        "name": unit.name(), "function": entry.function, "lanes": unit.lanes(), "bits": unit.operands()[0].bits(),
        "format": unit.operands()[0].to_string(), "longest": unit.longest(), "rows_checked": checks.len(), "cycles_of_longest": cycles,
        "activities": activities,
    }))
}

fn write_bench(folder: &Path, unit: &dyn Unit, rows: &[Row]) -> Result<Bench> {
    create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let bench = Bench::new(unit, rows);
    bench.write(folder)?;
    Ok(bench)
}

/// The mean and the greatest difference of results from the function.
fn differences(unit: &dyn Unit, rows: &[Row]) -> Result<(f64, f64)> {
    let (mut sum, mut greatest, mut count) = (0.0, 0f64, 0);
    for row in rows {
        let exact = unit.exact(row)?;
        for (code, value) in unit.compute(row).iter().zip(&exact.values) {
            let difference = (unit.result().decode(*code) - value).abs();
            sum += difference;
            greatest = greatest.max(difference);
            count += 1;
        }
    }
    Ok((sum / f64::from(count.max(1)), greatest))
}
