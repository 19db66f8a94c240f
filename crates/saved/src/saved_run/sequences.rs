//! Continuing texts of many askers together.

use super::SavedRun;
use lessen_base::{Error, Result};
use lessen_data::Tokenizer;
use lessen_train::Sequences;

/// Most tokens of a text where nothing else is said.
const CONTEXT: usize = 2048;

impl SavedRun {
    /// The language model on a device, for at most `most` texts at once of at most `context` tokens; without a number,
    /// as many as the positions that it was made or trained for, but 2048 at most.
    ///
    /// # Errors
    /// A model that continues no texts, one that cannot be read, and more tokens than these positions.
    pub fn sequences(&self, context: Option<usize>, most: usize) -> Result<Sequences> {
        self.check_continues()?;
        let positions = self.positions();
        if let (Some(context), Some(positions)) = (context, positions)
            && context > positions
        {
            return Err(Error::user(format!(
                "--context {context}: {} was made for {positions} positions; give at most as many",
                self.source().display()
            )));
        }
        let own = positions.unwrap_or(CONTEXT).min(CONTEXT);
        let mut sequences = Sequences::new(self.session()?, &self.saved.model, context.unwrap_or(own), most)?;
        self.ends().into_iter().for_each(|ends| sequences.end_at(ends));
        Ok(sequences)
    }

    /// The tokenizer of a model of texts.
    ///
    /// # Errors
    /// A model of images.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.saved.reader.tokenizer()
    }
}
