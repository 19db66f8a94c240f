//! Continuing texts with a language model: prompts in, continuations out, piece by piece.

use lessen_base::{Error, Result};
use lessen_data::{StopStrings, TextStream};
use lessen_task::SavedModel;
use lessen_train::{Generator, Sampling};

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

/// Continues prompts with a model, all at once; returns the continuations in the order of the prompts. `generator`
/// makes a generator that keeps a number of tokens of each text. `show` gets the number of a text and each new piece of
/// it.
///
/// # Errors
/// A prompt without tokens, and the errors of generator, tokenizer and `show`.
pub fn generate(
    model: &SavedModel,
    generator: impl FnOnce(usize) -> Result<Generator>,
    prompts: &[String],
    how: &Continuation,
    show: &mut dyn FnMut(usize, &str) -> Result<()>,
) -> Result<Vec<String>> {
    let tokenizer = model.reader.tokenizer()?;
    let encode = |prompt: &String| match how.whole_prompts {
        true => tokenizer.encode(prompt),
        false => tokenizer.encode_prompt(prompt),
    };
    let prompts = prompts.iter().map(encode);
    let prompts: Vec<Vec<i32>> = prompts.collect::<Result<_>>()?;
    if prompts.iter().any(Vec::is_empty) {
        return Err(Error::user(
            "the prompt has no tokens; give at least one character with --prompt",
        ));
    }
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(1);
    let mut generator = generator(longest.saturating_add(how.sampling.tokens).min(MOST_KEPT))?;
    let prompts: Vec<&[i32]> = prompts.iter().map(Vec::as_slice).collect();
    let texts = prompts
        .iter()
        .flat_map(|prompt| std::iter::repeat_n(prompt, how.samples));
    let streams = texts.map(|prompt| TextStream::new(tokenizer, prompt, &[]));
    let mut streams: Vec<TextStream<'_>> = streams.collect::<Result<_>>()?;
    let stops = StopStrings::new(tokenizer, &how.stops)?;
    let is_complete = |tokens: &[i32], _| stops.are_completed(tokens);
    let mut each = |number: usize, tokens: &[i32]| show(number, streams[number].push(tokens)?);
    let added = generator.generate_all(&prompts, how.samples, &how.sampling, &is_complete, &mut each)?;
    for (number, tokens) in added.iter().enumerate() {
        show(number, streams[number].finish(tokens)?)?;
    }
    Ok(streams.iter().map(|stream| stream.text().to_string()).collect())
}
