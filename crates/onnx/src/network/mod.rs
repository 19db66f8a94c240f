//! The network of a file that classifies images, as a function whose parameters the caller provides, so that it can be
//! trained.
//!
//! [`NetworkFile`] is such a file: the float initializers that layers read become parameters, under their names in the
//! file, and all else stays as it is. [`Network`] is the function without the elements of its parameters. Its
//! [`bytes`](Network::bytes) are an ONNX file of its own, whose first input is the images and whose other inputs are
//! the parameters; [`Network::read`] reads them again.

mod contents;
mod gradients;
mod head;
mod refusals;
mod roles;
mod tracer;
mod weights;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lessen_base::{Error, Result};
use lessen_graph::{DType, Tensor, Trace, TraceRef};

use self::head::Head;
use crate::model::Model;
use crate::names::OwnName;
use crate::proto::{Dimension, ValueInfoProto};
use crate::wire::Source;

pub use weights::NetworkFile;

/// Heights and widths that are tried for a network that does not say the size of its images.
const SIZES: [usize; 20] = [
    224, 32, 64, 28, 8, 16, 48, 96, 112, 128, 160, 192, 240, 256, 288, 299, 320, 384, 448, 512,
];

/// Images of a batch that is traced to learn something of the network. A network that was written for single images
/// gives another result for two.
const TRIED: usize = 2;

/// The part that a parameter has in a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterRole {
    /// A weight of a layer.
    Weight,
    /// Factors of a norm, of which 1 changes nothing.
    Scale,
    /// Terms of a norm or a layer, of which 0 changes nothing.
    Shift,
    /// Running means of batch normalization, which no optimizer changes.
    RunningMean,
    /// Running variances of batch normalization, which no optimizer changes.
    RunningVariance,
}

/// A parameter of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkParameter {
    /// Its name in the file.
    pub name: String,
    /// Its extents in the file.
    pub shape: Vec<usize>,
    /// Its part in the network.
    pub role: ParameterRole,
}

/// The settings of a batch normalization.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NetworkNorm {
    /// Added to the variance.
    pub eps: f64,
    /// Share of the difference between a batch's statistics and the running ones by which a step moves the latter.
    pub momentum: f64,
}

/// What the caller of [`Network::trace`] provides.
pub trait NetworkParts {
    /// The value `f32` of a parameter of these extents; the same value each time.
    fn parameter(&self, parameter: &NetworkParameter, shape: &[usize]) -> Tensor;

    /// Batch normalization of `x`, `[.., C]`, with scale, shift, running mean and running variance, `[C]` each.
    fn batch_norm(&self, x: Tensor, parameters: [Tensor; 4], norm: NetworkNorm) -> Tensor;

    /// Dropout of values with this probability.
    fn dropout(&self, x: Tensor, probability: f64) -> Tensor;
}

/// A network that classifies images, without the elements of its parameters.
#[derive(Debug)]
pub struct Network {
    model: Model,
    bytes: Arc<[u8]>,
    parameters: Vec<NetworkParameter>,
    size: [Option<usize>; 2],
    fitting: [usize; 2],
    channels: usize,
    classes: usize,
    head: Option<Head>,
}

impl PartialEq for Network {
    fn eq(&self, other: &Network) -> bool {
        self.bytes == other.bytes
    }
}

impl Network {
    /// Reads the file of a network, as [`Network::bytes`] gives it.
    ///
    /// # Errors
    /// A file that is no such network.
    pub fn open(path: &Path) -> Result<Network> {
        let source = Source::open(path)?;
        let bytes = source.read(source.all())?;
        Network::read(bytes.into(), path)
    }

    /// Reads a network from bytes, which errors call by a path.
    ///
    /// # Errors
    /// Bytes that are no such network.
    pub fn read(bytes: Arc<[u8]>, path: &Path) -> Result<Network> {
        let model = Model::of(Source::held(bytes.clone(), path))?;
        let [images, values @ ..] = &model.inputs[..] else {
            return Err(model.error("it is no network of a run, since it has no input; restore the file"));
        };
        let (size, channels) = match axes(images) {
            Some([_, channels, height, width]) => match channels {
                Some(channels) => ([height, width], channels),
                None => return Err(model.error("it does not say the channels of its images; restore the file")),
            },
            None => return Err(model.error("its first input is no batch of images; restore the file")),
        };
        let parameters = roles::parameters(&model, values)?;
        let head = Head::of(&model, &parameters);
        let mut network = Network {
            model,
            bytes,
            parameters,
            size,
            fitting: [0; 2],
            channels,
            classes: 0,
            head,
        };
        (network.fitting, network.classes) = network.tried()?;
        Ok(network)
    }

    /// The file of the network: nodes and constants, and parameters as inputs after the images.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// The path by which errors call it.
    pub fn path(&self) -> PathBuf {
        self.model.source.path().to_path_buf()
    }

    /// All parameters, running statistics among them.
    pub fn parameters(&self) -> &[NetworkParameter] {
        &self.parameters
    }

    /// Height and width of images, as far as the file says them.
    pub fn size(&self) -> [Option<usize>; 2] {
        self.size
    }

    /// Height and width of images that fit the network.
    pub fn fitting_size(&self) -> [usize; 2] {
        self.fitting
    }

    /// Channels of images.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Whether its last layer is a product, which can have another number of classes.
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Whether a parameter belongs to the last layer.
    pub fn is_of_head(&self, name: &str) -> bool {
        self.head.as_ref().is_some_and(|head| head.classes_axis(name).is_some())
    }

    /// Whether it drops values in training.
    pub fn has_dropout(&self) -> bool {
        let is_dropout = |op: &str| op == tracer::DROPOUT;
        self.model.nodes.iter().any(|node| is_dropout(&node.proto.op_type))
    }

    /// The extents of a parameter in a network with this number of classes.
    pub fn shape_of(&self, parameter: &NetworkParameter, classes: usize) -> Vec<usize> {
        let mut shape = parameter.shape.clone();
        let axis = self.head.as_ref().and_then(|head| head.classes_axis(&parameter.name));
        if let Some(extent) = axis.and_then(|axis| shape.get_mut(axis)) {
            *extent = classes;
        }
        shape
    }

    /// Number of inputs of each class of the last layer; 1 where there is no such layer.
    pub fn head_inputs(&self) -> usize {
        let weight = self.parameters.iter().find(|parameter| {
            let axis = self.head.as_ref().and_then(|head| head.classes_axis(&parameter.name));
            axis.is_some() && parameter.shape.len() > 1
        });
        weight.map_or(1, |weight| weight.shape.iter().product::<usize>() / self.classes.max(1))
    }

    /// Traces the network and returns the logits, `f32[N, classes]`, of `images`, `f32[N, H, W, C]`.
    ///
    /// # Errors
    /// Images that do not fit, and a number of classes that the network cannot have.
    pub fn trace(&self, parts: &dyn NetworkParts, images: Tensor, classes: usize) -> Result<Tensor> {
        tracer::traced(self, parts, images, Some(classes))
    }

    /// Checks that the network reads images of this height and width and gives this number of classes.
    ///
    /// # Errors
    /// Another size than the network's own, a size that its layers do not take, and another number of classes where its
    /// last layer is no product.
    pub fn check(&self, [height, width]: [usize; 2], classes: usize) -> Result<()> {
        let differs = |own: Option<usize>, wanted: usize| own.is_some_and(|own| own != wanted);
        if differs(self.size[0], height) || differs(self.size[1], width) {
            let own = self.fitting;
            return Err(self.model.error(&format!(
                "images of {height} x {width} pixels do not fit the network, which reads {} x {}; set image.size to that, or \
                 export it with a free height and width",
                own[0], own[1]
            )));
        }
        if classes != self.classes && self.head.is_none() {
            return Err(self.model.error(&format!(
                "the data has {classes} classes, but the network gives {} and its last layer is no Gemm, MatMul or Conv with \
                 weights of its own, which could be made anew; name data with as many classes",
                self.classes
            )));
        }
        match self.classes_for([height, width], Some(classes)) {
            Ok(found) if found == classes => Ok(()),
            Ok(found) => Err(self.model.error(&format!(
                "the network gives {found} numbers for each image in place of {classes}, since nodes after its last layer \
                 have a fixed size; name data with {} classes",
                self.classes
            ))),
            Err(error) => Err(self.model.error(&format!(
                "images of {height} x {width} pixels and {classes} classes do not fit the network: {}",
                error.message()
            ))),
        }
    }

    /// A height and width that fit, and the number of classes.
    fn tried(&self) -> Result<([usize; 2], usize)> {
        let mut first = None;
        for side in SIZES {
            let size = self.size.map(|own| own.unwrap_or(side));
            match self.classes_for(size, None) {
                Ok(classes) => return Ok((size, classes)),
                Err(error) => first = first.or(Some(error)),
            }
            if self.size.iter().all(Option::is_some) {
                break;
            }
        }
        let why = first.map_or(String::new(), |error| error.message().to_string());
        Err(self.model.error(&refusals::untraced(&self.model, &why)))
    }

    /// The number of classes that the network gives for images of a size, with a last layer for this number of classes
    /// or the file's own.
    fn classes_for(&self, size: [usize; 2], classes: Option<usize>) -> Result<usize> {
        let trace = Trace::new();
        let logits = self.trial(*trace, size, classes)?;
        match logits.shape()[..] {
            [TRIED, classes] => Ok(classes),
            ref other => Err(Error::user(format!(
                "a batch of {TRIED} images gives numbers of the extents {other:?}, not a row for each image"
            ))),
        }
    }

    /// The logits of a trial, with states as parameters.
    fn trial(&self, trace: TraceRef, [height, width]: [usize; 2], classes: Option<usize>) -> Result<Tensor> {
        let traced = trace.attempt_described(|| {
            let images = trace.input(
                &OwnName::Images.to_string(),
                DType::F32,
                &[TRIED, height, width, self.channels],
            );
            tracer::traced(self, &Trial { trace }, images, classes)
        });
        traced?
    }
}

/// Parameters are states, and norms have fixed statistics.
struct Trial {
    trace: TraceRef,
}

impl NetworkParts for Trial {
    fn parameter(&self, parameter: &NetworkParameter, shape: &[usize]) -> Tensor {
        self.trace.state(&parameter.name, DType::F32, shape)
    }

    fn batch_norm(&self, x: Tensor, parameters: [Tensor; 4], norm: NetworkNorm) -> Tensor {
        let [scale, shift, mean, variance] = parameters;
        x.scale_shift(mean, scale * (variance + norm.eps).rsqrt(), shift)
    }

    fn dropout(&self, x: Tensor, _probability: f64) -> Tensor {
        x
    }
}

/// The four extents of a batch of images, as far as the file says them; none for a value of another rank.
fn axes(value: &ValueInfoProto) -> Option<[Option<usize>; 4]> {
    let shape = value.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
    let extents = shape.dim.iter().map(|dim| match dim.value {
        Some(Dimension::Value(extent)) => usize::try_from(extent).ok().filter(|extent| *extent > 0),
        _ => None,
    });
    extents.collect::<Vec<_>>().try_into().ok()
}
