//! The set of models, as `config.json` and recipes name them.
//!
//! Each class implements `ModelClass` in its own file. This file has the list of classes; `config_json` reads and
//! writes configurations, `settings` reads and changes the settings that all of them have.
//!
//! Models of texts and of images are variants of one type. Both are functions of a batch, whose [`BatchShape`] says
//! what it holds; both are trained, saved, loaded and adapted alike; a classifier of either has the same [`Task`].
//! [`Model::image`] tells them apart: it is the size of the images that a model reads. What belongs to texts alone is
//! absent as it may be in a model of texts: no [`Model::decoder`], no [`Model::max_length`], a vocabulary of 0 tokens.

pub(crate) mod config_fields;
mod config_json;
mod config_quantization;
mod layers;
mod settings;

use lessen_graph::{Tensor, Trace};

use crate::architecture::Architecture;
use crate::context::Cx;
use crate::lora::Lora;
use crate::models::bert::Bert;
use crate::models::class::ModelClass;
use crate::models::decoder::Decoder;
use crate::models::encoder::LessenEncoder;
use crate::models::gpt_neox::GPTNeoXForCausalLM;
use crate::models::gpt2::GPT2LMHeadModel;
use crate::models::gptj::GPTJForCausalLM;
use crate::models::linear::LessenLinear;
use crate::models::llama::LlamaForCausalLM;
use crate::models::onnx::OnnxClassifier;
use crate::models::vision::ImageClassifier;
use crate::models::vit::Vit;
use crate::models::{BatchShape, Outputs};
use crate::params::ParamSpec;
use crate::task::Task;

/// Makes [`Model`] of its classes.
macro_rules! model_classes {
    ($($(#[$doc:meta])* $class:ident;)*) => {
        /// A model: class and configuration.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Model {
            $($(#[$doc])* $class($class),)*
        }

        $(impl From<$class> for Model {
            fn from(model: $class) -> Model {
                Model::$class(model)
            }
        })*

        impl Model {
            /// The model by its class.
            pub(crate) fn class(&self) -> &dyn ModelClass {
                match self {
                    $(Model::$class(model) => model,)*
                }
            }

            /// The model by its class, to be changed.
            pub(crate) fn class_mut(&mut self) -> &mut dyn ModelClass {
                match self {
                    $(Model::$class(model) => model,)*
                }
            }

            /// Adds the model to the graph and returns loss and logits.
            ///
            /// Declares the data inputs `tokens` (`i32[B, T]`), `types` (`i32[B, T]`, token types; BERT only), the data
            /// inputs that [`BatchShape`] names (GPT-2 has no padding mask), and the data inputs of its [`Task`].
            /// Without padding `[B, T]` is `[1, N]`. A model of images declares `images` in place of tokens.
            ///
            /// # Panics
            /// If a padded `T` is above [`Model::max_length`]; see [`Model::check_length`]. If the batch is not of the
            /// model's inputs, texts or images of its size; see [`Model::check_image`].
            #[track_caller]
            pub fn forward(&self, cx: Cx, batch: BatchShape) -> Outputs {
                let cx = cx.with_quantization(self.quantization());
                match self {
                    $(Model::$class(model) => ModelClass::forward(model, cx, batch),)*
                }
            }

            /// Adds the model without its loss and returns the logits: `f32[B, classes]` (`f32[B, 1]` for a regression)
            /// or `f32[B, T, vocabulary]`, as softmax takes them. Declares no inputs for labels or targets.
            ///
            /// # Panics
            /// As [`Model::forward`].
            #[track_caller]
            pub fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
                let cx = cx.with_quantization(self.quantization());
                match self {
                    $(Model::$class(model) => ModelClass::logits(model, cx, batch),)*
                }
            }

            /// Adds the model up to its last hidden states, without a head, and returns them: `f32[B, T, W]`, or
            /// `f32[1, N, W]` without padding. None for a model of images.
            ///
            /// # Panics
            /// As [`Model::forward`].
            #[track_caller]
            pub fn states(&self, cx: Cx, batch: BatchShape) -> Option<Tensor> {
                let cx = cx.with_quantization(self.quantization());
                match self {
                    $(Model::$class(model) => ModelClass::states(model, cx, batch),)*
                }
            }
        }
    };
}

model_classes! {
    /// BERT, RoBERTa, DistilBERT or MPNet with a head.
    Bert;
    /// GPT-2 with a language-model head.
    GPT2LMHeadModel;
    /// GPT-NeoX with a language-model head.
    GPTNeoXForCausalLM;
    /// GPT-J with a language-model head.
    GPTJForCausalLM;
    /// Llama, Mistral, Qwen2 or OLMo with a language-model head.
    LlamaForCausalLM;
    /// Lessen's small encoder with a classification or regression head.
    LessenEncoder;
    /// Lessen's linear classifier of texts.
    LessenLinear;
    /// ViT or DeiT with a classification or regression head.
    Vit;
    /// A convolutional network.
    ImageClassifier;
    /// The network of an ONNX file that classifies images.
    OnnxClassifier;
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
            Model::LessenLinear(_) => Architecture::LessenLinear,
            Model::Vit(model) => Architecture::Vit(model.config.family),
            Model::ImageClassifier(_) => Architecture::ImageClassifier,
            Model::OnnxClassifier(_) => Architecture::OnnxClassifier,
        }
    }

    /// The training objective. A classifier with one class is a regression.
    pub fn task(&self) -> Task {
        self.class().task()
    }

    /// Description of a language model that continues texts; none for other models.
    pub fn decoder(&self) -> Option<Decoder> {
        self.class().decoder()
    }

    /// Returns all parameters in order of first use.
    pub fn parameters(&self) -> Vec<ParamSpec> {
        self.parameters_with(None)
    }

    /// Returns all parameters in order of first use, adapters' parameters among them.
    pub fn parameters_with(&self, lora: Option<&Lora>) -> Vec<ParamSpec> {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false).with_lora(lora);
        self.logits(cx, self.smallest_batch());
        cx.params()
    }

    /// Returns the parameters that its last hidden states depend on, in order of first use: those of the model without
    /// its head. Empty for a model of images.
    pub fn parameters_of_states(&self) -> Vec<ParamSpec> {
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        match self.states(cx, self.smallest_batch()) {
            Some(_) => cx.params(),
            None => Vec::new(),
        }
    }

    /// Width of its last hidden states; none for a model of images.
    pub fn width(&self) -> Option<usize> {
        let trace = Trace::new();
        let states = self.states(Cx::new(*trace, false), self.smallest_batch())?;
        Some(states.dim(-1))
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
        self.class().fan_in_fan_out()
    }

    /// Whether a parameter belongs to the task head, which checkpoints of other tasks lack.
    pub fn is_head(&self, name: &str) -> bool {
        self.class().is_head(name)
    }
}
