//! What a model answers on random inputs beside its quantized one, and how long both take.

use std::time::Instant;

use lessen_base::Result;

use super::Agreement;
use crate::saved_run::SavedRun;

/// Examples of a batch on which the models are compared.
pub(super) const BATCH: usize = 8;

/// Answers of two models on the same inputs.
pub(super) struct Comparison {
    /// The largest difference of an answer's element, over the largest one of the first model.
    pub difference: f64,
    pub agreement: Agreement,
    /// Milliseconds of a batch.
    pub milliseconds: [f64; 2],
}

impl Comparison {
    /// Asks both models.
    ///
    /// # Errors
    /// A model that cannot be read, a failure of the device.
    pub(super) fn of(before: &SavedRun, after: &SavedRun) -> Result<Comparison> {
        let (before, after) = (asked(before)?, asked(after)?);
        let rows = || {
            before
                .logits
                .chunks(before.width)
                .zip(after.logits.chunks(before.width))
        };
        let same = rows().filter(|(a, b)| largest_of(a) == largest_of(b)).count();
        Ok(Comparison {
            difference: largest_difference(&before.logits, &after.logits),
            agreement: Agreement::Largest(same as f64 / rows().count().max(1) as f64),
            milliseconds: [before.milliseconds, after.milliseconds],
        })
    }
}

/// The largest difference of two arrays, over the largest number of the first one.
pub(super) fn largest_difference(before: &[f32], after: &[f32]) -> f64 {
    let largest = before.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
    let apart = before.iter().zip(after).map(|(a, b)| (a - b).abs() / largest);
    f64::from(apart.fold(0.0, f32::max))
}

/// The place of the largest number.
fn largest_of(row: &[f32]) -> Option<usize> {
    (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]))
}

/// The median time of a few runs, after one that was not timed.
pub(super) fn median_milliseconds(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = [0.0; 5];
    for time in &mut times {
        let begun = Instant::now();
        run()?;
        *time = begun.elapsed().as_secs_f64() * 1e3;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// What a model answers on random inputs, and how long that takes.
struct Asked {
    logits: Vec<f32>,
    /// Logits of an input, or of a position of its text.
    width: usize,
    milliseconds: f64,
}

fn asked(run: &SavedRun) -> Result<Asked> {
    let mut batches = run.random_batches(BATCH, None)?;
    let (logits, width) = batches.ask_for_logits()?;
    Ok(Asked {
        logits,
        width: width.max(1),
        milliseconds: median_milliseconds(|| batches.ask())?,
    })
}
