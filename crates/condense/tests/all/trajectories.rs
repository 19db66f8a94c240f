//! Trajectory matching: a student's distance is that of its steps, derivatives agree with differences, and bits depend
//! neither on threads, nor on memory, nor on interruptions.

use crate::support::{assert_derivative, condensed, device, falls, given, images, small_network, states_of};
use lessen_base::{Error, SplitMix64};
use lessen_condense::{
    ChangeArrays, Condensation, IMAGES, LABELS, LabelledImages, Method, Objective, STUDENT_RATE, Settings, Strategy,
    Trajectories, TrajectoryMatcher, condensation,
};
use lessen_device::Host;
use lessen_graph::{Array, DType, Graph, Trace, evaluate_exactly};
use lessen_nn::Cx;
use lessen_nn::models::vision::ConvNet;
use std::collections::HashMap;
use std::path::Path;

const TRAJECTORIES: Trajectories = Trajectories {
    experts: 2,
    expert_epochs: 4,
    start_epochs: 2,
    target_epochs: 2,
    steps: 3,
    batch: Some(4),
    student_rate: 0.05,
    student_rate_rate: 1e-4,
};

fn settings(trajectories: Trajectories) -> Settings {
    Settings {
        objective: Objective::Trajectories(trajectories),
        network_rate: 0.05,
        network_batch: 16,
        image_rate: 10.0,
        ..Settings::published(Method::Mtt, 2).expect("2 images of a class")
    }
}

fn matcher<'a>(
    network: &'a lessen_nn::models::vision::VisionModel,
    source: &'a LabelledImages,
    settings: Settings,
) -> TrajectoryMatcher<'a> {
    TrajectoryMatcher::new(device(2), network, source, settings, None).expect("a condensation")
}

/// Data inputs of a student's graph: images in this order, no change, no momentum.
fn inputs_of(graph: &Graph, chosen: &[i32], per_class: i32) -> HashMap<String, Array> {
    let classes: Vec<i32> = chosen.iter().map(|image| image / per_class).collect();
    let numbers = [1.0, 0.0, 1.0, 1.0].map(|rate| [rate]);
    let names =
        ["image_rate", "image_momentum", "label_rate", "student_rate_rate"].map(|name| format!("condensed.{name}"));
    let mut inputs = vec![
        ("condensed.chosen", Host::I32(chosen)),
        ("condensed.classes", Host::I32(&classes)),
    ];
    inputs.extend(
        names
            .iter()
            .zip(&numbers)
            .map(|(name, number)| (name.as_str(), Host::F32(number))),
    );
    given(graph, inputs)
}

const CHOSEN: [i32; 12] = [5, 1, 0, 3, 2, 4, 3, 0, 1, 5, 2, 4];

#[test]
fn the_distance_is_that_of_a_student_that_is_trained_step_by_step() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    let settings = Settings {
        augment: None,
        ..settings(TRAJECTORIES)
    };
    let mut matcher = matcher(&network, &source, settings);
    matcher.iterate(&mut |_| Ok(())).expect("an iteration");
    let plans = matcher.plans().expect("plans");
    let graph = plans[0].1.graph();
    let mut arrays = states_of(graph, &matcher);
    arrays.extend(inputs_of(graph, &CHOSEN, 2));
    let found = evaluate_exactly(graph, &arrays).expect("a sound graph")["distance"].item();

    let trace = Trace::new();
    let cx = Cx::new(*trace, false);
    let seen = cx.input("seen", DType::F32, &[4, 8, 8, 1]);
    let loss = network
        .forward(cx, seen)
        .cross_entropy(cx.input("classes", DType::I32, &[4]));
    let params = cx.params();
    let tensors: Vec<_> = params.iter().map(|param| trace.tensor(param.value)).collect();
    for (param, gradient) in params.iter().zip(loss.grad(&tensors)) {
        trace.output(&format!("gradient.{}", param.name), gradient);
    }
    let step = trace.finish();
    let mut student = arrays.clone();
    for chosen in CHOSEN.chunks(4) {
        let rows = chosen
            .iter()
            .flat_map(|image| &arrays[IMAGES].data[*image as usize * 64..][..64]);
        student.insert("seen".to_string(), Array::f32(&[4, 8, 8, 1], rows.copied().collect()));
        let classes: Vec<i32> = chosen.iter().map(|image| image / 2).collect();
        student.insert("classes".to_string(), Array::i32(&[4], &classes));
        let gradients = evaluate_exactly(&step, &student).expect("a sound graph");
        for param in &params {
            let gradient = &gradients[&format!("gradient.{}", param.name)];
            let moved = student.get_mut(&param.name).expect("a parameter");
            let rate = arrays[STUDENT_RATE].item();
            moved
                .data
                .iter_mut()
                .zip(&gradient.data)
                .for_each(|(x, g)| *x -= rate * g);
        }
    }
    let target = &arrays["condensed.target"].data;
    let square = |all: &HashMap<String, Array>| {
        let flat = params.iter().flat_map(|param| &all[&param.name].data);
        flat.zip(target).map(|(x, y)| (x - y) * (x - y)).sum::<f64>()
    };
    let expected = square(&student) / square(&arrays);
    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    assert!((expected - 1.0).abs() > 1e-3, "the student has not moved: {expected}");
}

#[test]
fn derivatives_by_all_that_is_learned_agree_with_differences() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    let strategy: Strategy = "color_scale".parse().expect("a strategy");
    let settings = Settings {
        soft_labels: Some(0.1),
        augment: Some(strategy),
        ..settings(TRAJECTORIES)
    };
    let mut matcher = matcher(&network, &source, settings);
    matcher.iterate(&mut |_| Ok(())).expect("an iteration");
    let plans = matcher.plans().expect("plans");
    let graph = plans[0].1.graph();
    let mut arrays = states_of(graph, &matcher);
    arrays.extend(inputs_of(graph, &CHOSEN, 2));
    let mut random = SplitMix64::new(2);
    let changes: Vec<_> = (0..3).flat_map(|_| strategy.draw([8, 8, 1], 4, &mut random)).collect();
    arrays.extend(given(graph, ChangeArrays::of_images(&changes, [8, 8, 1], 4).inputs()));
    for param in [IMAGES, LABELS, STUDENT_RATE] {
        assert_derivative(graph, &arrays, param, "distance");
    }
}

#[test]
fn bits_depend_neither_on_threads_nor_on_interruptions_and_distances_fall() {
    let (source, network) = (images(3, 40, [8, 8, 1], 1), small_network(3));
    let folder = tempfile::tempdir().expect("a folder");
    let run = |threads: usize, cut: Option<usize>, work: Option<&Path>| {
        let new =
            || condensation(device(threads), &network, &source, settings(TRAJECTORIES), work).expect("a condensation");
        let run = condensed(&new, 30, cut);
        (run, new().learned_rate().expect("a rate"))
    };
    let (one, rate) = run(1, None, None);
    assert_eq!(rate, Some(0.05));
    assert_ne!(one.2[STUDENT_RATE].data, [0.05]);
    assert!(falls(&one.0, 0.99), "{:?}", one.0);

    // The training of experts ends in the middle of the second one, and begins anew with it.
    let new = || {
        condensation(
            device(2),
            &network,
            &source,
            settings(TRAJECTORIES),
            Some(folder.path()),
        )
    };
    let mut parts = Vec::new();
    let stopped = new().expect("a condensation").prepare(&mut |part| {
        parts.push(part.done);
        if part.done == 6 {
            Err(Error::user("stop"))
        } else {
            Ok(())
        }
    });
    assert_eq!(stopped.expect_err("nothing was stopped").to_string(), "stop");
    let resumed = new().expect("a condensation").prepare(&mut |part| {
        parts.push(part.done);
        assert!(part.parts == 8 && part.loss > 0.0, "{part:?}");
        Ok(())
    });
    resumed.expect("experts");
    assert_eq!(parts, [1, 2, 3, 4, 5, 6, 5, 6, 7, 8]);
    assert_eq!(one, run(2, Some(13), Some(folder.path())).0);
}

#[test]
fn memory_grows_little_with_steps_where_it_is_short_and_changes_no_bit() {
    let source = images(3, 4, [16, 16, 1], 1);
    let network = ConvNet {
        width: 24,
        depth: 2,
        ..ConvNet::new(3)
    };
    let network = network.into();
    let run = |steps: usize, tightest: bool| {
        let trajectories = Trajectories {
            steps,
            batch: None,
            ..TRAJECTORIES
        };
        let settings = Settings {
            tightest,
            ..settings(trajectories)
        };
        let mut matcher = matcher(&network, &source, settings);
        matcher.iterate(&mut |_| Ok(())).expect("an iteration");
        let arena = matcher.plans().expect("plans")[0].1.arena_bytes();
        (arena, matcher.state().expect("a state"))
    };
    let (fast, few, many) = (run(8, false), run(4, true), run(8, true));
    println!("{} {} {}", fast.0, few.0, many.0);
    assert_eq!(fast.1, many.1);
    assert!(
        2 * many.0 < fast.0 && 10 * many.0 < 14 * few.0,
        "{} {} {}",
        fast.0,
        few.0,
        many.0
    );
}

#[test]
fn experts_of_another_training_and_numbers_that_make_no_sense_are_refused() {
    let (source, network) = (images(3, 12, [8, 8, 1], 1), small_network(3));
    let folder = tempfile::tempdir().expect("a folder");
    let new =
        |settings: Settings| condensation(device(1), &network, &source, settings, Some(folder.path())).map(|_| ());
    new(settings(TRAJECTORIES)).expect("a condensation");
    let other = Settings {
        network_rate: 0.1,
        ..settings(TRAJECTORIES)
    };
    let error = new(other).expect_err("nothing was refused").to_string();
    assert!(error.contains("`rate = 0.05`, not `rate = 0.1`"), "{error}");
    let wrong = [
        (
            Trajectories {
                steps: 0,
                ..TRAJECTORIES
            },
            "steps = 0",
        ),
        (
            Trajectories {
                target_epochs: 4,
                ..TRAJECTORIES
            },
            "experts of 5 epochs",
        ),
        (
            Trajectories {
                student_rate: -1.0,
                ..TRAJECTORIES
            },
            "student_rate = -1",
        ),
    ];
    for (trajectories, expected) in wrong {
        let error = new(settings(trajectories))
            .expect_err("nothing was refused")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}
