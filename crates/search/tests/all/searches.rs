//! Whole searches: they learn, resume to the bit, and refuse what cannot be.

use crate::support::{CLASSES, Free, SHAPE, costs, device, images, small_space};
use lessen_nn::Weights;
use lessen_search::{Aspect, CostGradient, CostKind, CostTable, Costs, Epoch, Searcher, Settings};

fn settings() -> Settings {
    Settings {
        epochs: 4,
        frozen_epochs: 1,
        batch: 8,
        weight_rate: 0.05,
        logit_rate: 0.1,
        lambda: 1e-3,
        ..Settings::default()
    }
}

/// Goes through all epochs, stopping and resuming where it is told.
fn searched(settings: &Settings, threads: usize, cut: Option<usize>) -> (Vec<Epoch>, Weights) {
    let source = images(10);
    let new = || {
        Searcher::new(
            device(threads),
            small_space(),
            &costs(CostKind::Energy),
            &source,
            settings.clone(),
        )
        .unwrap()
    };
    let (mut searcher, mut epochs) = (new(), Vec::new());
    for epoch in 0..settings.epochs {
        if cut == Some(epoch) {
            let state = searcher.state().unwrap();
            searcher = new();
            searcher.resume(epoch, &state).unwrap();
        }
        epochs.push(searcher.epoch(&mut |_| Ok(())).unwrap());
    }
    (epochs, searcher.state().unwrap())
}

#[test]
fn a_search_that_is_resumed_ends_with_the_same_bits() {
    for unrolled in [false, true] {
        let settings = Settings { unrolled, ..settings() };
        let whole = searched(&settings, 1, None);
        assert_eq!(whole, searched(&settings, 1, Some(2)));
        assert_eq!(whole, searched(&settings, 2, None), "threads change bits");
        assert!(whole.0[0].validation.is_none() && whole.0[1].validation.is_some());
        assert!(whole.0[0].entropy > 1.0 - 1e-12, "the architecture is frozen at first");
        assert!(whole.0[3].entropy < 1.0 - 1e-6);
    }
}

#[test]
fn a_search_learns_its_images_and_a_dear_cost_makes_networks_cheap() {
    let quick = Settings {
        epochs: 12,
        mixup: 0.0,
        augment: false,
        lambda: 0.0,
        ..settings()
    };
    let (epochs, _) = searched(&quick, 2, None);
    let accuracy = epochs.last().unwrap().validation.unwrap()[1];
    assert!(accuracy > 0.7, "{accuracy}");
    let least = CostTable::new(&small_space(), &costs(CostKind::Energy))
        .unwrap()
        .range()[0];
    for cost_gradient in [CostGradient::Reinforce, CostGradient::Exact] {
        let dear = Settings {
            lambda: 1e4,
            cost_gradient,
            ..quick.clone()
        };
        let (cheap, _) = searched(&dear, 2, None);
        let [first, last] = [&cheap[0], cheap.last().unwrap()].map(|epoch| epoch.mean_cost - least);
        assert!(last < 0.2 * first, "{last} of {first}");
    }
}

#[test]
fn a_search_ends_within_its_limit() {
    let source = images(10);
    let table = Searcher::new(device(1), small_space(), &costs(CostKind::Energy), &source, settings()).unwrap();
    let [least, most] = table.table().range();
    let limited = Settings {
        limit: Some(least + 0.1 * (most - least)),
        ..settings()
    };
    let mut searcher = Searcher::new(
        device(1),
        small_space(),
        &costs(CostKind::Energy),
        &source,
        limited.clone(),
    )
    .unwrap();
    for _ in 0..2 {
        searcher.epoch(&mut |_| Ok(())).unwrap();
    }
    let cost = costs(CostKind::Energy).of(&searcher.derived().unwrap()).unwrap();
    assert!(cost <= limited.limit.unwrap() * (1.0 + 1e-12));
    assert_eq!(searcher.variables().find(0, Aspect::Skip), None);
}

#[test]
fn searches_that_cannot_be_are_refused() {
    let source = images(10);
    let refused = |settings: Settings, costs: Costs<'_>, space: lessen_search::Space| match Searcher::new(
        device(1),
        space,
        &costs,
        &source,
        settings,
    ) {
        Ok(_) => panic!("nothing was refused"),
        Err(error) => error.to_string(),
    };
    let energy = || costs(CostKind::Energy);
    let tight = Settings {
        limit: Some(1e-9),
        ..settings()
    };
    let sentence = refused(tight, energy(), small_space());
    let least = CostTable::new(&small_space(), &energy()).unwrap().range()[0];
    assert!(
        sentence.contains(&format!("the least that one takes is {least:.6}mJ")),
        "{sentence}"
    );
    let sentence = refused(
        Settings {
            batch: 1000,
            ..settings()
        },
        energy(),
        small_space(),
    );
    assert!(sentence.contains("a batch has 1000"), "{sentence}");
    let sentence = refused(
        Settings {
            temperature: 0.0,
            ..settings()
        },
        energy(),
        small_space(),
    );
    assert!(sentence.contains("temperature is 0"), "{sentence}");
    let free = Costs {
        model: &Free,
        kind: CostKind::Energy,
        batch: 1,
        image: SHAPE,
        classes: CLASSES,
    };
    let sentence = refused(settings(), free, small_space());
    assert!(sentence.contains("free has no energy"), "{sentence}");
    let mut single = small_space();
    for block in &mut single.blocks {
        block.kernels.truncate(1);
        block.expansions.truncate(1);
        block.bits.iter_mut().for_each(|bits| bits.truncate(1));
        block.can_skip = false;
    }
    let sentence = refused(settings(), energy(), single);
    assert!(sentence.contains("nothing to search"), "{sentence}");
    let mut even = small_space();
    even.blocks[0].kernels = vec![2];
    let sentence = refused(settings(), energy(), even);
    assert!(sentence.contains("odd kernel"), "{sentence}");
}
