//! Training as people run it (compiled, in `f32`, by the CPU's kernels) against what PyTorch computed: gradients, and
//! losses and parameters over five AdamW steps of BERT, RoBERTa, DistilBERT, MPNet and GPT-2.
//!
//! The answers and the script that made them are in `crates/nn/tests/fixtures`. PyTorch computed them in `f64`, and
//! once more in `f32`: how far its own `f32` is off says how far ours may be.

use crate::support::device;
use lessen_device::Host;
use lessen_nn::{BatchShape, Model, OptimizerConfig, checkpoint};
use lessen_train::{Generator, Rules, Sampling, Session, Trainer, TrainerOptions};
use safetensors::{SafeTensors, tensor::TensorView};
use std::fs;
use std::path::{Path, PathBuf};

const SIZE: usize = 4;
const LENGTH: usize = 12;
/// The recorded batches with padding, and without: as many tokens as there can be, and two that belong to no text.
const LAYOUTS: [BatchShape; 2] = [
    BatchShape::Padded {
        size: SIZE,
        length: LENGTH,
    },
    BatchShape::Packed {
        size: SIZE,
        tokens: SIZE * LENGTH + 2,
    },
];
const STEPS: usize = 5;
/// Two computations that sum in different orders are off from the exact result independently of each other, and the
/// noise is the largest deviation of a single one: this many times as much is still rounding.
const SLACK: f64 = 3.0;
/// Where PyTorch happens to be exact, this many units in the last place of the largest value.
const LAST_PLACES: f64 = 3.0;
/// A gradient is a sum of many terms: it may be off by this many units in the last place of its largest element.
const GRADIENT_PLACES: f64 = 16.0;

fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/fixtures");
    fixtures.join(name)
}

fn floats(view: &TensorView<'_>) -> Vec<f32> {
    let words = view.data().as_chunks().0.iter();
    words.map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The recorded batches with the masked tokens named; a batch has fewer masked tokens than places for them.
const MASKED: BatchShape = BatchShape::Masked {
    size: SIZE,
    tokens: SIZE * LENGTH + 2,
    masked: 24,
};

/// Inputs of the model in one step, under our names.
struct Inputs {
    integers: Vec<(&'static str, Vec<i32>)>,
    /// Targets that are no labels, and the weights of the rows.
    numbers: Vec<(&'static str, Vec<f32>)>,
    mask: Option<Vec<u8>>,
}

impl Inputs {
    /// The inputs of a step in a layout.
    fn of(recorded: &SafeTensors<'_>, step: usize, layout: BatchShape) -> Inputs {
        let padded = Inputs::padded(recorded, step);
        match layout {
            BatchShape::Padded { .. } => padded,
            BatchShape::Packed { tokens, .. } => padded.packed(tokens),
            BatchShape::Masked { tokens, masked, .. } => padded.packed(tokens).masked(masked),
            BatchShape::Images { .. } => unreachable!("the recorded batches are texts"),
        }
    }

    /// The inputs without padding.
    fn packed(&self, tokens: usize) -> Inputs {
        let whole = vec![1; SIZE * LENGTH];
        let mask = self.mask.as_ref().unwrap_or(&whole);
        let real = |row: usize| (row * LENGTH..(row + 1) * LENGTH).filter(|&at| mask[at] != 0);
        let filled = |mut values: Vec<i32>, filler: i32| {
            values.resize(tokens, filler);
            values
        };
        let of_tokens = |values: &[i32], filler| {
            let values = (0..SIZE).flat_map(real).map(|at| values[at]);
            filled(values.collect(), filler)
        };
        let row_starts: Vec<i32> = (0..SIZE).map(|row| (0..row).flat_map(real).count() as i32).collect();
        let mut integers: Vec<(&'static str, Vec<i32>)> = self
            .integers
            .iter()
            .map(|(name, values)| match values.len() {
                SIZE => (*name, values.clone()),
                _ if *name == "answers" => (
                    *name,
                    values
                        .iter()
                        .zip(row_starts.iter().cycle())
                        .map(|(a, s)| a + s)
                        .collect(),
                ),
                _ => (*name, of_tokens(values, if *name == "labels" { -100 } else { 1 })),
            })
            .collect();
        let lengths = (0..SIZE).map(|row| real(row).count() as i32);
        let mut starts = vec![0];
        starts.extend(lengths.clone().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        integers.push(("positions", filled(lengths.flat_map(|length| 0..length).collect(), 0)));
        let segments = (0..SIZE).flat_map(|row| real(row).map(move |_| row as i32));
        integers.push(("segments", filled(segments.collect(), SIZE as i32)));
        integers.push(("firsts", starts[..SIZE].to_vec()));
        integers.push(("starts", starts));
        Inputs {
            integers,
            numbers: self.numbers.clone(),
            mask: None,
        }
    }

    /// The inputs with the labelled tokens named in `places` places.
    fn masked(mut self, places: usize) -> Inputs {
        let at = self.integers.iter().position(|(name, _)| *name == "labels").unwrap();
        let (_, labels) = self.integers.swap_remove(at);
        let chosen = labels.iter().zip(0..).filter(|(label, _)| **label != -100);
        let (mut labels, mut chosen): (Vec<i32>, Vec<i32>) = chosen.map(|(&label, place)| (label, place)).unzip();
        assert!(labels.len() <= places);
        labels.resize(places, -100);
        chosen.resize(places, 0);
        self.integers.extend([("labels", labels), ("places", chosen)]);
        self
    }

    fn padded(recorded: &SafeTensors<'_>, step: usize) -> Inputs {
        let part = |name: &str| {
            let view = recorded.tensor(name).ok()?;
            let words = view.data().as_chunks().0.iter();
            let all: Vec<i32> = words.map(|&bytes| i32::from_le_bytes(bytes)).collect();
            let size = all.len() / STEPS;
            Some(all[step * size..][..size].to_vec())
        };
        let names = [
            ("tokens", "input_ids"),
            ("types", "token_type_ids"),
            ("labels", "labels"),
            ("answers", "answers"),
        ];
        let integers = names
            .into_iter()
            .filter_map(|(ours, theirs)| Some((ours, part(theirs)?)));
        let mask = part("attention_mask").map(|mask| mask.iter().map(|&real| real as u8).collect());
        let targets = recorded.tensor("targets").map(|targets| floats(&targets)).ok();
        let numbers = targets.map(|all| {
            let size = all.len() / STEPS;
            let own = all[step * size..][..size].to_vec();
            vec![("targets", own), ("weights", vec![1.0; SIZE])]
        });
        Inputs {
            integers: integers.collect(),
            numbers: numbers.unwrap_or_default(),
            mask,
        }
    }

    fn hosts(&self) -> Vec<(&str, Host<'_>)> {
        let integers = self.integers.iter().map(|(name, data)| (*name, Host::I32(data)));
        let mask = self.mask.iter().map(|mask| ("mask", Host::Bool(mask)));
        let numbers = self.numbers.iter().map(|(name, data)| (*name, Host::F32(data)));
        integers.chain(numbers).chain(mask).collect()
    }
}

fn trainer(name: &str, optimizer: OptimizerConfig, layout: BatchShape) -> Trainer {
    let dir = fixture(name);
    let model = Model::from_dir(&dir).unwrap();
    let weights = checkpoint::load(&dir, &model.parameters(), &|_| false).unwrap().weights;
    let options = TrainerOptions {
        optimizer,
        ..TrainerOptions::new(1e-3)
    };
    let mut trainer = Trainer::new(device(2), options, |cx| model.forward(cx, layout).loss).unwrap();
    trainer.set_weights(&weights).unwrap();
    trainer
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// How far `f32` may be off from `exact` where PyTorch's is off by `noise`.
fn bound(noise: f64, exact: &[f32]) -> f64 {
    let scale = largest(exact.iter().map(|&value| value.into()));
    SLACK * noise + LAST_PLACES * f64::from(f32::EPSILON) * scale
}

fn difference(got: &[f32], exact: &[f32]) -> f64 {
    assert_eq!(got.len(), exact.len());
    assert!(got.iter().all(|value| value.is_finite()), "{got:?}");
    largest(got.iter().zip(exact).map(|(g, e)| f64::from(*g) - f64::from(*e)))
}

/// The gradients of the first batch, which are what SGD's momentum is after one step. AdamW would hide a factor.
fn check_gradients(name: &str, recorded: &SafeTensors<'_>, layout: BatchShape) {
    let optimizer = OptimizerConfig::Sgd {
        momentum: 0.9,
        nesterov: false,
        weight_decay: 0.0,
    };
    let mut trainer = trainer(name, optimizer, layout);
    trainer.step(&Inputs::of(recorded, 0, layout).hosts()).unwrap();
    let state = trainer.state().unwrap();
    assert_eq!(state.len(), trainer.params().len());
    let exact = |parameter: &str| {
        let tensor = recorded.tensor(&format!("grad.{parameter}"));
        tensor.map(|tensor| floats(&tensor)).ok()
    };
    let size = |gradient: &[f32]| largest(gradient.iter().map(|&value| value.into()));
    for momentum in state {
        let parameter = momentum.name.strip_prefix("optimizer.momentum.").unwrap();
        let gradient = exact(parameter).unwrap();
        // A bias's gradient is made of the same terms as its matrix's; the gradient of a key's bias cancels to nothing.
        let matrix = parameter
            .strip_suffix("bias")
            .and_then(|name| exact(&format!("{name}weight")));
        let scale = size(&gradient).max(matrix.map_or(0.0, |gradient| size(&gradient)));
        let (off, most) = (
            difference(momentum.data.as_f32().unwrap(), &gradient),
            GRADIENT_PLACES * f64::from(f32::EPSILON) * scale,
        );
        assert!(
            off <= most,
            "the gradient of {parameter} is off by {off}, and rounding is at most {most}"
        );
    }
}

fn check(name: &str) {
    for layout in LAYOUTS {
        check_layout(name, layout);
    }
}

fn check_layout(name: &str, layout: BatchShape) {
    let bytes = fs::read(fixture(&format!("expected-{name}.safetensors"))).unwrap();
    let recorded = SafeTensors::deserialize(&bytes).unwrap();
    check_gradients(name, &recorded, layout);
    let read = |name: &str| floats(&recorded.tensor(name).unwrap());
    let mut trainer = trainer(name, OptimizerConfig::adamw(0.01), layout);

    let run = |step| trainer.step(&Inputs::of(&recorded, step, layout).hosts()).unwrap().loss;
    let losses: Vec<f32> = (0..STEPS).map(run).collect();
    let (exact, theirs) = (read("losses"), read("losses_f32"));
    let most = bound(difference(&theirs, &exact), &exact);
    let off = difference(&losses, &exact);
    assert!(
        off <= most,
        "losses {losses:?} instead of {exact:?}: off by {off}, not {most}"
    );

    let weights = trainer.weights().unwrap();
    for (parameter, weight) in &weights {
        let exact = read(&format!("final.{parameter}"));
        let noise = |parameter: &str| f64::from(read(&format!("noise.{parameter}"))[0]);
        // A key's bias has no gradient but rounding noise, which AdamW scales up to the order of the rate. In GPT-2
        // it is the middle third of a vector, whose other two are as exact as the matrix that they belong to.
        let (noise, key) = match parameter.strip_suffix(".c_attn.bias") {
            Some(attention) => {
                let third = exact.len() / 3;
                (noise(&format!("{attention}.c_attn.weight")), third..2 * third)
            }
            None => (noise(parameter), exact.len()..exact.len()),
        };
        for part in [0..key.start, key.end..exact.len()] {
            let (got, exact) = (&weight.data[part.clone()], &exact[part]);
            let (off, most) = (difference(got, exact), bound(noise, exact));
            assert!(
                off <= most,
                "{parameter} is off by {off}, and rounding is at most {most}"
            );
        }
    }
}

#[test]
fn bert_classifier() {
    check("bert-tiny-cls");
}

#[test]
fn bert_masked_language_model() {
    check("bert-tiny-mlm");
    check_layout("bert-tiny-mlm", MASKED);
}

#[test]
fn roberta_classifier() {
    check("roberta-tiny-cls");
}

#[test]
fn roberta_masked_language_model() {
    check("roberta-tiny-mlm");
    check_layout("roberta-tiny-mlm", MASKED);
}

#[test]
fn roberta_classifier_of_tokens() {
    check("roberta-tiny-token");
}

#[test]
fn distilbert_regression() {
    check("distilbert-tiny-regression");
}

#[test]
fn roberta_with_several_labels() {
    check("roberta-tiny-multi");
}

#[test]
fn distilbert_answers() {
    check("distilbert-tiny-qa");
}

#[test]
fn distilbert_classifier() {
    check("distilbert-tiny-cls");
}

#[test]
fn distilbert_masked_language_model() {
    check("distilbert-tiny-mlm");
    check_layout("distilbert-tiny-mlm", MASKED);
}

#[test]
fn mpnet_classifier() {
    check("mpnet-tiny-cls");
}

#[test]
fn mpnet_masked_language_model() {
    check("mpnet-tiny-mlm");
    check_layout("mpnet-tiny-mlm", MASKED);
}

#[test]
fn mpnet_classifier_of_tokens() {
    check("mpnet-tiny-token");
}

#[test]
fn mpnet_answers() {
    check("mpnet-tiny-qa");
}

#[test]
fn gpt2_language_model() {
    check("gpt2-tiny");
}

#[test]
fn llama_language_model() {
    check("llama-tiny");
    check("llama-biased-tiny");
}

#[test]
fn olmo_language_model() {
    check("olmo-tiny");
}

#[test]
fn qwen2_language_model() {
    check("qwen2-tiny");
}

#[test]
fn gpt_neox_language_models() {
    check("gpt-neox-tiny");
    check("gpt-neox-sequential-tiny");
}

#[test]
fn gptj_language_model() {
    check("gptj-tiny");
}

/// Greedy generation of several prompts at once, with and without a repetition penalty, against transformers'
/// generation for each prompt alone.
fn check_generation(name: &str) {
    let bytes = fs::read(fixture(&format!("expected-{name}.safetensors"))).unwrap();
    let recorded = SafeTensors::deserialize(&bytes).unwrap();
    let tokens = |name: &str| -> Vec<i32> {
        let view = recorded.tensor(name).unwrap();
        let words = view.data().as_chunks().0.iter();
        words.map(|&bytes| i32::from_le_bytes(bytes)).collect()
    };
    let dir = fixture(name);
    let model = Model::from_dir(&dir).unwrap();
    let weights = checkpoint::load(&dir, &model.parameters(), &|_| false).unwrap().weights;
    let session = Session::new(device(2), model.parameters(), &weights).unwrap();
    let mut generator = Generator::new(session, &model, 32).unwrap();
    let prompts = [0, 1, 2].map(|number| tokens(&format!("prompt.{number}")));
    let prompts = [0, 1, 2].map(|number| prompts[number].as_slice());
    for (kind, repetition_penalty) in [("generated", 1.0), ("penalized", 1.3)] {
        let rules = Rules {
            repetition_penalty,
            ..Rules::default()
        };
        let sampling = Sampling {
            rules,
            ..Sampling::greedy(20)
        };
        let found = generator.generate_all(&prompts, 1, &sampling, &|_, _| Ok(false), &mut |_, _| Ok(()));
        let found = found.unwrap();
        for (number, found) in found.into_iter().enumerate() {
            // transformers' tokens go on after the token that ends a text.
            let theirs = tokens(&format!("{kind}.{number}"));
            let whole: Vec<i32> = theirs.into_iter().take_while(|token| *token != 0).collect();
            assert_eq!(found, whole, "{kind}.{number} of {name}");
        }
    }
}

#[test]
fn greedy_generation() {
    [
        "gpt2-tiny",
        "llama-tiny",
        "llama-biased-tiny",
        "olmo-tiny",
        "qwen2-tiny",
        "gpt-neox-tiny",
        "gpt-neox-sequential-tiny",
        "gptj-tiny",
    ]
    .iter()
    .for_each(|name| check_generation(name));
}
