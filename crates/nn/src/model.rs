//! The set of models, as `config.json` and recipes name them.
//!
//! This file has what a model computes; `config_json` reads and writes its configuration, `settings` asks for what all
//! configurations have and changes it.
//!
//! Models of texts and of images are variants of one type. Both are functions of a batch, whose [`BatchShape`] says
//! what it holds; both are trained, saved, loaded and adapted alike; a classifier of either has the same [`Task`].
//! [`Model::image`] tells them apart: it is the size of the images that a model reads. What belongs to texts alone is
//! absent as it may be in a model of texts: no [`Model::decoder`], no [`Model::max_length`], a vocabulary of 0 tokens.

/// An expression of the model, whatever its class.
macro_rules! of_each {
    ($any:expr, $model:ident => $value:expr) => {
        match $any {
            Model::Bert($model) => $value,
            Model::GPT2LMHeadModel($model) => $value,
            Model::GPTNeoXForCausalLM($model) => $value,
            Model::GPTJForCausalLM($model) => $value,
            Model::LlamaForCausalLM($model) => $value,
            Model::LessenEncoder($model) => $value,
            Model::Vit($model) => $value,
            Model::ImageClassifier($model) => $value,
        }
    };
}

mod config_json;
mod settings;

use lessen_graph::{Tensor, Trace};

use crate::architecture::Architecture;
use crate::context::Context;
use crate::lora::Lora;
use crate::models::bert::{Bert, Head};
use crate::models::decoder::Decoder;
use crate::models::encoder::LessenEncoder;
use crate::models::gpt_neox::GPTNeoXForCausalLM;
use crate::models::gpt2::GPT2LMHeadModel;
use crate::models::gptj::GPTJForCausalLM;
use crate::models::llama::LlamaForCausalLM;
use crate::models::vision::ImageClassifier;
use crate::models::vit::Vit;
use crate::models::{BatchShape, Outputs};
use crate::params::ParamSpec;
use crate::task::Task;

/// A model: class and configuration.
#[derive(Clone, PartialEq, Debug)]
pub enum Model {
    /// BERT, RoBERTa or DistilBERT with a head.
    Bert(Bert),
    /// GPT-2 with a language-model head.
    GPT2LMHeadModel(GPT2LMHeadModel),
    /// GPT-NeoX with a language-model head.
    GPTNeoXForCausalLM(GPTNeoXForCausalLM),
    /// GPT-J with a language-model head.
    GPTJForCausalLM(GPTJForCausalLM),
    /// Llama, Mistral, Qwen2 or OLMo with a language-model head.
    LlamaForCausalLM(LlamaForCausalLM),
    /// Lessen's small encoder with a classification or regression head.
    LessenEncoder(LessenEncoder),
    /// ViT or DeiT with a classification or regression head.
    Vit(Vit),
    /// A convolutional network.
    ImageClassifier(ImageClassifier),
}

impl Model {
    /// The model's class.
    pub fn architecture(&self) -> Architecture {
        match self {
            Model::Bert(model) => Architecture::Bert(model.config.family, model.head),
            Model::GPT2LMHeadModel(_) => Architecture::GPT2LMHeadModel,
            Model::GPTNeoXForCausalLM(_) => Architecture::GPTNeoXForCausalLM,
            Model::GPTJForCausalLM(_) => Architecture::GPTJForCausalLM,
            Model::LlamaForCausalLM(model) => Architecture::Llama(model.config.family),
            Model::LessenEncoder(_) => Architecture::LessenEncoder,
            Model::Vit(model) => Architecture::Vit(model.config.family),
            Model::ImageClassifier(_) => Architecture::ImageClassifier,
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
            Model::GPT2LMHeadModel(_)
            | Model::GPTNeoXForCausalLM(_)
            | Model::GPTJForCausalLM(_)
            | Model::LlamaForCausalLM(_) => Task::LanguageModelling,
            Model::Bert(_) | Model::LessenEncoder(_) | Model::Vit(_) | Model::ImageClassifier(_) => {
                match self.labels().len() {
                    classes if self.is_multi_label() => Task::MultiLabelClassification { classes },
                    1 => Task::Regression,
                    classes => Task::Classification { classes },
                }
            }
        }
    }

    /// Description of a language model that continues texts; none for other models.
    pub fn decoder(&self) -> Option<Decoder> {
        match self {
            Model::GPT2LMHeadModel(model) => Some(model.decoder()),
            Model::GPTNeoXForCausalLM(model) => Some(model.decoder()),
            Model::GPTJForCausalLM(model) => Some(model.decoder()),
            Model::LlamaForCausalLM(model) => Some(model.decoder()),
            Model::Bert(_) | Model::LessenEncoder(_) | Model::Vit(_) | Model::ImageClassifier(_) => None,
        }
    }

    /// Adds the model to the graph and returns loss and logits.
    ///
    /// Declares the data inputs `tokens` (`i32[B, T]`), `types` (`i32[B, T]`, token types; BERT only), those that
    /// [`BatchShape`] names (GPT-2 has no padding mask), and those of its [`Task`]. Without padding `[B, T]` is `[1,
    /// N]`. A model of images declares `images` in place of tokens.
    ///
    /// # Panics
    /// If a padded `T` is above [`Model::max_length`]; see [`Model::check_length`]. If the batch is not of what the
    /// model reads, texts or images of its size; see [`Model::check_image`].
    #[track_caller]
    pub fn forward<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Outputs<'g> {
        match self {
            Model::Bert(model) => model.forward(cx, batch),
            Model::GPT2LMHeadModel(model) => model.decoder().forward(cx, batch),
            Model::GPTNeoXForCausalLM(model) => model.decoder().forward(cx, batch),
            Model::GPTJForCausalLM(model) => model.decoder().forward(cx, batch),
            Model::LlamaForCausalLM(model) => model.decoder().forward(cx, batch),
            Model::LessenEncoder(model) => model.forward(cx, batch),
            Model::Vit(model) => model.forward(cx, batch),
            Model::ImageClassifier(model) => model.forward(cx, batch),
        }
    }

    /// Adds the model without its loss and returns the logits: `f32[B, classes]` (`f32[B, 1]` for a regression) or
    /// `f32[B, T, vocabulary]`, as softmax takes them. Declares no inputs for labels or targets.
    ///
    /// # Panics
    /// As [`Model::forward`].
    #[track_caller]
    pub fn logits<'g>(&self, cx: &Context<'g>, batch: BatchShape) -> Tensor<'g> {
        match self {
            Model::Bert(model) => model.logits(cx, batch),
            Model::GPT2LMHeadModel(model) => model.decoder().logits(cx, batch),
            Model::GPTNeoXForCausalLM(model) => model.decoder().logits(cx, batch),
            Model::GPTJForCausalLM(model) => model.decoder().logits(cx, batch),
            Model::LlamaForCausalLM(model) => model.decoder().logits(cx, batch),
            Model::LessenEncoder(model) => model.logits(cx, batch),
            Model::Vit(model) => model.logits(cx, batch),
            Model::ImageClassifier(model) => model.logits(cx, batch),
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
        self.logits(&cx, self.smallest_batch());
        cx.params()
    }

    /// Batch layout of one token, or of one image: for results that do not depend on the batch.
    pub fn smallest_batch(&self) -> BatchShape {
        match self.image() {
            Some(image) => BatchShape::Images {
                size: 1,
                image,
                mixed: false,
            },
            None => BatchShape::Padded { size: 1, length: 1 },
        }
    }

    /// Whether the weights of its linear layers have the shape `[in, out]`; see [`Lora::fan_in_fan_out`].
    pub fn fan_in_fan_out(&self) -> bool {
        matches!(self, Model::GPT2LMHeadModel(_))
    }

    /// Whether a parameter belongs to the task head, which checkpoints of other tasks lack.
    pub fn is_head(&self, name: &str) -> bool {
        let is_of = |layer: &str| name.strip_prefix(layer).is_some_and(|rest| rest.starts_with('.'));
        match self {
            Model::Bert(model) => model.is_head(name),
            Model::GPT2LMHeadModel(_) => false,
            Model::LlamaForCausalLM(_) => name == "lm_head.weight",
            Model::GPTNeoXForCausalLM(_) => is_of(GPTNeoXForCausalLM::HEAD),
            Model::GPTJForCausalLM(_) => is_of(GPTJForCausalLM::HEAD),
            Model::LessenEncoder(_) | Model::Vit(_) => is_of("classifier"),
            Model::ImageClassifier(model) => is_of(model.config.model().head()),
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

into_model!(
    Bert,
    GPT2LMHeadModel,
    GPTNeoXForCausalLM,
    GPTJForCausalLM,
    LlamaForCausalLM,
    LessenEncoder,
    Vit,
    ImageClassifier
);
