//! Updates at the beginning of the next step: the graphs against the graphs of plain steps, and the trainer against the
//! other placements where parameters are used between the steps.

use crate::support::device;
use lessen_base::SplitMix64;
use lessen_compile::Placement;
use lessen_compile::passes::{delay, pending};
use lessen_device::Host;
use lessen_graph::{Array, DType, Graph, InputKind, Tensor, Type, evaluate};
use lessen_nn::layers::{BatchNorm, batch_norm, embedding, linear};
use lessen_nn::names::{LOSS, RESERVED};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{NonFinite, Part, StepGraphs, StepPlans, StepReport, Trainer, TrainerOptions};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const ROWS: usize = 6;
const WIDTH: usize = 5;
const WORDS: usize = 64;

/// A table of words, few of them in a batch; two layers with a normalization between them; and an offset.
fn predict(cx: Cx) -> Tensor {
    let init = Init::Normal { std: 0.5 };
    let words = cx.input("words", DType::I32, &[ROWS]);
    let x = embedding(cx, "words", words, (WORDS, WIDTH), init);
    let x = batch_norm(cx, "norm", linear(cx, "first", x, WIDTH, init), BatchNorm::default());
    let x = linear(cx, "second", cx.dropout(x.gelu(), 0.2), 1, init);
    x + cx.param("offset", &[1], Init::Zeros)
}

fn loss(cx: Cx) -> Tensor {
    let error = predict(cx) - cx.input("y", DType::F32, &[ROWS, 1]);
    (error * error).mean()
}

fn placed(options: &TrainerOptions, placement: Placement) -> TrainerOptions {
    TrainerOptions {
        placement,
        ..options.clone()
    }
}

/// The batch of a step.
fn batch(step: u64) -> (Vec<i32>, Vec<f32>) {
    let mut random = SplitMix64::keyed(3, step);
    let words = (0..ROWS).map(|_| random.below(WORDS as u64) as i32).collect();
    let y = (0..ROWS).map(|_| random.unit() as f32 - 0.5).collect();
    (words, y)
}

/// The values of a step's inputs, by name.
fn inputs(step: u64) -> HashMap<String, Array> {
    let (words, y) = batch(step);
    let scalar = |value: f32| Array::scalar(f64::from(value));
    let key = Array::new(Type::new(DType::U32, &[2]), vec![7.0, step as f64]);
    HashMap::from([
        ("words".to_string(), Array::i32(&[ROWS], &words)),
        (
            "y".to_string(),
            Array::f32(&[ROWS, 1], y.into_iter().map(f64::from).collect()),
        ),
        ("@lr".to_string(), scalar(0.01 + 0.001 * step as f32)),
        ("@t".to_string(), scalar(1.0 + step as f32)),
        ("@key".to_string(), key),
    ])
}

/// The first values of a graph's states: zeros but for parameters.
fn first_states(graph: &Graph) -> HashMap<String, Array> {
    let states = graph.inputs.iter().filter(|input| input.kind == InputKind::State);
    let value = |input: &lessen_graph::Input| {
        let (ty, mut random) = (graph.ty(input.value).clone(), SplitMix64::named(1, &input.name));
        let is_zero = input.name.starts_with(RESERVED);
        let mut draw = |_: &[usize]| {
            if is_zero || ty.dtype != DType::F32 {
                0.0
            } else {
                f64::from(random.unit() as f32) - 0.5
            }
        };
        (input.name.clone(), Array::from_fn(ty.clone(), &mut draw))
    };
    states.map(value).collect()
}

/// Runs a graph on states, which it changes, and inputs; returns its outputs.
fn run(graph: &Graph, states: &mut HashMap<String, Array>, data: &HashMap<String, Array>) -> HashMap<String, Array> {
    let all = data
        .iter()
        .chain(&*states)
        .map(|(name, value)| (name.clone(), value.clone()));
    let mut results = evaluate(graph, &all.collect()).unwrap();
    for (name, value) in states {
        if let Some(new) = results.remove(name) {
            *value = new;
        }
    }
    results
}

/// Checks that delayed updates, of all parameters or of some, give the outputs and states of plain steps.
fn check(options: &TrainerOptions) {
    check_some(options, &|_| true);
    for late in ["words", "first", "second.weight", "offset"] {
        check_some(options, &|state| state.starts_with(late));
        check_some(options, &|state| state.starts_with(late) || state == "norm.weight");
    }
}

fn check_some(options: &TrainerOptions, is_late: &dyn Fn(&str) -> bool) {
    let plain = StepGraphs::new(&placed(options, Placement::Separate), loss)
        .unwrap()
        .step;
    let delayed = delay(&plain, is_late).unwrap();
    let mut expected = first_states(&plain);
    let mut states = first_states(&delayed.step);
    assert!(expected.keys().all(|name| states.contains_key(name)));
    let (mut step, mut last) = (0, HashMap::new());
    for length in [3, 1, 2] {
        for at in 0..length {
            let graph = if at == 0 { &delayed.first } else { &delayed.step };
            let own = inputs(step);
            let mut data = own.clone();
            data.extend(last);
            let outputs = run(&plain, &mut expected, &own);
            assert!(outputs.contains_key(LOSS));
            assert_eq!(run(graph, &mut states, &data), outputs, "step {step}");
            last = own.into_iter().map(|(name, value)| (pending(&name), value)).collect();
            step += 1;
        }
        assert!(run(&delayed.flush, &mut states, &last).is_empty());
        for (name, value) in &expected {
            assert_eq!(states[name], *value, "`{name}` after step {step}");
        }
    }
}

#[test]
fn the_graphs_give_the_values_of_plain_steps() {
    let options = TrainerOptions::new(0.01);
    let clipped = TrainerOptions {
        clip_norm: Some(0.1),
        ..options.clone()
    };
    check(&options);
    check(&clipped);
    for optimizer in [
        OptimizerConfig::Sgd {
            momentum: 0.9,
            nesterov: true,
            weight_decay: 0.01,
        },
        OptimizerConfig::Adafactor {
            beta2_decay: -0.8,
            eps: 1e-6,
            least_scale: 1e-3,
            clip_threshold: 1.0,
            weight_decay: 0.01,
        },
    ] {
        check(&TrainerOptions {
            optimizer,
            ..clipped.clone()
        });
    }
    check(&TrainerOptions {
        frozen: "first.*,offset".parse().unwrap(),
        ema: Some(0.9),
        ..clipped
    });
}

fn trainer(placement: Placement) -> Trainer {
    let options = TrainerOptions {
        clip_norm: Some(0.05),
        ema: Some(0.9),
        // Within a budget the fastest placements are planned, without one the smallest.
        budget: (placement == Placement::Planned).then_some(1 << 30),
        ..placed(&TrainerOptions::new(0.02), placement)
    };
    Trainer::new(device(2), options, loss).unwrap()
}

/// Trains for `steps` steps; returns the bits of their losses and norms.
fn train(trainer: &mut Trainer, steps: usize) -> Vec<u32> {
    let step = |_| {
        let (words, y) = batch(trainer.done());
        let report = trainer
            .step(&[("words", Host::I32(&words)), ("y", Host::F32(&y))])
            .unwrap();
        [report.loss, report.gradient_norm.unwrap()].map(f32::to_bits)
    };
    (0..steps).flat_map(step).collect()
}

/// The bytes of a checkpoint's files.
fn bytes(dir: &Path) -> Vec<Vec<u8>> {
    let names = ["model.safetensors", "training.safetensors", "training.json"];
    names.map(|name| fs::read(dir.join(name)).unwrap()).to_vec()
}

/// Results of all uses of parameters between the steps.
fn used(placement: Placement, dir: &Path) -> (Vec<u32>, Vec<Vec<u8>>) {
    let mut trainer = trainer(placement);
    let evaluation = trainer.function(|cx| vec![("y", predict(cx))]).unwrap();
    let mut found = train(&mut trainer, 3);
    let evaluate = |trainer: &mut Trainer| {
        let (words, _) = batch(99);
        let results = trainer.run(evaluation, &[("words", Host::I32(&words))]).unwrap();
        let y = results.f32("y").unwrap();
        y.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
    };
    found.extend(evaluate(&mut trainer));
    found.extend(evaluate(&mut trainer));
    found.extend(train(&mut trainer, 2));
    trainer.save_checkpoint(dir).unwrap();
    found.extend(train(&mut trainer, 2));
    // A step that fails leaves the update of the step before it.
    let (_, y) = batch(0);
    let wrong = trainer.step(&[("words", Host::I32(&[WORDS as i32; ROWS])), ("y", Host::F32(&y))]);
    assert!(wrong.is_err());
    found.extend(train(&mut trainer, 1));
    let mut weights = trainer.weights().unwrap();
    found.extend(train(&mut trainer, 1));
    weights.retain(|name, _| name == "second.weight");
    trainer.set_weights(&weights).unwrap();
    found.extend(train(&mut trainer, 2));
    assert_eq!(trainer.broken_parameter().unwrap(), None);
    let state = trainer.state().unwrap();
    found.extend(train(&mut trainer, 1));
    trainer.resume(11, &state).unwrap();
    found.extend(train(&mut trainer, 2));
    let mut files = bytes(dir);
    trainer.save_checkpoint(dir).unwrap();
    files.extend(bytes(dir));
    (found, files)
}

#[test]
fn what_uses_parameters_between_steps_finds_those_of_the_last_one() {
    let dir = tempfile::tempdir().unwrap();
    let of = |placement: Placement| used(placement, &dir.path().join(format!("{placement:?}")));
    let expected = of(Placement::BackwardFused);
    assert!(of(Placement::Separate) == expected);
    assert!(of(Placement::ForwardFused) == expected, "{:?}", expected.0);
    assert!(of(Placement::Planned) == expected, "{:?}", expected.0);
}

#[test]
fn a_checkpoint_goes_on_with_another_placement() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = trainer(Placement::ForwardFused);
    train(&mut first, 3);
    first.save_checkpoint(dir.path()).unwrap();
    let expected = train(&mut first, 3);
    for placement in [Placement::BackwardFused, Placement::ForwardFused, Placement::Planned] {
        let mut second = trainer(placement);
        // The update of a step of another training is dropped.
        train(&mut second, 2);
        second.resume_checkpoint(dir.path()).unwrap();
        assert_eq!(train(&mut second, 3), expected);
        assert_eq!(second.weights().unwrap(), first.weights().unwrap());
    }
}

#[test]
fn plans_count_what_waits_and_steps_allocate_no_more() {
    let options = |placement| placed(&TrainerOptions::new(0.02), placement);
    let graphs = |placement| StepGraphs::new(&options(placement), loss).unwrap();
    let plans = |placement| StepPlans::new(device(1).as_ref(), &options(placement), &graphs(placement)).unwrap();
    let (plain, late) = (plans(Placement::BackwardFused), plans(Placement::ForwardFused));
    let trained: usize = plain
        .params
        .iter()
        .filter(|param| !param.is_buffer)
        .map(|p| p.shape.iter().product::<usize>())
        .sum();
    assert!(late.state_bytes() >= plain.state_bytes() + 4 * trained);
    assert_eq!(late.states, plain.states);
    let mut trainer = trainer(Placement::ForwardFused);
    let planned = trainer.peak().planned;
    train(&mut trainer, 3);
    trainer.weights().unwrap();
    train(&mut trainer, 2);
    assert_eq!(trainer.peak().measured, planned);
}

#[test]
fn the_norm_of_a_sparse_gradient_takes_its_rows_although_it_waits_whole() {
    let options = TrainerOptions {
        clip_norm: Some(1.0),
        ..placed(&TrainerOptions::new(0.01), Placement::ForwardFused)
    };
    let graphs = StepGraphs::new(&options, loss).unwrap();
    let plan = StepPlans::new(device(1).as_ref(), &options, &graphs).unwrap().step;
    let count = |name: &str| plan.graph().nodes.iter().filter(|node| node.op.name() == name).count();
    assert_eq!((count("combine_rows"), count("scatter_add")), (1, 1));
}

/// Bits of the parameters and states of a trainer, after the update that waits.
fn bits(trainer: &mut Trainer) -> Vec<u8> {
    let states = trainer
        .state()
        .unwrap()
        .into_iter()
        .flat_map(|state| state.data.to_le_bytes());
    let states: Vec<u8> = states.collect();
    let weights = trainer.weights().unwrap();
    let weights = weights
        .values()
        .flat_map(|weight| weight.data.iter().flat_map(|x| x.to_le_bytes()));
    weights.chain(states).collect()
}

/// A loss with dropout, running statistics and a number of its own.
fn accumulated(cx: Cx) -> Tensor {
    let x = cx.input("x", DType::F32, &[2, 4]);
    let x = linear(cx, "first", x, 8, Init::Normal { std: 0.5 });
    let x = batch_norm(cx, "norm", x, BatchNorm::default());
    let y = linear(cx, "last", cx.dropout(x, 0.2), 2, Init::Normal { std: 0.5 });
    cx.report("mean", y.mean());
    (y * y).mean()
}

/// The reports, and the bits at the end, of a training whose steps accumulate up to three batches; a batch of the step
/// `bad` is not finite.
fn accumulating(options: &TrainerOptions, bad: Option<u64>) -> (Vec<StepReport>, Vec<u8>) {
    let mut trainer = Trainer::new(device(1), options.clone(), accumulated).unwrap();
    let mut reports = Vec::new();
    for step in 0..8u64 {
        let count = if step == 5 { 1 } else { 3 };
        let rows = |batch: u64| -> Vec<f32> {
            let row = (0..8).map(|at| ((step * 31 + batch * 17 + at * 7) % 23) as f32 / 11.0 - 1.0);
            row.map(|x| {
                if bad == Some(step) && batch + 1 == count {
                    f32::NAN
                } else {
                    x
                }
            })
            .collect()
        };
        let made: Vec<Vec<f32>> = (0..count).map(rows).collect();
        let inputs: Vec<_> = made.iter().map(|x| [("x", Host::F32(x))]).collect();
        let parts: Vec<Part<'_>> = inputs.iter().map(|own| Part::new(1.0 / count as f32, own)).collect();
        let missing = [Part::new(1.0, &[])];
        assert!(trainer.step_on(&missing).is_err() && trainer.step_on(&[parts[0], missing[0]]).is_err());
        reports.push(StepReport {
            time: Duration::ZERO,
            ..trainer.step_on(&parts).unwrap()
        });
        if step == 2 {
            trainer.session().unwrap();
        }
    }
    (reports, bits(&mut trainer))
}

#[test]
fn accumulated_gradients_wait_for_the_next_step() {
    let plain = TrainerOptions {
        accumulate: 3,
        ema: Some(0.9),
        clip_norm: Some(0.3),
        ..placed(&TrainerOptions::new(0.05), Placement::Separate)
    };
    let skips = TrainerOptions {
        non_finite: NonFinite::Skip,
        ..plain.clone()
    };
    let free = TrainerOptions {
        clip_norm: None,
        optimizer: OptimizerConfig::adafactor(0.0),
        ..plain.clone()
    };
    for (options, bad) in [(&plain, None), (&free, None), (&skips, None), (&skips, Some(3))] {
        let expected = accumulating(options, bad);
        let fused = accumulating(&placed(options, Placement::ForwardFused), bad);
        assert_eq!(format!("{:?}", fused.0), format!("{:?}", expected.0));
        assert!(fused.1 == expected.1, "{bad:?}");
    }
    let graphs = StepGraphs::new(&placed(&plain, Placement::ForwardFused), accumulated).unwrap();
    let plans = StepPlans::new(device(1).as_ref(), &placed(&plain, Placement::ForwardFused), &graphs).unwrap();
    assert!(
        plans
            .placements()
            .values()
            .all(|placement| *placement == Placement::ForwardFused)
    );
    assert_eq!(plans.placements().len(), 6);
}
