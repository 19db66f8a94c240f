//! Number of cases of random and exhaustive tests.

/// The environment variable that makes tests run all of their cases; `scripts/long` sets it to 1.
const LONG: &str = "LESSEN_LONG";

/// Returns how many of `all` cases a test runs: all where `LESSEN_LONG` is 1, otherwise a tenth, rounded up.
///
/// ```
/// let seeds = 0..lessen_base::cases(2_000);
/// assert!(seeds.end == 200 || seeds.end == 2_000);
/// ```
pub fn cases(all: u64) -> u64 {
    if std::env::var(LONG).is_ok_and(|value| value == "1") {
        all
    } else {
        all.div_ceil(10)
    }
}
