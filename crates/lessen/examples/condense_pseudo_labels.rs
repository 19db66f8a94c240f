//! Semi-supervised condensation: `cargo run --release --example condense_pseudo_labels -- FOLDER [PER_CLASS [ITERATIONS
//! [NETWORKS [EPOCHS]]]]` condenses the digits of FOLDER (files of MNIST) with the labels of a tenth of the images and
//! pseudo-labels for the rest, beside the tenth alone and all labels.
//!
//! A ConvNet that is trained on the tenth gives the pseudo-labels.

mod arguments;

use arguments::number;
use lessen::condense::{
    Condensation, Condenser, ImageSource, LabelledImages, Learner, Method, Settings, TrainingSettings, evaluate,
};
use lessen::data::images::idx;
use lessen::nn::models::vision::{ConvNet, VisionModel};
use lessen::prelude::*;
use std::path::Path;

/// One of this many images has a label.
const LABELLED: usize = 10;

/// Mean and deviation of the pixels of MNIST, by which networks see them.
const MEAN: f32 = 0.1307;
const DEVIATION: f32 = 0.3081;

/// Channels of each convolution of the ConvNet, a quarter of the published ones.
const WIDTH: usize = 32;

/// Real images of a class in an update of the images.
const REAL: usize = 64;

/// Learning rate of the images: ten times the published one, since they have a twentieth of the published iterations.
const IMAGE_RATE: f64 = 1.0;

/// The images and labels of a split of MNIST.
fn digits(folder: &Path, split: &str) -> Result<LabelledImages> {
    let file = |what: &str| {
        let plain = folder.join(format!("{split}-{what}"));
        if plain.exists() {
            plain
        } else {
            plain.with_extension("gz")
        }
    };
    let idx::Idx { shape, bytes } = idx::read(&file("images-idx3-ubyte"))?;
    let labels = idx::read(&file("labels-idx1-ubyte"))?.bytes;
    let &[_, height, width] = shape.as_slice() else {
        return Err(Error::user(format!("{} holds no images for {split}", folder.display())));
    };
    let pixels = bytes
        .iter()
        .map(|byte| (f32::from(*byte) / 255.0 - MEAN) / DEVIATION)
        .collect();
    LabelledImages::new(
        [height, width, 1],
        10,
        pixels,
        labels.into_iter().map(u32::from).collect(),
    )
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first().map(Path::new) else {
        return Err(Error::user("name a folder with the files of MNIST"));
    };
    let per_class = number(&arguments, 1)?.unwrap_or(1);
    let iterations = number(&arguments, 2)?.unwrap_or(50);
    let networks = number(&arguments, 3)?.unwrap_or(5);
    let epochs = number(&arguments, 4)?;
    let (train, test) = (digits(folder, "train")?, digits(folder, "t10k")?);
    let network: VisionModel = ConvNet {
        width: WIDTH,
        ..ConvNet::new(train.classes())
    }
    .into();

    // Pseudo-labels: the predictions of a network that has seen a tenth of the images with their labels.
    let all: Vec<usize> = (0..train.labels().len()).collect();
    let known: Vec<usize> = all.iter().copied().step_by(LABELLED).collect();
    let tenth = LabelledImages::part_of(&train, &known)?;
    let first = TrainingSettings {
        epochs: Some(5),
        ..TrainingSettings::default()
    };
    let of_images = (train.shape(), train.classes());
    let mut teacher = Learner::new(device()?, &network, of_images, first)?;
    teacher.train(&tenth, &mut |_| Ok(()))?;
    let mut labels = teacher.predict(&train, &all)?;
    for &image in &known {
        labels[image] = train.labels()[image];
    }
    let right = labels.iter().zip(train.labels()).filter(|(a, b)| a == b).count();
    println!("labels: {} of {} are right", right, labels.len());
    drop(teacher);
    let guessed = LabelledImages::new(train.shape(), train.classes(), train.pixels().to_vec(), labels)?;

    let sources = [("a tenth", &tenth), ("pseudo-labels", &guessed), ("all labels", &train)];
    for (name, source) in sources {
        let settings = Settings {
            iterations,
            real_batch: REAL,
            image_rate: IMAGE_RATE,
            ..Settings::published(Method::Md, per_class)?
        };
        let mut condenser = Condenser::new(device()?, &network, source, settings)?;
        for _ in 0..iterations {
            condenser.iterate(&mut |_| Ok(()))?;
        }
        let condensed = condenser.images()?;
        let judged = TrainingSettings {
            epochs,
            ..TrainingSettings::published(&network, train.shape(), true)?
        };
        let sets: [&dyn ImageSource; 1] = [&condensed];
        let accuracy = evaluate(
            device()?,
            &network,
            (&sets, &test),
            (&judged, networks),
            &mut |_| Ok(()),
        )?;
        println!("{name}: {per_class} of each class, accuracy {accuracy} %");
    }
    Ok(())
}
