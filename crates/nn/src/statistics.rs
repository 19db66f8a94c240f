//! Recorded statistics: what can be recorded of a value that a model names with [`Cx::observe`], computed inside
//! the graph.
//!
//! [`Cx::observe`]: crate::Cx::observe

use std::str::FromStr;

use lessen_base::{Error, Result};
use lessen_graph::ops::Histogram;
use lessen_graph::{DType, Tensor};

use crate::patterns::{fits, listed};

/// A recorded statistic of a value. Each statistic is a number, unless it says otherwise, over the elements that are
/// seen; a statistic of rows is the mean over the rows of the last axis. Elements that are NaN make it NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Statistic {
    /// `count` of elements, `mean`, `std` (population deviation), `min`, `max`, and `zeros`, the share of elements that
    /// are 0. Without elements `min` is infinite, `max` negative infinite, and the other statistics are 0.
    Summary,
    /// `NAME`: the share of elements `x` with `above < x <= up_to`.
    Share {
        /// Name of the statistic.
        name: &'static str,
        /// Lower end of the interval, which is outside of it.
        above: f64,
        /// Upper end of the interval, which is in it.
        up_to: f64,
    },
    /// `histogram`: counts in the bins of [`Histogram::STANDARD`].
    Histogram,
    /// `entropy` of the rows in nats, `-sum p ln p` with `p = x / sum x` and `0 ln 0 = 0`, for elements that are not
    /// negative. Rows of zeros have none and are left out.
    RowEntropy,
    /// `row_std`: population deviation of the rows. Rows without a seen element are left out.
    RowDeviation,
}

/// The name of the statistic that is a histogram.
pub const HISTOGRAM: &str = "histogram";

/// The edges of the bins of a recorded histogram, ascending from -inf to inf; see [`Histogram::edges`].
pub fn histogram_edges() -> Vec<f64> {
    Histogram::STANDARD.edges()
}

/// Computes statistics of the elements of `x` where `seen`, which broadcasts to the shape of `x`, is true.
pub(crate) fn statistics_of(statistics: &[Statistic], x: Tensor, seen: Option<Tensor>) -> Vec<(&'static str, Tensor)> {
    let x = x.cast(DType::F32);
    // A number has one row, as the list of it has.
    let x = if x.rank() == 0 { x.reshape(&[1]) } else { x };
    let seen = seen.map(|seen| seen.broadcast_to(&x.shape()));
    let sample = Sample { x, seen };
    statistics
        .iter()
        .flat_map(|statistic| sample.compute(*statistic))
        .collect()
}

/// The elements of `x` where `seen` is true.
struct Sample {
    x: Tensor,
    seen: Option<Tensor>,
}

impl Sample {
    fn compute(&self, statistic: Statistic) -> Vec<(&'static str, Tensor)> {
        let x = self.x;
        match statistic {
            Statistic::Summary => {
                let mean = self.mean(x);
                let apart = x - mean;
                vec![
                    ("count", self.count()),
                    ("mean", mean),
                    ("std", self.mean(apart * apart).sqrt()),
                    (
                        "min",
                        all_but_last(self.kept(x, f64::INFINITY).min_axes(&[x.axis(-1)]), Tensor::min_axes),
                    ),
                    (
                        "max",
                        all_but_last(
                            self.kept(x, f64::NEG_INFINITY).max_axes(&[x.axis(-1)]),
                            Tensor::max_axes,
                        ),
                    ),
                    ("zeros", self.share(x.eq(x.scalar_like(0.0)))),
                ]
            }
            Statistic::Share { name, above, up_to } => {
                let inside = x.gt(x.scalar_like(above)).and(x.le(x.scalar_like(up_to)));
                vec![(name, self.share(inside))]
            }
            // NaN is in no bin.
            Statistic::Histogram => vec![(HISTOGRAM, self.kept(x, f64::NAN).histogram())],
            Statistic::RowEntropy => vec![("entropy", self.row_entropy())],
            Statistic::RowDeviation => vec![("row_std", self.row_deviation())],
        }
    }

    /// `y` where the element is seen, and a constant elsewhere.
    fn kept(&self, y: Tensor, other: f64) -> Tensor {
        self.seen.map_or(y, |seen| seen.select(y, y.scalar_like(other)))
    }

    fn count(&self) -> Tensor {
        let all = self.x.scalar_like(self.x.ty().numel() as f64);
        self.seen.map_or(all, |seen| seen.cast(DType::F32).sum())
    }

    fn mean(&self, y: Tensor) -> Tensor {
        let count = self.count();
        self.kept(y, 0.0).sum() / count.maximum(count.scalar_like(1.0))
    }

    fn share(&self, condition: Tensor) -> Tensor {
        self.mean(condition.cast(DType::F32))
    }

    fn row_entropy(&self) -> Tensor {
        let p = self.kept(self.x, 0.0);
        let zero = p.scalar_like(0.0);
        let total = p.sum_last();
        let sum = p.eq(zero).select(zero, p * p.log()).sum_last();
        // Rounding may leave a little below 0.
        let entropy = (total.log() - sum / total).maximum(zero);
        mean_where(total.ne(zero), entropy)
    }

    fn row_deviation(&self) -> Tensor {
        let (x, one) = (self.x, self.x.scalar_like(1.0));
        let width = x.scalar_like(x.dim(-1) as f64);
        let count = self.seen.map_or(width, |seen| seen.cast(DType::F32).sum_last());
        let mean = |y| self.kept(y, 0.0).sum_last() / count.maximum(one);
        let apart = x - mean(x);
        let deviation = mean(apart * apart).sqrt();
        let (any, deviation) = count.ge(one).broadcast_with(deviation);
        mean_where(any, deviation)
    }
}

/// A reduction over all axes of rows that are reduced already.
fn all_but_last(rows: Tensor, reduce: impl Fn(Tensor, &[usize]) -> Tensor) -> Tensor {
    let axes: Vec<usize> = (0..rows.rank()).collect();
    if axes.is_empty() { rows } else { reduce(rows, &axes) }
}

/// The mean of the elements where the condition holds; 0 of none.
fn mean_where(condition: Tensor, y: Tensor) -> Tensor {
    let count = condition.cast(DType::F32).sum();
    condition.select(y, y.scalar_like(0.0)).sum() / count.maximum(count.scalar_like(1.0))
}

/// Which of the values that a model names are recorded: a list of patterns, separated by commas, of names such as
/// `transformer.h.0.mlp.pre_activation`. In a pattern `*` stands for any characters; `activations` is short for
/// `*pre_activation`, and `attention` for `*attention_scores` and `*attention_weights`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    items: Vec<String>,
}

/// Short forms of patterns.
const SHORT: [(&str, &[&str]); 2] = [
    ("activations", &["*pre_activation"]),
    ("attention", &["*attention_scores", "*attention_weights"]),
];

impl Selection {
    /// Everything.
    pub fn all() -> Selection {
        Selection {
            items: vec!["*".to_string()],
        }
    }

    /// Whether a value of this name is recorded.
    pub fn contains(&self, name: &str) -> bool {
        self.items.iter().any(|item| item_contains(item, name))
    }

    /// Checks that every pattern fits the name of a value.
    ///
    /// # Errors
    /// A pattern that fits none of `names`.
    pub fn check(&self, names: &[String]) -> Result<()> {
        let is_used = |item: &str| names.iter().any(|name| item_contains(item, name));
        match self.items.iter().find(|item| !is_used(item)) {
            None => Ok(()),
            Some(item) => Err(Error::user(format!(
                "nothing that the model observes is called {item}; it has {}",
                listed(names)
            ))),
        }
    }
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Selection> {
        let items: Vec<String> = text.split(',').map(|item| item.trim().to_string()).collect();
        if items.iter().any(String::is_empty) {
            return Err(Error::user(format!(
                "'{text}' is no list of what to record; write names or patterns with commas between, such as \
                 activations,attention"
            )));
        }
        Ok(Selection { items })
    }
}

fn item_contains(item: &str, name: &str) -> bool {
    match SHORT.iter().find(|(short, _)| *short == item) {
        Some((_, patterns)) => patterns.iter().any(|pattern| fits(pattern, name)),
        None => fits(item, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_names() {
        let fitting = |text: &str, name: &str| text.parse::<Selection>().unwrap().contains(name);
        for (text, name, expected) in [
            ("*", "a.b", true),
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.*", "a.b.c", true),
            ("*.c", "a.b.c", true),
            ("a*c", "ac", true),
            ("a*b*c", "a.b.b.c", true),
            ("a*b*c", "a.c.b", false),
            ("ab*ba", "aba", false),
            ("x, *.c", "a.c", true),
            ("h.1.*", "h.10.mlp", false),
            ("activations", "h.0.mlp.pre_activation", true),
            ("attention", "h.0.mlp.pre_activation", false),
            ("attention", "h.0.attn.attention_weights", true),
        ] {
            assert_eq!(fitting(text, name), expected, "{text} {name}");
        }
        assert!("".parse::<Selection>().is_err() && "a,,b".parse::<Selection>().is_err());
    }

    #[test]
    fn a_pattern_without_a_value_is_refused() {
        let names = ["a.pre_activation", "b.pre_activation", "c", "d", "e", "f"].map(String::from);
        let check = |text: &str| text.parse::<Selection>().unwrap().check(&names);
        assert!(check("activations,c").is_ok());
        assert_eq!(
            check("c,attention").unwrap_err().to_string(),
            "nothing that the model observes is called attention; it has a.pre_activation, b.pre_activation, c, d and 2 \
             more"
        );
    }
}
