//! Condensing end to end: distances fall, threads and resumption change no bit, mistakes are named.

use crate::support::{device, images, small_network};
use lessen_condense::{
    Condensation, Condenser, Distance, ImageSource, InnerEpochs, Level, Method, Settings, condensation,
};

fn settings() -> Settings {
    Settings {
        updates: 3,
        epochs: InnerEpochs::Fixed(2),
        real_batch: 8,
        ..Settings::published(Method::Md, 2).expect("2 images of a class")
    }
}

#[test]
fn distances_fall_and_images_stay_finite() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    let mut condenser = Condenser::new(device(2), &network, &source, settings()).expect("a condensation");
    let mut totals = Vec::new();
    for _ in 0..30 {
        let mut total = 0.0;
        let iterated = condenser.iterate(&mut |update| {
            total += update.distances.iter().sum::<f32>();
            Ok(())
        });
        iterated.expect("an iteration");
        totals.push(total);
    }
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    assert!(mean(&totals[25..]) < 0.8 * mean(&totals[..5]), "{totals:?}");
    condenser.images().expect("finite images");
}

#[test]
fn threads_and_resumption_change_no_bit() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    for level in [Level::Intra, Level::Inter, Level::Interleaved, Level::Multi] {
        let settings = Settings { level, ..settings() };
        let run = |threads: usize, cut: bool| {
            let new = || Condenser::new(device(threads), &network, &source, settings.clone()).expect("a condensation");
            let mut condenser = new();
            for iteration in 0..3 {
                if cut && iteration == 2 {
                    let state = condenser.state().expect("a state");
                    condenser = new();
                    condenser.resume(2, &state).expect("resumed");
                }
                condenser.iterate(&mut |_| Ok(())).expect("an iteration");
            }
            condenser.images().expect("finite images")
        };
        let one = run(1, false);
        assert_eq!(one, run(2, false), "{level}: threads");
        assert_eq!(one, run(2, true), "{level}: resumption");
    }
}

#[test]
fn every_distance_and_schedule_condenses() {
    let (source, network) = (images(2, 6, [8, 8, 1], 2), small_network(2));
    for distance in ["d1", "d2", "d3", "d4", "d1+d2", "d1+d3", "d1+100*d4", "d1+0.1*d2"] {
        let distance: Distance = distance.parse().expect("a distance");
        for epochs in [InnerEpochs::Adaptive(50), InnerEpochs::UntilOverfit(3)] {
            let settings = Settings {
                distance,
                epochs,
                updates: 2,
                image_rate: 0.01,
                ..settings()
            };
            let mut condenser = Condenser::new(device(2), &network, &source, settings).expect("a condensation");
            condenser.iterate(&mut |_| Ok(())).expect("an iteration");
            condenser.images().expect("finite images");
        }
    }
}

/// Many images of a class: an epoch of the network has several steps, the last one of fewer images.
#[test]
fn hundreds_of_images_of_a_class_are_condensed() {
    let (source, network) = (images(2, 1000, [4, 4, 1], 3), small_network(2));
    for (method, per_class) in [
        (Method::Md, 100),
        (Method::Md, 1000),
        (Method::Mdo, 1000),
        (Method::Dm, 1000),
    ] {
        let settings = Settings {
            updates: 2,
            epochs: match method {
                Method::Mdo => InnerEpochs::UntilOverfit(2),
                Method::Md => InnerEpochs::Fixed(1),
                _ => InnerEpochs::Fixed(0),
            },
            real_batch: 32,
            ..Settings::published(method, per_class).expect("images of a class")
        };
        let mut made = condensation(device(2), &network, &source, settings, None).expect("a condensation");
        made.prepare(&mut |_| Ok(())).expect("prepared");
        made.iterate(&mut |_| Ok(())).expect("an iteration");
        let images = made.images().expect("finite images");
        assert_eq!(images.labels().len(), 2 * per_class);
        let of_class = |class| images.labels().iter().filter(|label| **label == class).count();
        assert_eq!([0, 1].map(of_class), [per_class; 2]);
    }
}

#[test]
fn mistakes_are_named() {
    let network = small_network(3);
    let refusal = |source: lessen_condense::LabelledImages, settings: Settings| match Condenser::new(
        device(1),
        &network,
        &source,
        settings,
    ) {
        Ok(_) => panic!("nothing was refused"),
        Err(error) => error.to_string(),
    };
    let asked = Settings {
        per_class: 20,
        ..settings()
    };
    assert!(refusal(images(3, 12, [8, 8, 1], 1), asked).contains("class 0 has 12 images, and 20"));
    let missing = lessen_condense::LabelledImages::part_of(&images(3, 4, [8, 8, 1], 1), &[0, 1, 2, 3, 8, 9, 10, 11]);
    assert!(refusal(missing.expect("a part"), settings()).contains("no image of class 1"));
    let tight = Settings {
        budget: Some(1000),
        ..settings()
    };
    assert!(refusal(images(3, 12, [8, 8, 1], 1), tight).contains("floor"));
}
