//! The prompts of a request as tokens, and how many are added to each.

use super::ContinueJob;
use crate::given::Prompt;
use crate::refusal::Refusal;
use lessen_data::Tokenizer;

/// The most characters of a prompt for each token of the context. Longer ones are refused before they are encoded,
/// which bounds the memory of encoding.
const CHARACTERS: usize = 64;

/// The tokens of prompts, and the most tokens to add to each, for texts of at most `context` tokens.
///
/// # Errors
/// A prompt that is empty or too long, a token that the model does not know, and more tokens than there is room for.
pub(super) fn read(
    job: &ContinueJob,
    tokenizer: &Tokenizer,
    context: usize,
) -> Result<(Vec<Vec<i32>>, Vec<usize>), Refusal> {
    let (mut prompts, mut most) = (Vec::new(), Vec::new());
    for (number, prompt) in job.prompts.iter().enumerate() {
        let number = number + 1;
        let tokens = match prompt {
            Prompt::Text(text) if text.len() > context.saturating_mul(CHARACTERS) => {
                return Err(too_long(
                    job,
                    format!(
                        "prompt {number} has {} bytes, which are too many for {context} tokens; shorten it",
                        text.len()
                    ),
                ));
            }
            Prompt::Text(text) if job.is_rendered => tokenizer.encode(text)?,
            Prompt::Text(text) => tokenizer.encode_prompt(text)?,
            Prompt::Tokens(tokens) => tokens.clone(),
        };
        if tokens.is_empty() {
            let message = format!("prompt {number} has no tokens; give at least one");
            return Err(Refusal::field(job.field, message));
        }
        let vocabulary = tokenizer.vocab_size() as i32;
        if let Some(token) = tokens.iter().find(|token| !(0..vocabulary).contains(*token)) {
            let message = format!(
                "prompt {number} has the token {token}, and the model knows 0 to {}",
                vocabulary - 1
            );
            return Err(Refusal::field(job.field, message));
        }
        most.push(most_tokens(job, number, tokens.len(), context)?);
        prompts.push(tokens);
    }
    Ok((prompts, most))
}

/// The most tokens to add to a prompt of `known` tokens.
fn most_tokens(job: &ContinueJob, number: usize, known: usize, context: usize) -> Result<usize, Refusal> {
    let room = context.saturating_sub(known);
    if room == 0 {
        return Err(too_long(
            job,
            format!(
                "prompt {number} has {known} tokens, and a text can have {context} with those that are added; shorten it"
            ),
        ));
    }
    match (job.tokens, job.sampling.max_length) {
        (Some((tokens, _)), _) if tokens <= room => Ok(tokens),
        (Some((asked, field)), _) => {
            let message = format!(
                "prompt {number} has {known} tokens, and with {asked} more it would exceed the {context} that a text can \
                 have; ask for at most {room}"
            );
            Err(Refusal::field(field, message).with_code("context_length_exceeded"))
        }
        (None, Some(length)) if length <= known => Err(too_long(
            job,
            format!(
                "prompt {number} has {known} tokens, and max_length of the model's generation_config.json leaves no room \
                 after {length}; shorten it, or say how many tokens to add"
            ),
        )),
        (None, Some(length)) => Ok((length - known).min(job.sampling.tokens).min(room)),
        (None, None) => Ok(job.sampling.tokens.min(room)),
    }
}

fn too_long(job: &ContinueJob, message: String) -> Refusal {
    Refusal::field(job.field, message).with_code("context_length_exceeded")
}
