//! Asking a model about the words of sentences.

use super::logits::Logits;
use super::{SavedRun, at_once};
use lessen_base::{Error, Result};
use lessen_data::{EntitySpan, Field, IGNORE, Source, TaggedBatches, are_entities, entity_spans};
use lessen_nn::Task;
use lessen_task::SavedModel;
use lessen_task::goal::logits::{check_finite, largest, softmax};
use std::sync::Arc;

/// The tags of a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Tags {
    /// The tag of each word; none for a word without a token, such as a sign that the tokenizer leaves out.
    pub words: Vec<Option<WordTag>>,
    /// The entities, where the classes are parts of such.
    pub spans: Vec<TaggedSpan>,
}

/// The tag of a word, from its first token.
#[derive(Clone, Debug, PartialEq)]
pub struct WordTag {
    /// The number of the most likely class.
    pub class: usize,
    /// The probabilities of all classes.
    pub probabilities: Vec<f64>,
}

/// An entity in a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggedSpan {
    /// Its type, and its words.
    pub entity: EntitySpan,
    /// The mean of the probabilities of its words' classes.
    pub probability: f64,
}

/// A model that tells classes of words apart, on a device.
pub struct Tagger {
    saved: Arc<SavedModel>,
    length: usize,
    batch: usize,
    logits: Logits,
}

impl SavedRun {
    /// The model on a device, to be asked about words.
    ///
    /// # Errors
    /// A model that does not tell classes of words apart, and one that cannot be read.
    pub fn tagger(&self) -> Result<Tagger> {
        if !matches!(self.saved.model.task(), Task::TokenClassification { .. }) {
            return Err(Error::user(format!(
                "{} does not tell classes of words apart; name a model for token classification",
                self.source().display()
            )));
        }
        Ok(Tagger {
            saved: self.saved.clone(),
            length: self.config.data.max_length,
            batch: self.config.train.batch,
            logits: self.logits()?,
        })
    }
}

impl Tagger {
    /// How many sentences are best asked about at once.
    pub fn at_once(&self) -> usize {
        at_once(self.batch)
    }

    /// Tags sentences of words, in balanced batches of at most `train.batch`; the tags in order. Sentences beyond
    /// `data.max_length` tokens are cut into parts. Of a sentence for which the model has numbers that are NaN or
    /// infinite, the answer is an error.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    pub fn tag(&self, sentences: &[Vec<String>]) -> Result<Vec<Result<Tags>>> {
        if sentences.is_empty() {
            return Ok(Vec::new());
        }
        let tokenizer = self.saved.reader.tokenizer()?;
        let source = TaggedBatches::in_parts(sentences, tokenizer, self.length, self.batch)?;
        let untagged = sentences.iter().map(|words| Ok(vec![None; words.len()]));
        let mut found: Vec<Result<Vec<Option<WordTag>>>> = untagged.collect();
        let made = |index| source.eval_batch(index as u64);
        self.logits
            .each(source.eval_batches() as usize, made, |index, batch, logits| {
                let ints = |name| batch.get(name).and_then(Field::as_i32).unwrap_or_default();
                let (numbers, segments) = (ints("labels"), ints("segments"));
                let sentence_of = source.sentences_of(index as u64);
                let rows = logits.chunks_exact((logits.len() / numbers.len().max(1)).max(1));
                for ((&word, &segment), logits) in numbers.iter().zip(segments).zip(rows) {
                    if word == IGNORE {
                        continue;
                    }
                    let sentence = &mut found[sentence_of[segment as usize]];
                    match (check_finite(logits), sentence.as_mut()) {
                        (Err(error), _) => *sentence = Err(error),
                        (Ok(()), Ok(words)) => {
                            words[word as usize] = Some(WordTag {
                                class: largest(logits, 1)[0] as usize,
                                probabilities: softmax(logits),
                            });
                        }
                        (Ok(()), Err(_)) => {}
                    }
                }
                Ok(())
            })?;
        let names = self.saved.model.labels();
        Ok(found.into_iter().map(|words| Ok(tags(words?, names))).collect())
    }
}

/// The tags of a sentence, with entities where the classes are parts of such.
fn tags(words: Vec<Option<WordTag>>, names: &[String]) -> Tags {
    let mut spans = Vec::new();
    if are_entities(names) {
        let name = |word: &Option<WordTag>| word.as_ref().map_or("O", |word| names[word.class].as_str());
        let found = entity_spans(&words.iter().map(name).collect::<Vec<_>>());
        spans.extend(found.into_iter().map(|entity| {
            let own = words[entity.words.clone()].iter().flatten();
            let shares: Vec<f64> = own.map(|word| word.probabilities[word.class]).collect();
            TaggedSpan {
                probability: shares.iter().sum::<f64>() / shares.len() as f64,
                entity,
            }
        }));
    }
    Tags { words, spans }
}
