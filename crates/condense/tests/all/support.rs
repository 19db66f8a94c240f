//! Data and networks of the tests.

use lessen_base::SplitMix64;
use lessen_condense::LabelledImages;
use lessen_cpu::CpuBackend;
use lessen_device::{Backend, SharedDevice};
use lessen_nn::models::vision::{ConvNet, VisionModel};
use lessen_nn::{Weight, Weights, checkpoint::TensorFile};
use std::path::Path;

/// A CPU with this many threads.
pub fn device(threads: usize) -> SharedDevice {
    let backend: Box<dyn Backend> = Box::new(CpuBackend::new(threads).expect("threads"));
    backend.into()
}

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

/// The `f32` arrays of a file of `tests/fixtures`.
pub fn recorded(name: &str) -> Weights {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let mut file = TensorFile::open(&path).expect("a file of recorded arrays");
    let mut arrays = Weights::new();
    for name in file.names() {
        let shape = file.shape(&name).expect("the file has the tensor").to_vec();
        let mut data = Vec::new();
        let read = file.visit(&name, &mut |bytes| {
            data.extend(bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)));
            Ok(())
        });
        read.expect("a tensor");
        arrays.insert(name, Weight { shape, data });
    }
    arrays
}
