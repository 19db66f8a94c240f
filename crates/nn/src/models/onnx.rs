//! The network of an ONNX file that classifies images as a model. Its nodes are in a file beside `config.json`, and its
//! parameters have the names of the file's initializers.

use std::path::Path;
use std::sync::Arc;

use lessen_base::Result;
use lessen_graph::Tensor;
use lessen_onnx::{Network, NetworkFile, NetworkNorm, NetworkParameter, NetworkParts, ParameterRole};
use serde_json::{Map, Value, json};

use super::{BatchShape, vision};
use crate::activation::Activation;
use crate::config::{Fields, extents_json, put_identity, put_loss, put_own};
use crate::context::Cx;
use crate::init::Init;
use crate::labels::{numbered_labels, put_labels};
use crate::layers::{BatchNorm, batch_norm_of};
use crate::loss::Loss;
use crate::models::class::{ModelClass, settings_in_config};
use crate::names::is_taken;
use crate::norm_kind::NormKind;
use crate::quantization::Quantization;

/// The file beside `config.json` with the nodes.
const FILE: &str = "network.onnx";

/// The field of `config.json` that names this file.
const FIELD: &str = "network_file";

/// The field in its place for an ONNX file that no run has trained yet.
const UNTRAINED: &str = "onnx_file";

/// The configuration of the network of an ONNX file.
#[derive(Clone, PartialEq, Debug)]
pub struct OnnxClassifierConfig {
    /// The network.
    pub network: Arc<Network>,
    /// Height and width of images in pixels.
    pub image_size: [usize; 2],
    /// Dropout probability of its `Dropout` nodes, in `[0, 1)`; `None` means that of the file.
    pub dropout: Option<f64>,
    /// Softmax of the cross entropy.
    pub loss: Loss,
    /// How its layer norms are computed.
    pub norm: NormKind,
    /// How its layers are quantized; none if they are not.
    pub quantization: Option<Quantization>,
    /// Names of the classes; one class means a regression.
    pub labels: Vec<String>,
    /// Whether each image can have several of the classes, or none.
    pub multi_label: bool,
    /// All fields of the `config.json` that this was read from; the typed fields above take precedence.
    pub fields: Map<String, Value>,
}

impl OnnxClassifierConfig {
    /// A network with the classes and the size of images of its file.
    pub fn of(network: Network) -> OnnxClassifierConfig {
        OnnxClassifierConfig {
            image_size: network.fitting_size(),
            labels: numbered_labels(network.classes()),
            network: Arc::new(network),
            dropout: None,
            loss: Loss::default(),
            norm: NormKind::default(),
            quantization: None,
            multi_label: false,
            fields: Map::new(),
        }
    }

    /// Reads the fields of a `config.json`, and the file that they name.
    ///
    /// # Errors
    /// A field that is missing or wrong, a file that is no such network, and images or classes that do not fit it.
    pub fn from_fields(fields: &Fields) -> Result<OnnxClassifierConfig> {
        if let Some(path) = fields.beside(UNTRAINED)? {
            return Ok(OnnxClassifierConfig::of(
                NetworkFile::open(&path, &is_taken)?.into_network(),
            ));
        }
        let Some(path) = fields.beside(FIELD)? else {
            return Err(fields.error(
                FIELD,
                format!("is missing; it names the file of the network, \"{FILE}\""),
            ));
        };
        let own = OnnxClassifierConfig::of(Network::open(&path)?);
        let channels = own.network.channels();
        if fields.size_or("num_channels", channels)? != channels {
            return Err(fields.error(
                "num_channels",
                format!("is not that of {FILE}, {channels}; restore the file"),
            ));
        }
        let dropout = fields.get("dropout").map(|_| fields.dropout_or("dropout", 0.0));
        let mut model = OnnxClassifier {
            config: OnnxClassifierConfig {
                dropout: dropout.transpose()?,
                loss: fields.loss()?,
                norm: NormKind::of_fields(fields)?,
                quantization: Quantization::of_fields(fields)?,
                labels: fields.labels()?,
                multi_label: fields.is_multi_label()?,
                fields: fields.clone().into_map(),
                ..own
            },
        };
        let size = fields.extents_or("image_size", model.config.image_size)?;
        ModelClass::fit(&mut model, size)?;
        Ok(model.config)
    }

    /// Height, width and channels of the images that it reads.
    pub fn image(&self) -> [usize; 3] {
        let [height, width] = self.image_size;
        [height, width, self.network.channels()]
    }
}

/// The fields of a `config.json` for an ONNX file that no run has trained yet.
pub(crate) fn fields_of_file(path: &Path) -> Fields {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut map = Map::new();
    put_identity(&mut map, OnnxClassifier::ARCHITECTURE, OnnxClassifier::MODEL_TYPE);
    map.insert(UNTRAINED.into(), Value::from(name));
    Fields::of_file(map, path)
}

/// The network of an ONNX file that classifies images, or with one class a regression.
///
/// In training, its batch normalizations read statistics of the batch and move the running ones, whatever the file says
/// of training, and its `Dropout` nodes drop values.
#[derive(Clone, PartialEq, Debug)]
pub struct OnnxClassifier {
    /// Configuration.
    pub config: OnnxClassifierConfig,
}

impl OnnxClassifier {
    /// The name in `architectures`.
    pub const ARCHITECTURE: &str = "LessenOnnxClassifier";

    /// The name in `model_type`.
    pub const MODEL_TYPE: &str = "lessen-onnx-classifier";
}

/// The parameters of a network, and the layers that training changes.
struct Parts<'a> {
    cx: &'a Cx,
    config: &'a OnnxClassifierConfig,
}

impl NetworkParts for Parts<'_> {
    fn parameter(&self, parameter: &NetworkParameter, shape: &[usize]) -> Tensor {
        let (cx, name) = (self.cx, &parameter.name);
        let network = &self.config.network;
        match parameter.role {
            ParameterRole::RunningMean => cx.buffer(name, shape, Init::Zeros),
            ParameterRole::RunningVariance => cx.buffer(name, shape, Init::Ones),
            _ if network.is_of_head(name) => cx.param(name, shape, vision::uniform_of(network.head_inputs())),
            ParameterRole::Scale => cx.param(name, shape, Init::Ones),
            ParameterRole::Shift => cx.param(name, shape, Init::Zeros),
            ParameterRole::Weight => {
                let inputs = shape.iter().skip(1).product::<usize>();
                cx.param(name, shape, vision::uniform_of(inputs.max(1)))
            }
        }
    }

    fn batch_norm(&self, x: Tensor, parameters: [Tensor; 4], norm: NetworkNorm) -> Tensor {
        let NetworkNorm { eps, momentum } = norm;
        let how = BatchNorm {
            eps,
            momentum,
            ..BatchNorm::default()
        };
        batch_norm_of(*self.cx, x, parameters, how)
    }

    fn dropout(&self, x: Tensor, probability: f64) -> Tensor {
        self.cx.dropout(x, self.config.dropout.unwrap_or(probability))
    }
}

impl ModelClass for OnnxClassifier {
    fn title(&self) -> String {
        "network of an ONNX file".to_string()
    }

    /// Logits of the classes, `f32[B, classes]`. Declares `images` (`f32[B, H, W, C]`).
    ///
    /// # Panics
    /// If the batch has no images, or of another size; see [`Model::check_image`](crate::Model::check_image).
    fn logits(&self, cx: Cx, batch: BatchShape) -> Tensor {
        let (config, images) = (&self.config, batch.images(cx));
        if images.shape()[1..] != config.image() {
            let sentence = format!("images {} for a model of {:?}", images.ty(), config.image());
            cx.trace().fail(sentence);
        }
        let parts = Parts { cx: &cx, config };
        match config.network.trace(&parts, images, config.labels.len()) {
            Ok(logits) => config.loss.normalize(logits),
            Err(error) => cx.trace().fail(error.message()),
        }
    }

    fn config_json(&self) -> Map<String, Value> {
        let c = &self.config;
        let mut map = c.fields.clone();
        put_identity(&mut map, Self::ARCHITECTURE, Self::MODEL_TYPE);
        map.insert(FIELD.into(), Value::from(FILE));
        map.insert("image_size".into(), extents_json(c.image_size));
        map.insert("num_channels".into(), json!(c.network.channels()));
        put_own(&mut map, "dropout", c.dropout.map(Value::from));
        put_loss(&mut map, c.loss);
        c.norm.put(&mut map);
        Quantization::put(c.quantization.as_ref(), &mut map);
        put_labels(&mut map, &c.labels, c.multi_label);
        map
    }

    fn is_head(&self, name: &str) -> bool {
        self.config.network.is_of_head(name)
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some(self.config.image())
    }

    fn fit(&mut self, size: [usize; 2]) -> Result<()> {
        self.config.network.check(size, self.config.labels.len())?;
        self.config.image_size = size;
        Ok(())
    }

    fn files(&self) -> Vec<(&'static str, Arc<[u8]>)> {
        vec![(FILE, self.config.network.bytes().clone())]
    }

    settings_in_config!(classes);
    settings_in_config!(loss and norm);

    /// The activations of the network are nodes of its file; this is only the default of others.
    fn activation(&self) -> Activation {
        Activation::Relu
    }

    /// Changes nothing: the activations of the network are nodes of its file.
    fn set_activation(&mut self, _activation: Activation) {}

    fn set_dropout(&mut self, p: f64) {
        self.config.dropout = Some(p);
    }
}
