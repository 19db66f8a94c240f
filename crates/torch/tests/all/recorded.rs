//! Programs that `tests/make_programs.py` has recorded train as PyTorch does in f64.

use lessen_cpu::CpuBackend;
use lessen_device::HostArray;
use lessen_graph::{Array, DType, Type};
use lessen_torch::{Batch, ExportedProgram, Training, TrainingSettings};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Recorded {
    program: serde_json::Value,
    settings: serde_json::Value,
    batch: Vec<(String, Vec<usize>, Vec<serde_json::Value>)>,
    parameters: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
    constants: BTreeMap<String, (Vec<usize>, String, Vec<f64>)>,
    losses: Vec<f64>,
    ends: BTreeMap<String, Vec<f64>>,
}

impl Recorded {
    fn open(name: &str) -> Recorded {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.json"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn program(&self) -> ExportedProgram {
        ExportedProgram::from_json(&self.program.to_string()).unwrap()
    }

    /// The batch `times` times, one after another.
    fn batch(&self, times: usize) -> Batch {
        let parts = self.batch.iter().map(|(dtype, shape, data)| {
            let number = |x: &serde_json::Value| x.as_f64().unwrap_or(f64::from(u8::from(x.as_bool() == Some(true))));
            let numbers: Vec<f64> = data.iter().map(number).collect();
            let ty = Type::new(DType::from_name(dtype).unwrap(), shape);
            let wide = Type::new(ty.dtype, &[&[shape[0] * times], &shape[1..]].concat());
            (wide, HostArray::of(ty.dtype, &numbers.repeat(times)))
        });
        let (types, arrays) = parts.unzip();
        Batch { types, arrays }
    }

    fn training(&self) -> Training {
        let parameters = self.parameters.iter().map(|(name, (shape, data))| {
            let array = Array::new(Type::f32(shape), data.clone());
            (name.clone(), Arc::new(array))
        });
        let constants = self.constants.iter().map(|(name, (shape, dtype, data))| {
            let ty = Type::new(DType::from_name(dtype).unwrap(), shape);
            (name.clone(), Arc::new(Array::new(ty, data.clone())))
        });
        let settings: TrainingSettings = serde_json::from_value(self.settings.clone()).unwrap();
        let device = Box::new(CpuBackend::new(1).unwrap());
        let values = parameters.chain(constants).collect();
        Training::new(
            device as Box<dyn lessen_device::Backend>,
            settings,
            &self.program(),
            &self.batch(1).types,
            values,
        )
        .unwrap()
    }
}

/// Trains as many steps as were recorded, within 1e-5 of the losses and 1e-4 of the parameters and buffers.
fn check(name: &str) -> Training {
    let recorded = Recorded::open(name);
    let (program, batch, mut training) = (recorded.program(), recorded.batch(1), recorded.training());
    for wanted in &recorded.losses {
        let loss = f64::from(training.step((0, &program), &batch).unwrap().loss);
        assert!(
            (loss - wanted).abs() <= 1e-5 * wanted.abs(),
            "{name}: {loss}, not {wanted}"
        );
    }
    for (own, wanted) in &recorded.ends {
        let values = training.value(own).unwrap();
        let most = wanted.iter().fold(0.01, |most: f64, x| most.max(x.abs()));
        let error = values
            .iter()
            .zip(wanted)
            .map(|(x, y)| (f64::from(*x) - y).abs())
            .fold(0.0, f64::max);
        assert!(
            values.len() == wanted.len() && error <= 1e-4 * most,
            "{name}: `{own}` is off by {error}"
        );
    }
    training
}

#[test]
fn images_with_batch_normalization_train_as_in_pytorch() {
    let training = check("images");
    let counters: Vec<(&str, f64)> = training
        .counters()
        .iter()
        .map(|(name, by)| (name.as_str(), *by))
        .collect();
    assert_eq!(counters, [("stem.1.num_batches_tracked", 1.0)]);
}

#[test]
fn a_mask_of_conjunctions_is_causal_attention_with_a_mask_of_keys() {
    let training = check("attention");
    assert_eq!(training.summary().notes, Vec::<String>::new());
    assert!(!training.states().contains("head.weight"), "tied parameters are one");
}

#[test]
fn recurrent_networks_train_as_in_pytorch() {
    check("recurrent");
}

#[test]
fn parts_that_are_changed_in_place_and_buffers_train_as_in_pytorch() {
    check("parts");
}

#[test]
fn a_mixture_of_experts_trains_as_in_pytorch_and_says_what_it_costs() {
    let training = check("experts");
    let notes = &training.summary().notes;
    assert!(
        notes.len() == 1 && notes[0].starts_with("each of 3 experts multiplies all 8 rows"),
        "{notes:?}"
    );
}

#[test]
fn another_size_of_batch_adds_a_step_and_equal_examples_give_the_same_loss() {
    let recorded = Recorded::open("recurrent");
    let (program, mut training) = (recorded.program(), recorded.training());
    let double = recorded.batch(2);
    let loss = f64::from(training.step((0, &program), &double).unwrap().loss);
    assert!((loss - recorded.losses[0]).abs() < 1e-5);
    assert!(training.has_step(0, &double.types) && training.done() == 1);
    let peak = training.peak();
    assert!(peak.measured <= peak.planned, "{peak:?}");
}

#[test]
fn a_training_goes_on_with_the_moments_and_values_of_another_as_that_one_would() {
    let recorded = Recorded::open("recurrent");
    let (program, batch) = (recorded.program(), recorded.batch(1));
    let (mut first, mut second) = (recorded.training(), recorded.training());
    first.step((0, &program), &batch).unwrap();
    for name in first.states().clone() {
        let values = first.value(&name).unwrap();
        second.set_value(&name, &values).unwrap();
    }
    let moments = first.moments().unwrap();
    assert!(moments["optimizer.m.head.weight"].iter().any(|x| *x != 0.0));
    second.carry_on(first.done(), moments).unwrap();
    for _ in 0..2 {
        let losses = [&mut first, &mut second].map(|own| own.step((0, &program), &batch).unwrap().loss);
        assert_eq!(losses[0].to_bits(), losses[1].to_bits());
    }
    let other = BTreeMap::from([("optimizer.m.tail".to_string(), vec![0.0])]);
    let sentence = first.carry_on(3, other).unwrap_err().to_string();
    assert_eq!(
        sentence,
        "the optimizer has no state `optimizer.m.tail`; give a new one"
    );
}
