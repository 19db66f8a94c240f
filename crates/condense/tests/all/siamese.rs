//! Siamese augmentation: operations agree with their definitions, on the host, in a graph and in PyTorch; graphs are
//! differentiated by the images; condensations with it end with the same bits.

use crate::support::{condensed, device, falls, given, images, recorded, small_network};
use lessen_base::SplitMix64;
use lessen_condense::{
    Change, ChangeArrays, Changes, Condensation, Condenser, InnerEpochs, Method, Operation, Settings, Strategy,
};
use lessen_graph::{Array, DType, Tensor, Trace, evaluate_exactly};
use lessen_nn::Cx;

/// Height, width and channels.
const SHAPE: [usize; 3] = [6, 7, 3];
const SIZE: usize = 6 * 7 * 3;

const OPERATIONS: [(Operation, &str); 6] = [
    (Operation::Color, "color"),
    (Operation::Crop, "crop"),
    (Operation::Cutout, "cutout"),
    (Operation::Flip, "flip"),
    (Operation::Scale, "scale"),
    (Operation::Rotate, "rotate"),
];

/// `count` images of numbers from -1 to 1.
fn random_pixels(count: usize) -> Vec<f64> {
    let mut random = SplitMix64::new(4);
    (0..count * SIZE)
        .map(|_| f64::from((random.unit() * 2.0 - 1.0) as f32))
        .collect()
}

/// Changes by each operation in turn, with the strategy that has it alone.
fn drawn(count: usize) -> Vec<(Strategy, Vec<Change>)> {
    let mut random = SplitMix64::new(9);
    let by_word = |(_, word): (Operation, &str)| {
        let strategy: Strategy = word.parse().expect("a strategy");
        let changes = strategy.draw(SHAPE, count, &mut random);
        (strategy, changes)
    };
    OPERATIONS.into_iter().map(by_word).collect()
}

/// The graph of changed images `y` of images `x`, by the same change or each by its own, and the derivative of the sum
/// of `y^2 along` by the images.
fn changed(strategy: Strategy, changes: &[Change], x: &[f64], alike: bool, along: &[f64]) -> [Vec<f64>; 2] {
    let count = x.len() / SIZE;
    let shape = [&[count][..], &SHAPE].concat();
    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let images = cx.input("images", DType::F32, &shape);
    let declared = Changes::declare(cx, strategy, changes.len(), SHAPE);
    // The last change, or those of the last batch.
    let y = match alike {
        true => declared.of_batch(images, changes.len() - 1),
        false => declared.of_each(images, changes.len() - count),
    };
    let weights: Tensor = trace.constant(Array::f32(&shape, along.to_vec()));
    trace.output("y", y);
    trace.output("slope", (y * y * weights).sum().grad(&[images])[0]);
    let graph = trace.finish();
    let arrays = match alike {
        true => ChangeArrays::of_batches(changes, SHAPE),
        false => ChangeArrays::of_images(changes, SHAPE, count),
    };
    let mut given = given(&graph, arrays.inputs());
    given.insert("images".to_string(), Array::f32(&shape, x.to_vec()));
    let results = evaluate_exactly(&graph, &given).expect("a sound graph");
    ["y", "slope"].map(|name| results[name].data.clone())
}

/// The pixel at a place between pixels, with zeros around the image.
fn sampled(image: &[f64], [y, x]: [f64; 2], channel: usize) -> f64 {
    let mut sum = 0.0;
    for row in 0..SHAPE[0] {
        for column in 0..SHAPE[1] {
            let tent = |distance: f64| (1.0 - distance.abs()).max(0.0);
            let weight = tent(y - row as f64) * tent(x - column as f64);
            sum += weight * image[(row * SHAPE[1] + column) * SHAPE[2] + channel];
        }
    }
    sum
}

/// An image after a change, by the definition of the change.
fn defined(image: &[f64], change: Change) -> Vec<f64> {
    let [height, width, channels] = SHAPE;
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    if let Change::Color {
        brightness,
        saturation,
        contrast,
    } = change
    {
        let bright: Vec<f64> = image.iter().map(|x| x + brightness).collect();
        let saturated: Vec<f64> = bright
            .chunks(channels)
            .flat_map(|pixel| pixel.iter().map(move |x| (x - mean(pixel)) * saturation + mean(pixel)))
            .collect();
        let grey = mean(&saturated);
        return saturated.iter().map(|x| (x - grey) * contrast + grey).collect();
    }
    let middle = [(height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0];
    let mut changed = Vec::new();
    for row in 0..height {
        for column in 0..width {
            let (y, x) = (row as f64 - middle[0], column as f64 - middle[1]);
            let (mut from, mut kept) = ([row as f64, column as f64], 1.0);
            match change {
                Change::Color { .. } => {}
                Change::Crop { down, right } => from = [from[0] + down as f64, from[1] + right as f64],
                Change::Flip { is_flipped } => from[1] = if is_flipped { middle[1] - x } else { from[1] },
                Change::Scale { down, right } => from = [middle[0] + down * y, middle[1] + right * x],
                Change::Rotate { angle } => {
                    let (sin, cos) = angle.sin_cos();
                    let ratio = width as f64 / height as f64;
                    from = [
                        middle[0] + cos * y + sin * x / ratio,
                        middle[1] + cos * x - sin * y * ratio,
                    ];
                }
                Change::Cutout {
                    top,
                    left,
                    height,
                    width,
                } => {
                    let inside =
                        |at: usize, first: i64, size: usize| at as i64 >= first && (at as i64) < first + size as i64;
                    kept = if inside(row, top, height) && inside(column, left, width) {
                        0.0
                    } else {
                        1.0
                    };
                }
            }
            changed.extend((0..channels).map(|channel| kept * sampled(image, from, channel)));
        }
    }
    changed
}

fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}: element {place} is {a}, not {b}");
    }
}

#[test]
fn operations_agree_with_their_definitions_on_the_host_and_in_a_graph() {
    let pixels = random_pixels(3);
    for (strategy, changes) in drawn(24) {
        for (batch, own) in changes.chunks(3).enumerate() {
            let each: Vec<f64> = pixels
                .chunks(SIZE)
                .zip(own)
                .flat_map(|(image, change)| defined(image, *change))
                .collect();
            let alike: Vec<f64> = pixels.chunks(SIZE).flat_map(|image| defined(image, own[2])).collect();
            let done = &changes[..3 * batch + 3];
            let found = changed(strategy, done, &pixels, false, &pixels);
            assert_close(&format!("{strategy}, each"), &found[0], &each, 1e-6);
            let found = changed(strategy, done, &pixels, true, &pixels);
            assert_close(&format!("{strategy}, alike"), &found[0], &alike, 1e-6);
            let mut host: Vec<f32> = pixels.iter().map(|x| *x as f32).collect();
            host.chunks_mut(SIZE)
                .zip(own)
                .for_each(|(image, change)| change.apply(image, SHAPE));
            let host: Vec<f64> = host.into_iter().map(f64::from).collect();
            assert_close(&format!("{strategy}, host"), &host, &each, 1e-6);
        }
    }
}

#[test]
fn an_operation_of_a_larger_strategy_changes_the_same_and_nothing_else() {
    let pixels = random_pixels(2);
    for (strategy, changes) in drawn(2) {
        for alike in [false, true] {
            let own = changed(strategy, &changes, &pixels, alike, &pixels);
            let all = changed(Strategy::ALL, &changes, &pixels, alike, &pixels);
            assert_eq!(own, all, "{strategy}");
        }
    }
}

#[test]
fn scale_rotation_and_colour_agree_with_pytorch() {
    let arrays = recorded("siamese.safetensors");
    let changes = [
        (
            "scale",
            Change::Scale {
                down: 1.15,
                right: 0.85,
            },
        ),
        ("rotate", Change::Rotate { angle: 0.2 }),
        (
            "color",
            Change::Color {
                brightness: 0.3,
                saturation: 1.7,
                contrast: 0.6,
            },
        ),
    ];
    for (name, change) in changes {
        let mut found = arrays["images"].data.clone();
        found.chunks_mut(SIZE).for_each(|image| change.apply(image, SHAPE));
        let [found, expected] =
            [&found, &arrays[name].data].map(|data| data.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
        assert_close(name, &found, &expected, 1e-5);
    }
}

#[test]
fn derivatives_by_the_images_agree_with_differences() {
    let (pixels, along) = (random_pixels(2), random_pixels(3)[SIZE..].to_vec());
    for (strategy, changes) in drawn(2) {
        for alike in [false, true] {
            let [_, slope] = changed(strategy, &changes, &pixels, alike, &along);
            let value = |pixels: &[f64]| {
                let [y, _] = changed(strategy, &changes, pixels, alike, &along);
                y.iter().zip(&along).map(|(y, weight)| y * y * weight).sum::<f64>()
            };
            for place in [0, 40, 77, 130, 2 * SIZE - 1] {
                let at = |step: f64| {
                    let mut moved = pixels.clone();
                    moved[place] += step;
                    value(&moved)
                };
                let difference = (at(1e-4) - at(-1e-4)) / 2e-4;
                assert!(
                    (slope[place] - difference).abs() < 1e-8,
                    "{strategy}: the derivative by pixel {place} is {}, the difference {difference}",
                    slope[place]
                );
            }
        }
    }
}

#[test]
fn draws_are_of_the_strategy_and_within_the_published_ranges() {
    let mut seen = [false; 6];
    let mut flips = [false; 2];
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        for change in Strategy::ALL.draw([32, 32, 3], 2, &mut random) {
            let (operation, within) = match change {
                Change::Color {
                    brightness,
                    saturation,
                    contrast,
                } => (
                    0,
                    brightness.abs() <= 0.5 && (0.0..2.0).contains(&saturation) && (0.5..1.5).contains(&contrast),
                ),
                Change::Crop { down, right } => (1, down.abs() <= 4 && right.abs() <= 4),
                Change::Cutout {
                    top,
                    left,
                    height,
                    width,
                } => (
                    2,
                    [height, width] == [16, 16] && [top, left].iter().all(|first| (-8..=24).contains(first)),
                ),
                Change::Flip { is_flipped } => {
                    flips[usize::from(is_flipped)] = true;
                    (3, true)
                }
                Change::Scale { down, right } => {
                    (4, [down, right].iter().all(|factor| (1.0 / 1.2..1.2).contains(factor)))
                }
                Change::Rotate { angle } => (5, angle.abs() <= 15f64.to_radians()),
            };
            assert!(within, "{change:?}");
            seen[operation] = true;
        }
        let digits = Strategy::DIGITS.draw([28, 28, 1], 4, &mut random);
        assert!(!digits.iter().any(|change| matches!(change, Change::Flip { .. })));
    }
    assert_eq!((seen, flips), ([true; 6], [true; 2]));
}

#[test]
fn strategies_are_said_in_words() {
    assert_eq!(Strategy::ALL.to_string(), "color_crop_cutout_flip_scale_rotate");
    assert_eq!("color_crop_cutout_scale_rotate".parse(), Ok(Strategy::DIGITS));
    let refusal = |text: &str| text.parse::<Strategy>().expect_err("nothing was refused").to_string();
    assert!(refusal("crop_mirror").contains("`mirror` has no meaning"));
    assert!(refusal("crop_flip_crop").contains("`crop` is said twice"));
    assert!(refusal("").contains("choose operations joined with _"));
}

#[test]
fn condensation_with_augmentation_ends_with_the_same_bits_and_its_distances_fall() {
    let (source, network) = (images(3, 12, [8, 8, 3], 1), small_network(3));
    let settings = Settings {
        updates: 2,
        epochs: InnerEpochs::Fixed(1),
        real_batch: 8,
        ..Settings::published(Method::Dsa, 2).expect("2 images of a class")
    };
    let run = |threads: usize, cut: Option<usize>| {
        let new = || -> Box<dyn Condensation + '_> {
            Box::new(Condenser::new(device(threads), &network, &source, settings.clone()).expect("a condensation"))
        };
        condensed(&new, 24, cut)
    };
    let one = run(1, None);
    assert_eq!(one, run(2, Some(7)));
    assert!(falls(&one.0, 0.9), "{:?}", one.0);
}
