//! The units that are measured: every function at several widths, lanes and lengths of rows.

use lessen_base::{Result, SplitMix64};

use super::definition::FireHead;
use super::dot::Dot;
use super::exponent::Exponent;
use super::fire::{Fire, HIDDEN};
use super::flare::{Flare, Skip};
use super::gelu::Gelu;
use super::number::Number;
use super::relu::Relu;
use super::row_buffer::RowBuffer;
use super::softmax::{Order, Softmax};
use super::unit::Unit;
use super::vectors::Scores;

/// Rows of which a unit's power is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Activity {
    /// Its name in tables.
    pub name: &'static str,
    /// The distribution of the scores.
    pub scores: Scores,
    /// Number of rows.
    pub rows: usize,
    /// Elements of each row.
    pub length: usize,
}

/// A unit with its place in the tables.
pub struct CatalogueUnit {
    /// The function, by which tables are arranged.
    pub function: &'static str,
    /// The unit.
    pub unit: Box<dyn Unit>,
    /// What its power is measured with, once or several times.
    pub activities: Vec<Activity>,
}

/// Elements that are fed to a unit whose elements do not know each other, for each of its lanes.
const BEATS: usize = 64;

impl CatalogueUnit {
    fn new(function: &'static str, unit: impl Unit + 'static) -> CatalogueUnit {
        let elements = unit.lanes() * BEATS;
        let length = unit.longest().unwrap_or(elements).min(elements);
        let rows = elements.div_ceil(length).min(16);
        let scores = |name, scores| Activity {
            name,
            scores,
            rows,
            length,
        };
        let mut activities = vec![scores("random", Scores::CENTERED)];
        if matches!(function, "FLARE" | "sum and ReLU") {
            activities.push(scores("98.9 % zeros", Scores::SPARSE));
        }
        CatalogueUnit {
            function,
            unit: Box::new(unit),
            activities,
        }
    }
}

/// Parameters of a head of FIRE with a knot for each of its hidden units, as a seed draws them.
pub(super) fn head(seed: u64) -> FireHead {
    let mut random = SplitMix64::named(seed, "fire head");
    let mut uniform = |reach: f64| reach * (2.0 * random.unit() - 1.0);
    let hidden = (0..HIDDEN).map(|at| {
        let knot = (at as f64 + 0.5 + uniform(0.4)) / HIDDEN as f64;
        let w1 = uniform(1.0) + 2.0;
        [w1, -w1 * knot, uniform(1.0)]
    });
    let hidden = hidden.collect();
    FireHead {
        hidden,
        offset: uniform(1.0),
    }
}

/// All units.
///
/// # Errors
/// None, as long as the units take the settings here.
pub fn catalogue() -> Result<Vec<CatalogueUnit>> {
    let (q8, q16, q32) = (Number::fixed(3, 4)?, Number::fixed(5, 10)?, Number::fixed(15, 16)?);
    let bf16 = Number::Bf16;
    let mut entries = Vec::new();
    for (number, lanes) in [
        (q8, 1),
        (q8, 8),
        (q8, 32),
        (q16, 1),
        (q16, 8),
        (q16, 32),
        (q32, 1),
        (q32, 8),
        (bf16, 8),
    ] {
        entries.push(CatalogueUnit::new("ReLU", Relu::new(number, lanes)?));
    }
    for (number, lanes) in [(q8, 8), (q16, 1), (q16, 8), (q16, 32), (bf16, 1), (bf16, 8)] {
        entries.push(CatalogueUnit::new("FLARE", Flare::new(number, lanes, Skip::Compare)?));
        entries.push(CatalogueUnit::new(
            "sum and ReLU",
            Flare::new(number, lanes, Skip::Add)?,
        ));
    }
    let both = [Exponent::Table, Exponent::Polynomial];
    // The authors' unit has 8 elements.
    for number in [q16, bf16] {
        let unit = Softmax::new(number, 8, 8, Order::TwoPass, Exponent::Table)?;
        entries.push(CatalogueUnit::new("softmax", unit));
    }
    for number in [q8, q16, bf16] {
        for order in [Order::TwoPass, Order::Online] {
            for exponent in both {
                // Eight bits have one order; the others show what the order changes.
                if number != q8 || order == Order::TwoPass {
                    entries.push(CatalogueUnit::new(
                        "softmax",
                        Softmax::new(number, 8, 1024, order, exponent)?,
                    ));
                }
            }
        }
    }
    for lanes in [1, 16] {
        let unit = Softmax::new(q16, lanes, 1024, Order::TwoPass, Exponent::Polynomial)?;
        entries.push(CatalogueUnit::new("softmax", unit));
    }
    for length in [64, 65536] {
        let unit = Softmax::new(q16, 8, length, Order::TwoPass, Exponent::Polynomial)?;
        entries.push(CatalogueUnit::new("softmax", unit));
    }
    for (number, lanes, exponent) in [
        (q8, 8, Exponent::Polynomial),
        (q16, 1, Exponent::Polynomial),
        (q16, 8, Exponent::Polynomial),
    ] {
        let unit = Softmax::normalized(number, lanes, 1024, exponent, 1.0)?;
        entries.push(CatalogueUnit::new("NormSoftmax", unit));
    }
    for (number, lanes) in [(q8, 8), (q16, 1), (q16, 8), (q16, 32), (bf16, 1), (bf16, 8)] {
        entries.push(CatalogueUnit::new("GELU", Gelu::new(number, lanes)?));
    }
    for (number, lanes) in [(q8, 8), (q16, 1), (q16, 8), (q16, 32)] {
        entries.push(CatalogueUnit::new("FIRE", Fire::new(number, lanes, head(1))?));
    }
    for number in [q8, q16] {
        entries.push(CatalogueUnit::new("products", Dot::new(number, 8, 64)?));
    }
    for length in [64, 256] {
        entries.push(CatalogueUnit::new("row buffer", RowBuffer::new(q16, 8, length)?));
    }
    Ok(entries)
}
