//! The supernet: all networks of a space in one, with shared weights and factorised mixing.
//!
//! A block of table 2.10 has 3 x 3 x 16 combinations, and a supernet that keeps each alive holds as many results of
//! every layer. Here a block is one path, since a choice is mixed where it enters:
//!
//! - Kernels: convolutions are linear, so the sum of the results of all kernels is the result of the sum of the
//!   kernels. These are the centres of one kernel of the largest size, which differ by a mask. Nothing is lost.
//! - Expansions: a smaller one has the first channels of a larger one. The 1 x 1 layer back is linear, too, so the sum
//!   over the expansions is one layer with a masked weight for each. Channels between do not read each other before
//!   it.
//! - Bits: inputs and weights are sums of what the bits make of them, and the layer multiplies these sums (Cai and
//!   Vasconcelos 2020). Where one possibility has the share 1 it is the layer of those bits; in between, it also has
//!   products of inputs in some bits with weights in others, which no network of the space has.
//! - A block that is left out has the share of its result that the others leave.
//!
//! With shares of 0 and 1 the supernet computes what the network of that choice computes, by a part of the same
//! weights.

use crate::gates::Gates;
use crate::rounding::{Rounding, magnitudes, magnitudes_of_channels, mixed};
use crate::space::{Aspect, BlockSpace, Space};
use lessen_base::Result;
use lessen_data::images::ImageSource;
use lessen_graph::{Array, DType, Tensor, Trace};
use lessen_nn::layers::{Convolution, Spread};
use lessen_nn::{Cx, Init, ParamSpec};

/// What is added to variances.
const EPS: f64 = 1e-5;

impl Space {
    /// The logits of the classes, `[N, classes]`, of images `[N, H, W, C]`. Norms measure the spread of the batch in
    /// this way: shares change with every step, so that running statistics would say nothing.
    #[track_caller]
    pub fn supernet(&self, cx: Cx, images: Tensor, (classes, spread): (usize, Spread), gates: &Gates) -> Tensor {
        let norm = |cx: Cx, name: &str, x| norm(cx, name, x, spread, magnitudes);
        let ends = [self.bits];
        let ends = Rounding::of_bits(&ends, None);
        let stem = Convolution::square(self.stem, 3, self.stem_stride);
        let mut x = relu6(norm(cx, "stem", plain(cx, "stem", images, stem, ends)));
        for (number, block) in self.blocks.iter().enumerate() {
            x = cx.scope(&format!("blocks.{number}"), |cx| {
                block.mixed(cx, x, (number, gates), spread)
            });
        }
        let last = Convolution::square(self.last, 1, 1);
        let x = relu6(norm(cx, "last", plain(cx, "last", x, last, ends)));
        let init = Init::Uniform {
            bound: 1.0 / (self.last as f64).sqrt(),
        };
        let weight = cx.param("classifier.weight", &[classes, self.last], init);
        let bias = cx.param("classifier.bias", &[classes], init);
        ends.of_rows(x.global_avg_pool2d()).matmul_t(ends.of_rows(weight)) + bias
    }
}

impl BlockSpace {
    /// The block of all its choices.
    #[track_caller]
    fn mixed(&self, cx: Cx, x: Tensor, (number, gates): (usize, &Gates), spread: Spread) -> Tensor {
        let inputs = x.dim(-1);
        let share = |aspect| gates.of(number, aspect);
        let [pointwise, depthwise] = gates.rounding(number, &self.bits);
        let expansions = share(Aspect::Expansion);
        let width = |place: usize| inputs * self.expansions[place].max(1);
        let inner = width(self.expansions.len() - 1);
        // The first channels count by the shares of the expansions that have them.
        let alive = |place: usize| {
            (0..inner)
                .map(|channel| f64::from(u8::from(channel < width(place))))
                .collect()
        };
        let alive = |place: usize| cx.trace().constant(Array::f32(&[inner], alive(place)));
        let range = |y: Tensor| match expansions {
            None => magnitudes(y),
            Some(_) => magnitudes_of_channels(y, mixed(expansions, self.expansions.len(), alive)),
        };
        let inner_norm = |cx: Cx, name: &str, x| norm(cx, name, x, spread, range);
        let mut y = x;
        if self.expansions[0] > 0 {
            let expand = Convolution::square(inner, 1, 1);
            y = relu6(inner_norm(cx, "expand", plain(cx, "expand", y, expand, pointwise)));
        }
        let largest = self.kernels[self.kernels.len() - 1];
        let how = Convolution::square(inner, largest, self.stride).grouped(inner);
        let weight = cx.param("depthwise.weight", &[inner, 1, largest, largest], how.init);
        let kernels = share(Aspect::Kernel);
        let weight = mixed(kernels, self.kernels.len(), |place| {
            let own = match kernels {
                None => weight,
                Some(_) => weight * cx.trace().constant(centre(self.kernels[place], largest)),
            };
            depthwise.of_rows(own)
        });
        y = depthwise.of(y, range(y)).conv2d(weight, how.options);
        y = relu6(inner_norm(cx, "depthwise", y));
        let how = Convolution::square(self.out, 1, 1);
        let weight = cx.param("project.weight", &[self.out, inner, 1, 1], how.init);
        let weight = mixed(expansions, self.expansions.len(), |place| {
            let own = match expansions {
                None => weight,
                Some(_) => weight * alive(place).reshape(&[1, inner, 1, 1]),
            };
            pointwise.of_rows(own)
        });
        let projected = pointwise.of(y, range(y)).conv2d(weight, how.options);
        y = norm(cx, "project", projected, spread, magnitudes);
        if let Some(skip) = share(Aspect::Skip) {
            y = y * skip.slice(0, 0, 1).reshape(&[]);
        }
        if x.shape() == y.shape() { x + y } else { y }
    }
}

/// A convolution whose weight has no choice but its bits.
#[track_caller]
fn plain(cx: Cx, name: &str, x: Tensor, how: Convolution, rounding: Rounding<'_>) -> Tensor {
    let shape = [how.out, x.dim(-1) / how.options.groups, how.kernel[0], how.kernel[1]];
    let weight = cx.param(&format!("{name}.weight"), &shape, how.init);
    rounding.of_rows(x).conv2d(rounding.of_rows(weight), how.options)
}

/// Normalization by the batch. Where numbers are rounded before it, `range` gives the largest magnitude of each image.
#[track_caller]
fn norm(cx: Cx, name: &str, x: Tensor, spread: Spread, range: impl FnOnce(Tensor) -> Tensor) -> Tensor {
    let parameter = |own: &str, init| cx.param(&format!("{name}_norm.{own}"), &[x.dim(-1)], init);
    let (weight, bias) = (parameter("weight", Init::Ones), parameter("bias", Init::Zeros));
    let x = spread.of_input(x, range);
    let [mean, variance, _] = spread.moments(cx, x.flatten_rows());
    x.scale_shift(mean, weight * (variance + EPS).rsqrt(), bias)
}

#[track_caller]
fn relu6(x: Tensor) -> Tensor {
    x.clamp(0.0, 6.0)
}

/// The mask of the centre of a kernel, `[1, 1, largest, largest]`.
fn centre(kernel: usize, largest: usize) -> Array {
    let edge = (largest - kernel) / 2;
    let is_in = |place: usize| (edge..edge + kernel).contains(&place);
    let ones = (0..largest * largest).map(|at| f64::from(u8::from(is_in(at / largest) && is_in(at % largest))));
    Array::f32(&[1, 1, largest, largest], ones.collect())
}

/// The weights of the supernet of a space.
///
/// # Errors
/// Images that its networks cannot read.
pub(crate) fn parameters(space: &Space, source: &dyn ImageSource) -> Result<Vec<ParamSpec>> {
    let [height, width, channels] = source.shape();
    let trace = Trace::new();
    trace.attempt(|| {
        let cx = Cx::new(*trace, true);
        let images = cx.input("images", DType::F32, &[2, height, width, channels]);
        let gates = Gates::of_network(*trace, space, &vec![[0; 5]; space.blocks.len()]);
        space.supernet(cx, images, (source.classes(), Spread::default()), &gates);
        cx.params()
    })
}
