//! What every class of models provides. A class is a file of [`models`](super) and a line of
//! [`Model`](crate::model::Model).

use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::Tensor;
use serde_json::{Map, Value};

use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::context::Cx;
use crate::layers::Spread;
use crate::loss::Loss;
use crate::models::decoder::Decoder;
use crate::models::{BatchShape, Outputs, classifier_loss};
use crate::norm_kind::NormKind;
use crate::quantization::Quantization;
use crate::task::Task;

/// A class of models: a configuration, and the graph that follows from it. [`Model`](crate::model::Model) documents
/// what is common to all classes.
pub trait ModelClass {
    /// The name of the model in messages.
    fn title(&self) -> String {
        "model".to_string()
    }

    /// The training objective; by default a classifier's.
    fn task(&self) -> Task {
        match self.labels().len() {
            classes if self.is_multi_label() => Task::MultiLabelClassification { classes },
            1 => Task::Regression,
            classes => Task::Classification { classes },
        }
    }

    /// Description of a language model that continues texts; none for other models.
    fn decoder(&self) -> Option<Decoder> {
        None
    }

    /// Adds the model to the graph and returns loss and logits; by default a classifier's.
    #[track_caller]
    fn forward(&self, cx: Cx, batch: BatchShape) -> Outputs {
        classifier_loss(cx, batch, self.logits(cx, batch), self.is_multi_label())
    }

    /// Adds the model without its loss to the graph and returns the logits.
    #[track_caller]
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor;

    /// Adds the model up to its last hidden states to the graph, without a head: `f32[B, T, W]`; none for a model
    /// without states of tokens.
    #[track_caller]
    fn states(&self, cx: Cx, batch: BatchShape) -> Option<Tensor> {
        let _ = (cx, batch);
        None
    }

    /// The fields of its `config.json`.
    fn config_json(&self) -> Map<String, Value>;

    /// Whether a parameter belongs to the task head.
    fn is_head(&self, name: &str) -> bool;

    /// Whether the weights of its linear layers have the shape `[in, out]`.
    fn fan_in_fan_out(&self) -> bool {
        false
    }

    /// Height, width and channels of the images that it reads; none for a model of texts.
    fn image(&self) -> Option<[usize; 3]> {
        None
    }

    /// Sets height and width of images where the network reads images of any size, and checks that size and classes go
    /// with the network.
    ///
    /// # Errors
    /// A size or classes that the network cannot have.
    fn fit(&mut self, size: [usize; 2]) -> Result<()> {
        let _ = size;
        Ok(())
    }

    /// Files that belong beside `config.json`, by name.
    fn files(&self) -> Vec<(&'static str, Arc<[u8]>)> {
        Vec::new()
    }

    /// Names of the classes; empty for a model without classes.
    fn labels(&self) -> &[String] {
        &[]
    }

    /// Whether examples can have several of the classes, or none.
    fn is_multi_label(&self) -> bool {
        false
    }

    /// Names of the classes, and whether examples can have several of them; none for a model without classes.
    fn labels_mut(&mut self) -> Option<(&mut Vec<String>, &mut bool)> {
        None
    }

    /// Number of tokens in the vocabulary; 0 in a model of images.
    fn vocab_size(&self) -> usize {
        0
    }

    /// Number of tokens in the vocabulary, to be changed; none in a model of images.
    fn vocab_size_mut(&mut self) -> Option<&mut usize> {
        None
    }

    /// Number of positions of a sequence of tokens; none in a model of images.
    fn positions(&self) -> Option<usize> {
        None
    }

    /// Number of rows of the table of positions to be changed, and the row of the first position; none in a model of
    /// images.
    fn positions_mut(&mut self) -> Option<(&mut usize, usize)> {
        None
    }

    /// The attention of every layer, and the width of its heads, to be changed; none in a network without attention.
    fn attention_mut(&mut self) -> Option<(&mut AttentionConfig, usize)> {
        None
    }

    /// The attention of every layer; the default one in a network without attention.
    fn attention(&self) -> AttentionConfig {
        AttentionConfig::DEFAULT
    }

    /// The activation of the feed-forward layers, or of all layers of a convolutional network.
    fn activation(&self) -> Activation;

    /// Replaces the activation.
    fn set_activation(&mut self, activation: Activation);

    /// Softmax of the cross entropy.
    fn loss(&self) -> Loss;

    /// Softmax of the cross entropy, to be changed.
    fn loss_mut(&mut self) -> &mut Loss;

    /// How the layer norms are computed.
    fn norm(&self) -> NormKind;

    /// Kind of the layer norms, to be changed.
    fn norm_mut(&mut self) -> &mut NormKind;

    /// How its layers are quantized; none if they are not.
    fn quantization(&self) -> Option<&Quantization>;

    /// How its layers are quantized, to be changed.
    fn quantization_mut(&mut self) -> &mut Option<Quantization>;

    /// Sets how batch normalization measures the spread of channels. Returns whether the model has any of Lessen's own.
    fn set_spread(&mut self, spread: Spread) -> bool {
        let _ = spread;
        false
    }

    /// Sets every dropout to `p`, at least 0 and below 1.
    fn set_dropout(&mut self, p: f64);
}

/// Whether a parameter belongs to a layer.
pub(crate) fn is_of(layer: &str, name: &str) -> bool {
    name.strip_prefix(layer).is_some_and(|rest| rest.starts_with('.'))
}

/// Methods of [`ModelClass`] for a language model that its [`Decoder`] describes whole.
macro_rules! described_by_decoder {
    () => {
        fn task(&self) -> $crate::task::Task {
            $crate::task::Task::LanguageModelling
        }

        fn decoder(&self) -> Option<$crate::models::decoder::Decoder> {
            Some(self.decoder())
        }

        fn forward(&self, cx: $crate::context::Cx, batch: $crate::batch::BatchShape) -> $crate::models::Outputs {
            self.decoder().forward(cx, batch)
        }

        fn logits(&self, cx: $crate::context::Cx, batch: $crate::batch::BatchShape) -> lessen_graph::Tensor {
            self.decoder().logits(cx, batch)
        }

        fn states(&self, cx: $crate::context::Cx, batch: $crate::batch::BatchShape) -> Option<lessen_graph::Tensor> {
            Some(self.decoder().states(cx, batch))
        }
    };
}

pub(crate) use described_by_decoder;

/// Methods of [`ModelClass`] for settings that are fields of `self.config`.
macro_rules! settings_in_config {
    (classes) => {
        fn labels(&self) -> &[String] {
            &self.config.labels
        }

        fn is_multi_label(&self) -> bool {
            self.config.multi_label
        }

        fn labels_mut(&mut self) -> Option<(&mut Vec<String>, &mut bool)> {
            Some((&mut self.config.labels, &mut self.config.multi_label))
        }
    };
    (vocabulary $size:ident) => {
        fn vocab_size(&self) -> usize {
            self.config.$size
        }

        fn vocab_size_mut(&mut self) -> Option<&mut usize> {
            Some(&mut self.config.$size)
        }
    };
    (positions $rows:ident) => {
        fn positions(&self) -> Option<usize> {
            Some(self.config.$rows)
        }

        fn positions_mut(&mut self) -> Option<(&mut usize, usize)> {
            Some((&mut self.config.$rows, 0))
        }
    };
    (attention |$config:ident| $head_width:expr) => {
        fn attention(&self) -> AttentionConfig {
            self.config.attention
        }

        fn attention_mut(&mut self) -> Option<(&mut AttentionConfig, usize)> {
            let $config = &self.config;
            let head_width = $head_width;
            Some((&mut self.config.attention, head_width))
        }
    };
    (activation $activation:ident) => {
        fn activation(&self) -> Activation {
            self.config.$activation
        }

        fn set_activation(&mut self, activation: Activation) {
            self.config.$activation = activation;
        }
    };
    (loss and norm) => {
        fn loss(&self) -> Loss {
            self.config.loss
        }

        fn loss_mut(&mut self) -> &mut Loss {
            &mut self.config.loss
        }

        fn norm(&self) -> NormKind {
            self.config.norm
        }

        fn norm_mut(&mut self) -> &mut NormKind {
            &mut self.config.norm
        }

        fn quantization(&self) -> Option<&$crate::quantization::Quantization> {
            self.config.quantization.as_ref()
        }

        fn quantization_mut(&mut self) -> &mut Option<$crate::quantization::Quantization> {
            &mut self.config.quantization
        }
    };
}

pub(crate) use settings_in_config;
