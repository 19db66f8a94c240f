//! Gradient matching as a graph: gradients of real and of synthetic images, their distance, its derivative by the
//! synthetic images, and their update (lines 5 to 10 of algorithm 1).

use crate::distance::Distance;
use crate::network::{Network, matched};
use crate::sgd::descend;
use lessen_graph::{DType, Phase, Tensor, concat};
use lessen_nn::{Context, Init, ParamSpec};

/// Parameter with the synthetic images, `[classes * per_class, H, W, C]`, class by class.
pub const IMAGES: &str = "condensed.images";

/// Data input with the real images, `[classes * real_batch, H, W, C]`, class by class.
pub(crate) const REAL: &str = "condensed.real";

/// Data input with the learning rate of the images, `f32[]`.
pub(crate) const IMAGE_RATE: &str = "condensed.image_rate";

/// Data input with the momentum of the images, `f32[]`.
pub(crate) const IMAGE_MOMENTUM_RATE: &str = "condensed.image_momentum";

/// Result with the distance of each matched parameter, `f32[parameters]`.
pub(crate) const DISTANCES: &str = "distances";

/// Numbers that decide the graph of an update of the images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Matching {
    /// Number of classes.
    pub classes: usize,
    /// Synthetic images of a class.
    pub per_class: usize,
    /// Real images of a class.
    pub real_batch: usize,
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// Distance of gradients.
    pub distance: Distance,
    /// Weight of the gradients of each class; they are left out if `None`.
    pub intra: Option<f64>,
    /// Weight of the gradients of all classes together; they are left out if `None`.
    pub inter: Option<f64>,
}

/// The parameter with the synthetic images.
pub(crate) fn images_of<'g>(cx: &Context<'g>, count: usize, shape: [usize; 3]) -> Tensor<'g> {
    cx.param(IMAGES, &[&[count][..], &shape].concat(), Init::Normal { std: 1.0 })
}

/// Gradients of the matched parameters, in their order.
type Gradients<'g> = Vec<Tensor<'g>>;

impl Matching {
    /// Adds an update of the images to a graph, and returns its results.
    pub fn add<'g>(&self, cx: &Context<'g>, network: &dyn Network, params: &[ParamSpec]) -> Vec<(String, Tensor<'g>)> {
        let images = images_of(cx, self.classes * self.per_class, self.shape);
        let (distances, gradient) = self.distances(cx, network, params, images);
        cx.trace().in_phase(Phase::Update, || {
            let rates = [IMAGE_RATE, IMAGE_MOMENTUM_RATE].map(|name| cx.input(name, DType::F32, &[]));
            descend(cx, (IMAGES, images), gradient, rates);
        });
        vec![(DISTANCES.to_string(), distances)]
    }

    /// The distance of each matched parameter, `f32[parameters]`, and the derivative of their sum by the images.
    pub fn distances<'g>(
        &self,
        cx: &Context<'g>,
        network: &dyn Network,
        params: &[ParamSpec],
        images: Tensor<'g>,
    ) -> (Tensor<'g>, Tensor<'g>) {
        let shape = |count: usize| [&[count][..], &self.shape].concat();
        let real = cx.input(REAL, DType::F32, &shape(self.classes * self.real_batch));
        let weights: Gradients<'g> = matched(params)
            .map(|param| cx.param(&param.name, &param.shape, param.init))
            .collect();
        let gradients = |images: Tensor<'g>, count: usize, class: usize| {
            let own = images.slice(0, class * count, count);
            let labels = cx.trace().full(DType::I32, &[count], class as f64);
            network.logits(cx, own).cross_entropy(labels).grad(&weights)
        };
        let mut distances: Gradients<'g> = vec![cx.trace().full(DType::F32, &[], 0.0); weights.len()];
        let mut sums: [Option<Gradients<'g>>; 2] = [None, None];
        for class in 0..self.classes {
            let pair = [
                gradients(real, self.real_batch, class),
                gradients(images, self.per_class, class),
            ];
            if let Some(weight) = self.intra {
                self.add_distances(&mut distances, &pair, weight);
            }
            if self.inter.is_some() {
                for (sum, own) in sums.iter_mut().zip(pair) {
                    *sum = Some(match sum.take() {
                        None => own,
                        Some(sum) => sum.into_iter().zip(own).map(|(sum, own)| sum + own).collect(),
                    });
                }
            }
        }
        if let (Some(weight), [Some(real), Some(synthetic)]) = (self.inter, sums) {
            let share = 1.0 / self.classes as f64;
            let means = [real, synthetic].map(|sums| sums.into_iter().map(|sum| sum * share).collect());
            self.add_distances(&mut distances, &means, weight);
        }
        let total = distances.iter().copied().reduce(|a, b| a + b);
        let total = total.unwrap_or_else(|| cx.trace().full(DType::F32, &[], 0.0));
        let gradient = total.grad(&[images])[0];
        let rows: Vec<Tensor<'g>> = distances.iter().map(|distance| distance.reshape(&[1])).collect();
        (concat(&rows, 0), gradient)
    }

    /// Adds the distances of a pair of gradients, with a weight, to those of each parameter.
    fn add_distances<'g>(&self, distances: &mut [Tensor<'g>], [real, synthetic]: &[Gradients<'g>; 2], weight: f64) {
        for ((distance, real), synthetic) in distances.iter_mut().zip(real).zip(synthetic) {
            *distance = *distance + self.distance.of_layer(*synthetic, *real) * weight;
        }
    }
}
