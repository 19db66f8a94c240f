//! Settings that the configurations of all models have.

use super::Model;
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::loss::Loss;
use crate::norm_kind::NormKind;
use lessen_base::{Error, Result};

impl Model {
    /// Names of the classes; empty for a language model.
    pub fn labels(&self) -> &[String] {
        match self {
            Model::Bert(model) if model.has_classes() => &model.config.labels,
            Model::LessenEncoder(model) => &model.config.labels,
            Model::Vit(model) => &model.config.labels,
            Model::ImageClassifier(model) => &model.config.labels,
            Model::Bert(_)
            | Model::GPT2LMHeadModel(_)
            | Model::GPTNeoXForCausalLM(_)
            | Model::GPTJForCausalLM(_)
            | Model::LlamaForCausalLM(_) => &[],
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
            Model::Vit(model) => model.config.labels = labels,
            Model::ImageClassifier(model) => model.config.labels = labels,
            Model::Bert(_)
            | Model::GPT2LMHeadModel(_)
            | Model::GPTNeoXForCausalLM(_)
            | Model::GPTJForCausalLM(_)
            | Model::LlamaForCausalLM(_) => {
                panic!("a language model has no classes")
            }
        }
    }

    /// Whether it is a classifier whose examples can have several of the classes, or none.
    pub fn is_multi_label(&self) -> bool {
        match self {
            Model::Bert(model) => model.has_classes() && model.config.multi_label,
            Model::LessenEncoder(model) => model.config.multi_label,
            Model::Vit(model) => model.config.multi_label,
            Model::ImageClassifier(model) => model.config.multi_label,
            Model::GPT2LMHeadModel(_)
            | Model::GPTNeoXForCausalLM(_)
            | Model::GPTJForCausalLM(_)
            | Model::LlamaForCausalLM(_) => false,
        }
    }

    /// Says whether the examples of a classifier can have several of the classes; of a language model nothing changes.
    pub fn set_multi_label(&mut self, is_multi_label: bool) {
        match self {
            Model::Bert(model) => model.config.multi_label = is_multi_label,
            Model::LessenEncoder(model) => model.config.multi_label = is_multi_label,
            Model::Vit(model) => model.config.multi_label = is_multi_label,
            Model::ImageClassifier(model) => model.config.multi_label = is_multi_label,
            Model::GPT2LMHeadModel(_)
            | Model::GPTNeoXForCausalLM(_)
            | Model::GPTJForCausalLM(_)
            | Model::LlamaForCausalLM(_) => {}
        }
    }

    /// Height, width and channels of the images that it reads; none for a model of texts.
    pub fn image(&self) -> Option<[usize; 3]> {
        match self {
            Model::Vit(model) => Some(model.config.image()),
            Model::ImageClassifier(model) => Some(model.config.image()),
            Model::Bert(_)
            | Model::GPT2LMHeadModel(_)
            | Model::GPTNeoXForCausalLM(_)
            | Model::GPTJForCausalLM(_)
            | Model::LlamaForCausalLM(_)
            | Model::LessenEncoder(_) => None,
        }
    }

    /// Checks that the model reads images of this height, width and number of channels. Whatever comes from a file or a
    /// flag is checked with this before [`Model::forward`] or [`Model::logits`] is traced.
    ///
    /// # Errors
    /// A model of texts, or of other images.
    pub fn check_image(&self, [height, width, channels]: [usize; 3]) -> Result<()> {
        match self.image() {
            Some(own) if own == [height, width, channels] => Ok(()),
            Some([own_height, own_width, own_channels]) => Err(Error::user(format!(
                "images of {height} x {width} x {channels} (rows, columns, channels) do not fit the model, which reads \
                 {own_height} x {own_width} x {own_channels}; set image.size and image.channels to those of the model"
            ))),
            None => Err(Error::user(
                "images do not fit the model, which reads texts; name a model of images",
            )),
        }
    }

    /// Number of tokens in the vocabulary; 0 in a model of images.
    pub fn vocab_size(&self) -> usize {
        match self {
            Model::Bert(model) => model.config.vocab_size,
            Model::GPT2LMHeadModel(model) => model.config.vocab_size,
            Model::GPTNeoXForCausalLM(model) => model.config.vocab_size,
            Model::GPTJForCausalLM(model) => model.config.vocab_size,
            Model::LlamaForCausalLM(model) => model.config.vocab_size,
            Model::LessenEncoder(model) => model.config.vocab_size,
            Model::Vit(_) | Model::ImageClassifier(_) => 0,
        }
    }

    /// Sets the number of tokens in the vocabulary; a model of images has none, and nothing changes.
    pub fn set_vocab_size(&mut self, tokens: usize) {
        match self {
            Model::Bert(model) => model.config.vocab_size = tokens,
            Model::GPT2LMHeadModel(model) => model.config.vocab_size = tokens,
            Model::GPTNeoXForCausalLM(model) => model.config.vocab_size = tokens,
            Model::GPTJForCausalLM(model) => model.config.vocab_size = tokens,
            Model::LlamaForCausalLM(model) => model.config.vocab_size = tokens,
            Model::LessenEncoder(model) => model.config.vocab_size = tokens,
            Model::Vit(_) | Model::ImageClassifier(_) => {}
        }
    }

    /// Maximum sequence length in tokens: the number of position embeddings; `None` where there are none, or no tokens,
    /// and no limit.
    pub fn max_length(&self) -> Option<usize> {
        self.positions().filter(|_| self.attention().position.is_limited())
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

    /// Gives the table of position embeddings at least as many rows, for a model that gets one. In a model of images,
    /// whose size decides their number, nothing changes.
    pub fn extend_positions(&mut self, length: usize) {
        let (rows, first) = match self {
            Model::Bert(model) => {
                let first = model.config.first_position();
                (&mut model.config.max_position_embeddings, first)
            }
            Model::GPT2LMHeadModel(model) => (&mut model.config.n_positions, 0),
            Model::GPTNeoXForCausalLM(model) => (&mut model.config.max_position_embeddings, 0),
            Model::GPTJForCausalLM(model) => (&mut model.config.n_positions, 0),
            Model::LlamaForCausalLM(model) => (&mut model.config.max_position_embeddings, 0),
            Model::LessenEncoder(model) => (&mut model.config.max_length, 0),
            Model::Vit(_) | Model::ImageClassifier(_) => return,
        };
        *rows = (length + first).max(*rows);
    }

    /// Positions that sequences of tokens can have, where there is a table of them.
    fn positions(&self) -> Option<usize> {
        Some(match self {
            Model::Bert(model) => model.config.max_position_embeddings - model.config.first_position(),
            Model::GPT2LMHeadModel(model) => model.config.n_positions,
            Model::GPTNeoXForCausalLM(model) => model.config.max_position_embeddings,
            Model::GPTJForCausalLM(model) => model.config.n_positions,
            Model::LlamaForCausalLM(model) => model.config.max_position_embeddings,
            Model::LessenEncoder(model) => model.config.max_length,
            Model::Vit(_) | Model::ImageClassifier(_) => return None,
        })
    }

    /// The attention of every layer; the default one in a network without attention.
    pub fn attention(&self) -> AttentionConfig {
        match self {
            Model::Bert(model) => model.config.attention,
            Model::GPT2LMHeadModel(model) => model.config.attention,
            Model::GPTNeoXForCausalLM(model) => model.config.attention,
            Model::GPTJForCausalLM(model) => model.config.attention,
            Model::LlamaForCausalLM(model) => model.config.attention,
            Model::LessenEncoder(model) => model.config.attention,
            Model::Vit(model) => model.config.attention,
            Model::ImageClassifier(_) => AttentionConfig::DEFAULT,
        }
    }

    /// Replaces the attention of every layer. Parameters that the model has before and after keep their names.
    ///
    /// # Errors
    /// See [`AttentionConfig::check`]; another attention than [`Model::attention`] where there is none.
    pub fn set_attention(&mut self, attention: AttentionConfig) -> Result<()> {
        let (own, head_width) = match self {
            Model::Bert(model) => {
                let c = &mut model.config;
                (&mut c.attention, c.hidden_size / c.num_attention_heads)
            }
            Model::GPT2LMHeadModel(model) => {
                let c = &mut model.config;
                (&mut c.attention, c.n_embd / c.n_head)
            }
            Model::GPTNeoXForCausalLM(model) => {
                let head_width = model.config.head_width();
                (&mut model.config.attention, head_width)
            }
            Model::GPTJForCausalLM(model) => {
                let head_width = model.config.head_width();
                (&mut model.config.attention, head_width)
            }
            Model::LlamaForCausalLM(model) => (&mut model.config.attention, model.config.head_dim),
            Model::LessenEncoder(model) => {
                let c = &mut model.config;
                (&mut c.attention, c.width / c.heads)
            }
            Model::Vit(model) => {
                let c = &mut model.config;
                (&mut c.attention, c.hidden_size / c.num_attention_heads)
            }
            Model::ImageClassifier(_) if attention == AttentionConfig::DEFAULT => return Ok(()),
            Model::ImageClassifier(model) => {
                let network = model.config.network.name();
                return Err(Error::user(format!(
                    "the network {network} has no attention; leave out what is said of attention and positions"
                )));
            }
        };
        attention.check(head_width)?;
        *own = attention;
        Ok(())
    }

    /// The activation of the feed-forward layers, or of all layers of a convolutional network.
    pub fn activation(&self) -> Activation {
        match self {
            Model::Bert(model) => model.config.hidden_act,
            Model::GPT2LMHeadModel(model) => model.config.activation_function,
            Model::GPTNeoXForCausalLM(model) => model.config.hidden_act,
            Model::GPTJForCausalLM(model) => model.config.activation_function,
            Model::LlamaForCausalLM(model) => model.config.hidden_act,
            Model::LessenEncoder(model) => model.config.activation,
            Model::Vit(model) => model.config.hidden_act,
            Model::ImageClassifier(model) => model.config.model().activation(),
        }
    }

    /// Replaces the activation of the feed-forward layers.
    pub fn set_activation(&mut self, activation: Activation) {
        match self {
            Model::Bert(model) => model.config.hidden_act = activation,
            Model::GPT2LMHeadModel(model) => model.config.activation_function = activation,
            Model::GPTNeoXForCausalLM(model) => model.config.hidden_act = activation,
            Model::GPTJForCausalLM(model) => model.config.activation_function = activation,
            Model::LlamaForCausalLM(model) => model.config.hidden_act = activation,
            Model::LessenEncoder(model) => model.config.activation = activation,
            Model::Vit(model) => model.config.hidden_act = activation,
            Model::ImageClassifier(model) => model.config.activation = Some(activation),
        }
    }

    /// Softmax of the cross entropy.
    pub fn loss(&self) -> Loss {
        of_each!(self, model => model.config.loss)
    }

    /// Sets the softmax of the cross entropy. It changes nothing for a regression, which has none, and for answers,
    /// whose softmax is plain.
    pub fn set_loss(&mut self, loss: Loss) {
        of_each!(self, model => model.config.loss = loss);
    }

    /// How the layer norms are computed.
    pub fn norm(&self) -> NormKind {
        of_each!(self, model => model.config.norm)
    }

    /// Replaces how the layer norms are computed, which changes neither parameters nor results.
    pub fn set_norm(&mut self, norm: NormKind) {
        of_each!(self, model => model.config.norm = norm);
    }

    /// Sets every dropout of the model (of a Llama that of attention weights) to `p`, at least 0 and below 1.
    pub fn set_dropout(&mut self, p: f64) {
        match self {
            Model::Bert(model) => model.config.set_dropout(p),
            Model::GPT2LMHeadModel(model) => model.config.set_dropout(p),
            Model::GPTNeoXForCausalLM(model) => model.config.set_dropout(p),
            Model::GPTJForCausalLM(model) => model.config.set_dropout(p),
            Model::LlamaForCausalLM(model) => model.config.attention_dropout = p,
            Model::LessenEncoder(model) => model.config.dropout = p,
            Model::Vit(model) => model.config.set_dropout(p),
            Model::ImageClassifier(model) => model.config.dropout = Some(p),
        }
    }
}
