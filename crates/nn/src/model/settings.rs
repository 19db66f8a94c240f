//! What the configurations of all models have in common: asking for it and changing it.

use super::Model;
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::loss::Loss;
use lessen_base::{Error, Result};

impl Model {
    /// Names of the classes; empty for a language model.
    pub fn labels(&self) -> &[String] {
        match self {
            Model::Bert(model) if model.has_classes() => &model.config.labels,
            Model::LessenEncoder(model) => &model.config.labels,
            Model::Bert(_) | Model::GPT2LMHeadModel(_) | Model::LlamaForCausalLM(_) => &[],
        }
    }

    /// Replaces the classes of a classifier; a single one makes it a regression.
    ///
    /// # Panics
    /// If the model is a language model or `labels` is empty.
    #[track_caller]
    pub fn set_labels(&mut self, labels: Vec<String>) {
        assert!(!labels.is_empty(), "a classifier needs a class");
        match self {
            Model::Bert(model) if model.has_classes() => model.config.labels = labels,
            Model::LessenEncoder(model) => model.config.labels = labels,
            Model::Bert(_) | Model::GPT2LMHeadModel(_) | Model::LlamaForCausalLM(_) => {
                panic!("a language model has no classes")
            }
        }
    }

    /// Whether it is a classifier whose texts can have several of the classes, or none.
    pub fn is_multi_label(&self) -> bool {
        match self {
            Model::Bert(model) => model.has_classes() && model.config.multi_label,
            Model::LessenEncoder(model) => model.config.multi_label,
            Model::GPT2LMHeadModel(_) | Model::LlamaForCausalLM(_) => false,
        }
    }

    /// Says whether the texts of a classifier can have several of the classes; of a language model nothing changes.
    pub fn set_multi_label(&mut self, is_multi_label: bool) {
        match self {
            Model::Bert(model) => model.config.multi_label = is_multi_label,
            Model::LessenEncoder(model) => model.config.multi_label = is_multi_label,
            Model::GPT2LMHeadModel(_) | Model::LlamaForCausalLM(_) => {}
        }
    }

    /// Number of tokens in the vocabulary.
    pub fn vocab_size(&self) -> usize {
        of_each!(self, model => model.config.vocab_size)
    }

    /// Sets the number of tokens in the vocabulary.
    pub fn set_vocab_size(&mut self, tokens: usize) {
        of_each!(self, model => model.config.vocab_size = tokens);
    }

    /// Maximum sequence length in tokens: the number of position embeddings; `None` where there are none, and no limit.
    pub fn max_length(&self) -> Option<usize> {
        self.attention().position.is_limited().then(|| self.positions())
    }

    /// Checks that the model can read sequences of `length` tokens. Whatever comes from a file or a flag is checked
    /// with this before [`Model::forward`] or [`Model::logits`] is traced.
    ///
    /// # Errors
    /// A length of 0 or above [`Model::max_length`].
    pub fn check_length(&self, length: usize) -> Result<()> {
        match self.max_length() {
            Some(most) if !(1..=most).contains(&length) => Err(Error::user(format!(
                "sequences of {length} tokens do not fit the model, which has position embeddings for {most}; set \
                 data.max_length to a number from 1 to {most}"
            ))),
            None if length == 0 => Err(Error::user(
                "sequences of 0 tokens do not fit the model; set data.max_length to at least 1",
            )),
            _ => Ok(()),
        }
    }

    /// Gives the table of position embeddings at least as many rows, for a model that gets one.
    pub fn extend_positions(&mut self, length: usize) {
        let (rows, first) = match self {
            Model::Bert(model) => {
                let first = model.config.first_position();
                (&mut model.config.max_position_embeddings, first)
            }
            Model::GPT2LMHeadModel(model) => (&mut model.config.n_positions, 0),
            Model::LlamaForCausalLM(model) => (&mut model.config.max_position_embeddings, 0),
            Model::LessenEncoder(model) => (&mut model.config.max_length, 0),
        };
        *rows = (length + first).max(*rows);
    }

    /// Positions that sequences can have, where there is a table of them.
    fn positions(&self) -> usize {
        match self {
            Model::Bert(model) => model.config.max_position_embeddings - model.config.first_position(),
            Model::GPT2LMHeadModel(model) => model.config.n_positions,
            Model::LlamaForCausalLM(model) => model.config.max_position_embeddings,
            Model::LessenEncoder(model) => model.config.max_length,
        }
    }

    /// The attention of every layer.
    pub fn attention(&self) -> AttentionConfig {
        of_each!(self, model => model.config.attention)
    }

    /// Replaces the attention of every layer. Parameters that the model has before and after keep their names.
    ///
    /// # Errors
    /// See [`AttentionConfig::check`].
    pub fn set_attention(&mut self, attention: AttentionConfig) -> Result<()> {
        attention.check(self.head_width())?;
        of_each!(self, model => model.config.attention = attention);
        Ok(())
    }

    /// Width of an attention head.
    pub fn head_width(&self) -> usize {
        match self {
            Model::Bert(model) => model.config.hidden_size / model.config.num_attention_heads,
            Model::GPT2LMHeadModel(model) => model.config.n_embd / model.config.n_head,
            Model::LlamaForCausalLM(model) => model.config.head_dim,
            Model::LessenEncoder(model) => model.config.width / model.config.heads,
        }
    }

    /// The activation of the feed-forward layers.
    pub fn activation(&self) -> Activation {
        match self {
            Model::Bert(model) => model.config.hidden_act,
            Model::GPT2LMHeadModel(model) => model.config.activation_function,
            Model::LlamaForCausalLM(model) => model.config.hidden_act,
            Model::LessenEncoder(model) => model.config.activation,
        }
    }

    /// Replaces the activation of the feed-forward layers.
    pub fn set_activation(&mut self, activation: Activation) {
        match self {
            Model::Bert(model) => model.config.hidden_act = activation,
            Model::GPT2LMHeadModel(model) => model.config.activation_function = activation,
            Model::LlamaForCausalLM(model) => model.config.hidden_act = activation,
            Model::LessenEncoder(model) => model.config.activation = activation,
        }
    }

    /// What the cross entropy is taken of.
    pub fn loss(&self) -> Loss {
        of_each!(self, model => model.config.loss)
    }

    /// Replaces what the cross entropy is taken of. A regression has none, that of answers is plain, and nothing
    /// changes.
    pub fn set_loss(&mut self, loss: Loss) {
        of_each!(self, model => model.config.loss = loss);
    }

    /// Sets every dropout of the model (of a Llama that of attention weights) to `p`, at least 0 and below 1.
    pub fn set_dropout(&mut self, p: f64) {
        match self {
            Model::Bert(model) => model.config.set_dropout(p),
            Model::GPT2LMHeadModel(model) => model.config.set_dropout(p),
            Model::LlamaForCausalLM(model) => model.config.attention_dropout = p,
            Model::LessenEncoder(model) => model.config.dropout = p,
        }
    }
}
