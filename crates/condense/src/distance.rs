//! The distance of two gradients (equation 2.7 and table 2.2 of Jiang 2023, section 2.1).

use lessen_base::{Error, Result};
use lessen_graph::Tensor;
use std::fmt;
use std::str::FromStr;

/// Added to the product of two norms in the cosine, as in the code of Zhao, Mopuri and Bilen (2021).
const COSINE_EPS: f64 = 1e-6;

/// Least sum of squares of which a root is taken: the root has a derivative of zero below it.
const LEAST_SQUARE: f64 = 1e-30;

/// A weighted sum of distances of two gradients `A` and `B`. Each tensor is a matrix with a row for each output of its
/// layer, `[out, inputs]`, and distances of rows are summed over all rows of all layers.
///
/// In words, terms are joined with `+` and take a factor: `d1`, `d1+d2`, `d1+100*d4`, `d1+0.1*d2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Weight of `d1`, one less the cosine of the angle between rows (equation 2.8).
    pub cosine: f64,
    /// Weight of `d2`, the Euclidean distance of rows.
    pub euclidean: f64,
    /// Weight of `d3`, the squared distance of rows.
    pub squared: f64,
    /// Weight of `d4`, the mean of the squared differences of a row.
    pub mean_squared: f64,
}

/// Names of the terms, in the order of the fields.
const TERMS: [&str; 4] = ["d1", "d2", "d3", "d4"];

impl Distance {
    /// No term.
    const NONE: Distance = Distance {
        cosine: 0.0,
        euclidean: 0.0,
        squared: 0.0,
        mean_squared: 0.0,
    };

    /// `d1`, the distance of Zhao, Mopuri and Bilen (2021).
    pub const COSINE: Distance = Distance {
        cosine: 1.0,
        ..Distance::NONE
    };

    /// `d1 + d2` (equation 2.9): angle and magnitude.
    pub const ANGLE_AND_MAGNITUDE: Distance = Distance {
        euclidean: 1.0,
        ..Distance::COSINE
    };

    /// All forms of its words, for messages.
    pub fn words() -> String {
        format!("{}, and sums of them with factors such as d1+100*d4", TERMS.join(", "))
    }

    fn weights(&self) -> [f64; 4] {
        [self.cosine, self.euclidean, self.squared, self.mean_squared]
    }

    /// The distance of two gradients of one layer, of shape `[out, ..]` each, `f32[]`.
    ///
    /// # Panics
    /// If the shapes differ or have fewer than two axes.
    #[track_caller]
    pub fn of_layer(&self, a: Tensor, b: Tensor) -> Tensor {
        let shape = a.shape();
        let columns: usize = shape[1..].iter().product();
        let [a, b] = [a, b].map(|x| x.reshape(&[shape[0], columns]));
        let [cosine, euclidean, squared, mean_squared] = self.weights();
        let mut terms = Vec::new();
        if cosine != 0.0 {
            let norms = root((a * a).sum_last()) * root((b * b).sum_last());
            let cosines = (a * b).sum_last() / (norms + COSINE_EPS);
            terms.push((cosines.full_like(1.0) - cosines).sum() * cosine);
        }
        if euclidean != 0.0 || squared != 0.0 || mean_squared != 0.0 {
            let difference = a - b;
            let squares = (difference * difference).sum_last();
            if euclidean != 0.0 {
                terms.push(root(squares).sum() * euclidean);
            }
            let of_squares = squared + mean_squared / columns as f64;
            if of_squares != 0.0 {
                terms.push(squares.sum() * of_squares);
            }
        }
        let zero = || a.trace().full(a.dtype(), &[], 0.0);
        terms.into_iter().reduce(|sum, term| sum + term).unwrap_or_else(zero)
    }
}

/// The square root, with a derivative of zero at zero.
fn root(x: Tensor) -> Tensor {
    x.maximum(x.full_like(LEAST_SQUARE)).sqrt()
}

impl FromStr for Distance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Distance> {
        let refuse = |what: String| {
            Error::user(format!(
                "the distance `{text}` {what}; join {} with +, each with a factor as in d1+100*d4",
                TERMS.join(", ")
            ))
        };
        let mut weights = [0.0; 4];
        for term in text.split('+').map(str::trim) {
            let (factor, name) = match term.split_once('*') {
                Some((factor, name)) => (factor.trim().parse().ok(), name.trim()),
                None => (Some(1.0), term),
            };
            let place = TERMS.iter().position(|own| *own == name);
            let Some(place) = place else {
                return Err(refuse(format!("has the term `{name}`")));
            };
            match factor {
                Some(factor) if f64::is_finite(factor) && factor > 0.0 => weights[place] += factor,
                _ => return Err(refuse(format!("has a factor in `{term}` that is no number above 0"))),
            }
        }
        let [cosine, euclidean, squared, mean_squared] = weights;
        Ok(Distance {
            cosine,
            euclidean,
            squared,
            mean_squared,
        })
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = self
            .weights()
            .into_iter()
            .zip(TERMS)
            .filter(|(weight, _)| *weight != 0.0);
        let shown = terms.map(|(weight, name)| match weight {
            1.0 => name.to_string(),
            weight => format!("{weight}*{name}"),
        });
        f.write_str(&shown.collect::<Vec<_>>().join("+"))
    }
}
