//! Continuing texts with a language model: prompts in, continuations out, piece by piece.

use crate::locked::locked;
use lessen_base::{Error, Result};
use lessen_data::{StopStrings, TextStream};
use lessen_task::SavedModel;
use lessen_train::{Generator, Sampling};
use std::sync::{Arc, Mutex};

/// The most tokens of a text whose keys and values are kept where a model's positions are unlimited.
const MOST_KEPT: usize = 1 << 14;

/// How prompts are continued.
#[derive(Clone, Debug, PartialEq)]
pub struct Continuation {
    /// How each token is chosen.
    pub sampling: Sampling,
    /// Texts for each prompt.
    pub samples: usize,
    /// Strings after which a text ends: the token that completes one of them is its last, as in transformers.
    pub stops: Vec<String>,
    /// Whether prompts are whole, with all of their special tokens, as chat templates write them.
    pub whole_prompts: bool,
}

impl Continuation {
    /// One text for each prompt, which ends at the end-of-text token or after as many tokens as `sampling` says.
    pub fn new(sampling: Sampling) -> Continuation {
        Continuation {
            sampling,
            samples: 1,
            stops: Vec::new(),
            whole_prompts: false,
        }
    }
}

/// A language model on a device that continues texts. Threads that ask it wait for each other, and programs stay for
/// the next prompts.
pub struct TextGenerator {
    saved: Arc<SavedModel>,
    /// The most tokens that are added to a text.
    most_new: usize,
    generator: Mutex<Generator>,
}

/// The prompts as tokens.
///
/// # Errors
/// A model of images, and a prompt without tokens.
pub(crate) fn encoded(model: &SavedModel, prompts: &[String], how: &Continuation) -> Result<Vec<Vec<i32>>> {
    let tokenizer = model.reader.tokenizer()?;
    let encode = |prompt: &String| match how.whole_prompts {
        true => tokenizer.encode(prompt),
        false => tokenizer.encode_prompt(prompt),
    };
    let prompts: Vec<Vec<i32>> = prompts.iter().map(encode).collect::<Result<_>>()?;
    if prompts.iter().any(Vec::is_empty) {
        return Err(Error::user(
            "the prompt has no tokens; give at least one character with --prompt",
        ));
    }
    Ok(prompts)
}

/// The tokens of a text that a generator keeps for these prompts.
pub(crate) fn kept_tokens(prompts: &[Vec<i32>], new: usize) -> usize {
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(1);
    longest.saturating_add(new).min(MOST_KEPT)
}

impl TextGenerator {
    /// A model whose parameters `generator` has, which adds at most `most_new` tokens to a text.
    pub(crate) fn new(saved: Arc<SavedModel>, generator: Generator, most_new: usize) -> TextGenerator {
        TextGenerator {
            saved,
            most_new,
            generator: Mutex::new(generator),
        }
    }

    /// Continues prompts, all at once; returns the continuations in the order of the prompts. `show` gets the number of
    /// a text and each new piece of it, and must not ask this generator.
    ///
    /// # Errors
    /// A prompt without tokens, and the errors of `show`.
    pub fn generate(
        &self,
        prompts: &[String],
        how: &Continuation,
        show: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<Vec<String>> {
        self.continued(&encoded(&self.saved, prompts, how)?, how, show)
    }

    /// [`TextGenerator::generate`] of prompts as tokens.
    pub(crate) fn continued(
        &self,
        prompts: &[Vec<i32>],
        how: &Continuation,
        show: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<Vec<String>> {
        let tokenizer = self.saved.reader.tokenizer()?;
        let sampling = Sampling {
            tokens: how.sampling.tokens.min(self.most_new),
            ..how.sampling.clone()
        };
        let prompts: Vec<&[i32]> = prompts.iter().map(Vec::as_slice).collect();
        let texts = prompts
            .iter()
            .flat_map(|prompt| std::iter::repeat_n(prompt, how.samples));
        let streams = texts.map(|prompt| TextStream::new(tokenizer, prompt, &[]));
        let mut streams: Vec<TextStream<'_>> = streams.collect::<Result<_>>()?;
        let stops = StopStrings::new(tokenizer, &how.stops)?;
        let is_complete = |tokens: &[i32], _| stops.are_completed(tokens);
        let mut each = |number: usize, tokens: &[i32]| show(number, streams[number].push(tokens)?);
        let mut generator = locked(&self.generator);
        let added = generator.generate_all(&prompts, how.samples, &sampling, &is_complete, &mut each)?;
        for (number, tokens) in added.iter().enumerate() {
            show(number, streams[number].finish(tokens)?)?;
        }
        Ok(streams.iter().map(|stream| stream.text().to_string()).collect())
    }
}
