//! Updates of images and network agree with those of PyTorch, as `tests/fixtures/make_steps.py` recorded them.

use crate::support::device;
use lessen_base::SplitMix64;
use lessen_condense::{Condensation, Condenser, IMAGES, InnerEpochs, LabelledImages, Level, Method, Settings};
use lessen_nn::models::vision::{ConvNet, VisionModel};
use lessen_nn::{Activation, Weight, Weights, checkpoint::TensorFile};
use std::collections::BTreeMap;
use std::path::Path;

/// The greatest norm of a difference, as a part of the norm of what it differs from.
const TOLERANCE: f64 = 1e-4;

/// The same of a derivative where some units of a ReLU are on the other side of zero in `f32`, as PyTorch's own `f32`
/// shows.
const TOLERANCE_WITH_KINKS: f64 = 1e-2;

const DISTANCES: [&str; 8] = ["d1", "d2", "d3", "d4", "d1+d2", "d1+d3", "d1+100*d4", "d1+0.1*d2"];

/// Recorded arrays by name.
struct Recorded(BTreeMap<String, Weight>);

impl Recorded {
    fn open(path: &Path) -> Recorded {
        let mut file = TensorFile::open(path).expect("a file of recorded steps");
        let mut arrays = BTreeMap::new();
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
        Recorded(arrays)
    }

    fn of_fixture() -> Recorded {
        Recorded::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/steps.safetensors"))
    }

    fn get(&self, name: &str) -> &[f32] {
        &self.0[name].data
    }

    fn classes(&self) -> usize {
        self.get("network/classifier.bias").len()
    }

    /// Images of a class among the images `name`.
    fn per_class(&self, name: &str) -> usize {
        self.0[name].shape[0] / self.classes()
    }

    fn network(&self) -> VisionModel {
        let is_smooth = self.0.contains_key("smooth");
        let net = ConvNet {
            activation: if is_smooth { Activation::Silu } else { Activation::Relu },
            width: self.get("network/features.0.bias").len(),
            ..ConvNet::new(self.classes())
        };
        net.into()
    }

    fn source(&self) -> LabelledImages {
        let real = &self.0["real"];
        let shape = [real.shape[1], real.shape[2], real.shape[3]];
        let labels = (0..real.shape[0]).map(|image| (image / self.per_class("real")) as u32);
        LabelledImages::new(shape, self.classes(), real.data.clone(), labels.collect()).expect("recorded images")
    }

    /// The parameters of the network below a prefix.
    fn weights(&self, prefix: &str) -> Weights {
        let own = self.0.iter();
        own.filter_map(|(name, weight)| Some((name.strip_prefix(prefix)?.to_string(), weight.clone())))
            .collect()
    }

    /// Settings in which every real image of a class is in each update.
    fn settings(&self, distance: &str, level: Level) -> Settings {
        let settings = Settings::published(Method::Md, self.per_class("images")).expect("a number of images");
        Settings {
            distance: distance.parse().expect("a distance"),
            level,
            updates: 1,
            ..settings
        }
    }

    /// Sets network and images to the recorded ones before the first update.
    fn begin(&self, condenser: &mut Condenser<'_>) {
        condenser.set_network(&self.weights("network/")).expect("parameters");
        let mut state = condenser.state().expect("a state");
        for (name, weight) in &mut state {
            match name.as_str() {
                IMAGES => weight.data = self.get("images").to_vec(),
                _ => weight.data.fill(0.0),
            }
        }
        condenser.resume(0, &state).expect("images");
    }

    /// Compares updates number `numbers` at a level, each of the same images, with those recorded for `levels`: the
    /// derivative by the images and the distances of the layers. Returns a line for each, and whether it is close.
    fn compared(&self, distance: &str, level: Level, updates: &[(usize, &str)]) -> Vec<(String, bool)> {
        let (network, source) = (self.network(), self.source());
        let settings = self.settings(distance, level);
        let mut condenser = Condenser::new(device(2), &network, &source, settings).expect("a condensation");
        let compared = updates.iter().map(|&(update, recorded)| {
            self.begin(&mut condenser);
            let layers = condenser
                .update_images(update, &mut SplitMix64::new(3))
                .expect("an update");
            // After an update without momentum before it, the momentum is the derivative.
            let (_, derivative) = images_and_momentum(&condenser);
            let name = format!("{distance}/{recorded}");
            let derivative = relative(&derivative, self.get(&name));
            let layers = relative(&layers, self.get(&format!("{name}/layers")));
            let rounding = f64::from(self.get(&format!("{name}/rounding"))[0]);
            let line =
                format!("{distance:10} {recorded:6} {derivative:.1e}, distances {layers:.1e}, PyTorch {rounding:.1e}");
            let has_kinks = rounding > TOLERANCE / 10.0;
            let most = if has_kinks { TOLERANCE_WITH_KINKS } else { TOLERANCE };
            (line, derivative <= most && layers <= TOLERANCE)
        });
        compared.collect()
    }

    /// Compares the updates of all distances and levels, and shows the differences.
    fn compare(&self) {
        let mut wrong = Vec::new();
        for distance in DISTANCES {
            for (level, updates) in [
                (Level::Intra, &[(0, "intra")][..]),
                (Level::Inter, &[(0, "inter")]),
                (Level::Interleaved, &[(0, "intra"), (1, "inter")]),
                (Level::Multi, &[(0, "multi")]),
            ] {
                for (line, is_close) in self.compared(distance, level, updates) {
                    println!("{line}");
                    wrong.extend((!is_close).then_some(line));
                }
            }
        }
        assert!(wrong.is_empty(), "not close:\n{}", wrong.join("\n"));
    }
}

/// The synthetic images, and their momentum.
fn images_and_momentum(condenser: &Condenser<'_>) -> (Vec<f32>, Vec<f32>) {
    let mut state = condenser.state().expect("a state");
    let images = state.remove(IMAGES).expect("the state has the images");
    assert_eq!(state.len(), 1);
    let (_, momentum) = state.pop_first().expect("the state has a momentum");
    (images.data, momentum.data)
}

/// The norm of a difference, as a part of the norm of `expected`.
fn relative(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let differences = found.iter().zip(expected).map(|(&a, &b)| f64::from(a) - f64::from(b));
    norm(&mut differences.into_iter()) / norm(&mut expected.iter().map(|&x| f64::from(x)))
}

#[test]
fn updates_of_the_images_agree_with_pytorch() {
    Recorded::of_fixture().compare();
}

/// Reads the file that `LESSEN_STEPS` names, of `make_steps.py --full`; without it, it does nothing.
#[test]
fn full_size_steps_agree_with_pytorch() {
    if let Ok(path) = std::env::var("LESSEN_STEPS") {
        Recorded::open(Path::new(&path)).compare();
    }
}

/// Two updates of the images with momentum, and two steps of the network with momentum between them.
#[test]
fn momentum_of_images_and_network_agrees_with_pytorch() {
    let recorded = Recorded::of_fixture();
    let settings = Settings {
        updates: 2,
        epochs: InnerEpochs::Fixed(2),
        ..recorded.settings("d1+d2", Level::Multi)
    };
    let (network, source) = (recorded.network(), recorded.source());
    let mut condenser = Condenser::new(device(2), &network, &source, settings).expect("a condensation");
    recorded.begin(&mut condenser);
    let mut random = SplitMix64::new(3);
    condenser.update_images(0, &mut random).expect("an update");
    for _ in 0..2 {
        condenser.epoch(&mut random).expect("an epoch");
    }
    condenser.update_images(1, &mut random).expect("an update");

    let (images, momentum) = images_and_momentum(&condenser);
    assert!(relative(&momentum, recorded.get("path/momentum")) <= TOLERANCE);
    let moved = |now: &[f32], before: &[f32]| -> Vec<f32> { now.iter().zip(before).map(|(a, b)| a - b).collect() };
    let before = recorded.get("images");
    let (found, expected) = (moved(&images, before), moved(recorded.get("path/images"), before));
    assert!(relative(&found, &expected) <= TOLERANCE);

    // A bias before a norm has no gradient but rounding, so all parameters are compared as one vector.
    let weights = condenser.session().weights().expect("parameters");
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for (name, before) in recorded.weights("network/") {
        found.extend(moved(&weights[&name].data, &before.data));
        expected.extend(moved(recorded.get(&format!("path/network/{name}")), &before.data));
    }
    assert!(relative(&found, &expected) <= TOLERANCE);
}
