//! Several threads with one device: they ask one session, and a thread that would wait for itself is told so.

use crate::support::device;
use lessen_data::packed_batch;
use lessen_device::{Host, SharedDevice};
use lessen_graph::{DType, Tensor};
use lessen_nn::layers::linear;
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::{BatchShape, Cx, Init, Model, ParamSpec, initialize};
use lessen_train::{Pooling, Session, StepGraphs, StepPlans, Trainer, TrainerOptions, inputs_of, shape_of};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Rows and columns of the inputs.
const SHAPE: [usize; 2] = [6, 5];

fn net(cx: Cx) -> Vec<(&'static str, Tensor)> {
    let init = Init::Normal { std: 0.5 };
    let x = cx.input("x", DType::F32, &SHAPE);
    let hidden = linear(cx, "in", x, 16, init).gelu();
    vec![("hidden", hidden), ("y", linear(cx, "out", hidden, 3, init))]
}

/// The input number `number`.
fn input(number: usize) -> Vec<f32> {
    (0..SHAPE.iter().product())
        .map(|place| ((7 * number + place) as f32).sin())
        .collect()
}

fn params() -> Vec<ParamSpec> {
    let trace = lessen_graph::Trace::new();
    let cx = Cx::new(*trace, false);
    net(cx);
    cx.params()
}

#[test]
fn sixteen_threads_that_ask_one_session_get_the_bits_that_one_gets() {
    let (threads, rounds) = (16, 25);
    let mut session = Session::zeros(device(2), params()).unwrap();
    session.draw(|_| true, 3).unwrap();
    let function = session.function(net).unwrap();
    let session = &session;
    let ask = |number: usize| session.run(function, &[("x", Host::F32(&input(number)))]).unwrap();
    let bits = |number: usize| {
        let results = ask(number);
        let bits = |name| results.f32(name).unwrap().iter().map(|x| x.to_bits()).collect();
        ["hidden", "y"].map(bits) as [Vec<u32>; 2]
    };
    let expected: Vec<_> = (0..threads * rounds).map(bits).collect();
    let kept = ask(0);
    thread::scope(|scope| {
        for first in 0..threads {
            let (expected, bits) = (&expected, &bits);
            scope.spawn(move || {
                for number in (first..threads * rounds).step_by(threads) {
                    assert_eq!(bits(number), expected[number], "input {number}");
                }
            });
        }
    });
    let kept: Vec<u32> = kept.f32("y").unwrap().iter().map(|x| x.to_bits()).collect();
    assert_eq!(kept, expected[0][1], "results belong to their holder");
}

/// Two models of the same parameters.
fn models() -> [Model; 2] {
    [1e-5, 0.5].map(|layer_norm_epsilon| {
        let config = Gpt2Config {
            vocab_size: 23,
            n_positions: 40,
            n_embd: 8,
            n_layer: 1,
            n_head: 2,
            initializer_range: 0.5,
            layer_norm_epsilon,
            ..Gpt2Config::default()
        };
        GPT2LMHeadModel { config }.into()
    })
}

#[test]
fn threads_that_embed_with_two_models_in_turns_get_the_rows_that_one_gets() {
    let models = models();
    let params = models[0].parameters();
    let session = Session::new(device(2), params.clone(), &initialize(&params, 5)).unwrap();
    // Texts of several lengths, and so several layouts.
    let rows = |number: usize| {
        let length = 5 + 7 * (number % 4);
        let tokens: Vec<i32> = (0..length).map(|i| ((5 * i + number) % 23) as i32).collect();
        let text = (tokens, vec![0; length]);
        let batch = packed_batch(&[text], 2, 0);
        let (model, pooling) = (&models[number % 2], [Pooling::Mean, Pooling::Max, Pooling::Last]);
        let found = session.embed(model, shape_of(&batch), &inputs_of(&batch), &pooling, 1);
        found.unwrap().concat()
    };
    let expected: Vec<Vec<f32>> = (0..40).map(rows).collect();
    let before = session.planned_memory();
    thread::scope(|scope| {
        for first in 0..8 {
            let (expected, rows) = (&expected, &rows);
            scope.spawn(move || {
                for number in (first..40).chain(0..first) {
                    assert_eq!(rows(number), expected[number], "text {number}");
                }
            });
        }
        scope.spawn(|| (0..100).for_each(|_| assert!(session.planned_memory().states >= before.states)));
    });
    // Whichever thread was last, the first model has functions of several layouts now.
    (0..8)
        .step_by(2)
        .for_each(|number| assert_eq!(rows(number), expected[number]));
    // A layout that is compiled frees the functions of other models.
    let results = [0, 1, 0, 1].map(|model| {
        let layout = BatchShape::Packed { size: 3, tokens: 32 };
        let prepared = session.prepare_to_embed(&models[model], layout, &[Pooling::Mean]);
        prepared.unwrap();
        session.planned_memory().results
    });
    assert!(
        results[1] < results[0] && results[1..] == [results[1]; 3],
        "{results:?}"
    );
}

fn loss(cx: Cx) -> Tensor {
    let (_, y) = net(cx).swap_remove(1);
    (y * y).mean()
}

/// What `program` returns, which ends within a minute.
fn ends<T: Send + 'static>(program: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(program()));
    let found = receiver.recv_timeout(Duration::from_secs(60));
    found.expect("the program ends without a panic")
}

#[test]
fn plans_and_floor_are_made_for_a_handle_of_a_device() {
    let shared = SharedDevice::new(device(2));
    let options = TrainerOptions::new(0.1);
    let graphs = StepGraphs::new(&options, loss).unwrap();
    let floor = graphs.floor_bytes(&shared, &options).unwrap();
    assert_eq!(floor, graphs.floor_bytes(device(2).as_ref(), &options).unwrap());
    let tight = TrainerOptions {
        budget: Some(floor),
        ..options
    };
    let trained = ends(move || match StepPlans::new(&shared, &tight, &graphs) {
        Ok(plans) if plans.peak_bytes() <= floor => Trainer::new(&shared, tight, loss).map(drop),
        _ => panic!("the floor is enough"),
    });
    assert_eq!(trained, Ok(()));
}

#[test]
fn a_thread_that_holds_the_device_is_told_so_where_it_would_wait_for_itself() {
    let shared = SharedDevice::new(device(1));
    let own = shared.clone();
    let refused = ends(move || {
        let options = TrainerOptions::new(0.1);
        let graphs = StepGraphs::new(&options, loss).unwrap();
        // The guard lives until the end of the match.
        match StepPlans::new(&*own.lock(), &options, &graphs) {
            Ok(_) => Trainer::new(&own, options, loss).map(drop),
            Err(error) => Err(error),
        }
    });
    let sentence = refused.unwrap_err().to_string();
    for part in ["locked the device", "threads.rs:", "`drop`"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    let trainer = Trainer::new(&shared, TrainerOptions::new(0.1), loss).unwrap();
    assert!(shared.memory().used.states > 0);
    let own = shared.clone();
    ends(move || {
        let guard = own.lock();
        drop(trainer);
        drop(guard);
    });
    assert_eq!(
        shared.memory().used.states,
        0,
        "a model dropped beside a guard is removed with it"
    );
}
