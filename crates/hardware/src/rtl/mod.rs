//! Hardware units of attention functions as Verilog-2005: ReLU, FLARE's compare-and-skip unit, softmax in two orders
//! with two exponentials, NormSoftmax, GELU and FIRE.
//!
//! A [`Unit`] is a description that knows its module's text, a model of it to the bit, and the function that it
//! approximates with a bound of the difference. [`Bench`] holds rows that are fed to a unit, and what a simulation of
//! the module must print. [`catalogue`] lists the units whose area, frequency and power `docs/results/hardware.md`
//! has.
//!
//! ```
//! use lessen_hardware::rtl::{Number, Relu, Unit};
//!
//! let unit = Relu::new(Number::fixed(3, 4)?, 2)?;
//! assert_eq!(unit.compute(&vec![vec![0x7f, 0x80]]), [0x7f, 0]);
//! assert!(unit.verilog().contains("module relu_q3_4_x2 ("));
//! # Ok::<(), lessen_hardware::Error>(())
//! ```

mod bench;
mod catalogue;
mod definition;
mod dot;
mod exponent;
mod fire;
mod flare;
mod gelu;
mod norm_softmax;
mod number;
mod reciprocal;
mod relu;
mod row_buffer;
mod softmax;
mod unit;
mod vectors;
mod verilog;

pub use bench::Bench;
pub use catalogue::{Activity, CatalogueUnit, catalogue};
pub use definition::{Definition, FireHead};
pub use dot::Dot;
pub use exponent::Exponent;
pub use fire::Fire;
pub use flare::{Flare, Skip};
pub use gelu::Gelu;
pub use number::Number;
pub use relu::Relu;
pub use row_buffer::RowBuffer;
pub use softmax::{Order, Pass, Softmax};
pub use unit::{Cycle, Exact, Port, Row, Unit, Word};
pub use vectors::{Scores, check_rows, scores};
