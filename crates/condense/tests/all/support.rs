//! Data and networks of the tests.

use lessen_base::SplitMix64;
use lessen_condense::LabelledImages;
use lessen_nn::models::vision::{ConvNet, VisionModel};

/// `per_class` images of each class: noise around a pattern of the class.
pub fn images(classes: usize, per_class: usize, shape: [usize; 3], seed: u64) -> LabelledImages {
    let size: usize = shape.iter().product();
    let mut random = SplitMix64::new(seed);
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for class in 0..classes {
        let mut pattern = SplitMix64::keyed(7, class as u64);
        let pattern: Vec<f64> = (0..size).map(|_| pattern.unit() * 2.0 - 1.0).collect();
        for _ in 0..per_class {
            pixels.extend(pattern.iter().map(|x| (x + random.unit() - 0.5) as f32));
            labels.push(class as u32);
        }
    }
    LabelledImages::new(shape, classes, pixels, labels).expect("the images are well formed")
}

/// A ConvNet of two blocks of 8 channels.
pub fn small_network(classes: usize) -> VisionModel {
    let net = ConvNet {
        width: 8,
        depth: 2,
        ..ConvNet::new(classes)
    };
    net.into()
}
