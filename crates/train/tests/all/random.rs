//! Random numbers in functions: other ones at every run, the same ones for the same seed.

use std::collections::HashSet;
use std::thread;

use crate::support::device;
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::names::KEY;
use lessen_nn::{Cx, Init};
use lessen_train::{Function, FunctionOptions, Session, Trainer, TrainerOptions};

fn noise(cx: Cx) -> Vec<(&'static str, Tensor)> {
    vec![("noise", cx.normal(&[4])), ("key", cx.key().cast(DType::F32))]
}

fn session() -> (Session, Function) {
    let mut session = Session::zeros(device(1), Vec::new()).unwrap();
    let function = session.function(noise).unwrap();
    (session, function)
}

/// The bits of the noise of a run with these inputs.
fn drawn(session: &Session, function: Function, inputs: &[(&str, Host<'_>)]) -> Vec<u32> {
    let results = session.run(function, inputs).unwrap();
    results.f32("noise").unwrap().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn runs_draw_other_numbers_and_a_seed_draws_the_same_ones_again() {
    let (mut first, of_first) = session();
    let (second, of_second) = session();
    let runs: Vec<_> = (0..20).map(|_| drawn(&first, of_first, &[])).collect();
    assert_eq!(runs.iter().collect::<HashSet<_>>().len(), 20);
    for run in &runs {
        assert_eq!(drawn(&second, of_second, &[]), *run);
    }
    first.set_seed(1 << 40);
    assert!(!runs.contains(&drawn(&first, of_first, &[])));
    first.set_seed(0);
    let other = first.function(noise).unwrap();
    assert_eq!(drawn(&first, of_first, &[]), runs[0]);
    assert_eq!(drawn(&first, other, &[]), runs[1], "functions do not repeat each other");
}

#[test]
fn a_key_that_is_given_is_taken_and_neither_it_nor_a_failed_run_counts() {
    let (session, function) = session();
    let key = [(KEY, Host::U32(&[3, 5]))];
    let results = session.run(function, &key).unwrap();
    assert_eq!(results.f32("key").unwrap(), [3.0, 5.0]);
    let wrong = session.run(function, &[(KEY, Host::U32(&[3]))]).unwrap_err();
    assert!(wrong.to_string().contains(KEY), "{wrong}");
    let (mut other, of_other) = self::session();
    let needs = other.function(|cx| vec![("noise", cx.input("x", DType::F32, &[4]) + cx.normal(&[4]))]);
    let error = other.run(needs.unwrap(), &[]).unwrap_err();
    assert!(error.to_string().contains('x'), "{error}");
    let first = drawn(&session, function, &[]);
    assert_eq!(drawn(&other, of_other, &[]), first);
    assert_eq!(drawn(&session, function, &key), drawn(&other, of_other, &key));
    assert_eq!(drawn(&session, function, &[]), drawn(&other, of_other, &[]));
}

#[test]
fn threads_never_draw_the_same_numbers() {
    let (session, function) = session();
    let (alone, of_alone) = self::session();
    let session = &session;
    let runs = |_| (0..10).map(|_| drawn(session, function, &[])).collect::<Vec<_>>();
    let found: HashSet<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || runs(thread))).collect();
        let found = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        found.collect()
    });
    let expected = (0..80).map(|_| drawn(&alone, of_alone, &[])).collect();
    assert_eq!(found, expected, "together they draw what one thread draws");
}

#[test]
fn dropout_of_a_function_in_training_needs_no_key() {
    let mut session = Session::zeros(device(1), Vec::new()).unwrap();
    let options = FunctionOptions {
        training: true,
        ..FunctionOptions::default()
    };
    let function = session.function_with(options, |cx| {
        vec![("noise", cx.dropout(cx.input("x", DType::F32, &[64]), 0.5))]
    });
    let function = function.unwrap();
    let x = [("x", Host::F32(&[1.0; 64]))];
    assert_ne!(drawn(&session, function, &x), drawn(&session, function, &x));
}

#[test]
fn functions_of_a_trainer_draw_with_its_seed_and_change_nothing_of_the_training() {
    let loss = |cx: Cx| {
        let w = cx.param("w", &[4], Init::Ones);
        let y = cx.dropout(w, 0.5) * cx.normal(&[4]);
        (y * y).mean()
    };
    let train = |seed, asks: bool| {
        let options = TrainerOptions {
            seed,
            ..TrainerOptions::new(0.1)
        };
        let mut trainer = Trainer::new(device(1), options, loss).unwrap();
        let function = trainer.function(noise).unwrap();
        let (mut losses, mut runs) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            losses.push(trainer.step(&[]).unwrap().loss.to_bits());
            if asks {
                let results = trainer.run(function, &[]).unwrap();
                runs.push(results.f32("noise").unwrap().to_vec());
            }
        }
        (losses, runs)
    };
    let (losses, runs) = train(7, true);
    assert_eq!(train(7, true), (losses.clone(), runs.clone()));
    assert_eq!(train(7, false).0, losses);
    assert!(runs[0] != runs[1] && runs[1] != runs[2]);
    assert_ne!(train(8, true).1[0], runs[0]);
}
