//! The functions that units approximate, as the graph's reference evaluator computes them in `f64`.

use std::collections::HashMap;

use lessen_base::{Error, Result};
use lessen_graph::{Array, DType, Tensor, Trace, evaluate_exactly};

use super::number::Number;
use super::unit::Exact;

/// A function of one row or several.
#[derive(Clone, PartialEq, Debug)]
pub enum Definition {
    /// `max(x, 0)`
    Relu,
    /// `max(a + f, 0)`
    AddRelu,
    /// Equation 4 of FLARE: 0 where `f <= -a`, `a + f` elsewhere.
    Flare,
    /// `x/2 (1 + erf(x / sqrt 2))`
    Gelu,
    /// `exp(x_i) / sum_j exp(x_j)`
    Softmax,
    /// FIRE's function of one head, `sum_k w2_k relu(w1_k u + b1_k) + b2`.
    Fire(FireHead),
}

/// The parameters of FIRE's function for one head.
#[derive(Clone, PartialEq, Debug)]
pub struct FireHead {
    /// `[w1, b1, w2]` of each hidden unit.
    pub hidden: Vec<[f64; 3]>,
    /// `b2`
    pub offset: f64,
}

impl FireHead {
    /// Slope and intercept of the function around a point where it has no knot.
    pub fn line(&self, u: f64) -> (f64, f64) {
        let active = self.hidden.iter().filter(|[w1, b1, _]| w1 * u + b1 > 0.0);
        active.fold((0.0, self.offset), |(slope, intercept), [w1, b1, w2]| {
            (slope + w2 * w1, intercept + w2 * b1)
        })
    }
}

impl Definition {
    fn apply(&self, x: &[Tensor]) -> Tensor {
        match self {
            Definition::Relu => x[0].relu(),
            Definition::AddRelu => (x[0] + x[1]).relu(),
            Definition::Flare => {
                let zero = x[0].scalar_like(0.0);
                x[1].le(-x[0]).select(zero, x[0] + x[1])
            }
            Definition::Gelu => x[0].gelu(),
            Definition::Softmax => x[0].softmax(),
            Definition::Fire(head) => {
                let unit = |&[w1, b1, w2]: &[f64; 3]| (x[0] * w1 + b1).relu() * w2;
                let none = x[0] * 0.0 + head.offset;
                head.hidden.iter().map(unit).fold(none, |sum, term| sum + term)
            }
        }
    }

    /// The function's values of rows of equal length.
    ///
    /// # Errors
    /// If the rows have different lengths.
    pub fn evaluate(&self, rows: &[&[f64]]) -> Result<Vec<f64>> {
        let length = rows[0].len();
        if rows.iter().any(|row| row.len() != length) {
            return Err(Error::internal("operands of different lengths"));
        }
        let names: Vec<String> = (0..rows.len()).map(|at| format!("x{at}")).collect();
        let trace = Trace::new();
        let tensors: Vec<Tensor> = names
            .iter()
            .map(|name| trace.input(name, DType::F32, &[length]))
            .collect();
        trace.output("y", self.apply(&tensors));
        let arrays = rows.iter().map(|row| Array::f32(&[length], row.to_vec()));
        let inputs: HashMap<String, Array> = names.into_iter().zip(arrays).collect();
        let mut results = evaluate_exactly(&trace.finish(), &inputs)?;
        let y = results
            .remove("y")
            .ok_or_else(|| Error::internal("the function has no result"))?;
        Ok(y.data)
    }
}

/// Values that a format rounds and saturates, from a computation with an `error` before it rounds.
pub fn rounded(number: Number, values: Vec<f64>, error: f64) -> Exact {
    let (least, greatest) = number.range();
    let values: Vec<f64> = match number {
        Number::Fixed { .. } => values.iter().map(|value| value.clamp(least, greatest)).collect(),
        Number::Bf16 => values,
    };
    let bound = |&value: &f64| match number {
        // A number of the format is met where nothing else errs.
        _ if error == 0.0 && number.decode(number.encode(value)) == value => 0.0,
        Number::Fixed { fraction, .. } => error + 0.5 / (1u64 << fraction) as f64,
        // Half of the last of 8 bits; below the least normal number everything is zero.
        Number::Bf16 => error + (value.abs() + error) / 256.0 + f64::from(f32::MIN_POSITIVE),
    };
    let bounds = values.iter().map(bound).collect();
    Exact { values, bounds }
}
