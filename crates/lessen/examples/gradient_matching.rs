//! A derivative of derivatives: how learned images have to change so that a network gets the gradient from them that
//! real images give it (Zhao, Mopuri and Bilen 2021).
//!
//! `cargo run --release --example gradient_matching -- FOLDER` reads `model.safetensors` there, which has the weights
//! of ConvNet-3 with group normalization, and the images `real` and `learned` of class 0, and writes `gradient.f32`:
//! the derivative of the squared distance of both gradients by the learned images, rows of channels, little-endian.

use lessen::nn::models::vision::{ConvNet, Norm, VisionModel};
use lessen::prelude::*;
use std::path::Path;

/// Images of each kind, and their height, width and channels.
const REAL: [usize; 4] = [64, 32, 32, 3];
const LEARNED: [usize; 4] = [10, 32, 32, 3];

/// The squared distance of the gradients, and its derivative by the learned images.
fn matched(cx: Cx) -> Vec<(&'static str, Tensor)> {
    let model = VisionModel::from(ConvNet {
        norm: Norm::Group(4),
        ..ConvNet::new(10)
    });
    let images = [("real", REAL), ("learned", LEARNED)].map(|(name, shape)| cx.param(name, &shape, Init::Zeros));
    let losses = images.map(|images| {
        let labels = cx.trace().full(DType::I32, &[images.dim(0)], 0.0);
        model.forward(cx, images).cross_entropy(labels)
    });
    let weights = cx
        .params()
        .into_iter()
        .filter(|param| !["real", "learned"].contains(&&*param.name));
    let weights: Vec<Tensor> = weights
        .map(|param| cx.param(&param.name, &param.shape, param.init))
        .collect();
    let [of_real, of_learned] = losses.map(|loss| loss.grad(&weights));
    let differences = of_real
        .into_iter()
        .zip(of_learned)
        .map(|(real, learned)| real - learned);
    let distance = differences
        .map(|x| (x * x).sum())
        .reduce(|a, b| a + b)
        .expect("the network has weights");
    vec![("distance", distance), ("gradient", distance.grad(&images[1..])[0])]
}

fn main() -> Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        return Err(Error::user("name a folder with model.safetensors"));
    };
    let folder = Path::new(&folder);
    let (session, function) = Session::open(device()?, folder, matched)?;
    let results = session.run(function, &[])?;
    let distance = results.f32("distance")?;
    let gradient = results.f32("gradient")?;
    let bytes: Vec<u8> = gradient.iter().flat_map(|x| x.to_le_bytes()).collect();
    let path = folder.join("gradient.f32");
    std::fs::write(&path, bytes).map_err(|error| Error::user(error.to_string()).at(path.display()))?;
    println!("distance {:.9}", distance[0]);
    Ok(())
}
