//! Names of a model function: none of them meets one that training gives.

use crate::support::{device, train_line};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::{Cx, Init, OptimizerConfig};
use lessen_train::{HostArray, Trainer, TrainerOptions};

/// Names that training has given to inputs, states and results, and such that look like them.
const NAMES: [&str; 17] = [
    "lr",
    "t",
    "t.2",
    "key",
    "share",
    "loss",
    "gradient_norm",
    "optimizer.m.w",
    "optimizer.v.w",
    "gradient.w",
    "ema.w",
    "pending.w",
    "pending.lr",
    "steps_input",
    "model:w",
    "model:optimizer.m.w",
    "arena",
];

/// AdamW with clipping, averages and accumulation of `accumulate` batches, so that every name of training occurs.
fn options(accumulate: usize) -> TrainerOptions {
    TrainerOptions {
        optimizer: OptimizerConfig::adamw(0.1),
        clip_norm: Some(10.0),
        ema: Some(0.5),
        accumulate,
        ..TrainerOptions::new(0.1)
    }
}

/// Role of a name in a model function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Input,
    Parameter,
    Buffer,
    State,
    Output,
}

const ROLES: [Role; 5] = [Role::Input, Role::Parameter, Role::Buffer, Role::State, Role::Output];

/// A loss with dropout of `w x + offset`, in which something of this name has a part, or as it is with a plain name.
fn loss(cx: Cx, role: Role, name: &str) -> Tensor {
    let x = cx.input("x", DType::F32, &[4]);
    let y = cx.dropout(x * cx.param("w", &[4], Init::Constant(0.5)), 0.25);
    let y = match role {
        Role::Input => y + cx.input(name, DType::F32, &[4]),
        Role::Parameter => y + cx.param(name, &[4], Init::Constant(0.25)),
        Role::Buffer => {
            let buffer = cx.buffer(name, &[4], Init::Ones);
            cx.trace().assign(buffer, buffer * 0.5);
            y + buffer
        }
        Role::State => {
            let state = cx.trace().state(name, DType::F32, &[4]);
            cx.trace().assign(state, state + 1.0);
            y + state
        }
        Role::Output => {
            cx.trace().output(name, y);
            y
        }
    };
    (y * y).mean()
}

/// Losses, parameters and states, in the order of names, of some steps and a resumed one, with something of this name.
fn trained(role: Role, name: &str, accumulate: usize) -> (Vec<u32>, Vec<Vec<f32>>, Vec<HostArray>) {
    let build = || Trainer::new(device(1), options(accumulate), |cx| loss(cx, role, name)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut trainer = build();
    let mut losses = Vec::new();
    for step in 0..4 {
        if step == 2 {
            trainer.save_checkpoint(&dir.path().join("whole")).unwrap();
            trainer = build();
            trainer.resume_checkpoint(&dir.path().join("whole")).unwrap();
        }
        if step == 3 {
            let path = dir.path().join("states.safetensors");
            let (weights, done) = (trainer.weights().unwrap(), trainer.done());
            trainer
                .save_state(&path, lessen_nn::checkpoint::WeightDtype::Bf16, true)
                .unwrap();
            trainer = build();
            trainer.set_weights(&weights).unwrap();
            trainer.resume_from(done, &path, true).unwrap();
        }
        let x = [1.0, -0.5, 0.25, step as f32];
        let own = [0.5, 0.25, -1.0, 2.0];
        let inputs = [("x", Host::F32(&x)), (name, Host::F32(&own))];
        let used = if role == Role::Input { 2 } else { 1 };
        losses.push(trainer.step(&inputs[..used]).unwrap().loss.to_bits());
    }
    let weights = trainer.weights().unwrap().into_values().map(|weight| weight.data);
    let mut states = trainer.state().unwrap();
    states.sort_by(|a, b| {
        a.data
            .dtype()
            .name()
            .cmp(b.data.dtype().name())
            .then(a.name.cmp(&b.name))
    });
    let data = states.into_iter().map(|state| state.data);
    (losses, sorted(weights.collect()), data.collect())
}

fn sorted(mut all: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all
}

#[test]
fn a_name_that_training_uses_means_what_any_other_name_means() {
    for role in ROLES {
        for accumulate in [1, 2] {
            // Initial values follow from names for random distributions alone, and these are constant.
            let (losses, weights, states) = trained(role, "plain", accumulate);
            for name in NAMES {
                let found = trained(role, name, accumulate);
                assert_eq!(found.0, losses, "{role:?} {name}");
                assert_eq!(found.1, weights, "{role:?} {name}");
                assert_eq!(found.2.len(), states.len(), "{role:?} {name}");
            }
        }
    }
}

#[test]
fn a_name_of_training_is_refused_in_every_role_with_the_line() {
    for role in ROLES {
        for name in [
            "@lr",
            "@t",
            "@key",
            "@share",
            "@loss",
            "@optimizer.m.w",
            "@ema.w",
            "@pending.w",
            "@",
        ] {
            let error = Trainer::new(device(1), options(1), |cx| loss(cx, role, name))
                .err()
                .unwrap();
            let sentence = error.to_string();
            let refusal = format!("the name `{name}` begins with `@`, which Lessen keeps");
            // The key of dropout is in the graph already, when the trace gets a state of its name.
            let taken = "the graph already has an input called `@key`";
            let is_refused = sentence.contains(&refusal) || (role == Role::State && sentence.contains(taken));
            assert!(is_refused && error.exit_code() == 2, "{role:?} {name}: {sentence}");
            if matches!(role, Role::Input | Role::Parameter | Role::Buffer) {
                assert!(sentence.contains("names.rs:"), "{sentence}");
            }
        }
    }
    // In functions beside the step as well.
    let mut trainer = train_line(device(1), 1);
    let refused = trainer.function(|cx| vec![("@loss", cx.input("x", DType::F32, &[4]))]);
    assert!(refused.err().unwrap().to_string().contains("`@loss` begins with `@`"));
    let refused = trainer.function(|cx| {
        cx.trace().output("@a", cx.input("x", DType::F32, &[4]));
        Vec::<(&str, Tensor)>::new()
    });
    assert!(refused.err().unwrap().to_string().contains("`@a` begins with `@`"));
}

#[test]
fn a_function_may_have_an_input_and_a_result_of_any_name() {
    let mut trainer = train_line(device(1), 1);
    for name in NAMES {
        let ask = trainer
            .function(|cx| vec![(name, cx.input(name, DType::F32, &[2]) * 2.0)])
            .unwrap();
        let results = trainer.run(ask, &[(name, Host::F32(&[1.5, 2.0]))]).unwrap();
        assert_eq!(results.f32(name).unwrap(), [3.0, 4.0]);
    }
}

#[test]
fn files_have_the_names_that_they_always_had() {
    let dir = tempfile::tempdir().unwrap();
    let mut trainer = Trainer::new(device(1), options(2), |cx| loss(cx, Role::State, "count")).unwrap();
    trainer.step(&[("x", Host::F32(&[1.0; 4]))]).unwrap();
    trainer.save_checkpoint(&dir.path().join("checkpoint")).unwrap();
    let file = lessen_nn::checkpoint::TensorFile::open(&dir.path().join("checkpoint/training.safetensors")).unwrap();
    let mut names = file.names();
    names.sort();
    assert_eq!(
        names,
        ["count", "ema.w", "gradient.w", "optimizer.m.w", "optimizer.v.w"]
    );
}

#[test]
fn a_checkpoint_from_before_resumes_whose_own_states_look_like_those_of_training() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("checkpoint");
    let build = || Trainer::new(device(1), options(1), |cx| loss(cx, Role::State, "ema.count")).unwrap();
    let mut trainer = build();
    let step = |trainer: &mut Trainer| trainer.step(&[("x", Host::F32(&[1.0; 4]))]).unwrap().loss;
    step(&mut trainer);
    trainer.save_checkpoint(&path).unwrap();
    // Gives the state the name that it had in files before the names of states of the model function were told from the
    // names of states of training. The header keeps its length.
    let states = path.join("training.safetensors");
    let bytes = std::fs::read(&states).unwrap();
    let at = bytes
        .windows(17)
        .position(|part| part == b"\"model:ema.count\"")
        .unwrap();
    let mut old = bytes.clone();
    old[at..at + 17].copy_from_slice(b"\"ema.count\"      ");
    std::fs::write(&states, old).unwrap();
    let mut resumed = build();
    assert_eq!(resumed.resume_checkpoint(&path).unwrap(), 1);
    assert_eq!(step(&mut resumed), step(&mut trainer));
}
