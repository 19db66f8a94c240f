//! Settings that the configurations of all models have.

use super::Model;
use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::layers::Spread;
use crate::loss::Loss;
use crate::norm_kind::NormKind;
use lessen_base::{Error, Result};

impl Model {
    /// Names of the classes; empty for a language model.
    pub fn labels(&self) -> &[String] {
        self.class().labels()
    }

    /// Replaces the classes of a classifier; a single one makes it a regression.
    ///
    /// # Panics
    /// If the model is a language model or `labels` is empty.
    #[track_caller]
    pub fn set_labels(&mut self, labels: Vec<String>) {
        assert!(!labels.is_empty(), "a classifier needs a class");
        match self.class_mut().labels_mut() {
            Some((own, _)) => *own = labels,
            None => panic!("a language model has no classes"),
        }
    }

    /// Whether it is a classifier whose examples can have several of the classes, or none.
    pub fn is_multi_label(&self) -> bool {
        self.class().is_multi_label()
    }

    /// Says whether the examples of a classifier can have several of the classes; of a language model nothing changes.
    pub fn set_multi_label(&mut self, is_multi_label: bool) {
        if let Some((_, own)) = self.class_mut().labels_mut() {
            *own = is_multi_label;
        }
    }

    /// Height, width and channels of the images that it reads; none for a model of texts.
    pub fn image(&self) -> Option<[usize; 3]> {
        self.class().image()
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

    /// Sets height and width of images in the network of an ONNX file that reads images of any size, and checks that
    /// images and classes go with it. In other models nothing changes.
    ///
    /// # Errors
    /// Images or classes that the network cannot have.
    pub fn fit(&mut self, [height, width, _]: [usize; 3]) -> Result<()> {
        self.class_mut().fit([height, width])
    }

    /// Number of tokens in the vocabulary; 0 in a model of images.
    pub fn vocab_size(&self) -> usize {
        self.class().vocab_size()
    }

    /// Sets the number of tokens in the vocabulary; a model of images has none, and nothing changes.
    pub fn set_vocab_size(&mut self, tokens: usize) {
        if let Some(own) = self.class_mut().vocab_size_mut() {
            *own = tokens;
        }
    }

    /// Maximum sequence length in tokens: the number of position embeddings; `None` where there are none, or no tokens,
    /// and no limit.
    pub fn max_length(&self) -> Option<usize> {
        self.class()
            .positions()
            .filter(|_| self.attention().position.is_limited())
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
        if let Some((rows, first)) = self.class_mut().positions_mut() {
            *rows = (length + first).max(*rows);
        }
    }

    /// The attention of every layer; the default one in a network without attention.
    pub fn attention(&self) -> AttentionConfig {
        self.class().attention()
    }

    /// Replaces the attention of every layer. Parameters that the model has before and after keep their names.
    ///
    /// # Errors
    /// See [`AttentionConfig::check`]; another attention than [`Model::attention`] where there is none.
    pub fn set_attention(&mut self, attention: AttentionConfig) -> Result<()> {
        match self.class_mut().attention_mut() {
            Some((own, head_width)) => {
                attention.check(head_width)?;
                *own = attention;
                Ok(())
            }
            None if attention == AttentionConfig::DEFAULT => Ok(()),
            None => Err(Error::user(format!(
                "the {} has no attention; leave out the settings of attention and positions",
                self.class().title()
            ))),
        }
    }

    /// The activation of the feed-forward layers, or of all layers of a convolutional network.
    pub fn activation(&self) -> Activation {
        self.class().activation()
    }

    /// Replaces the activation of the feed-forward layers.
    pub fn set_activation(&mut self, activation: Activation) {
        self.class_mut().set_activation(activation);
    }

    /// Softmax of the cross entropy.
    pub fn loss(&self) -> Loss {
        self.class().loss()
    }

    /// Sets the softmax of the cross entropy. It changes nothing for a regression, which has none, and for answers,
    /// whose softmax is plain.
    pub fn set_loss(&mut self, loss: Loss) {
        *self.class_mut().loss_mut() = loss;
    }

    /// How the layer norms are computed.
    pub fn norm(&self) -> NormKind {
        self.class().norm()
    }

    /// Replaces how the layer norms are computed, which changes neither parameters nor results.
    pub fn set_norm(&mut self, norm: NormKind) {
        *self.class_mut().norm_mut() = norm;
    }

    /// Sets how batch normalization measures the spread of channels.
    ///
    /// # Errors
    /// A model without batch normalization.
    pub fn set_spread(&mut self, spread: Spread) -> Result<()> {
        if self.class_mut().set_spread(spread) || spread == Spread::default() {
            return Ok(());
        }
        Err(Error::user(format!(
            "the {} has no batch normalization, which `{}` is a setting of; leave it out",
            self.class().title(),
            spread.name()
        )))
    }

    /// Sets every dropout of the model (of a Llama that of attention weights) to `p`, at least 0 and below 1.
    pub fn set_dropout(&mut self, p: f64) {
        self.class_mut().set_dropout(p);
    }
}
