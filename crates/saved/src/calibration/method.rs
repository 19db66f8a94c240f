//! How a range follows from the magnitudes of numbers.

use lessen_base::words;

words! {
    /// How a range follows from the magnitudes of numbers.
    pub enum Method {
        /// The greatest magnitude.
        MinMax = "minmax",
        /// The magnitude that 99.99 % of all do not exceed.
        Percentile = "percentile",
        /// The range whose 128 levels lose the least information, by the Kullback-Leibler divergence (Migacz 2017).
        Entropy = "entropy",
    }
}
