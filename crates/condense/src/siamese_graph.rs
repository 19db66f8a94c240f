//! Siamese augmentation as a graph: images changed by parameters that are inputs, so that nothing is compiled anew.
//!
//! Every image goes through all that its strategy can do, with numbers that change nothing where another operation was
//! drawn: pixels gathered from four places each, with weights; brightness, saturation and contrast; a mask.

use crate::siamese::{Change, Operation, Strategy};
use lessen_device::Host;
use lessen_graph::{DType, Tensor};
use lessen_nn::Cx;

/// Data input with the numbers of the four pixels that each pixel is made of, `i32[changes, 4, H * W]`.
const PIXELS: &str = "condensed.change.pixels";

/// Data input with their weights, `f32[changes, 4, H * W]`.
const WEIGHTS: &str = "condensed.change.weights";

/// Data input with brightness, and the factors of saturation and contrast less 1, `f32[3, changes]`.
const COLOR: &str = "condensed.change.color";

/// Data input with 1 where a pixel is kept and 0 elsewhere, `f32[changes, H * W]`.
const MASK: &str = "condensed.change.mask";

/// Changes as arrays for the inputs of a graph.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangeArrays {
    pixels: Vec<i32>,
    weights: Vec<f32>,
    color: Vec<f32>,
    mask: Vec<f32>,
}

impl ChangeArrays {
    /// Changes of whole batches of images of this `[H, W, C]`, for [`Changes::of_batch`].
    pub fn of_batches(changes: &[Change], shape: [usize; 3]) -> ChangeArrays {
        ChangeArrays::of_images(changes, shape, 1)
    }

    /// Changes of images of this `[H, W, C]` that follow each other in batches of `batch`, for [`Changes::of_each`].
    pub fn of_images(changes: &[Change], shape: [usize; 3], batch: usize) -> ChangeArrays {
        let [height, width, _] = shape;
        let size = height * width;
        let count = changes.len() * size;
        let mut arrays = ChangeArrays {
            pixels: vec![0; 4 * count],
            weights: vec![0.0; 4 * count],
            color: vec![0.0; 3 * changes.len()],
            mask: Vec::with_capacity(count),
        };
        for (number, change) in changes.iter().enumerate() {
            for (place, value) in change.color().into_iter().enumerate() {
                arrays.color[place * changes.len() + number] = value as f32;
            }
            let first = number % batch * size;
            for pixel in 0..size {
                let place = [pixel / width, pixel % width];
                arrays.mask.push(if change.keeps(place) { 1.0 } else { 0.0 });
                for (corner, (from, weight)) in change.corners(shape, place).into_iter().enumerate() {
                    let at = (4 * number + corner) * size + pixel;
                    arrays.pixels[at] = (first + from) as i32;
                    arrays.weights[at] = weight as f32;
                }
            }
        }
        arrays
    }

    /// The inputs of the graph that [`Changes::declare`] declares, and those that it does without.
    pub fn inputs(&self) -> [(&'static str, Host<'_>); 4] {
        [
            (PIXELS, Host::I32(&self.pixels)),
            (WEIGHTS, Host::F32(&self.weights)),
            (COLOR, Host::F32(&self.color)),
            (MASK, Host::F32(&self.mask)),
        ]
    }
}

/// Changes as inputs of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    shape: [usize; 3],
    /// Numbers and weights of pixels, if pixels can move.
    moves: Option<[Tensor; 2]>,
    color: Option<Tensor>,
    mask: Option<Tensor>,
}

impl Changes {
    /// Declares `count` changes by a strategy for images of this `[H, W, C]`.
    #[track_caller]
    pub fn declare(cx: Cx, strategy: Strategy, count: usize, shape: [usize; 3]) -> Changes {
        let size = shape[0] * shape[1];
        let input = |name: &str, dtype: DType, shape: &[usize]| cx.input(name, dtype, shape);
        Changes {
            shape,
            moves: strategy.moves().then(|| {
                let shape = [count, 4, size];
                [input(PIXELS, DType::I32, &shape), input(WEIGHTS, DType::F32, &shape)]
            }),
            color: strategy
                .has(Operation::Color)
                .then(|| input(COLOR, DType::F32, &[3, count])),
            mask: strategy
                .has(Operation::Cutout)
                .then(|| input(MASK, DType::F32, &[count, size])),
        }
    }

    /// The images `[N, H, W, C]`, all by change number `number`.
    #[track_caller]
    pub fn of_batch(&self, images: Tensor, number: usize) -> Tensor {
        let [height, width, channels] = self.shape;
        let (count, size) = (images.dim(0), height * width);
        let mut x = images.reshape(&[count, size, channels]);
        if let Some(moves) = self.moves {
            let [pixels, weights] = moves.map(|input| input.slice(0, number, 1).reshape(&[4, size]));
            // A row of the table is one pixel of all images.
            let table = x.permute(&[1, 0, 2]).reshape(&[size, count * channels]);
            let moved = (table.gather(pixels) * weights.unsqueeze(-1)).sum_axes(&[0]);
            x = moved.reshape(&[size, count, channels]).permute(&[1, 0, 2]);
        }
        self.recoloured(x, (number, 1)).reshape(&images.shape())
    }

    /// The images `[N, H, W, C]`, each by its own change, of which `first` is the number of the first.
    #[track_caller]
    pub fn of_each(&self, images: Tensor, first: usize) -> Tensor {
        let [height, width, channels] = self.shape;
        let (count, size) = (images.dim(0), height * width);
        let mut x = images.reshape(&[count, size, channels]);
        if let Some(moves) = self.moves {
            let [pixels, weights] = moves.map(|input| input.slice(0, first, count));
            let table = x.reshape(&[count * size, channels]);
            x = (table.gather(pixels) * weights.unsqueeze(-1)).sum_axes(&[1]);
        }
        self.recoloured(x, (first, count)).reshape(&images.shape())
    }

    /// Colour and mask of images `[N, H * W, C]` by one change, or by as many as there are images.
    fn recoloured(&self, x: Tensor, (first, count): (usize, usize)) -> Tensor {
        let (images, channels, mut x) = (x.dim(0), x.dim(2), x);
        if let Some(color) = self.color {
            let factor = |number: usize| {
                let own = color.slice(0, number, 1).slice(1, first, count);
                own.reshape(&[count, 1, 1])
            };
            x = x + factor(0);
            if channels > 1 {
                x = x + (x - x.mean_last()) * factor(1);
            }
            let mean = x.mean_axes(&[1, 2]).reshape(&[images, 1, 1]);
            x = x + (x - mean) * factor(2);
        }
        match self.mask {
            Some(mask) => x * mask.slice(0, first, count).unsqueeze(-1),
            None => x,
        }
    }
}
