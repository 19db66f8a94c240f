//! Trainings agree with those of PyTorch, present every image once an epoch, and threads change no bit of accuracies.

use crate::support::{device, images, recorded, small_network};
use lessen_condense::{
    Augmentation, Evaluated, FunctionNetwork, ImageSource, LabelledImages, Learner, TrainingSettings, evaluate,
    evaluate_each,
};
use lessen_graph::Tensor;
use lessen_nn::models::vision::{ConvNet, Norm, VisionModel};
use lessen_nn::{Cx, Weights};

fn settings(epochs: usize) -> TrainingSettings {
    TrainingSettings {
        epochs: Some(epochs),
        ..TrainingSettings::default()
    }
}

/// The arrays whose names begin with a prefix.
fn part(recorded: &Weights, prefix: &str) -> Weights {
    let own = recorded.iter();
    own.filter_map(|(name, weight)| Some((name.strip_prefix(prefix)?.to_string(), weight.clone())))
        .collect()
}

#[test]
fn steps_are_those_of_sgd_in_pytorch() {
    let recorded = recorded("training.safetensors");
    let pixels = recorded["images"].data.clone();
    let labels = recorded["labels"].data.iter().map(|&label| label as u32).collect();
    let hard = LabelledImages::new([8, 8, 1], 3, pixels, labels).expect("recorded images");
    let soft = hard.clone().with_soft_labels(recorded["targets"].data.clone());
    let net = ConvNet {
        width: 4,
        depth: 2,
        norm: Norm::default(),
        ..ConvNet::new(3)
    };
    let network = VisionModel::from(net);
    let soft = soft.expect("recorded probabilities");
    let learned = hard.clone().with_learned_rate(0.05);
    for (prefix, set, rate) in [("hard/", hard, 0.05), ("soft/", soft, 0.05), ("hard/", learned, 0.9)] {
        let settings = TrainingSettings { rate, ..settings(6) };
        let mut learner = Learner::new(device(2), &network, ([8, 8, 1], 3), settings).expect("a learner");
        learner.set_weights(&part(&recorded, "start/")).expect("its weights");
        let mut losses = Vec::new();
        let trained = learner.train(&set, &mut |batch| {
            losses.push(batch.loss as f32);
            Ok(())
        });
        trained.expect("a training");
        let mut expected = part(&recorded, prefix);
        let theirs = expected.remove("losses").expect("recorded losses").data;
        assert_close("losses", &losses, &theirs);
        let weights = learner.session().weights().expect("weights");
        assert_eq!(weights.len(), expected.len());
        for (name, weight) in &weights {
            assert_close(name, &weight.data, &expected[name].data);
        }
    }
}

#[track_caller]
fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-2f32, |most, x| most.max(x.abs()));
    let off = found
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(off <= 2e-5 * scale, "{what} is off by {off} of {scale}");
}

#[test]
fn every_image_is_presented_once_an_epoch_in_another_order() {
    let (source, network) = (images(3, 7, [8, 8, 1], 1), small_network(3));
    let settings = TrainingSettings {
        batch: 8,
        ..settings(3)
    };
    let mut learner = Learner::new(device(1), &network, ([8, 8, 1], 3), settings).expect("a learner");
    let mut shown: Vec<Vec<usize>> = vec![Vec::new(); 3];
    let mut sizes = Vec::new();
    let trained = learner.train(&source, &mut |batch| {
        assert_eq!(batch.predicted.len(), batch.images.len());
        shown[batch.epoch].extend(batch.images);
        sizes.push(batch.images.len());
        Ok(())
    });
    trained.expect("a training");
    assert_eq!(sizes, [8, 8, 5].repeat(3));
    assert!(shown[0] != shown[1] && shown[1] != shown[2]);
    for mut epoch in shown {
        epoch.sort_unstable();
        assert_eq!(epoch, (0..21).collect::<Vec<_>>());
    }
}

#[test]
fn threads_change_no_accuracy_and_sets_are_told_apart() {
    let network = small_network(3);
    let test = images(3, 100, [8, 8, 1], 9);
    let good = images(3, 3, [8, 8, 1], 1);
    // The classes of these images are wrong.
    let labels = good.labels().iter().map(|label| (label + 1) % 3).collect();
    let bad = LabelledImages::new([8, 8, 1], 3, good.pixels().to_vec(), labels).expect("images");
    let sets: [&dyn ImageSource; 2] = [&good, &bad];
    for augmentation in [Augmentation::None, Augmentation::CropScaleRotate] {
        let settings = TrainingSettings {
            augmentation,
            batch: 5,
            rate: 0.1,
            ..settings(12)
        };
        let run = |threads: usize| {
            let mut told = Vec::new();
            let accuracy = evaluate(
                device(threads),
                &network,
                (&sets, &test),
                (&settings, 2),
                &mut |event| {
                    if let Evaluated::Network { set, network, accuracy } = event {
                        told.push((set, network, accuracy));
                    }
                    Ok(())
                },
            );
            (accuracy.expect("an evaluation"), told)
        };
        let (accuracy, told) = run(1);
        assert_eq!((&accuracy, &told), (&run(2).0, &run(2).1), "{augmentation}");
        assert_eq!(told.iter().map(|told| told.2).collect::<Vec<_>>(), accuracy.values());
        assert_eq!(
            told.iter().map(|told| (told.0, told.1)).collect::<Vec<_>>(),
            [(0, 0), (0, 1), (1, 0), (1, 1)]
        );
        let [own, other] = [&accuracy.values()[..2], &accuracy.values()[2..]];
        assert!(
            own.iter().all(|a| *a > 0.8) && other.iter().all(|a| *a < 0.2),
            "{accuracy:?}"
        );
    }
}

#[test]
fn a_network_that_diverges_has_no_accuracy_and_the_next_one_is_trained() {
    let (network, test) = (small_network(3), images(3, 5, [8, 8, 1], 2));
    let good = images(3, 6, [8, 8, 1], 1);
    // Sums of these pixels are beyond f32.
    let wild = LabelledImages::new(
        [8, 8, 1],
        3,
        vec![f32::MAX; good.pixels().len()],
        good.labels().to_vec(),
    );
    let wild = wild.expect("images");
    let sets: [&dyn ImageSource; 3] = [&good, &wild, &good];
    let settings = settings(6);
    let mut learner = Learner::of_sets(device(1), &network, (&sets, &test), &settings, false).expect("a learner");
    let mut diverged = Vec::new();
    let found = evaluate_each(&mut learner, (&sets, &test), 2, &mut |event| {
        if let Evaluated::Diverged {
            set,
            network,
            divergence,
        } = event
        {
            diverged.push((set, network, divergence));
        }
        Ok(())
    });
    let found = found.expect("an evaluation");
    assert_eq!(
        found.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, true, false, false, true, true]
    );
    let at: Vec<_> = diverged.iter().map(|(set, network, _)| (*set, *network)).collect();
    assert_eq!(at, [(1, 0), (1, 1)]);
    for (own, (_, _, told)) in found[2..4].iter().zip(&diverged) {
        assert_eq!(format!("{own:?}"), format!("{:?}", Err::<f64, _>(*told)));
        assert!(!told.loss.is_finite() && told.epoch == 0, "{told}");
    }
    // A network before the divergence does not depend on it.
    let alone = evaluate(
        device(1),
        &network,
        (&sets[..1], &test),
        (&settings, 2),
        &mut |_| Ok(()),
    );
    let before: Vec<f64> = found[..2].iter().filter_map(|own| own.as_ref().ok().copied()).collect();
    assert_eq!(alone.expect("an evaluation").values(), before);
}

#[test]
fn a_restart_forgets_everything() {
    let (source, network) = (images(2, 6, [8, 8, 1], 2), small_network(2));
    let new = || Learner::new(device(1), &network, ([8, 8, 1], 2), settings(2)).expect("a learner");
    let train = |learner: &mut Learner<'_>| {
        learner.train(&source, &mut |_| Ok(())).expect("a training");
        learner.session().weights().expect("weights")
    };
    let mut learner = new();
    let first = train(&mut learner);
    assert_ne!(train(&mut learner), first, "a second training goes on from the first");
    learner.restart(1).expect("a restart");
    assert_eq!(train(&mut learner), first);
    assert_eq!(train(&mut new()), first);
}

#[test]
fn answers_do_not_depend_on_what_fills_a_batch() {
    let (source, network) = (images(3, 90, [8, 8, 1], 3), small_network(3));
    let mut learner = Learner::new(device(2), &network, ([8, 8, 1], 3), settings(1)).expect("a learner");
    let all: Vec<usize> = (0..270).collect();
    let features = learner.features(&source, &all).expect("features");
    let classes = learner.predict(&source, &all).expect("classes");
    let width = features.len() / 270;
    let reversed: Vec<usize> = all.iter().rev().copied().collect();
    let of_reversed = learner.features(&source, &reversed).expect("features");
    for (image, own) in of_reversed.chunks(width).rev().enumerate() {
        assert_eq!(own, &features[image * width..][..width]);
    }
    assert_eq!(learner.predict(&source, &[269]).expect("a class"), classes[269..]);
}

/// A network that tells no features.
fn logits(cx: Cx, images: Tensor) -> Tensor {
    small_network(3).forward(cx, images)
}

#[test]
fn mistakes_of_trainings_are_named() {
    let (source, network) = (images(3, 4, [8, 8, 1], 1), small_network(3));
    let refusal = |source: &LabelledImages, settings: TrainingSettings| {
        let accuracy = evaluate(
            device(1),
            &network,
            (&[source], source),
            (&settings, 1),
            &mut |_| Ok(()),
        );
        accuracy.expect_err("a refusal").to_string()
    };
    let two = images(2, 4, [8, 8, 1], 1);
    assert!(refusal(&two, settings(1)).contains("the network has 3 classes, and the images have 2"));
    assert!(refusal(&source, settings(0)).contains("epochs = 0"));
    let wild = TrainingSettings {
        rate: 1e30,
        ..settings(9)
    };
    let sentence = refusal(&source, wild);
    assert!(
        sentence.contains("the loss is ") && sentence.contains("learning rate below"),
        "{sentence}"
    );
    let tight = TrainingSettings {
        budget: Some(1000),
        ..settings(1)
    };
    assert!(refusal(&source, tight).contains("floor"));
    let none = evaluate(
        device(1),
        &network,
        (&[&source], &source),
        (&settings(1), 0),
        &mut |_| Ok(()),
    );
    assert!(none.expect_err("a refusal").to_string().contains("train at least one"));
    let mut learner = Learner::new(device(1), &network, ([8, 8, 1], 3), settings(1)).expect("a learner");
    let wide = images(3, 2, [8, 9, 1], 1);
    let sentence = learner.accuracy(&wide).expect_err("a refusal").to_string();
    assert!(
        sentence.contains("[8, 9, 1]") && sentence.contains("[8, 8, 1]"),
        "{sentence}"
    );
    let plain = FunctionNetwork(logits);
    let mut learner = Learner::new(device(1), &plain, ([8, 8, 1], 3), settings(1)).expect("a learner");
    let sentence = learner.features(&source, &[0]).expect_err("a refusal").to_string();
    assert!(sentence.contains("tells no features"), "{sentence}");
}

#[test]
fn soft_labels_are_checked() {
    let source = images(2, 1, [8, 8, 1], 1);
    let refusal = |soft: Vec<f32>| {
        let refused = source.clone().with_soft_labels(soft);
        refused.expect_err("a refusal").to_string()
    };
    assert!(refusal(vec![1.0; 3]).contains("3 probabilities"));
    assert!(refusal(vec![1.0, 0.0, 0.5, 0.6]).contains("image 1"));
    assert!(refusal(vec![1.5, -0.5, 0.5, 0.5]).contains("image 0"));
}
