//! Training without the means of layer norms: the trajectory of LayerNorm, and its parameters but for their means.

use crate::norm_cases::{STEPS, batch, bert, encoder, gpt2, hosts, llama, olmo, options, shape, trainer, vit};
use crate::support::device;
use lessen_base::SplitMix64;
use lessen_compile::Placement;
use lessen_graph::{Array, Graph, InputKind, Tensor, evaluate_exactly};
use lessen_nn::models::llama::LlamaForCausalLM;
use lessen_nn::names::LOSS;
use lessen_nn::{Centred, Cx, Model, NormKind, OptimizerConfig, Weights};
use lessen_train::{Part, Session, StepGraphs, Trainer, TrainerOptions};
use std::collections::HashMap;
use std::ops::Range;

/// The kinds of norms without a mean, with which every training here has the same trajectory.
const KINDS: [NormKind; 3] = [NormKind::Rms, NormKind::Crms, NormKind::Auto];

fn sgd(momentum: f64) -> OptimizerConfig {
    OptimizerConfig::Sgd {
        momentum,
        nesterov: false,
        weight_decay: 0.0,
    }
}

/// The function of a model's logits on the batch number 99.
struct Logits<'a>(&'a Model);

impl Logits<'_> {
    fn trace(&self, cx: Cx) -> Vec<(&'static str, Tensor)> {
        vec![("logits", self.0.logits(cx, shape(self.0)))]
    }

    fn of(&self, session: &mut Session) -> Vec<f32> {
        let function = session.function(|cx| self.trace(cx)).unwrap();
        let inputs = batch(self.0, 99);
        session
            .run(function, &hosts(&inputs))
            .unwrap()
            .f32("logits")
            .unwrap()
            .to_vec()
    }
}

fn assert_close(found: &[f32], expected: &[f32]) {
    let scale = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-6 * scale, "{a} and {b}");
    }
}

/// The losses of some steps and the parameters after them.
fn trained(trainer: &mut Trainer, model: &Model, steps: Range<u64>, accumulate: u64) -> (Vec<f32>, Weights) {
    let losses = steps.map(|number| {
        let batches: Vec<_> = (0..accumulate).map(|i| batch(model, number * accumulate + i)).collect();
        let inputs: Vec<_> = batches.iter().map(|batch| hosts(batch)).collect();
        let parts: Vec<Part<'_>> = inputs
            .iter()
            .map(|inputs| Part::new(1.0 / accumulate as f32, inputs))
            .collect();
        trainer.step_on(&parts).unwrap().loss
    });
    (losses.collect(), trainer.weights().unwrap())
}

/// The parameters less their means along these axes.
fn recentred(mut weights: Weights, centred: &Centred) -> Weights {
    for (name, axes) in centred {
        let weight = weights.get_mut(name).unwrap();
        for &axis in axes {
            let (extent, after) = (weight.shape[axis], weight.shape[axis + 1..].iter().product::<usize>());
            for block in weight.data.chunks_mut(extent * after) {
                for at in 0..after {
                    let mean = block[at..].iter().step_by(after).map(|x| f64::from(*x)).sum::<f64>() / extent as f64;
                    block[at..]
                        .iter_mut()
                        .step_by(after)
                        .for_each(|x| *x = (f64::from(*x) - mean) as f32);
                }
            }
        }
    }
    weights
}

fn assert_same_losses(found: &[f32], expected: &[f32], what: &str) {
    for (step, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{what}, step {step}: {a} and {b}");
    }
}

fn assert_same_weights(found: &Weights, expected: &Weights, what: &str) {
    for (name, expected) in expected {
        for (i, (a, b)) in found[name].data.iter().zip(&expected.data).enumerate() {
            assert!((a - b).abs() <= 1e-4, "{what}, {name}[{i}]: {a} and {b}");
        }
    }
}

fn count(graph: &Graph, name: &str) -> usize {
    graph.nodes.iter().filter(|node| node.op.name() == name).count()
}

fn step_of(model: &Model, options: &TrainerOptions) -> Graph {
    StepGraphs::new(options, |cx| model.forward(cx, shape(model)).loss)
        .unwrap()
        .step
}

#[test]
fn trajectories_are_those_of_layer_norm() {
    let models = [
        ("gpt2", gpt2(0.0)),
        ("olmo", olmo()),
        ("encoder", encoder()),
        ("vit", vit()),
    ];
    for (name, model) in models {
        let (losses, weights) = trained(&mut trainer(&model, options(NormKind::Layer), 2), &model, 0..STEPS, 1);
        for kind in KINDS {
            let what = format!("{name}, {kind}");
            let step = step_of(&model, &options(kind));
            assert_eq!(count(&step, "layer_norm"), 0, "{what}");
            let mut own = trainer(&model, options(kind), 2);
            assert!(own.centred().len() >= 8, "{what}: {:?}", own.centred());
            let (own_losses, own_weights) = trained(&mut own, &model, 0..STEPS, 1);
            assert_same_losses(&own_losses, &losses, &what);
            let peak = own.peak();
            assert!(peak.measured <= peak.planned, "{what}: {peak:?}");
            assert_same_weights(&own_weights, &recentred(weights.clone(), own.centred()), &what);
            assert_same_weights(&own_weights, &recentred(own_weights.clone(), own.centred()), &what);
        }
    }
}

#[test]
fn sums_of_gradients_are_projected() {
    let with = |norm| TrainerOptions {
        accumulate: 2,
        ..options(norm)
    };
    let model = vit();
    let (losses, weights) = trained(&mut trainer(&model, with(NormKind::Layer), 1), &model, 0..6, 2);
    let mut own = trainer(&model, with(NormKind::Rms), 1);
    let (own_losses, own_weights) = trained(&mut own, &model, 0..6, 2);
    assert_same_losses(&own_losses, &losses, "rms");
    assert_same_weights(&own_weights, &recentred(weights, own.centred()), "rms");
}

#[test]
fn other_optimizers_read_projected_gradients() {
    for optimizer in [OptimizerConfig::lion(0.1), OptimizerConfig::adamw_8bit(0.1), sgd(0.9)] {
        let with = |norm| TrainerOptions {
            optimizer,
            ema: Some(0.9),
            norm,
            ..TrainerOptions::new(1e-3)
        };
        let model = vit();
        let (losses, _) = trained(&mut trainer(&model, with(NormKind::Layer), 1), &model, 0..5, 1);
        let (own, _) = trained(&mut trainer(&model, with(NormKind::Rms), 1), &model, 0..5, 1);
        assert_same_losses(&own, &losses, &format!("{optimizer:?}"));
    }
}

#[test]
fn threads_budgets_and_placements_change_no_bit() {
    let model = gpt2(0.1);
    for kind in [NormKind::Rms, NormKind::Crms] {
        let free = options(kind);
        let bits = |options: TrainerOptions, threads| {
            let (losses, weights) = trained(&mut trainer(&model, options, threads), &model, 0..6, 1);
            let losses: Vec<u32> = losses.into_iter().map(f32::to_bits).collect();
            (losses, weights)
        };
        let expected = bits(free.clone(), 1);
        assert_eq!(bits(free.clone(), 2), expected);
        let graphs = StepGraphs::new(&free, |cx| model.forward(cx, shape(&model)).loss).unwrap();
        let budget = Some(graphs.floor_bytes(device(2).as_ref(), &free).unwrap());
        assert_eq!(bits(TrainerOptions { budget, ..free.clone() }, 2), expected);
        for placement in [Placement::Separate, Placement::ForwardFused, Placement::Planned] {
            assert_eq!(
                bits(
                    TrainerOptions {
                        placement,
                        ..free.clone()
                    },
                    2
                ),
                expected,
                "{placement:?}"
            );
        }
    }
}

#[test]
fn means_behind_dropout_are_subtracted_there_or_stay() {
    let model = gpt2(0.2);
    let layer = trained(&mut trainer(&model, options(NormKind::Layer), 1), &model, 0..10, 1);
    for kind in [NormKind::Rms, NormKind::Crms] {
        let mut own = trainer(&model, options(kind), 1);
        assert!(
            own.centred().is_empty(),
            "what is dropped out depends on means: {:?}",
            own.centred()
        );
        assert_eq!(count(&step_of(&model, &options(kind)), "layer_norm"), 0);
        let (losses, weights) = trained(&mut own, &model, 0..10, 1);
        assert_same_losses(&losses, &layer.0, kind.name());
        assert_same_weights(&weights, &layer.1, kind.name());
    }
    assert_eq!(count(&step_of(&model, &options(NormKind::Auto)), "layer_norm"), 5);
    assert_eq!(
        trained(&mut trainer(&model, options(NormKind::Auto), 1), &model, 0..10, 1),
        layer
    );
}

#[test]
fn a_checkpoint_is_one_of_layer_norm_and_resumes_bit_by_bit() {
    for (model, kind) in [(gpt2(0.0), NormKind::Rms), (vit(), NormKind::Crms)] {
        let logits = Logits(&model);
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("checkpoint");
        let mut own = trainer(&model, options(kind), 1);
        trained(&mut own, &model, 0..4, 1);
        own.save_checkpoint(&dir).unwrap();
        let weights = own.weights().unwrap();
        let function = own.function(|cx| logits.trace(cx)).unwrap();
        let inputs = batch(&model, 99);
        let found = own
            .run(function, &hosts(&inputs))
            .unwrap()
            .f32("logits")
            .unwrap()
            .to_vec();
        let mut plain = Session::new(device(1), model.parameters(), &weights).unwrap();
        let expected = logits.of(&mut plain);
        assert_close(&found, &expected);
        plain
            .convert_norms(kind, |cx| vec![("logits", model.logits(cx, model.smallest_batch()))])
            .unwrap();
        let function = plain.function(|cx| logits.trace(cx)).unwrap();
        assert_eq!(count(plain.plan(function).unwrap().graph(), "layer_norm"), 0);
        assert_close(&logits.of(&mut plain), &expected);

        let mut other = trainer(&model, options(kind), 2);
        assert_eq!(other.resume_checkpoint(&dir).unwrap(), 4);
        assert_eq!(trained(&mut other, &model, 4..8, 1), trained(&mut own, &model, 4..8, 1));
    }
}

#[test]
fn only_means_that_are_redundant_leave_a_bert() {
    let model = bert();
    let step = step_of(&model, &options(NormKind::Auto));
    let (left, converted) = (count(&step, "layer_norm"), count(&step, "rms_norm"));
    assert_eq!(
        (left + converted, left >= 4),
        (5, true),
        "post-norms read what norms scale and shift"
    );
    let layer = trained(&mut trainer(&model, options(NormKind::Layer), 1), &model, 0..8, 1);
    let mut own = trainer(&model, options(NormKind::Auto), 1);
    let (losses, weights) = trained(&mut own, &model, 0..8, 1);
    assert_same_losses(&losses, &layer.0, "auto");
    assert_same_weights(&weights, &recentred(layer.1, own.centred()), "auto");
}

#[test]
fn norms_that_a_model_does_not_have_are_refused() {
    let model = Model::from(LlamaForCausalLM { config: llama() });
    let traced = |norm| StepGraphs::new(&options(norm), |cx| model.forward(cx, shape(&model)).loss);
    let error = traced(NormKind::Rms).err().unwrap().to_string();
    assert_eq!(
        error,
        "model.norm = rms is for models with LayerNorm, and this one has none; leave it out"
    );
    assert!(traced(NormKind::Auto).is_ok());
}

/// Values of a graph's inputs: states that are far from mean zero, or recentred.
fn values(graph: &Graph, model: &Model, centred: &Centred) -> HashMap<String, Array> {
    let inputs = batch(model, 1);
    let value = |input: &lessen_graph::Input| {
        let ty = graph.ty(input.value).clone();
        let mut random = SplitMix64::named(2, &input.name);
        let data = inputs.iter().find(|(name, _)| *name == input.name);
        let mut elements: Vec<f64> = match (input.kind, data) {
            (InputKind::Data, Some((_, array))) => array.host().elements().collect(),
            (InputKind::Data, None) => vec![1.0; ty.numel()],
            (InputKind::State, _) => (0..ty.numel()).map(|_| random.unit() - 0.3).collect(),
        };
        for &axis in centred.get(&input.name).into_iter().flatten() {
            let (extent, after) = (ty.shape[axis], ty.shape[axis + 1..].iter().product::<usize>());
            for block in elements.chunks_mut(extent * after) {
                for at in 0..after {
                    let mean = block[at..].iter().step_by(after).sum::<f64>() / extent as f64;
                    block[at..].iter_mut().step_by(after).for_each(|x| *x -= mean);
                }
            }
        }
        (input.name.clone(), Array::new(ty, elements))
    };
    graph.inputs.iter().map(value).collect()
}

#[test]
fn projected_gradients_are_those_of_layer_norm_by_differences() {
    let with = |norm| TrainerOptions {
        optimizer: sgd(0.0),
        norm,
        ..TrainerOptions::new(1.0)
    };
    for model in [gpt2(0.0), olmo(), vit()] {
        let layer = step_of(&model, &with(NormKind::Layer));
        let loss = |values: &HashMap<String, Array>| evaluate_exactly(&layer, values).unwrap()[LOSS].data[0];
        for kind in [NormKind::Rms, NormKind::Crms] {
            let centred = trainer(&model, with(kind), 1).centred().clone();
            let step = step_of(&model, &with(kind));
            let values = values(&step, &model, &centred);
            let results = evaluate_exactly(&step, &values).unwrap();
            for name in centred.keys() {
                let (old, new) = (&values[name], &results[name]);
                for i in [0, old.data.len() / 2, old.data.len() - 1] {
                    const H: f64 = 1e-4;
                    let moved = |by: f64| {
                        let mut values = values.clone();
                        values.get_mut(name).unwrap().data[i] += by;
                        loss(&values)
                    };
                    let (gradient, slope) = (old.data[i] - new.data[i], (moved(H) - moved(-H)) / (2.0 * H));
                    let is_close = (gradient - slope).abs() <= 1e-6 * (1.0 + slope.abs());
                    assert!(is_close, "{kind}, {name}[{i}]: {gradient} and {slope}");
                }
            }
        }
    }
}
