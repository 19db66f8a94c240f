//! Tests of batches of numbers.

use super::*;
use crate::images::Resize;
use crate::images::normalization::Normalization;
use crate::images::resize::Filter;
use crate::images::set::Pixels;

/// Four images of 1 x 2 numbers, the first pixel of image `n` being `n + 0.5`.
fn numbers(mean: f32) -> ImageSet {
    let normalization = Normalization {
        size: [1, 2],
        mean: vec![mean],
        std: vec![0.5],
    };
    let numbers = (0..8).map(|at| at as f32 / 2.0 + 0.5).collect::<Vec<_>>();
    ImageSet::of(
        Pixels::Numbers(normalization.into(), numbers.into()),
        1,
        vec![0, 1, 0, 1],
    )
}

/// What makes such numbers of bytes.
fn preprocessing_of_numbers() -> Preprocessing {
    Preprocessing {
        resize: Resize::None,
        filter: Filter::Bilinear,
        size: [1, 2],
        mean: vec![0.25],
        std: vec![0.5],
    }
}

#[test]
fn numbers_stay_as_they_are_and_move_over_black() {
    let set = Arc::new(numbers(0.25));
    let plain = ImageBatches::evaluation(set.clone(), preprocessing_of_numbers(), 3).unwrap();
    let batch = plain.eval_batch(0).unwrap();
    let images = batch.get("images").unwrap().as_f32().unwrap();
    assert_eq!(images, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    let augment = Augment {
        changes: vec!["crop:1".parse().unwrap(), "cutout:1".parse().unwrap()],
        ..Augment::default()
    };
    let moved = ImageBatches::training(set, preprocessing_of_numbers(), augment, 2, 4, Order::InOrder).unwrap();
    // A black pixel is (0 - 0.25) / 0.5, and the mean is 0.
    let known: Vec<f32> = (0..4)
        .filter_map(|number| numbers(0.25).numbers(number))
        .flat_map(|image| image.samples().to_vec())
        .chain([-0.5, 0.0])
        .collect();
    let mut seen = Vec::new();
    for step in 0..50 {
        let batch = moved.batch(step).unwrap();
        seen.extend_from_slice(batch.get("images").unwrap().as_f32().unwrap());
    }
    assert!(seen.iter().all(|number| known.contains(number)), "{seen:?}");
    assert!(known.iter().all(|number| seen.contains(number)), "{known:?}");
}

#[test]
fn shares_of_classes_are_targets_in_training_and_classes_are_labels_in_evaluations() {
    let shares = vec![0.75, 0.25, 0.0, 1.0, 1.0, 0.0, 0.5, 0.5];
    let set = Arc::new(numbers(0.25).with_shares(shares.clone(), 2));
    let preprocessing = preprocessing_of_numbers();
    let evaluated = ImageBatches::evaluation(set.clone(), preprocessing.clone(), 4).unwrap();
    let batch = evaluated.eval_batch(0).unwrap();
    assert_eq!(batch.get("labels").unwrap().as_i32().unwrap(), [0, 1, 0, 1]);
    let trained = ImageBatches::training(
        set.clone(),
        preprocessing.clone(),
        Augment::default(),
        2,
        4,
        Order::InOrder,
    );
    let batch = trained.unwrap().batch(0).unwrap();
    assert_eq!(batch.get("targets").unwrap().as_f32().unwrap(), shares);
    assert!(batch.get("labels").is_none());
    // Shares are mixed as rows of ones would be.
    let mixed = Augment {
        mixing: Mixing {
            mixup: Some(1.0),
            cutmix: None,
        },
        ..Augment::default()
    };
    let batch = ImageBatches::training(set.clone(), preprocessing, mixed, 2, 4, Order::InOrder);
    let batch = batch.unwrap().batch(0).unwrap();
    let targets = batch.get("targets").unwrap().as_f32().unwrap();
    let sums: Vec<f32> = targets.chunks(2).map(|row| row.iter().sum()).collect();
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-6), "{targets:?}");
    // A part has its own shares.
    let part = set.part(&[false, true, false, true], true);
    assert_eq!(part.shares(), Some(&[0.0, 1.0, 0.5, 0.5][..]));
    assert_eq!(part.numbers(1).unwrap().samples(), [3.5, 4.0]);
}

#[test]
fn numbers_of_another_meaning_and_changes_of_colours_are_refused() {
    let other = ImageBatches::evaluation(Arc::new(numbers(0.5)), preprocessing_of_numbers(), 2);
    let sentence = other.err().unwrap().to_string();
    assert!(
        sentence.contains("by mean [0.5] and deviation [0.5], and the model sees"),
        "{sentence}"
    );
    let augment = Augment {
        changes: vec!["rand-augment:1:9".parse().unwrap()],
        ..Augment::default()
    };
    let set = Arc::new(numbers(0.25));
    let refused = ImageBatches::training(set, preprocessing_of_numbers(), augment, 2, 4, Order::InOrder);
    let sentence = refused.err().unwrap().to_string();
    assert!(
        sentence.contains("image.augment has rand-augment:1:9, which changes the colours of bytes"),
        "{sentence}"
    );
}
