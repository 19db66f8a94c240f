//! The set of models, as `config.json` and recipes name them.

use lessen_graph::{Tensor, Trace};
use serde_json::{Map, Value};

use crate::activation::Activation;
use crate::architecture::{Architecture, family};
use crate::attention::AttentionConfig;
use crate::checkpoint::ModelFolder;
use crate::config::Fields;
use crate::context::{Context, ParamSpec};
use crate::lora::Lora;
use crate::loss::Loss;
use crate::models::bert::{Bert, Family, Head};
use crate::models::decoder::Decoder;
use crate::models::encoder::{EncoderConfig, LessenEncoder};
use crate::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use crate::models::llama::{LlamaConfig, LlamaForCausalLM};
use crate::models::{BatchShape, Outputs};
use lessen_base::{Error, Result};

/// The training objective of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// One class per text: data input `labels`, `i32[B]`.
    Classification {
        /// Number of classes.
        classes: usize,
    },
    /// Any of several classes per text: data inputs `targets`, `f32[B, classes]` with 1 for each label and 0 for the
    /// others, and `weights`, `f32[B]`.
    MultiLabelClassification {
        /// Number of classes.
        classes: usize,
    },
    /// One number per text: data inputs `targets` and `weights`, `f32[B]`.
    Regression,
    /// The next token at every position: data input `labels`, `i32[B, T]`.
    LanguageModelling,
    /// One class per token: data input `labels`, `i32[B, T]`.
    TokenClassification {
        /// Number of classes.
        classes: usize,
    },
    /// The answer to a question, a part of a text: data input `answers`, `i32[2, B]`, the places of its first and its
    /// last token.
    QuestionAnswering,
    /// The masked tokens: data input `labels`, `i32[B, T]`.
    MaskedLanguageModelling,
}

/// A model: class and configuration.
#[derive(Clone, PartialEq, Debug)]
pub enum Model {
    /// BERT, RoBERTa or DistilBERT with a head.
    Bert(Bert),
    /// GPT-2 with a language-model head.
    GPT2LMHeadModel(GPT2LMHeadModel),
    /// Llama, Mistral or Qwen2 with a language-model head.
    LlamaForCausalLM(LlamaForCausalLM),
    /// Lessen's small encoder with a classification or regression head.
    LessenEncoder(LessenEncoder),
}

impl Model {
    /// Reads the model that the `config.json` of a folder describes; of adapters without one, that of their base model
    /// with the head that they are for.
    ///
    /// # Errors
    /// A missing or damaged file; a field that is missing, wrong, contradictory or not implemented. The message names
    /// file and field.
    pub fn from_dir<'a>(folder: impl Into<ModelFolder<'a>>) -> Result<Model> {
        let fields = folder.into().fields()?;
        let architecture = Architecture::of(&fields)?;
        architecture.check_family(&fields, fields.word("model_type")?.unwrap_or(architecture.model_type()))?;
        let model = Model::from_fields(&fields, architecture)?;
        if matches!(model.task(), Task::Classification { .. } | Task::Regression) {
            fields.check_problem(model.labels().len())?;
        }
        Ok(model)
    }

    /// Reads a model of this class with the dimensions of the folder's `config.json`, which may describe another class
    /// of the same family: a classifier on a BERT that was pretrained as a masked language model. The `problem_type`
    /// and the loss of the replaced head are ignored.
    ///
    /// # Errors
    /// As [`Model::from_dir`]; a model of another family.
    pub fn from_dir_as<'a>(folder: impl Into<ModelFolder<'a>>, architecture: Architecture) -> Result<Model> {
        let fields = folder.into().fields()?;
        architecture.check_family(&fields, family(&fields)?)?;
        let mut model = Model::from_fields(&fields, architecture)?;
        model.set_multi_label(false);
        if Architecture::of(&fields) != Ok(architecture) {
            model.set_loss(Loss::default());
        }
        Ok(model)
    }

    /// [`Model::from_dir_as`] of the class with this head in the family of the folder's `config.json`.
    ///
    /// # Errors
    /// As [`Model::from_dir_as`]; a family without such a head.
    pub fn from_dir_with<'a>(folder: impl Into<ModelFolder<'a>>, head: Head) -> Result<Model> {
        let folder = folder.into();
        let family = Model::family(folder)?;
        // The error about a family without the head names BERT's class.
        let bert = Architecture::Bert(Family::Bert, head);
        Model::from_dir_as(folder, Architecture::with_head(&family, head).unwrap_or(bert))
    }

    fn from_fields(fields: &Fields, architecture: Architecture) -> Result<Model> {
        Ok(match architecture {
            Architecture::Bert(family, head) => Bert::from_fields(fields, family, head)?.into(),
            Architecture::GPT2LMHeadModel => GPT2LMHeadModel {
                config: Gpt2Config::from_fields(fields)?,
            }
            .into(),
            Architecture::Llama(family) => LlamaForCausalLM {
                config: LlamaConfig::from_fields(fields, family)?,
            }
            .into(),
            Architecture::LessenEncoder => LessenEncoder {
                config: EncoderConfig::from_fields(fields)?,
            }
            .into(),
        })
    }

    /// Reads the family that the folder's `config.json` names, which Lessen need not implement; see
    /// [`Architecture::model_type`].
    ///
    /// # Errors
    /// A file that cannot be read or names no family.
    pub fn family<'a>(folder: impl Into<ModelFolder<'a>>) -> Result<String> {
        Ok(family(&folder.into().fields()?)?.to_string())
    }

    /// Returns the fields of the model's `config.json`: those of the file it was read from, updated.
    pub fn config_json(&self) -> Map<String, Value> {
        match self {
            Model::Bert(model) => model.config_json(),
            Model::GPT2LMHeadModel(model) => model.config_json(),
            Model::LlamaForCausalLM(model) => model.config_json(),
            Model::LessenEncoder(model) => model.config_json(),
        }
    }

    /// The model's class.
    pub fn architecture(&self) -> Architecture {
        match self {
            Model::Bert(model) => Architecture::Bert(model.config.family, model.head),
            Model::GPT2LMHeadModel(_) => Architecture::GPT2LMHeadModel,
            Model::LlamaForCausalLM(model) => Architecture::Llama(model.config.family),
            Model::LessenEncoder(_) => Architecture::LessenEncoder,
        }
    }

    /// The training objective. A classifier with one class is a regression.
    pub fn task(&self) -> Task {
        match self {
            Model::Bert(model) if model.head == Head::MaskedLM => Task::MaskedLanguageModelling,
            Model::Bert(model) if model.head == Head::QuestionAnswering => Task::QuestionAnswering,
            Model::Bert(model) if model.head == Head::TokenClassification => Task::TokenClassification {
                classes: model.config.labels.len(),
            },
            Model::GPT2LMHeadModel(_) | Model::LlamaForCausalLM(_) => Task::LanguageModelling,
            Model::Bert(_) | Model::LessenEncoder(_) => match self.labels().len() {
                classes if self.is_multi_label() => Task::MultiLabelClassification { classes },
                1 => Task::Regression,
                classes => Task::Classification { classes },
            },
        }
    }

    /// Names of the classes; empty for a language model.
    pub fn labels(&self) -> &[String] {
        match self {
            Model::Bert(model) if model.has_classes() => &model.config.labels,
            Model::LessenEncoder(model) => &model.config.labels,
            Model::Bert(_) | Model::GPT2LMHeadModel(_) | Model::LlamaForCausalLM(_) => &[],
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

    /// Sets every dropout of the model (of a Llama that of attention weights) to `p`, at least 0 and below 1.
    pub fn set_dropout(&mut self, p: f64) {
        match self {
            Model::Bert(model) => model.config.set_dropout(p),
            Model::GPT2LMHeadModel(model) => model.config.set_dropout(p),
            Model::LlamaForCausalLM(model) => model.config.attention_dropout = p,
            Model::LessenEncoder(model) => model.config.dropout = p,
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

    /// The attention of every layer.
    pub fn attention(&self) -> AttentionConfig {
        match self {
            Model::Bert(model) => model.config.attention,
            Model::GPT2LMHeadModel(model) => model.config.attention,
            Model::LlamaForCausalLM(model) => model.config.attention,
            Model::LessenEncoder(model) => model.config.attention,
        }
    }

    /// Replaces the attention of every layer. Parameters that the model has before and after keep their names.
    ///
    /// # Errors
    /// See [`AttentionConfig::check`].
    pub fn set_attention(&mut self, attention: AttentionConfig) -> Result<()> {
        attention.check(self.head_width())?;
        match self {
            Model::Bert(model) => model.config.attention = attention,
            Model::GPT2LMHeadModel(model) => model.config.attention = attention,
            Model::LlamaForCausalLM(model) => model.config.attention = attention,
            Model::LessenEncoder(model) => model.config.attention = attention,
        }
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

    /// What the cross entropy is taken of.
    pub fn loss(&self) -> Loss {
        match self {
            Model::Bert(model) => model.config.loss,
            Model::GPT2LMHeadModel(model) => model.config.loss,
            Model::LlamaForCausalLM(model) => model.config.loss,
            Model::LessenEncoder(model) => model.config.loss,
        }
    }

    /// Replaces what the cross entropy is taken of. A regression has none, that of answers is plain, and nothing
    /// changes.
    pub fn set_loss(&mut self, loss: Loss) {
        match self {
            Model::Bert(model) => model.config.loss = loss,
            Model::GPT2LMHeadModel(model) => model.config.loss = loss,
            Model::LlamaForCausalLM(model) => model.config.loss = loss,
            Model::LessenEncoder(model) => model.config.loss = loss,
        }
    }

    /// Number of tokens in the vocabulary.
    pub fn vocab_size(&self) -> usize {
        match self {
            Model::Bert(model) => model.config.vocab_size,
            Model::GPT2LMHeadModel(model) => model.config.vocab_size,
            Model::LlamaForCausalLM(model) => model.config.vocab_size,
            Model::LessenEncoder(model) => model.config.vocab_size,
        }
    }

    /// Sets the number of tokens in the vocabulary.
    pub fn set_vocab_size(&mut self, tokens: usize) {
        match self {
            Model::Bert(model) => model.config.vocab_size = tokens,
            Model::GPT2LMHeadModel(model) => model.config.vocab_size = tokens,
            Model::LlamaForCausalLM(model) => model.config.vocab_size = tokens,
            Model::LessenEncoder(model) => model.config.vocab_size = tokens,
        }
    }

    /// Maximum sequence length in tokens: the number of position embeddings; `None` where there are none, and no limit.
    pub fn max_length(&self) -> Option<usize> {
        self.attention().position.is_limited().then(|| self.positions())
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

    /// What a language model that continues texts is made of; none for other models.
    pub fn decoder(&self) -> Option<Decoder> {
        match self {
            Model::GPT2LMHeadModel(model) => Some(model.decoder()),
            Model::LlamaForCausalLM(model) => Some(model.decoder()),
            Model::Bert(_) | Model::LessenEncoder(_) => None,
        }
    }

    /// Adds the model to the graph and returns loss and logits.
    ///
    /// Declares the data inputs `tokens` (`i32[B, T]`), `types` (`i32[B, T]`, token types; BERT only), those that
    /// [`BatchShape`] names (GPT-2 has no padding mask), and those of its [`Task`]. Without padding `[B, T]` is `[1,
    /// N]`.
    ///
    /// # Panics
    /// If a padded `T` is above [`Model::max_length`]; see [`Model::check_length`].
    #[track_caller]
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        match self {
            Model::Bert(model) => model.forward(cx, batch),
            Model::GPT2LMHeadModel(model) => model.decoder().forward(cx, batch),
            Model::LlamaForCausalLM(model) => model.decoder().forward(cx, batch),
            Model::LessenEncoder(model) => model.forward(cx, batch),
        }
    }

    /// Adds the model without its loss and returns the logits: `f32[B, classes]` (`f32[B, 1]` for a regression) or
    /// `f32[B, T, vocabulary]`, as softmax takes them. Declares no inputs for labels or targets.
    ///
    /// # Panics
    /// If a padded `T` is above [`Model::max_length`]; see [`Model::check_length`].
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        match self {
            Model::Bert(model) => model.logits(cx, batch),
            Model::GPT2LMHeadModel(model) => model.decoder().logits(cx, batch),
            Model::LlamaForCausalLM(model) => model.decoder().logits(cx, batch),
            Model::LessenEncoder(model) => model.logits(cx, batch),
        }
    }

    /// Returns all parameters in order of first use.
    pub fn parameters(&self) -> Vec<ParamSpec> {
        self.parameters_with(None)
    }

    /// Returns all parameters in order of first use, those of adapters among them.
    pub fn parameters_with(&self, lora: Option<&Lora>) -> Vec<ParamSpec> {
        let trace = Trace::new();
        let cx = Context::new(&trace, false).with_lora(lora);
        self.logits(&cx, BatchShape::Padded { size: 1, length: 1 });
        cx.params()
    }

    /// Whether the weights of its linear layers have the shape `[in, out]`; see [`Lora::fan_in_fan_out`].
    pub fn fan_in_fan_out(&self) -> bool {
        matches!(self, Model::GPT2LMHeadModel(_))
    }

    /// Whether a parameter belongs to the task head, which checkpoints of other tasks lack.
    pub fn is_head(&self, name: &str) -> bool {
        match self {
            Model::Bert(model) => model.is_head(name),
            Model::GPT2LMHeadModel(_) => false,
            Model::LlamaForCausalLM(_) => name == "lm_head.weight",
            Model::LessenEncoder(_) => name.starts_with("classifier."),
        }
    }
}

macro_rules! into_model {
    ($($class:ident),*) => {$(
        impl From<$class> for Model {
            fn from(model: $class) -> Model {
                Model::$class(model)
            }
        }
    )*};
}

into_model!(Bert, GPT2LMHeadModel, LlamaForCausalLM, LessenEncoder);
