//! Convolutional networks.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::Model;
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network};

/// A convolutional network; its name says everything but the size of images.
pub(super) struct ConvolutionalNetwork(pub(super) Network);

impl ModelFamily for ConvolutionalNetwork {
    fn role(&self) -> ModelRole {
        ModelRole::ClassifiesImages
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let config = ImageClassifierConfig {
            output_scale: scratch.sizes.output_scale,
            ..ImageClassifierConfig::of(self.0, scratch.sizes.image)
        };
        ImageClassifier { config }.into()
    }
}
