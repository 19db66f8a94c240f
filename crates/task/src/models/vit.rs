//! ViT and DeiT.

use super::{FromScratch, ModelFamily, ModelRole};
use lessen_nn::Model;
use lessen_nn::models::vit::{Vit, VitConfig, VitFamily};

/// ViT or DeiT.
pub(super) struct Patches(pub(super) VitFamily);

impl ModelFamily for Patches {
    fn role(&self) -> ModelRole {
        ModelRole::ClassifiesImages
    }

    fn build(&self, scratch: FromScratch<'_>) -> Model {
        let keys = scratch.keys;
        let [rows, columns, channels] = scratch.sizes.image;
        let mut config = VitConfig {
            family: self.0,
            hidden_size: keys.width,
            num_hidden_layers: keys.layers,
            num_attention_heads: keys.heads,
            intermediate_size: keys.ffn,
            image_size: [rows, columns],
            patch_size: [keys.patch; 2],
            num_channels: channels,
            attention: scratch.attention,
            ..VitConfig::default()
        };
        config.set_dropout(scratch.dropout);
        Vit { config }.into()
    }
}
