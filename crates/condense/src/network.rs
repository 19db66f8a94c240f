//! The networks with which images are condensed and evaluated.

use lessen_base::Result;
use lessen_graph::{DType, Tensor, Trace};
use lessen_nn::models::vision::VisionModel;
use lessen_nn::{Cx, ParamSpec};

/// What a network computes of images.
#[derive(Clone, Copy, Debug)]
pub struct Outputs {
    /// The logits of the classes, `[N, classes]`.
    pub logits: Tensor,
    /// What the last layer reads, `[N, width]`, if the network tells it: distribution matching, herding and K-center
    /// work on these features.
    pub features: Option<Tensor>,
}

/// A network that classifies images.
pub trait Network {
    /// Adds the network to the graph, for images `[N, H, W, C]`.
    fn forward(&self, cx: Cx, images: Tensor) -> Outputs;

    /// The logits alone.
    fn logits(&self, cx: Cx, images: Tensor) -> Tensor {
        self.forward(cx, images).logits
    }
}

impl Network for VisionModel {
    fn forward(&self, cx: Cx, images: Tensor) -> Outputs {
        let (logits, features) = self.forward_with_features(cx, images);
        Outputs {
            logits,
            features: Some(features),
        }
    }
}

/// A function from images `[N, H, W, C]` to logits as a [`Network`], which tells no features.
pub struct FunctionNetwork<F>(pub F)
where
    F: Fn(Cx, Tensor) -> Tensor;

impl<F> Network for FunctionNetwork<F>
where
    F: Fn(Cx, Tensor) -> Tensor,
{
    fn forward(&self, cx: Cx, images: Tensor) -> Outputs {
        Outputs {
            logits: (self.0)(cx, images),
            features: None,
        }
    }
}

/// The parameters and buffers of a network for images of this height, width and number of channels.
///
/// # Errors
/// Images that the network cannot read, with the line of the network.
pub fn parameters(network: &dyn Network, shape: [usize; 3]) -> Result<Vec<ParamSpec>> {
    described(network, shape).map(|described| described.params)
}

/// What a network is made of for images of one size.
pub(crate) struct Described {
    /// Parameters and buffers.
    pub params: Vec<ParamSpec>,
    /// Number of classes.
    pub classes: usize,
    /// The width of the features, if it tells any.
    pub features: Option<usize>,
}

/// Describes a network for images of this height, width and number of channels.
///
/// # Errors
/// Images that the network cannot read, and logits or features of another shape than `[N, ..]`, with the line of the
/// network.
pub(crate) fn described(network: &dyn Network, [height, width, channels]: [usize; 3]) -> Result<Described> {
    let trace = Trace::new();
    trace.attempt(|| {
        let cx = Cx::new(*trace, false);
        let images = cx.input("images", DType::F32, &[1, height, width, channels]);
        let Outputs { logits, features } = network.forward(cx, images);
        for (what, found) in [("logits", Some(logits)), ("features", features)] {
            if let Some(found) = found.filter(|found| found.rank() != 2 || found.dim(0) != 1) {
                cx.trace().fail(format!(
                    "the {what} {} of one image are not a matrix of one row",
                    found.ty()
                ));
            }
        }
        Described {
            params: cx.params(),
            classes: logits.dim(-1),
            features: features.map(|features| features.dim(-1)),
        }
    })
}

/// The parameters whose gradients are matched: matrices and kernels. Biases and the vectors of norms are left out, as
/// in the published code.
pub(crate) fn matched(params: &[ParamSpec]) -> impl Iterator<Item = &ParamSpec> {
    params.iter().filter(|param| !param.is_buffer && param.shape.len() > 1)
}
