//! Gradient matching (Zhao, Mopuri and Bilen 2021): images are learned that give a network the gradient that real ones
//! of the class give. Its loss is made of gradients, so its derivative is a second one.

use lessen_graph::{DType, Tensor};
use lessen_nn::models::vision::{ConvNet, VisionModel};
use lessen_nn::{Cx, Init, Patterns};

/// Real images of the class, and learned ones.
const IMAGES: (usize, usize) = (256, 10);

/// Height, width and channels.
const IMAGE: [usize; 3] = [32, 32, 3];

/// The parameters of the network, which stay as they are.
pub(super) fn network() -> Patterns {
    Patterns::default().and(["features.*", "classifier.*"].map(str::to_string))
}

/// The distance of both gradients: over matrices and convolutions, the sum over outputs of 1 minus the cosine.
pub(super) fn loss(cx: Cx) -> Tensor {
    let model = VisionModel::from(ConvNet::new(10));
    let shape = |count: usize| [&[count][..], &IMAGE].concat();
    let real = cx.input("images", DType::F32, &shape(IMAGES.0));
    let learned = cx.param("synthetic", &shape(IMAGES.1), Init::Normal { std: 1.0 });
    let loss_of = |images: Tensor| {
        let labels = cx.trace().full(DType::I32, &[images.dim(0)], 0.0);
        model.forward(cx, images).cross_entropy_with(labels, -100, 0.0)
    };
    let losses = [loss_of(real), loss_of(learned)];
    let is_matched = |name: &str, rank: usize| name != "synthetic" && rank > 1;
    let params = cx.params().into_iter().filter(|p| is_matched(&p.name, p.shape.len()));
    let weights: Vec<Tensor> = params.map(|p| cx.param(&p.name, &p.shape, p.init)).collect();
    let [of_real, of_learned] = losses.map(|loss| loss.grad(&weights));
    let distances = of_real.into_iter().zip(of_learned).map(|(a, b)| {
        let [a, b] = [a, b].map(|g| g.reshape(&[g.dim(0), g.ty().numel() / g.dim(0)]));
        let dot = |x: Tensor, y: Tensor| (x * y).sum_axes(&[1]);
        let norms = (dot(a, a) + 1e-12).sqrt() * (dot(b, b) + 1e-12).sqrt();
        (-(dot(a, b) / (norms + 1e-6)) + 1.0).sum()
    });
    distances.reduce(|a, b| a + b).expect("the network has weights")
}
