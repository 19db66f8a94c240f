use super::*;
use crate::images::resize::Filter;
use crate::images::{Resize, decode};

fn plain(size: [usize; 2], channels: usize) -> Preprocessing {
    Preprocessing {
        resize: Resize::None,
        filter: Filter::Bilinear,
        size,
        mean: vec![0.0; channels],
        std: vec![1.0; channels],
    }
}

/// Ten images of 2 x 2 pixels that hold ten times their number and more, labelled by it.
fn ten() -> Arc<ImageSet> {
    let bytes = (0..10)
        .flat_map(|image| (0..4).map(move |pixel| 10 * image + pixel))
        .collect();
    Arc::new(ImageSet::in_memory([2, 2, 1], bytes, (0..10).collect()))
}

fn training(changes: &[&str], mixing: Mixing) -> ImageBatches {
    let augment = Augment {
        changes: changes.iter().map(|word| word.parse().unwrap()).collect(),
        mixing,
        seed: 3,
    };
    ImageBatches::training(ten(), plain([2, 2], 1), augment, 10, 4, Order::Shuffled(3)).unwrap()
}

fn field<'a>(batch: &'a Batch, name: &str) -> &'a Field {
    batch.get(name).unwrap()
}

fn numbers(batch: &Batch) -> &[f32] {
    field(batch, "images").as_f32().unwrap()
}

/// The bytes that numbers without normalization come from.
fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().map(|number| (255.0 * number).round() as u8).collect()
}

#[test]
fn evaluations_see_each_image_once_and_in_order() {
    let source = ImageBatches::evaluation(ten(), plain([2, 2], 1), 4).unwrap();
    assert_eq!((source.eval_batches(), source.batches_per_epoch()), (3, 3));
    let last = source.eval_batch(2).unwrap();
    assert_eq!(field(&last, "images").shape(), [4, 2, 2, 1]);
    assert_eq!(bytes(&numbers(&last)[..8]), [80, 81, 82, 83, 90, 91, 92, 93]);
    assert_eq!(numbers(&last)[8..], [0.0; 8]);
    assert_eq!(field(&last, "labels").as_i32().unwrap(), [8, 9, IGNORE, IGNORE]);
    assert_eq!((last.examples, last.labels()), (2, 2));
    // 4 images of 4 numbers and as many bytes, and 4 labels.
    assert_eq!(source.batch_bytes(), Some(4 * (4 * 5 + 4)));
    assert_eq!(source.batch(5).unwrap(), last);
    assert_eq!(source.eval_batch(u64::MAX).unwrap().examples, 0);
}

#[test]
fn training_has_full_batches_that_depend_on_the_step_alone() {
    let source = training(&["crop:1", "flip"], Mixing::default());
    assert_eq!(source.batches_per_epoch(), 2);
    let batches: Vec<Batch> = (0..6).map(|step| source.batch(step).unwrap()).collect();
    for epoch in batches.chunks(2) {
        let mut seen: Vec<i32> = epoch
            .iter()
            .flat_map(|batch| field(batch, "labels").as_i32().unwrap().to_vec())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }
    // Another source goes on in the middle.
    let other = training(&["crop:1", "flip"], Mixing::default());
    for step in [5, 2, 4] {
        assert_eq!(other.batch(step as u64).unwrap(), batches[step]);
    }
    // Evaluations are without changes, also of the training images.
    assert_eq!(bytes(&numbers(&source.eval_batch(0).unwrap())[..4]), [0, 1, 2, 3]);
}

#[test]
fn an_example_is_changed_anew_in_each_epoch_and_wherever_it_stands() {
    let source = training(&["crop:1"], Mixing::default());
    let of = |epoch| source.image(7, Some(epoch)).unwrap();
    let different = (0..20).filter(|epoch| of(*epoch) != of(epoch + 1)).count();
    assert!(different > 10, "{different}");
    let in_batch = (0..2).find_map(|step| {
        let batch = source.batch(step).unwrap();
        let place = field(&batch, "labels")
            .as_i32()
            .unwrap()
            .iter()
            .position(|label| *label == 7)?;
        Some(bytes(&numbers(&batch)[place * 4..place * 4 + 4]))
    });
    // It is not among those that are left out of the first epoch.
    assert_eq!(in_batch.unwrap(), of(0).bytes());
}

#[test]
fn mixed_batches_have_rows_of_shares() {
    let mixing = Mixing {
        mixup: Some(1.0),
        cutmix: None,
    };
    let (mixed, plain) = (training(&[], mixing), training(&[], Mixing::default()));
    let (found, own) = (mixed.batch(1).unwrap(), plain.batch(1).unwrap());
    assert!(found.get("labels").is_none());
    assert_eq!(field(&found, "weights").as_f32().unwrap(), [1.0; 4]);
    let targets = field(&found, "targets");
    assert_eq!(targets.shape(), [4, 10]);
    let labels = field(&own, "labels").as_i32().unwrap();
    let row = &targets.as_f32().unwrap()[..10];
    let share = row[labels[0] as usize];
    assert!((0.0..=1.0).contains(&share) && (row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    assert!((row[labels[3] as usize] - (1.0 - share)).abs() < 1e-6);
    let expected = share * numbers(&own)[0] + (1.0 - share) * numbers(&own)[12];
    assert!((numbers(&found)[0] - expected).abs() < 1e-3);
    assert_eq!(mixed.batch(1).unwrap(), found);
}

#[test]
fn files_are_decoded_resized_and_normalized() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..3).map(|number| dir.path().join(format!("{number}.png"))).collect();
    for (file, side) in files.iter().zip([4, 6, 9]) {
        let image = decode::tests::sloping([side, 8, 3]);
        std::fs::write(file, decode::tests::encoded(&image, image::ImageFormat::Png)).unwrap();
    }
    let set = Arc::new(ImageSet::in_files(files.clone(), 3, vec![0, 1, 0]));
    let preprocessing = Preprocessing {
        resize: Resize::Shorter(4),
        ..plain([4, 4], 3)
    };
    let source = ImageBatches::evaluation(set.clone(), preprocessing.clone(), 2).unwrap();
    let batch = source.eval_batch(1).unwrap();
    assert_eq!(field(&batch, "images").shape(), [2, 4, 4, 3]);
    let expected = preprocessing.numbers(decode::tests::sloping([9, 8, 3]));
    assert_eq!(numbers(&batch)[..48], expected);
    let augment = Augment {
        changes: vec!["resized-crop".parse().unwrap()],
        ..Augment::default()
    };
    let of = |batch| {
        ImageBatches::training(
            set.clone(),
            preprocessing.clone(),
            augment.clone(),
            2,
            batch,
            Order::InOrder,
        )
    };
    assert_eq!(field(&of(3).unwrap().batch(4).unwrap(), "images").shape(), [3, 4, 4, 3]);
    assert!(
        of(4)
            .err()
            .unwrap()
            .to_string()
            .contains("train.batch is 4, but there are 3 images")
    );
    assert!(of(0).err().unwrap().to_string().contains("train.batch is 0"));
    // A file that is damaged after the data was read.
    std::fs::write(&files[2], "x").unwrap();
    assert!(
        source
            .eval_batch(1)
            .unwrap_err()
            .to_string()
            .contains("2.png is neither")
    );
    let grey = ImageBatches::evaluation(set.clone(), plain([4, 4], 1), 2)
        .err()
        .unwrap()
        .to_string();
    assert!(
        grey.contains("mean and std have 1 and 1 numbers, but the images 3 channels"),
        "{grey}"
    );
}
