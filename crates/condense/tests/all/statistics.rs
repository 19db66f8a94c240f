//! Networks with batch normalization: before each update of the images the running statistics move towards those of
//! real images, and the update reads them as they are.

use crate::support::{device, images};
use lessen_condense::{Condensation, Condenser, ImageSource, InnerEpochs, LabelledImages, Method, Settings};
use lessen_nn::Weights;
use lessen_nn::models::vision::{ConvNet, Norm, VisionModel};

/// A ConvNet of one block with batch normalization.
fn network() -> VisionModel {
    let net = ConvNet {
        width: 4,
        depth: 1,
        norm: Norm::default(),
        ..ConvNet::new(3)
    };
    net.into()
}

/// All real images of each class, five, are in every batch that sets the statistics.
fn settings(updates: usize) -> Settings {
    Settings {
        updates,
        epochs: InnerEpochs::Fixed(0),
        real_batch: 3,
        ..Settings::published(Method::Mda, 2).expect("images of a class")
    }
}

/// Mean and unbiased variance of each channel of the first convolution of all images.
fn statistics(source: &LabelledImages, weights: &Weights) -> Vec<[f64; 2]> {
    let [height, width, _] = source.shape();
    let (kernels, bias) = (&weights["features.0.weight"].data, &weights["features.0.bias"].data);
    let pixel = |image: usize, row: i64, column: i64| {
        let inside = (0..height as i64).contains(&row) && (0..width as i64).contains(&column);
        let at = (image * height + row.max(0) as usize) * width + column.max(0) as usize;
        if inside { f64::from(source.pixels()[at]) } else { 0.0 }
    };
    let of_channel = |channel: usize| {
        let mut values = Vec::new();
        for image in 0..source.labels().len() {
            for (row, column) in (0..height as i64).flat_map(|row| (0..width as i64).map(move |column| (row, column))) {
                let taps = (0..9).map(|tap| {
                    let weight = f64::from(kernels[channel * 9 + tap as usize]);
                    weight * pixel(image, row + tap / 3 - 1, column + tap % 3 - 1)
                });
                values.push(taps.sum::<f64>() + f64::from(bias[channel]));
            }
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (count - 1.0);
        [mean, variance]
    };
    (0..bias.len()).map(of_channel).collect()
}

#[test]
fn running_statistics_move_towards_real_images_before_each_update() {
    let (source, network) = (images(3, 5, [8, 8, 1], 1), network());
    for updates in [1, 3] {
        let new = Condenser::new(device(2), &network, &source, settings(updates));
        let mut condenser = new.expect("a condensation");
        // The second iteration begins with a network whose statistics are initial again.
        for _ in 0..2 {
            condenser.iterate(&mut |_| Ok(())).expect("an iteration");
        }
        let weights = condenser.session().weights().expect("weights");
        // Momentum 0.1 of PyTorch, from mean 0 and variance 1; nothing but the statistics' own runs moves them.
        let kept = 0.9f64.powi(updates as i32);
        for (channel, [mean, variance]) in statistics(&source, &weights).into_iter().enumerate() {
            for (name, initial, target) in [("running_mean", 0.0, mean), ("running_var", 1.0, variance)] {
                let found = f64::from(weights[&format!("features.1.{name}")].data[channel]);
                let expected = kept * initial + (1.0 - kept) * target;
                assert!(
                    (found - expected).abs() < 1e-5,
                    "{name} after {updates}: {found} {expected}"
                );
            }
        }
    }
}

/// The same network, with dropout before its linear layer.
fn network_with_dropout() -> VisionModel {
    let mut net = ConvNet {
        width: 4,
        depth: 1,
        norm: Norm::default(),
        ..ConvNet::new(3)
    }
    .plain();
    net.dense[0].dropout = 0.5;
    VisionModel::Plain(net)
}

#[test]
fn networks_with_batch_normalization_and_dropout_condense_and_resume_to_the_bit() {
    let without = condensed(&network());
    assert_ne!(
        condensed(&network_with_dropout()),
        without,
        "dropout changes the network's steps"
    );
}

/// Condensed images, which are the same on one thread as on two and after a resumption.
fn condensed(network: &VisionModel) -> LabelledImages {
    let source = images(3, 20, [8, 8, 1], 1);
    let settings = Settings {
        epochs: InnerEpochs::Fixed(1),
        ..settings(2)
    };
    let run = |threads: usize, cut: bool| {
        let new = || Condenser::new(device(threads), network, &source, settings.clone()).expect("a condensation");
        let mut condenser = new();
        for iteration in 0..3 {
            if cut && iteration == 1 {
                let state = condenser.state().expect("a state");
                condenser = new();
                condenser.resume(1, &state).expect("resumed");
            }
            condenser.iterate(&mut |_| Ok(())).expect("an iteration");
        }
        condenser.images().expect("finite images")
    };
    let one = run(1, false);
    assert_eq!(one, run(2, true));
    one
}
