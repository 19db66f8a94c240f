//! Continuing texts with a saved language model.

use super::SavedRun;
use crate::chat::ChatTemplate;
use crate::continuation::{Continuation, TextGenerator, encoded, kept_tokens};
use lessen_base::{Error, Result};
use lessen_train::{Generator, Sampling};

impl SavedRun {
    /// Continues prompts; returns the continuations. `show` gets the number of a text and each new piece of it.
    ///
    /// # Errors
    /// A model that is no language model, a prompt without tokens, and the errors of `show`.
    pub fn generate(
        &self,
        prompts: &[String],
        how: &Continuation,
        show: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<Vec<String>> {
        self.check_continues()?;
        let prompts = encoded(&self.saved, prompts, how)?;
        let new = how.sampling.tokens.min(self.goal().most_new_tokens());
        let generator = self.text_generator(kept_tokens(&prompts, new))?;
        generator.continued(&prompts, how, show)
    }

    /// The language model on a device, to continue many prompts one after another; it keeps `most` tokens of each text,
    /// and a longer one is continued from its last half alone.
    ///
    /// # Errors
    /// A model that continues no texts, and one that cannot be read.
    pub fn text_generator(&self, most: usize) -> Result<TextGenerator> {
        self.check_continues()?;
        let (saved, generator) = (self.saved.clone(), self.generator(most)?);
        Ok(TextGenerator::new(saved, generator, self.goal().most_new_tokens()))
    }

    /// Refuses a model that continues no texts.
    pub(super) fn check_continues(&self) -> Result<()> {
        match self.goal().no_continuation() {
            Some(reason) => Err(Error::user(format!("{} {reason}", self.source().display()))),
            None => Ok(()),
        }
    }

    /// The chat templates of the model, or of the model that its adapters belong to.
    ///
    /// # Errors
    /// A model without one, and a damaged file.
    pub fn chat_template(&self) -> Result<ChatTemplate> {
        self.own_chat_template()?.ok_or_else(|| {
            Error::user(format!(
                "{} has no chat template; put chat_template.jinja into the folder, or give the whole prompt with --prompt \
                 alone",
                self.saved.folder().path().display()
            ))
        })
    }

    /// [`SavedRun::chat_template`]; none where there is none.
    ///
    /// # Errors
    /// A damaged file.
    pub fn own_chat_template(&self) -> Result<Option<ChatTemplate>> {
        let folder = self.saved.folder();
        if let Some(own) = ChatTemplate::read(folder.path())? {
            return Ok(Some(own));
        }
        let of_base = folder.base()?.map(|base| ChatTemplate::read(&base)).transpose()?;
        Ok(of_base.flatten())
    }

    /// The model's own sampling: its `generation_config.json` over the defaults `rest`.
    pub fn sampling(&self, rest: Sampling) -> Sampling {
        match &self.saved.generation {
            Some(generation) => generation.over(rest),
            None => rest,
        }
    }

    /// The strings after which the model's own `generation_config.json` ends texts.
    pub fn stops(&self) -> Vec<String> {
        let own = self.saved.generation.as_ref();
        own.map_or(Vec::new(), |generation| generation.stops.clone())
    }

    /// A note about the fields of the model's `generation_config.json` that are not followed; none where all are.
    pub fn generation_note(&self) -> Option<String> {
        let own = &self.saved.generation.as_ref()?.not_followed;
        let fields = own.join(", ");
        (!own.is_empty()).then(|| format!("note: generation_config.json has fields that are not followed: {fields}"))
    }

    /// Numbers of unknown tokens and of all tokens of a text.
    ///
    /// # Errors
    /// A text that cannot be encoded.
    pub fn unknown_tokens(&self, text: &str) -> Result<(usize, usize)> {
        let tokenizer = self.saved.reader.tokenizer()?;
        let (tokens, unknown) = (tokenizer.encode(text)?, tokenizer.unknown_id());
        let is_unknown = |token: &&i32| Some(**token) == unknown;
        Ok((tokens.iter().filter(is_unknown).count(), tokens.len()))
    }

    /// What becomes of a prompt with up to `tokens` new tokens that reach beyond the model's positions, as the end of a
    /// sentence; none where they do not.
    ///
    /// # Errors
    /// A prompt that cannot be encoded.
    pub fn beyond_positions(&self, prompt: &str, tokens: usize) -> Result<Option<String>> {
        let model = &self.saved.model;
        let known = self.saved.reader.tokenizer()?.encode_prompt(prompt)?.len();
        let all = known.saturating_add(tokens.min(self.goal().most_new_tokens()));
        Ok(match (model.max_length(), self.positions()) {
            (Some(most), _) if all > most => Some(format!(
                "up to {all} tokens are more than the {most} positions of the model: a text that is longer is continued from \
                 its last half alone"
            )),
            (None, Some(most)) if all > most => Some(format!(
                "up to {all} tokens are more than the {most} positions that the model was trained for: what follows them may \
                 be of no use"
            )),
            _ => None,
        })
    }

    /// The number of positions that the model was made or trained for, whether or not it reads longer texts.
    pub(super) fn positions(&self) -> Option<usize> {
        let config = self.saved.model.config_json();
        let said = |field| usize::try_from(config.get(field)?.as_u64()?).ok();
        let trained = || said("max_position_embeddings").or_else(|| said("n_positions"));
        self.saved.model.max_length().or_else(trained)
    }

    /// A generator that keeps the keys and values of `most` tokens.
    pub(super) fn generator(&self, most: usize) -> Result<Generator> {
        let mut generator = Generator::new(self.session()?, &self.saved.model, most)?;
        self.ends().into_iter().for_each(|ends| generator.end_at(ends));
        Ok(generator)
    }

    /// The tokens that end texts, where the model's own `generation_config.json` names them.
    pub(super) fn ends(&self) -> Option<Vec<i32>> {
        self.saved.generation.as_ref()?.ends.clone()
    }
}
