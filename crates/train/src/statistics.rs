//! Recorded statistics: the results of a function that records.

use crate::session::{Function, Inputs, Session};
use lessen_base::Result;

/// Recorded statistics, by the names of value and statistic: `transformer.h.0.mlp.pre_activation/mean`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Statistics that are numbers.
    pub scalars: Vec<(String, f64)>,
    /// Histograms: the counts of the bins between [`histogram_edges`](lessen_nn::statistics::histogram_edges).
    pub histograms: Vec<(String, Vec<f64>)>,
}

impl Statistics {
    /// Runs a function that records.
    pub(crate) fn of_run(session: &Session, function: Function, inputs: &Inputs<'_>) -> Result<Statistics> {
        let results = session.run(function, inputs)?;
        let mut found = Statistics::default();
        for name in results.names() {
            let values: Vec<f64> = results.get(name)?.elements().collect();
            match values[..] {
                [value] => found.scalars.push((name.to_string(), value)),
                _ => found.histograms.push((name.to_string(), values)),
            }
        }
        Ok(found)
    }
}
