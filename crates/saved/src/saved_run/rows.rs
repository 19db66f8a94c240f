//! Asking a model of tables about rows.

use super::SavedRun;
use super::logits::Logits;
use super::prediction::predicted;
use lessen_base::Result;
use lessen_data::table::TableSchema;
use lessen_data::{Batch, Field};
use lessen_task::goal::{Prediction, SharedGoal};

/// A saved model of tables that is ready to be asked, on a device.
pub struct RowPredictor<'a> {
    run: &'a SavedRun<'a>,
    schema: &'a TableSchema,
    logits: Logits,
    goal: SharedGoal,
}

impl SavedRun<'_> {
    /// Whether the model reads rows of tables.
    pub fn reads_tables(&self) -> bool {
        self.saved.reader.table().is_ok()
    }

    /// The model on a device, to be asked about rows.
    ///
    /// # Errors
    /// A model of texts or images, and one that cannot be read.
    pub fn row_predictor(&self) -> Result<RowPredictor<'_>> {
        Ok(RowPredictor {
            run: self,
            schema: self.saved.reader.table()?,
            logits: Logits::new(self.session()?),
            goal: self.goal(),
        })
    }
}

impl RowPredictor<'_> {
    /// The columns that the model reads.
    pub fn schema(&self) -> &TableSchema {
        self.schema
    }

    /// Number of rows that are best asked about at once.
    pub fn at_once(&self) -> usize {
        self.run.config.train.batch.saturating_mul(16).min(4096)
    }

    /// Asks about rows, each the elements that the schema makes of it, in batches of `train.batch`; the answers in
    /// order. Of a row for which the model has numbers that are NaN or infinite, the answer is an error.
    ///
    /// # Errors
    /// A device that fails.
    pub fn ask(&mut self, rows: &[Vec<f32>]) -> Result<Vec<Result<Prediction>>> {
        let (size, width) = (self.run.config.train.batch.max(1), self.schema.width());
        let mut all = Vec::with_capacity(rows.len());
        for rows in rows.chunks(size) {
            let mut numbers: Vec<f32> = rows.concat();
            // All batches have the same layout, so that one program is compiled.
            numbers.resize(size * width, 0.0);
            let batch = Batch {
                fields: vec![("images".to_string(), Field::f32([size, 1, width, 1], numbers))],
                examples: rows.len(),
                tokens: rows.len(),
            };
            let logits = self.logits.of(&self.run.saved.model, &batch)?;
            let answers = logits.chunks_exact((logits.len() / size).max(1)).take(rows.len());
            all.extend(answers.map(|logits| predicted(self.goal.as_ref(), logits)));
        }
        Ok(all)
    }
}
