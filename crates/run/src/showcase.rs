//! A demonstration of a model in a few lines at the end of its training.

use crate::task::goal::Goal;
use crate::task::reader::Reader;
use lessen_base::Result;
use lessen_data::{Adder, Field, Source, adder};
use lessen_train::{Generator, Sampling};

/// Sums that are shown.
const SUMS: usize = 8;
/// Tokens of the text that is shown.
const TOKENS: usize = 400;

/// Sums with their answers, or a text that the model made up; nothing for classifiers. `seed` decides the
/// text; `generator` makes a generator that keeps so many tokens.
pub(crate) fn showcase(
    goal: &Goal,
    reader: &Reader,
    dev: &dyn Source,
    seed: u64,
    generator: impl FnOnce(usize) -> Result<Generator>,
) -> Result<Vec<String>> {
    match goal {
        Goal::Classes(..)
        | Goal::Labels(..)
        | Goal::WordClasses(_)
        | Goal::Answers
        | Goal::Score(_)
        | Goal::MaskedTokens => Ok(Vec::new()),
        Goal::Sum => {
            let adder = Adder::new(1, 0)?;
            let sampling = Sampling::greedy(adder::DIGITS);
            let mut generator = generator(adder::LENGTH)?;
            let question = adder.question(0, 0).len();
            let batch = dev.eval_batch(0)?;
            let tokens = batch.get("tokens").and_then(Field::as_i32).unwrap_or_default();
            let rows = tokens.chunks_exact(adder::LENGTH).take(SUMS.min(batch.examples));
            rows.map(|row| Ok(adder.show(row, &generator.generate(&row[..question], &sampling)?)))
                .collect()
        }
        Goal::NextToken => {
            let sampling = Sampling {
                tokens: TOKENS,
                temperature: 0.8,
                top_k: Some(200),
                seed,
                ..Sampling::default()
            };
            let tokenizer = reader.tokenizer()?;
            let mut start = tokenizer.encode_prompt("\n")?;
            if start.is_empty() {
                start.push(tokenizer.pad_id());
            }
            let text = tokenizer.decode(&generator(start.len() + TOKENS)?.generate(&start, &sampling)?)?;
            Ok(text.lines().map(str::to_string).collect())
        }
    }
}
