//! Coresets: herding and centers are those of a naive search, and every method chooses images of every class.

use crate::support::{device, images, small_network};
use lessen_base::SplitMix64;
use lessen_condense::{
    Coreset, FunctionNetwork, ImageSource, InnerEpochs, LabelledImages, Method, Settings, Strategy, TrainingSettings,
    condensation, coreset, herding, k_center,
};
use lessen_graph::Tensor;
use lessen_nn::Cx;

/// Random rows.
fn features(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..rows * width).map(|_| (random.unit() * 4.0 - 1.0) as f32).collect()
}

fn square(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn rows_of(features: &[f32], width: usize) -> Vec<Vec<f64>> {
    let rows = features.chunks(width);
    rows.map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect()
}

fn mean(rows: &[&Vec<f64>]) -> Vec<f64> {
    let width = rows[0].len();
    let of = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
    (0..width).map(of).collect()
}

#[test]
fn herding_keeps_the_mean_as_a_naive_search_does() {
    for (seed, width) in [(1, 1), (2, 3), (3, 7)] {
        let features = features(20, width, seed);
        let rows = rows_of(&features, width);
        let whole = mean(&rows.iter().collect::<Vec<_>>());
        let mut naive: Vec<usize> = Vec::new();
        for _ in 0..20 {
            let off = |row: usize| {
                let with: Vec<&Vec<f64>> = naive.iter().chain([&row]).map(|row| &rows[*row]).collect();
                square(&mean(&with), &whole)
            };
            let free = (0..20).filter(|row| !naive.contains(row));
            let best = free.min_by(|a, b| off(*a).total_cmp(&off(*b)));
            naive.push(best.expect("a row"));
        }
        assert_eq!(herding(&features, width, 20), naive, "width {width}");
        assert_eq!(herding(&features, width, 5), naive[..5]);
        assert_eq!(herding(&features, width, 99).len(), 20);
    }
}

#[test]
fn centers_are_those_of_a_naive_search() {
    for (seed, width) in [(1, 1), (2, 3), (3, 7)] {
        let features = features(20, width, seed);
        let rows = rows_of(&features, width);
        let whole = mean(&rows.iter().collect::<Vec<_>>());
        let nearest = |a: &usize, b: &usize| square(&rows[*a], &whole).total_cmp(&square(&rows[*b], &whole));
        let mut naive = vec![(0..20).min_by(nearest).expect("a row")];
        while naive.len() < 20 {
            let off = |row: usize| {
                let distances = naive.iter().map(|center| square(&rows[row], &rows[*center]));
                distances.fold(f64::INFINITY, f64::min)
            };
            let free = (0..20).rev().filter(|row| !naive.contains(row));
            naive.push(free.max_by(|a, b| off(*a).total_cmp(&off(*b))).expect("a row"));
        }
        assert_eq!(k_center(&features, width, 20), naive, "width {width}");
        assert_eq!(k_center(&features, width, 4), naive[..4]);
    }
}

#[test]
fn equal_rows_are_chosen_in_order_and_nothing_is_chosen_of_nothing() {
    let equal = [1.0, 2.0].repeat(4);
    assert_eq!(herding(&equal, 2, 3), [0, 1, 2]);
    assert_eq!(k_center(&equal, 2, 4), [0, 1, 2, 3]);
    for choose in [herding, k_center] {
        assert!(choose(&[], 2, 3).is_empty() && choose(&equal, 2, 0).is_empty());
    }
}

#[test]
fn every_method_chooses_images_of_every_class_and_threads_change_none() {
    let (source, network) = (images(3, 9, [8, 8, 1], 1), small_network(3));
    let settings = TrainingSettings {
        epochs: Some(3),
        batch: 10,
        ..TrainingSettings::default()
    };
    for word in Coreset::WORDS {
        let method: Coreset = word.parse().expect("a method");
        assert_eq!(method.to_string(), word);
        let run = |threads: usize| {
            let mut epochs = Vec::new();
            let chosen = coreset(
                device(threads),
                &network,
                &source,
                (method, 4),
                &settings,
                &mut |epoch, _| {
                    epochs.push(epoch);
                    Ok(())
                },
            );
            assert_eq!(epochs.len(), if method.trains() { 3 } else { 0 }, "{word}");
            chosen.expect("a coreset")
        };
        let chosen = run(1);
        assert_eq!(chosen, run(2), "{word}");
        let classes: Vec<u32> = chosen.iter().map(|image| source.labels()[*image]).collect();
        assert_eq!(classes, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], "{word}");
        let mut distinct = chosen.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 12, "{word}");
    }
}

/// Settings of the choice by a method.
fn choice(method: Coreset) -> Settings {
    let own = Settings::published(Method::Coreset(method), 4).expect("4 images of a class");
    Settings {
        epochs: InnerEpochs::Fixed(3),
        network_batch: 10,
        ..own
    }
}

#[test]
fn a_choice_is_driven_like_a_condensation() {
    let (source, network) = (images(3, 9, [8, 8, 1], 1), small_network(3));
    for word in Coreset::WORDS {
        let method: Coreset = word.parse().expect("a method");
        assert_eq!(word.parse::<Method>(), Ok(Method::Coreset(method)));
        let new = || condensation(device(2), &network, &source, choice(method), None).expect("a choice");
        let mut own = new();
        assert!(
            own.images().is_err() && own.state().expect("a state").is_empty(),
            "{word}"
        );
        let mut told = Vec::new();
        let prepared = own.prepare(&mut |part| {
            told.push((part.done, part.parts, part.loss.is_finite()));
            Ok(())
        });
        prepared.expect("images");
        // Three epochs of steps on 10, 10 and 7 images.
        let steps: Vec<(usize, usize, bool)> = (1..=9).map(|done| (done, 9, true)).collect();
        assert_eq!(told, if method.trains() { steps } else { Vec::new() }, "{word}");
        let training = TrainingSettings {
            epochs: Some(3),
            batch: 10,
            ..TrainingSettings::default()
        };
        let chosen = coreset(device(1), &network, &source, (method, 4), &training, &mut |_, _| Ok(()));
        let expected = LabelledImages::part_of(&source, &chosen.expect("a coreset")).expect("a part");
        assert_eq!(own.images().expect("images"), expected, "{word}");
        // Its functions are known before it begins, and it goes on from what was chosen.
        let names: Vec<String> = new()
            .plans()
            .expect("plans")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let expected_names: &[&str] = match method {
            Coreset::Random => &[],
            Coreset::Forgetting => &["step 7", "step 10"],
            Coreset::Herding | Coreset::KCenter => &["step 7", "step 10", "features 27"],
        };
        assert_eq!(names, expected_names, "{word}");
        let mut resumed = new();
        resumed.resume(0, &own.state().expect("a state")).expect("resumed");
        resumed
            .prepare(&mut |_| panic!("trained again"))
            .expect("nothing to prepare");
        assert_eq!(resumed.images().expect("images"), expected, "{word}");
        assert!(resumed.iterate(&mut |_| Ok(())).is_err());
        assert!(resumed.resume(1, &own.state().expect("a state")).is_err());
    }
}

#[test]
fn settings_of_condensations_are_refused_for_coresets() {
    let (source, network) = (images(3, 9, [8, 8, 1], 1), small_network(3));
    let refusal = |settings: Settings| {
        let refused = condensation(device(1), &network, &source, settings, None);
        refused.err().expect("a refusal").to_string()
    };
    let own = || choice(Coreset::Herding);
    for (settings, name) in [
        (Settings { iterations: 3, ..own() }, "iterations"),
        (
            Settings {
                augment: Some(Strategy::ALL),
                ..own()
            },
            "augment",
        ),
        (
            Settings {
                soft_labels: Some(0.1),
                ..own()
            },
            "soft_labels",
        ),
        (
            Settings {
                epochs: InnerEpochs::Adaptive(50),
                ..own()
            },
            "adaptive has no meaning for a coreset",
        ),
        (Settings { per_class: 10, ..own() }, "class 0 has 9 images, and 10"),
        (
            Settings {
                budget: Some(1000),
                ..own()
            },
            "floor",
        ),
    ] {
        let sentence = refusal(settings);
        assert!(sentence.contains(name), "{name}: {sentence}");
    }
}

/// A network that tells no features.
fn logits(cx: Cx, images: Tensor) -> Tensor {
    small_network(3).forward(cx, images)
}

#[test]
fn mistakes_of_coresets_are_named() {
    let source = images(3, 4, [8, 8, 1], 1);
    let refusal = |source: &LabelledImages, method: Coreset, per_class: usize| {
        let network = FunctionNetwork(logits);
        let settings = TrainingSettings {
            epochs: Some(1),
            ..TrainingSettings::default()
        };
        let chosen = coreset(
            device(1),
            &network,
            source,
            (method, per_class),
            &settings,
            &mut |_, _| panic!("trained before the refusal"),
        );
        chosen.expect_err("a refusal").to_string()
    };
    assert!(refusal(&source, Coreset::Herding, 1).contains("tells no features"));
    assert!(refusal(&source, Coreset::KCenter, 1).contains("tells no features"));
    assert!(refusal(&source, Coreset::Random, 5).contains("class 0 has 4 images, and 5"));
    assert!(refusal(&source, Coreset::Random, 0).contains("at least 1"));
    let missing = LabelledImages::part_of(&source, &[0, 1, 8]).expect("a part");
    assert!(refusal(&missing, Coreset::Forgetting, 1).contains("no image of class 1"));
    let sentence = "best".parse::<Coreset>().expect_err("a refusal").to_string();
    assert!(sentence.contains("random, herding, k-center, forgetting"), "{sentence}");
}
