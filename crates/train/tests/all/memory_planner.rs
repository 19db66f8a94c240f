//! The memory planner on a small model of every kind: 50 steps have the same bits whatever the budget, the number of
//! threads and the placement of updates.

use crate::support::device;
use lessen_base::SplitMix64;
use lessen_compile::Placement;
use lessen_graph::{DType, Tensor};
use lessen_nn::models::bert::{Bert, BertConfig, Head};
use lessen_nn::models::encoder::{EncoderConfig, LessenEncoder};
use lessen_nn::models::gpt2::{GPT2LMHeadModel, Gpt2Config};
use lessen_nn::models::vision::{Block, ResNet, RevNet, Shortcut, VisionModel};
use lessen_nn::{BatchShape, Cx, Model, Weights, numbered_labels};
use lessen_train::{HostArray, Session, StateArray, StepGraphs, StepPlans, Trainer, TrainerOptions};

const STEPS: u64 = 50;
const VOCABULARY: usize = 40;
const CLASSES: usize = 5;
/// The tokens of each text. Without padding there are two more that belong to no text.
const LENGTHS: [usize; 4] = [48, 31, 9, 40];
const LONGEST: usize = 48;
const TOKENS: usize = 130;
/// Images of a batch, and the pixels of a row and of a column.
const IMAGES: usize = 8;
const PIXELS: usize = 16;

const PADDED: BatchShape = BatchShape::Padded {
    size: LENGTHS.len(),
    length: LONGEST,
};
const PACKED: BatchShape = BatchShape::Packed {
    size: LENGTHS.len(),
    tokens: TOKENS,
};

/// A model, whose batches follow from its layout.
enum Case {
    Texts(Box<Model>, BatchShape),
    Images(VisionModel),
}

impl Case {
    fn loss(&self, cx: Cx) -> Tensor {
        match self {
            Case::Texts(model, shape) => model.forward(cx, *shape).loss,
            Case::Images(model) => {
                let images = cx.input("images", DType::F32, &[IMAGES, PIXELS, PIXELS, 3]);
                let labels = cx.input("labels", DType::I32, &[IMAGES]);
                model.forward(cx, images).cross_entropy(labels)
            }
        }
    }

    /// The batch of a step, by name.
    fn batch(&self, step: u64) -> Vec<(&'static str, HostArray)> {
        let mut random = SplitMix64::keyed(5, step);
        let mut draw = |count: usize, below: usize| {
            let numbers = (0..count).map(|_| random.below(below as u64) as i32);
            HostArray::I32(numbers.collect())
        };
        let texts = LENGTHS.iter().enumerate();
        match self {
            Case::Texts(_, PACKED) => {
                let end = TOKENS - LENGTHS.iter().sum::<usize>();
                let positions = LENGTHS.iter().chain([&end]).flat_map(|&length| 0..length as i32);
                let segments = texts.flat_map(|(text, &length)| vec![text as i32; length]);
                let starts = (0..=LENGTHS.len()).map(|text| LENGTHS[..text].iter().sum::<usize>() as i32);
                vec![
                    ("tokens", draw(TOKENS, VOCABULARY)),
                    ("labels", draw(LENGTHS.len(), CLASSES)),
                    ("positions", HostArray::I32(positions.collect())),
                    (
                        "segments",
                        HostArray::I32(segments.chain(vec![LENGTHS.len() as i32; end]).collect()),
                    ),
                    ("starts", HostArray::I32(starts.collect())),
                ]
            }
            Case::Texts(model, _) => {
                let tokens = LENGTHS.len() * LONGEST;
                let mut batch = vec![("tokens", draw(tokens, VOCABULARY))];
                if model.labels().is_empty() {
                    batch.push(("labels", draw(tokens, VOCABULARY)));
                } else {
                    let mask = LENGTHS
                        .iter()
                        .flat_map(|&n| (0..LONGEST).map(move |at| u8::from(at < n)));
                    batch.push(("labels", draw(LENGTHS.len(), CLASSES)));
                    batch.push(("types", draw(tokens, 2)));
                    batch.push(("mask", HostArray::Bool(mask.collect())));
                }
                batch
            }
            Case::Images(_) => {
                let labels = draw(IMAGES, CLASSES);
                let images = (0..IMAGES * PIXELS * PIXELS * 3).map(|_| random.unit() as f32 - 0.5);
                vec![("images", HostArray::F32(images.collect())), ("labels", labels)]
            }
        }
    }

    /// Fifty steps under the budget of the options.
    fn train(&self, threads: usize, options: &TrainerOptions) -> Trained {
        let backend = device(threads);
        let graphs = StepGraphs::new(options, |cx| self.loss(cx)).unwrap();
        let plans = StepPlans::new(backend.as_ref(), options, &graphs).unwrap();
        let recomputed = plans.step.recomputed().len();
        let (peak, arena) = (plans.peak_bytes(), plans.arena_bytes());
        let mut session = Session::zeros(backend, plans.params.clone()).unwrap();
        session.draw(|_| true, 1).unwrap();
        let mut trainer = Trainer::from_plans(session, options.clone(), plans).unwrap();
        let losses = (0..STEPS).map(|step| {
            let batch = self.batch(step);
            let inputs: Vec<_> = batch.iter().map(|(name, data)| (*name, data.host())).collect();
            trainer.step(&inputs).unwrap().loss.to_bits()
        });
        Trained {
            losses: losses.collect(),
            peak,
            arena,
            recomputed,
            weights: trainer.weights().unwrap(),
            states: trainer.state().unwrap(),
        }
    }

    fn floor(&self, threads: usize, options: &TrainerOptions) -> usize {
        let graphs = StepGraphs::new(options, |cx| self.loss(cx)).unwrap();
        graphs.floor_bytes(device(threads).as_ref(), options).unwrap()
    }

    /// Checks that no budget, number of threads or placement changes a bit.
    fn check(&self) {
        let mut first: Option<Trained> = None;
        for threads in [1, 2] {
            for placement in [Placement::BackwardFused, Placement::Separate, Placement::ForwardFused] {
                let options = |budget| TrainerOptions {
                    budget,
                    placement,
                    ..TrainerOptions::new(0.003)
                };
                let free = self.train(threads, &options(None));
                let floor = self.floor(threads, &options(None));
                assert!(
                    floor + free.arena / 10 < free.peak,
                    "the floor is {floor}, the peak {} with an arena of {}",
                    free.peak,
                    free.arena
                );
                let half = floor.max(free.peak - free.arena / 2);
                let expected = first.get_or_insert_with(|| free.clone());
                expected.assert_same(&free, &format!("{threads} threads, {placement:?}"));
                for budget in [half, floor] {
                    let found = self.train(threads, &options(Some(budget)));
                    assert!(found.peak <= budget, "a peak of {} for {budget}", found.peak);
                    assert!(found.recomputed > 0, "nothing is recomputed within {budget} bytes");
                    expected.assert_same(&found, &format!("{threads} threads, {placement:?}, {budget} bytes"));
                }
            }
        }
    }
}

/// Results of a training, and numbers of its plan.
#[derive(Clone)]
struct Trained {
    losses: Vec<u32>,
    weights: Weights,
    states: Vec<StateArray>,
    peak: usize,
    arena: usize,
    recomputed: usize,
}

impl Trained {
    fn assert_same(&self, found: &Trained, what: &str) {
        let place = self.losses.iter().zip(&found.losses).position(|(a, b)| a != b);
        assert_eq!(place, None, "the first step with another loss: {what}");
        let bits = |data: &[f32]| data.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(self.weights.len(), found.weights.len());
        for (name, weight) in &self.weights {
            assert!(
                bits(&weight.data) == bits(&found.weights[name].data),
                "`{name}` differs: {what}"
            );
        }
        assert_eq!(self.states.len(), found.states.len());
        for (a, b) in self.states.iter().zip(&found.states) {
            let same = a.name == b.name && a.data.to_le_bytes() == b.data.to_le_bytes();
            assert!(same, "the state `{}` differs: {what}", a.name);
        }
    }
}

#[test]
fn a_gpt() {
    let config = Gpt2Config {
        vocab_size: VOCABULARY,
        n_positions: LONGEST,
        n_embd: 32,
        n_layer: 3,
        n_head: 2,
        ..Gpt2Config::default()
    };
    Case::Texts(Box::new(GPT2LMHeadModel { config }.into()), PADDED).check();
}

#[test]
fn an_encoder_with_norms_behind_its_sums() {
    let config = BertConfig {
        vocab_size: VOCABULARY,
        hidden_size: 32,
        num_hidden_layers: 3,
        num_attention_heads: 2,
        intermediate_size: 96,
        max_position_embeddings: LONGEST,
        labels: numbered_labels(CLASSES),
        ..BertConfig::default()
    };
    let head = Head::SequenceClassification;
    Case::Texts(Box::new(Bert { config, head }.into()), PADDED).check();
}

fn encoder(reversible: bool) -> Case {
    let config = EncoderConfig {
        vocab_size: VOCABULARY,
        width: 40,
        layers: 6,
        heads: 2,
        ffn: 120,
        max_length: LONGEST,
        reversible,
        labels: numbered_labels(CLASSES),
        ..EncoderConfig::default()
    };
    Case::Texts(Box::new(LessenEncoder { config }.into()), PACKED)
}

#[test]
fn an_encoder_without_padding() {
    encoder(false).check();
}

#[test]
fn a_reversible_encoder_without_padding() {
    encoder(true).check();
}

#[test]
fn a_reversible_network_with_running_statistics() {
    let network = RevNet {
        stem_width: 8,
        stages: vec![(3, 8), (2, 16)],
        ..RevNet::cifar(Block::Basic, 0, [0; 3], CLASSES)
    };
    Case::Images(network.into()).check();
}

#[test]
fn a_residual_network_with_running_statistics() {
    let network = ResNet {
        stem_width: 4,
        width: 4,
        blocks: vec![3, 2],
        shortcut: Shortcut::Projection,
        ..ResNet::cifar(0, CLASSES)
    };
    Case::Images(network.into()).check();
}
