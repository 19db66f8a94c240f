//! A network with a name as a model: the size of its images and its classes, as its `config.json` has them. Its weights
//! have the names of the network's own checkpoints.

use crate::models::class::{ModelClass, settings_in_config};
use lessen_base::Result;
use lessen_graph::Tensor;
use serde_json::{Map, Value, json};

use super::{MixedArchitecture, MixedMobileNet, Network, VisionModel};
use crate::activation::Activation;
use crate::config::{Fields, extents_json, put_identity, put_loss, put_own};
use crate::context::Cx;
use crate::labels::{numbered_labels, put_labels};
use crate::layers::Spread;
use crate::loss::Loss;
use crate::models::BatchShape;
use crate::models::vit::VitConfig;
use crate::norm_kind::NormKind;
use crate::quantization::Quantization;

/// The field for the spread that batch normalization measures.
const SPREAD: &str = "batch_norm";

/// The field for mean and standard deviation of the numbers of a regression.
const OUTPUT_SCALE: &str = "output_scale";

/// Mean and standard deviation of a `config.json`.
fn output_scale(fields: &Fields) -> Result<Option<[f64; 2]>> {
    let Some(value) = fields.get(OUTPUT_SCALE) else {
        return Ok(None);
    };
    let numbers: Option<[f64; 2]> = serde_json::from_value(value.clone()).ok();
    match numbers {
        Some([mean, deviation]) if mean.is_finite() && deviation.is_finite() && deviation > 0.0 => {
            Ok(Some([mean, deviation]))
        }
        _ => Err(fields.error(
            OUTPUT_SCALE,
            format!("is {value}; it is a mean and a standard deviation above 0"),
        )),
    }
}

/// The configuration of a classifier; fields are named as in its `config.json`.
#[derive(Clone, PartialEq, Debug)]
pub struct ImageClassifierConfig {
    /// The network.
    pub network: Network,
    /// The blocks of a network that [takes an architecture](Network::takes_architecture); `None` means its own ones.
    pub architecture: Option<MixedArchitecture>,
    /// Height and width of images in pixels.
    pub image_size: [usize; 2],
    /// Channels of images.
    pub num_channels: usize,
    /// Activation; `None` means the network's own.
    pub activation: Option<Activation>,
    /// Dropout probability of linear layers, in `[0, 1)`; `None` means the network's own.
    pub dropout: Option<f64>,
    /// How batch normalization measures the spread of channels, where the network has it.
    pub spread: Spread,
    /// Softmax of the cross entropy.
    pub loss: Loss,
    /// How its layer norms are computed.
    pub norm: NormKind,
    /// How its layers are quantized; none if they are not.
    pub quantization: Option<Quantization>,
    /// Mean and standard deviation of the numbers of a regression, by which its output is scaled; `None` leaves it.
    pub output_scale: Option<[f64; 2]>,
    /// Names of the classes; one class means a regression.
    pub labels: Vec<String>,
    /// Whether each image can have several of the classes, or none.
    pub multi_label: bool,
    /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
    pub fields: Map<String, Value>,
}

impl ImageClassifierConfig {
    /// A network for images of this height, width and number of channels, with two classes.
    pub fn of(network: Network, [height, width, channels]: [usize; 3]) -> ImageClassifierConfig {
        ImageClassifierConfig {
            network,
            architecture: None,
            image_size: [height, width],
            num_channels: channels,
            activation: None,
            dropout: None,
            spread: Spread::default(),
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            output_scale: None,
            labels: numbered_labels(2),
            multi_label: false,
            fields: Map::new(),
        }
    }

    /// The same with the blocks of an architecture, whose layers are quantized to its bits.
    pub fn with_architecture(self, architecture: MixedArchitecture) -> ImageClassifierConfig {
        ImageClassifierConfig {
            quantization: Some(architecture.quantization()),
            architecture: Some(architecture),
            ..self
        }
    }

    /// Reads the fields of a `config.json`.
    ///
    /// # Errors
    /// A field that is missing or wrong, and images that do not fit the network; the message names file and field.
    pub fn from_fields(fields: &Fields) -> Result<ImageClassifierConfig> {
        let known = || Network::NAMES.join(", ");
        let Some(name) = fields.word("network")? else {
            return Err(fields.error("network", format!("is missing; it is one of {}", known())));
        };
        let Some(network) = Network::of(name) else {
            return Err(fields.error("network", format!("is `{name}`, and Lessen has only {}", known())));
        };
        let read = |value: &Value| MixedArchitecture::parse(&value.to_string());
        let architecture = fields
            .get("architecture")
            .filter(|_| network.takes_architecture())
            .map(read)
            .transpose();
        let architecture = architecture.map_err(|error| fields.error("architecture", format!("is wrong: {error}")))?;
        let [height, width] = fields.extents_or("image_size", [224, 224])?;
        let channels = fields.size_or("num_channels", 3)?;
        let own = network.with_classes(1).activation();
        let activation = fields
            .get("activation")
            .map(|_| fields.activation_or("activation", own));
        let word = fields.word(SPREAD)?.unwrap_or(Spread::default().name());
        let known = Spread::ALL.into_iter().find(|spread| spread.name() == word);
        let spread = known.filter(|spread| *spread == Spread::default() || network.with_classes(1).set_spread(*spread));
        let spread = spread.ok_or_else(|| {
            fields.error(
                SPREAD,
                format!("is `{word}`; it is variance, or of a network with batch normalization range"),
            )
        })?;
        let dropout = fields.get("dropout").map(|_| fields.dropout_or("dropout", 0.0));
        let config = ImageClassifierConfig {
            architecture,
            activation: activation.transpose()?,
            dropout: dropout.transpose()?,
            spread,
            loss: fields.loss()?,
            norm: NormKind::of_fields(fields)?,
            quantization: Quantization::of_fields(fields)?,
            output_scale: output_scale(fields)?,
            labels: fields.labels()?,
            multi_label: fields.is_multi_label()?,
            fields: fields.clone().into_map(),
            ..ImageClassifierConfig::of(network, [height, width, channels])
        };
        let checked = config.check();
        checked.map_err(|error| fields.error("image_size", format!("does not fit: {}", error.message())))?;
        Ok(config)
    }

    /// Checks that images of this size fit the network. Whatever comes from data or a flag is checked with this before
    /// the model is traced.
    ///
    /// # Errors
    /// Images that are too small for the network, or too large for any.
    pub fn check(&self) -> Result<()> {
        let [height, width, channels] = self.image();
        let numbers = height.saturating_mul(width).saturating_mul(channels);
        if numbers > VitConfig::LARGEST_IMAGE {
            return Err(lessen_base::Error::user(format!(
                "images of {height} x {width} pixels are more than Lessen reads; use smaller ones"
            )));
        }
        self.model().parameters(self.image()).map(|_| ())
    }

    /// Height, width and channels of the images that it reads.
    pub fn image(&self) -> [usize; 3] {
        let [height, width] = self.image_size;
        [height, width, self.num_channels]
    }

    /// The network with its classes, activation and dropout.
    pub fn model(&self) -> VisionModel {
        let mut model = match &self.architecture {
            Some(own) => MixedMobileNet::new(own.clone(), self.labels.len()).into(),
            None => self.network.with_classes(self.labels.len()),
        };
        if let Some(activation) = self.activation {
            model.set_activation(activation);
        }
        if let Some(dropout) = self.dropout {
            model.set_dropout(dropout);
        }
        model.set_spread(self.spread);
        model
    }
}

/// A network that classifies images, or with one class a regression.
#[derive(Clone, PartialEq, Debug)]
pub struct ImageClassifier {
    /// Configuration.
    pub config: ImageClassifierConfig,
}

impl ImageClassifier {
    /// The name in `architectures`.
    pub const ARCHITECTURE: &str = "LessenImageClassifier";

    /// The name in `model_type`.
    pub const MODEL_TYPE: &str = "lessen-image-classifier";
}

impl ModelClass for ImageClassifier {
    fn title(&self) -> String {
        format!("network {}", self.config.network.name())
    }

    /// Logits of the classes, `f32[B, classes]`. Declares `images` (`f32[B, H, W, C]`).
    ///
    /// # Panics
    /// If the batch has no images, or of another size; see [`Model::check_image`](crate::Model::check_image).
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let images = batch.images(cx);
        if images.shape()[1..] != self.config.image() {
            let sentence = format!("images {} for a model of {:?}", images.ty(), self.config.image());
            cx.trace().fail(sentence);
        }
        let logits = self.config.model().forward(cx, images);
        match self.config.output_scale {
            Some([mean, deviation]) if self.config.labels.len() == 1 => logits * deviation + mean,
            _ => self.config.loss.normalize(logits),
        }
    }

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.fields.clone();
        put_identity(&mut map, Self::ARCHITECTURE, Self::MODEL_TYPE);
        map.insert("network".into(), json!(c.network.name()));
        put_own(&mut map, "architecture", c.architecture.as_ref().map(|own| json!(own)));
        map.insert("image_size".into(), extents_json(c.image_size));
        map.insert("num_channels".into(), json!(c.num_channels));
        put_own(&mut map, "activation", c.activation.map(|a| Value::from(a.to_string())));
        put_own(&mut map, "dropout", c.dropout.map(Value::from));
        let spread = (c.spread != Spread::default()).then(|| Value::from(c.spread.name()));
        put_own(&mut map, SPREAD, spread);
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        put_own(&mut map, OUTPUT_SCALE, c.output_scale.map(|scale| json!(scale)));
        put_labels(&mut map, &c.labels, c.multi_label);
        map
    }

    fn is_head(&self, name: &str) -> bool {
        self.config.model().is_head(name)
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some(self.config.image())
    }

    settings_in_config!(classes);
    settings_in_config!(loss and norm);

    fn activation(&self) -> Activation {
        self.config.model().activation()
    }

    fn set_spread(&mut self, spread: Spread) -> bool {
        self.config.spread = spread;
        self.config.model().set_spread(spread)
    }

    fn set_activation(&mut self, activation: Activation) {
        self.config.activation = Some(activation);
    }

    fn set_dropout(&mut self, p: f64) {
        self.config.dropout = Some(p);
    }
}
