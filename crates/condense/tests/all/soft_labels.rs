//! Soft labels that are learned with the images: their derivative, their beginning, their part in a training.

use crate::support::{assert_derivative, condensed, device, falls, images, small_network, states_of};
use lessen_condense::{
    Condensation, Condenser, IMAGES, ImageSource, InnerEpochs, LABELS, LabelledImages, Learner, Level, Method,
    Settings, TrainingSettings,
};
use lessen_graph::Array;

fn settings() -> Settings {
    Settings {
        updates: 2,
        epochs: InnerEpochs::Fixed(1),
        real_batch: 8,
        soft_labels: Some(0.5),
        ..Settings::published(Method::Mda, 2).expect("2 images of a class")
    }
}

#[test]
fn derivatives_by_images_and_labels_agree_with_differences() {
    let (source, network) = (images(2, 8, [8, 8, 1], 1), small_network(2));
    let settings = Settings {
        level: Level::Intra,
        ..settings()
    };
    let mut condenser = Condenser::new(device(2), &network, &source, settings).expect("a condensation");
    condenser.iterate(&mut |_| Ok(())).expect("an iteration");
    let plans = condenser.plans().expect("plans");
    let (_, plan) = plans.iter().find(|(name, _)| name == "update").expect("an update");
    let mut given = states_of(plan.graph(), &condenser);
    given.insert("condensed.class".to_string(), Array::i32(&[1], &[1]));
    for (name, rate) in [("image_rate", 0.1), ("image_momentum", 0.0), ("label_rate", 0.5)] {
        given.insert(format!("condensed.{name}"), Array::f32(&[], vec![rate]));
    }
    for param in [IMAGES, LABELS] {
        assert_derivative(plan.graph(), &given, param, "intra");
    }
}

#[test]
fn labels_begin_near_the_classes_are_learned_and_end_with_the_same_bits() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    let run = |threads: usize, cut: Option<usize>| {
        let new = || -> Box<dyn Condensation + '_> {
            Box::new(Condenser::new(device(threads), &network, &source, settings()).expect("a condensation"))
        };
        let first = new().images().expect("finite images");
        (first, condensed(&new, 15, cut))
    };
    let one = run(1, None);
    assert_eq!(one, run(2, Some(5)));
    let (first, (totals, last, _)) = one;
    for (row, label) in first.soft_labels().expect("soft labels").chunks(3).zip(first.labels()) {
        for (class, share) in row.iter().enumerate() {
            let expected = if class == *label as usize { 0.9 } else { 0.05 };
            assert!((share - expected).abs() < 1e-6, "{row:?}");
        }
    }
    assert_ne!(first.soft_labels(), last.soft_labels());
    assert!(falls(&totals, 0.9), "{totals:?}");
}

#[test]
fn a_training_learns_from_soft_labels() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    let mut condenser = Condenser::new(device(1), &network, &source, settings()).expect("a condensation");
    condenser.iterate(&mut |_| Ok(())).expect("an iteration");
    let condensed = condenser.images().expect("finite images");
    let settings = TrainingSettings {
        epochs: Some(1),
        ..TrainingSettings::default()
    };
    let mut learner = Learner::new(device(1), &network, ([8, 8, 1], 3), settings).expect("a learner");
    let mut losses = Vec::new();
    for set in [
        condensed.clone(),
        LabelledImages::part_of(&condensed, &[0, 1, 2, 3, 4, 5]).expect("all images"),
    ] {
        learner.restart(1).expect("a network");
        let trained = learner.train(&set, &mut |seen| {
            losses.push(seen.loss);
            Ok(())
        });
        trained.expect("a training");
    }
    assert_eq!(losses[0], losses[1]);
    // The cross entropy with probabilities is at least their entropy.
    let soft = condensed.soft_labels().expect("soft labels");
    let entropy: f32 = soft.iter().map(|p| -p * p.ln()).sum::<f32>() / 6.0;
    assert!(losses[0] >= f64::from(entropy) && entropy > 0.1, "{losses:?} {entropy}");
}

#[test]
fn a_rate_of_labels_below_zero_is_refused() {
    let settings = Settings {
        soft_labels: Some(-1.0),
        ..settings()
    };
    let error = settings.check().expect_err("nothing was refused").to_string();
    assert!(error.contains("soft_labels = -1"), "{error}");
}
