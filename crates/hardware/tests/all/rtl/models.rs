//! Models of the units against the functions that they approximate.

use lessen_hardware::rtl::{Unit, catalogue, check_rows};

/// The seed of all random rows.
const SEED: u64 = 11;

/// The greatest part of its bound by which a result of the unit differs from the function.
fn worst(unit: &dyn Unit) -> f64 {
    let mut worst = 0f64;
    for row in check_rows(unit, SEED, 60) {
        let codes = unit.compute(&row);
        let exact = unit.exact(&row).expect("the function's values");
        assert_eq!(codes.len(), exact.values.len(), "{}", unit.name());
        let number = unit.result();
        let (_, greatest) = number.range();
        for (at, &code) in codes.iter().enumerate() {
            let (got, value, bound) = (number.decode(code), exact.values[at], exact.bounds[at]);
            if value.abs() > greatest {
                // A sum beyond bf16 is infinite, or the greatest number.
                assert!(
                    got.abs() >= greatest && got.signum() == value.signum(),
                    "{}: {value}: {got}",
                    unit.name()
                );
                continue;
            }
            let difference = (got - value).abs();
            assert!(
                difference <= bound,
                "{}, seed {SEED}: element {at} of {:x?} is {got}, the function {value}, bound {bound}",
                unit.name(),
                row
            );
            if bound > 0.0 {
                worst = worst.max(difference / bound);
            }
        }
    }
    worst
}

#[test]
fn results_are_within_their_bounds_of_the_functions() {
    for entry in catalogue().expect("units") {
        println!(
            "{:45} {:.3} of its bound",
            entry.unit.name(),
            worst(entry.unit.as_ref())
        );
    }
}
