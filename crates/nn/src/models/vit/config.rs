//! The configuration of ViT and DeiT.

use serde_json::{Map, Value};

use crate::activation::Activation;
use crate::attention::AttentionConfig;
use crate::config::{Fields, extents_json, put_activation};
use crate::init::Init;
use crate::models::configuration::configuration;
use lessen_base::Result;

/// ViT or a relative with the same body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VitFamily {
    /// ViT, whose classes are told from one learned token.
    #[default]
    Vit,
    /// DeiT, which has a second one, the distillation token.
    Deit,
}

impl VitFamily {
    /// All of them.
    pub const ALL: [VitFamily; 2] = [VitFamily::Vit, VitFamily::Deit];

    /// The name in `model_type`, with which the names of parameters begin, too.
    pub fn model_type(self) -> &'static str {
        match self {
            VitFamily::Vit => "vit",
            VitFamily::Deit => "deit",
        }
    }

    /// The name of the class in transformers.
    pub fn class(self) -> &'static str {
        match self {
            VitFamily::Vit => "ViTForImageClassification",
            VitFamily::Deit => "DeiTForImageClassification",
        }
    }

    /// The parameters of the tokens before the patches, the one that classes are told from first.
    pub(super) fn tokens(self) -> &'static [&'static str] {
        match self {
            VitFamily::Vit => &["cls_token"],
            VitFamily::Deit => &["cls_token", "distillation_token"],
        }
    }
}

/// The sizes of table B.1 of the dissertation, with the side of their patches in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VitSize {
    /// Width 192, 12 layers, 3 heads; patches of 16.
    Tiny,
    /// Width 384, 12 layers, 6 heads; patches of 16.
    Small,
    /// Width 768, 12 layers, 12 heads; patches of 16.
    Base,
    /// Width 1024, 24 layers, 16 heads; patches of 16.
    Large,
    /// Width 1280, 32 layers, 16 heads; patches of 14.
    Huge,
    /// Width 1664, 48 layers, 16 heads, feed-forward layers of 8192; patches of 14.
    Giant,
}

impl VitSize {
    /// All of them, the smallest first.
    pub const ALL: [VitSize; 6] = [
        VitSize::Tiny,
        VitSize::Small,
        VitSize::Base,
        VitSize::Large,
        VitSize::Huge,
        VitSize::Giant,
    ];
}

configuration! {
    /// The configuration of a ViT or DeiT; fields are named as in transformers' `config.json`.
    VitConfig with labels {
        /// ViT or a relative.
        family: VitFamily = VitFamily::Vit, given;
        /// Width of every hidden state.
        hidden_size: usize = 768, size_or;
        /// Number of layers.
        num_hidden_layers: usize = 12, depth_or;
        /// Attention heads of each layer; their number divides `hidden_size`.
        num_attention_heads: usize = 12, size_or;
        /// Width inside the feed-forward layers.
        intermediate_size: usize = 3072, size_or;
        /// Activation of the feed-forward layers.
        hidden_act: Activation = Activation::Gelu, activation;
        /// Dropout probability of embeddings and residual branches, in `[0, 1)`.
        hidden_dropout_prob: f64 = 0.0, dropout;
        /// Dropout probability of attention weights, in `[0, 1)`.
        attention_probs_dropout_prob: f64 = 0.0, dropout;
        /// Standard deviation of the initial values of matrices, tokens and positions.
        initializer_range: f64 = 0.02, positive;
        /// Epsilon that norms add to the variance.
        layer_norm_eps: f64 = 1e-12, positive;
        /// Height and width of images in pixels.
        image_size: [usize; 2] = [224, 224], extents;
        /// Height and width of patches in pixels, divisors of the images' height and width.
        patch_size: [usize; 2] = [16, 16], extents;
        /// Channels of images.
        num_channels: usize = 3, size_or;
        /// Whether queries, keys and values have biases.
        qkv_bias: bool = true, switch;
        /// Attention and positions. Positions count the learned tokens, then the patches, row by row.
        attention: AttentionConfig = AttentionConfig::default(), given;
    }
    /// ViT-B/16 for images of 224 x 224, with two classes.
    default
}

impl VitConfig {
    /// The most numbers of an image, `H · W · C`: with a width of as much, byte counts do not overflow.
    pub const LARGEST_IMAGE: usize = 1 << 24;

    /// A family in one of the sizes, for images of 224 x 224, with two classes.
    pub fn of(family: VitFamily, size: VitSize) -> VitConfig {
        let (width, layers, heads, inner, patch) = match size {
            VitSize::Tiny => (192, 12, 3, 768, 16),
            VitSize::Small => (384, 12, 6, 1536, 16),
            VitSize::Base => (768, 12, 12, 3072, 16),
            VitSize::Large => (1024, 24, 16, 4096, 16),
            VitSize::Huge => (1280, 32, 16, 5120, 14),
            VitSize::Giant => (1664, 48, 16, 8192, 14),
        };
        VitConfig {
            family,
            hidden_size: width,
            num_hidden_layers: layers,
            num_attention_heads: heads,
            intermediate_size: inner,
            patch_size: [patch; 2],
            ..VitConfig::default()
        }
    }

    /// Reads the fields of a `config.json` of this family.
    ///
    /// # Errors
    /// A field that is wrong or not implemented; the message names file and field.
    pub fn from_fields(fields: &Fields, family: VitFamily) -> Result<VitConfig> {
        let default = VitConfig::default();
        // A field that is left out has transformers' default.
        let width = fields.size_or("hidden_size", default.hidden_size)?;
        let heads = fields.size_or("num_attention_heads", default.num_attention_heads)?;
        fields.divides("hidden_size", width, "num_attention_heads", heads)?;
        let config = VitConfig {
            family,
            attention: AttentionConfig::DEFAULT.with_fields(fields, width / heads)?,
            ..VitConfig::read(fields)?
        };
        config.check_image(fields)?;
        Ok(config)
    }

    /// Refuses images that are too large, or do not divide into patches.
    fn check_image(&self, fields: &Fields) -> Result<()> {
        let [height, width] = self.image_size;
        let numbers = height.saturating_mul(width).saturating_mul(self.num_channels);
        let most = VitConfig::LARGEST_IMAGE;
        if numbers > most {
            let what = format!("asks for {numbers} numbers of an image, and Lessen reads at most {most}");
            return Err(fields.error("image_size", what));
        }
        let [patch_height, patch_width] = self.patch_size;
        if height.is_multiple_of(patch_height) && width.is_multiple_of(patch_width) {
            return Ok(());
        }
        let (patch, image) = (extents_json(self.patch_size), extents_json(self.image_size));
        Err(fields.error(
            "patch_size",
            format!("is {patch}, which does not divide `image_size` ({image})"),
        ))
    }

    /// The fields of its `config.json`.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut map = self.begin(self.family.class(), self.family.model_type(), self.written());
        put_activation(&mut map, "hidden_act", self.hidden_act);
        self.attention.put(&AttentionConfig::DEFAULT, &mut map);
        self.put_settings(&mut map);
        map
    }

    /// Sets every dropout probability of the model.
    pub fn set_dropout(&mut self, p: f64) {
        (self.hidden_dropout_prob, self.attention_probs_dropout_prob) = (p, p);
    }

    /// Height, width and channels of the images that it reads.
    pub fn image(&self) -> [usize; 3] {
        let [height, width] = self.image_size;
        [height, width, self.num_channels]
    }

    /// Learned tokens and patches: the length of the sequence that the layers see.
    pub fn sequence(&self) -> usize {
        let [rows, columns] = [0, 1].map(|axis| self.image_size[axis] / self.patch_size[axis]);
        self.family.tokens().len() + rows * columns
    }

    pub(super) fn weight(&self) -> Init {
        Init::Normal {
            std: self.initializer_range,
        }
    }
}
