//! Distribution matching: distances are those of the means of features, derivatives agree with differences, and bits do
//! not depend on threads or interruptions.

use crate::support::{assert_derivative, condensed, device, falls, given, images, small_network, states_of};
use lessen_base::SplitMix64;
use lessen_condense::{
    ChangeArrays, Condensation, Condenser, DistributionMatcher, FunctionNetwork, IMAGES, ImageSource, InnerEpochs,
    Method, Objective, Settings, Strategy, condensation,
};
use lessen_device::Host;
use lessen_graph::{Array, DType, Tensor, Trace, evaluate_exactly};
use lessen_nn::{Cx, Init, layers::linear};

fn settings() -> Settings {
    Settings {
        real_batch: 12,
        ..Settings::published(Method::Dm, 2).expect("2 images of a class")
    }
}

#[test]
fn the_distance_is_that_of_the_means_of_features() {
    let (source, network) = (images(3, 12, [8, 8, 2], 1), small_network(3));
    let settings = Settings {
        augment: None,
        ..settings()
    };
    let mut matcher = DistributionMatcher::new(device(2), &network, &source, settings).expect("a condensation");
    let before = matcher.images().expect("finite images");
    let mut found = Vec::new();
    let iterated = matcher.iterate(&mut |update| {
        found.clone_from(&update.distances);
        Ok(())
    });
    iterated.expect("an iteration");
    let means = |set: &dyn ImageSource, class: usize| {
        let own = &set.by_class()[class];
        let trace = Trace::new();
        let cx = Cx::new(*trace, false);
        let seen = cx.input("images", DType::F32, &[own.len(), 8, 8, 2]);
        let (_, features) = network.forward_with_features(cx, seen);
        trace.output("means", features.mean_axes(&[0]));
        let graph = trace.finish();
        let pixels = set.gather(own).expect("images");
        let mut arrays = states_of(&graph, &matcher);
        arrays.extend(given(&graph, [("images", Host::F32(&pixels))]));
        evaluate_exactly(&graph, &arrays).expect("a sound graph")["means"]
            .data
            .clone()
    };
    let mut expected = 0.0;
    for class in 0..3 {
        let [real, synthetic] = [means(&source, class), means(&before, class)];
        expected += real.iter().zip(synthetic).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    }
    let found = f64::from(found[0]);
    assert!((found - expected).abs() < 1e-4 * expected, "{found} {expected}");
}

#[test]
fn derivatives_by_the_images_agree_with_differences() {
    let (source, network) = (images(2, 12, [8, 8, 2], 1), small_network(2));
    for word in ["color", "crop", "cutout", "scale"] {
        let strategy: Strategy = word.parse().expect("a strategy");
        let settings = Settings {
            augment: Some(strategy),
            ..settings()
        };
        let mut matcher = DistributionMatcher::new(device(2), &network, &source, settings).expect("a condensation");
        matcher.iterate(&mut |_| Ok(())).expect("an iteration");
        let plans = matcher.plans().expect("plans");
        let (_, plan) = plans.iter().find(|(name, _)| name == "update").expect("an update");
        let changes = strategy.draw([8, 8, 2], 1, &mut SplitMix64::new(3));
        let changes = ChangeArrays::of_batches(&changes, [8, 8, 2]);
        let mut arrays = states_of(plan.graph(), &matcher);
        arrays.extend(given(plan.graph(), changes.inputs()));
        arrays.insert("condensed.class".to_string(), Array::i32(&[1], &[1]));
        for (name, rate) in [("image_rate", 1.0), ("image_momentum", 0.0)] {
            arrays.insert(format!("condensed.{name}"), Array::f32(&[], vec![rate]));
        }
        assert_derivative(plan.graph(), &arrays, IMAGES, "distance");
    }
}

#[test]
fn bits_depend_neither_on_threads_nor_on_interruptions_and_distances_fall() {
    let (source, network) = (images(3, 40, [8, 8, 2], 1), small_network(3));
    let settings = Settings {
        real_batch: 20,
        ..settings()
    };
    let run = |threads: usize, cut: Option<usize>| {
        let new = || condensation(device(threads), &network, &source, settings.clone(), None).expect("a condensation");
        condensed(&new, 30, cut)
    };
    let one = run(1, None);
    assert_eq!(one, run(2, Some(11)));
    assert!(falls(&one.0, 0.8), "{:?}", one.0);
}

#[test]
fn what_it_does_not_do_is_refused() {
    let (source, network) = (images(2, 12, [8, 8, 2], 1), small_network(2));
    let refused = |settings: Settings| settings.check().expect_err("nothing was refused").to_string();
    let soft = Settings {
        soft_labels: Some(0.1),
        ..settings()
    };
    assert!(refused(soft).contains("reads no labels"));
    let trained = Settings {
        updates: 2,
        epochs: InnerEpochs::Fixed(1),
        ..settings()
    };
    assert!(refused(trained).contains("trains no network"));
    let gradients = Settings {
        objective: Objective::Gradients,
        ..settings()
    };
    let error = DistributionMatcher::new(device(1), &network, &source, gradients).err();
    assert!(
        error
            .expect("nothing was refused")
            .to_string()
            .contains("the settings ask for")
    );
    let error = Condenser::new(device(1), &network, &source, settings()).err();
    assert!(
        error
            .expect("nothing was refused")
            .to_string()
            .contains("the settings ask for")
    );
    let plain = FunctionNetwork(logits);
    let error = DistributionMatcher::new(device(1), &plain, &source, settings()).err();
    assert!(error.expect("nothing was refused").to_string().contains("tells none"));
}

fn logits(cx: Cx, images: Tensor) -> Tensor {
    let shape = images.shape();
    let flat = images.reshape(&[shape[0], shape[1..].iter().product()]);
    linear(cx, "classifier", flat, 2, Init::Normal { std: 0.1 })
}
