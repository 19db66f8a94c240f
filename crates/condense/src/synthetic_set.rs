//! The synthetic set in a graph: its images, and its labels where they are learned; rows of them, the loss of a batch,
//! and their update.
//!
//! Labels that are learned are probabilities of all classes, the softmax of a parameter (beyond the paper; Sucholutsky
//! and Schonlau 2021, "Soft-Label Dataset Distillation", learn the probabilities themselves).

use crate::sgd::{descend, descended, momentum_of};
use lessen_graph::{DType, Phase, Tensor};
use lessen_nn::{Cx, Init};

/// Parameter with the synthetic images, `[classes * per_class, H, W, C]`, class by class.
pub const IMAGES: &str = "condensed.images";

/// Parameter with the logits of the images' labels, `[classes * per_class, classes]`, where labels are learned.
pub const LABELS: &str = "condensed.labels";

/// Parameter with the learning rate of students, `[]`, where it is learned.
pub const STUDENT_RATE: &str = "condensed.student_rate";

/// Data input with the learning rate of the students' learning rate, `f32[]`.
pub(crate) const STUDENT_RATE_RATE: &str = "condensed.student_rate_rate";

/// Data input with the learning rate of the images, `f32[]`.
pub(crate) const IMAGE_RATE: &str = "condensed.image_rate";

/// Data input with the momentum of all updates of what is learned, `f32[]`.
pub(crate) const IMAGE_MOMENTUM_RATE: &str = "condensed.image_momentum";

/// Data input with the learning rate of the labels, `f32[]`.
pub(crate) const LABEL_RATE: &str = "condensed.label_rate";

/// Probability of the class of an image in its label at first.
const CONFIDENCE: f64 = 0.9;

/// What a synthetic set is in a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SyntheticSet {
    /// Number of classes.
    pub classes: usize,
    /// Images of a class.
    pub per_class: usize,
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// Whether labels are learned.
    pub has_soft_labels: bool,
    /// Whether the learning rate of students is learned.
    pub has_rate: bool,
}

/// Images of a set, or some of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetPart {
    /// `[N, H, W, C]`.
    pub images: Tensor,
    /// Logits of the labels, `[N, classes]`, if they are learned.
    pub labels: Option<Tensor>,
}

impl SyntheticSet {
    /// Number of images.
    pub fn count(&self) -> usize {
        self.classes * self.per_class
    }

    /// The shape of this many images.
    pub fn images(&self, count: usize) -> Vec<usize> {
        [&[count][..], &self.shape].concat()
    }

    /// Names and shapes of what is learned.
    pub fn learned(&self) -> Vec<(&'static str, Vec<usize>)> {
        let mut learned = vec![(IMAGES, self.images(self.count()))];
        if self.has_soft_labels {
            learned.push((LABELS, vec![self.count(), self.classes]));
        }
        if self.has_rate {
            learned.push((STUDENT_RATE, Vec::new()));
        }
        learned
    }

    /// The whole set.
    pub fn all(&self, cx: Cx) -> SetPart {
        let labels = [self.count(), self.classes];
        SetPart {
            images: learned(cx, IMAGES, &self.images(self.count())),
            labels: self.has_soft_labels.then(|| learned(cx, LABELS, &labels)),
        }
    }

    /// The learning rate of students.
    pub fn rate(&self, cx: Cx) -> Tensor {
        learned(cx, STUDENT_RATE, &[])
    }

    /// The rows of a batch by their numbers, `i32[N]`.
    pub fn chosen(&self, cx: Cx, numbers: Tensor) -> SetPart {
        let (all, batch) = (self.all(cx), numbers.dim(0));
        let images = all.images.reshape(&[self.count(), self.shape.iter().product()]);
        SetPart {
            images: images.gather(numbers).reshape(&self.images(batch)),
            labels: all.labels.map(|labels| labels.gather(numbers)),
        }
    }

    /// The rows of a class, whose number is `i32[1]`.
    pub fn of_class(&self, cx: Cx, class: Tensor) -> SetPart {
        let all = self.all(cx);
        SetPart {
            images: self.part(all.images, class),
            labels: all.labels.map(|labels| self.part(labels, class)),
        }
    }

    /// The rows of a class of an array with a row for each image.
    fn part(&self, all: Tensor, class: Tensor) -> Tensor {
        let (mut shape, elements) = (all.shape(), all.ty().numel());
        shape[0] = self.per_class;
        let table = all.reshape(&[self.classes, elements / self.classes]);
        table.gather(class).reshape(&shape)
    }

    /// An array with a row for each image, with other rows for a class.
    fn with_part(&self, all: Tensor, rows: Tensor, class: Tensor) -> Tensor {
        let width = all.ty().numel() / self.classes;
        let (table, row) = (all.reshape(&[self.classes, width]), rows.reshape(&[1, width]));
        table.update_slice(row, class.reshape(&[]), 0).reshape(&all.shape())
    }

    /// Updates the part of a class so that `distance` falls.
    pub fn update_class(&self, cx: Cx, (class, rows): (Tensor, SetPart), distance: Tensor) {
        let own: Vec<Tensor> = std::iter::once(rows.images).chain(rows.labels).collect();
        let gradients = distance.grad(&own);
        cx.trace().in_phase(Phase::Update, || {
            for ((name, all, rates), (rows, gradient)) in
                self.updated(cx).into_iter().zip(own.into_iter().zip(gradients))
            {
                let momentum = cx.trace().state(&momentum_of(name), DType::F32, &all.shape());
                let [moved, new] = descended([rows, self.part(momentum, class)], gradient, rates);
                cx.trace().assign(momentum, self.with_part(momentum, moved, class));
                cx.trace().assign(all, self.with_part(all, new, class));
            }
        });
    }

    /// Updates all that is learned so that `distance` falls.
    pub fn update(&self, cx: Cx, distance: Tensor) {
        let all = self.updated(cx);
        let tensors: Vec<Tensor> = all.iter().map(|(_, tensor, _)| *tensor).collect();
        let gradients = distance.grad(&tensors);
        cx.trace().in_phase(Phase::Update, || {
            for ((name, tensor, rates), gradient) in all.into_iter().zip(gradients) {
                descend(cx, (name, tensor), gradient, rates);
            }
        });
    }

    /// What is learned, with learning rate and momentum.
    fn updated(&self, cx: Cx) -> Vec<(&'static str, Tensor, [Tensor; 2])> {
        let all = self.all(cx);
        let number = |name: &str| cx.input(name, DType::F32, &[]);
        let learned = |name, tensor, rate: &str| (name, tensor, [number(rate), number(IMAGE_MOMENTUM_RATE)]);
        let mut updated = vec![learned(IMAGES, all.images, IMAGE_RATE)];
        updated.extend(all.labels.map(|labels| learned(LABELS, labels, LABEL_RATE)));
        if self.has_rate {
            updated.push(learned(STUDENT_RATE, self.rate(cx), STUDENT_RATE_RATE));
        }
        updated
    }
}

/// A parameter that is learned.
fn learned(cx: Cx, name: &str, shape: &[usize]) -> Tensor {
    cx.param(name, shape, Init::Normal { std: 1.0 })
}

impl SetPart {
    /// The mean cross entropy of logits with the labels that are learned, or else with `classes`, `i32[N]`.
    pub fn loss(&self, logits: Tensor, classes: Tensor) -> Tensor {
        let Some(labels) = self.labels else {
            return logits.cross_entropy(classes);
        };
        let count = logits.dim(0) as f64;
        (labels.softmax() * logits.log_softmax()).sum() * (-1.0 / count)
    }
}

/// The logits of labels at first: the class has a probability of nine tenths, and the others share the rest.
pub(crate) fn first_labels(labels: &[u32], classes: usize) -> Vec<f32> {
    let others = classes.saturating_sub(1).max(1) as f64;
    let logit = (CONFIDENCE * others / (1.0 - CONFIDENCE)).ln() as f32;
    let row = |label: &u32| {
        let label = *label as usize;
        (0..classes).map(move |class| if class == label { logit } else { 0.0 })
    };
    labels.iter().flat_map(row).collect()
}

/// The softmax of each row of logits.
pub(crate) fn probabilities(logits: &[f32], classes: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(logits.len());
    for row in logits.chunks_exact(classes) {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f64> = row.iter().map(|logit| f64::from(logit - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        all.extend(powers.iter().map(|power| (power / sum) as f32));
    }
    all
}
