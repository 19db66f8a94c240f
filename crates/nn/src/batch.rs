//! The layout of a batch, of sequences or of images, and what models read of it.
//!
//! A model is traced for a layout, and its methods are all that it knows of a batch. Models of texts read tokens
//! ([`BatchShape::ids`]), models of images read images ([`BatchShape::images`]), and a layout of the other kind is
//! refused there, at the first thing that a model reads.

use lessen_graph::{DType, Tensor};

use crate::context::Cx;
use crate::init::Init;
use crate::layers::{embedding, mean_pool, positions};
use crate::names;
use crate::observations::NO_LABEL;

/// The layout of a batch: sequences with padding, or without, or images.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BatchShape {
    /// Rows of equal length, `[B, T]`. Data inputs: the padding mask `mask` (`bool[B, T]`, true for a real token).
    Padded {
        /// Number of sequences, `B`.
        size: usize,
        /// Sequence length in tokens with padding, `T`.
        length: usize,
    },
    /// One row of tokens, `[1, N]`, in which sequences follow each other. Data inputs: `positions` (`i32[N]`, of each
    /// token in its sequence), `starts` (`i32[B + 1]`, ascending: sequence `b` has the tokens `starts[b] .. starts[b +
    /// 1]`), `firsts` (`i32[B]`, the first token of each sequence, and of an empty one any) and `segments` (`i32[N]`,
    /// the number of each token's sequence). Tokens from `starts[B]` on belong to no sequence; their number in
    /// `segments` is `B`.
    Packed {
        /// Number of sequences, `B`; some may be empty.
        size: usize,
        /// Number of tokens, `N`.
        tokens: usize,
    },
    /// The row of [`BatchShape::Packed`] with the places of the tokens that a masked language model is to predict, so
    /// that it computes nothing for the other tokens. Data inputs beside the row's: `places` (`i32[M]`, the tokens'
    /// places in the row), and with a loss `labels` (`i32[M]`, -100 where there is no label).
    Masked {
        /// Number of sequences, `B`.
        size: usize,
        /// Number of tokens, `N`.
        tokens: usize,
        /// Number of tokens to predict, `M`.
        masked: usize,
    },
    /// Images of one size. Data inputs: `images` (`f32[B, H, W, C]`), and with a loss the data inputs of the model's
    /// [`Task`](crate::Task), or for mixed images `targets` (`f32[B, classes]`, the share of each class in an image)
    /// and `weights` (`f32[B]`).
    Images {
        /// Number of images, `B`.
        size: usize,
        /// Height, width and channels of an image, `[H, W, C]`.
        image: [usize; 3],
        /// Whether images are mixed, so that they have shares of classes in place of labels.
        mixed: bool,
    },
}

impl BatchShape {
    /// Number of sequences or images, `B`.
    pub fn size(self) -> usize {
        match self {
            BatchShape::Padded { size, .. }
            | BatchShape::Packed { size, .. }
            | BatchShape::Masked { size, .. }
            | BatchShape::Images { size, .. } => size,
        }
    }

    /// The shape of tokens: `[B, T]`, or `[1, N]` without padding. Of images it is the shape of their pixels, `[B, H ·
    /// W]`, by which sizes of batches are compared.
    pub fn tokens(self) -> [usize; 2] {
        match self {
            BatchShape::Padded { size, length } => [size, length],
            BatchShape::Packed { tokens, .. } | BatchShape::Masked { tokens, .. } => [1, tokens],
            BatchShape::Images { size, image, .. } => [size, image[0] * image[1]],
        }
    }

    /// Whether sequences follow each other without padding.
    fn is_packed(self) -> bool {
        matches!(self, BatchShape::Packed { .. } | BatchShape::Masked { .. })
    }

    /// Whether the examples are mixed with each other, so that they have shares of classes in place of labels.
    pub(crate) fn is_mixed(self) -> bool {
        matches!(self, BatchShape::Images { mixed: true, .. })
    }

    /// The data input `images`, `f32[B, H, W, C]`.
    ///
    /// # Panics
    /// If it is a batch of texts.
    #[track_caller]
    pub(crate) fn images(self, cx: Cx) -> Tensor {
        match self {
            BatchShape::Images { size, image, .. } => {
                let [height, width, channels] = image;
                cx.input(names::IMAGES, DType::F32, &[size, height, width, channels])
            }
            _ => cx.trace().fail("a model of images cannot read a batch of texts"),
        }
    }

    /// The data input with a number for each token: `tokens`, `types` or `labels`.
    ///
    /// # Panics
    /// If it is a batch of images.
    #[track_caller]
    pub(crate) fn ids(self, cx: Cx, name: &str) -> Tensor {
        if let BatchShape::Images { .. } = self {
            cx.trace().fail("a model of texts cannot read a batch of images");
        }
        cx.input(name, DType::I32, &self.tokens())
    }

    /// Learned position embeddings of all tokens, `[T, width]` from the table `NAME.weight` of `rows` rows.
    ///
    /// # Panics
    /// If padded sequences are longer than the table.
    #[track_caller]
    pub(crate) fn position_embeddings(self, cx: Cx, name: &str, table: (usize, usize), init: Init) -> Tensor {
        match self {
            BatchShape::Padded { length, .. } => positions(cx, name, 0..length, table, init),
            _ => embedding(cx, name, self.positions(cx), table, init),
        }
    }

    /// The position of each token of a row in its sequence, `i32[T]`.
    pub(crate) fn positions(self, cx: Cx) -> Tensor {
        match self {
            BatchShape::Padded { length, .. } => cx.trace().iota(DType::I32, &[length], 0),
            _ => cx.input("positions", DType::I32, &self.tokens()[1..]),
        }
    }

    /// The padding mask, `bool[B, T]`; none without padding.
    pub(crate) fn mask(self, cx: Cx) -> Option<Tensor> {
        matches!(self, BatchShape::Padded { .. }).then(|| cx.input("mask", DType::Bool, &self.tokens()))
    }

    /// The starts of sequences, `i32[B + 1]`; none with padding.
    pub(crate) fn starts(self, cx: Cx) -> Option<Tensor> {
        self.is_packed()
            .then(|| cx.input("starts", DType::I32, &[self.size() + 1]))
    }

    /// Where tokens belong to a sequence, `bool[1, N]`; none with padding.
    pub(crate) fn in_segments(self, cx: Cx) -> Option<Tensor> {
        self.is_packed().then(|| {
            let segments = self.segments(cx);
            segments
                .lt(segments.scalar_like(self.size() as f64))
                .reshape(&self.tokens())
        })
    }

    /// Where tokens are real, `bool[B, T]` or `bool[1, N]`.
    pub(crate) fn real(self, cx: Cx) -> Option<Tensor> {
        self.mask(cx).or_else(|| self.in_segments(cx))
    }

    /// 1 where a token follows another one of its sequence and 0 elsewhere, `f32[B, T]`, or `f32[1, N]` without
    /// padding.
    #[track_caller]
    pub(crate) fn follows(self, cx: Cx) -> Tensor {
        if self.is_packed() {
            let segments = self.segments(cx);
            let same = segments.eq(delayed(segments, 0, -1.0)).cast(DType::F32);
            let real = segments.lt(segments.scalar_like(self.size() as f64)).cast(DType::F32);
            return (same * real).reshape(&self.tokens());
        }
        let real = cx.input("mask", DType::Bool, &self.tokens()).cast(DType::F32);
        real * delayed(real, 1, 0.0)
    }

    /// Where sequences have tokens, `bool[B]`; none with padding.
    pub(crate) fn not_empty(self, cx: Cx) -> Option<Tensor> {
        let lengths = self.lengths(cx)?;
        Some(lengths.gt(lengths.scalar_like(0.0)))
    }

    /// The number of tokens of each sequence, `i32[B]`; none with padding.
    fn lengths(self, cx: Cx) -> Option<Tensor> {
        let (starts, size) = (self.starts(cx)?, self.size());
        Some(starts.slice(0, 1, size) - starts.slice(0, 0, size))
    }

    /// The number of each token's sequence, `i32[N]`; none with padding.
    pub(crate) fn segments_of(self, cx: Cx) -> Option<Tensor> {
        self.is_packed().then(|| self.segments(cx))
    }

    fn segments(self, cx: Cx) -> Tensor {
        cx.input("segments", DType::I32, &[self.tokens()[1]])
    }

    /// The states of the first tokens, `[B, W]`, of `x`, `[B, T, W]` or `[1, N, W]`.
    #[track_caller]
    pub(crate) fn first(self, cx: Cx, x: Tensor) -> Tensor {
        let size = self.size();
        if self.is_packed() {
            x.flatten_rows().gather(cx.input("firsts", DType::I32, &[size]))
        } else {
            x.slice(1, 0, 1).reshape(&[size, x.dim(-1)])
        }
    }

    /// The states of the tokens to predict, `[M, W]`, of `x`, `[1, N, W]`, in a batch that names these tokens, and all
    /// of `x` in other batches.
    #[track_caller]
    pub(crate) fn masked(self, cx: Cx, x: Tensor) -> Tensor {
        match self {
            BatchShape::Masked { masked, .. } => x.flatten_rows().gather(cx.input("places", DType::I32, &[masked])),
            _ => x,
        }
    }

    /// Labels of tokens: `i32[M]` in a batch that names the tokens to predict, `i32[B, T]` or `i32[1, N]` in other
    /// batches.
    pub(crate) fn token_labels(self, cx: Cx) -> Tensor {
        match self {
            BatchShape::Masked { masked, .. } => cx.input(names::LABELS, DType::I32, &[masked]),
            _ => self.ids(cx, names::LABELS),
        }
    }

    /// The places of the first and the last token of answers in their rows of tokens, `i32[2, B]`; -100 where there is
    /// none.
    pub(crate) fn answers(self, cx: Cx) -> Tensor {
        cx.input("answers", DType::I32, &[2, self.size()])
    }

    /// Which tokens of its row a sequence has, `bool[B, T]`, or `bool[B, N]` without padding.
    pub(crate) fn own_tokens(self, cx: Cx) -> Tensor {
        let (size, [_, tokens]) = (self.size(), self.tokens());
        self.mask(cx).unwrap_or_else(|| {
            let shape = [size, tokens];
            let segments = self.segments(cx).reshape(&[1, tokens]).broadcast_to(&shape);
            segments.eq(cx.trace().iota(DType::I32, &shape, 0))
        })
    }

    /// Which values of [`BatchShape::masked`] belong to real tokens: `bool[M]`, `bool[B, T]` or `bool[1, N]`.
    pub(crate) fn predicted(self, cx: Cx) -> Option<Tensor> {
        match self {
            BatchShape::Masked { .. } => {
                let labels = self.token_labels(cx);
                Some(labels.ne(labels.scalar_like(NO_LABEL)))
            }
            _ => self.real(cx),
        }
    }

    /// The sum over the tokens of each sequence, `f32[B, W]`, of `x` by weights of tokens: `f32[B, T, W]` and `f32[B,
    /// T]`, or `f32[1, N, W]` and `f32[1, N]` without padding.
    ///
    /// # Panics
    /// If it is a batch of images.
    #[track_caller]
    pub fn weighted_sum(self, cx: Cx, x: Tensor, weights: Tensor) -> Tensor {
        let weighted = x * weights.unsqueeze(-1);
        if self.is_packed() {
            let sums = weighted.flatten_rows().scatter_add(self.segments(cx), self.size() + 1);
            return sums.slice(0, 0, self.size());
        }
        weighted.sum_axes(&[1])
    }

    /// The mean over the tokens of each sequence, `[B, W]`, of `x`, `f32[B, T, W]` or `f32[1, N, W]`; zeros where there
    /// are none.
    #[track_caller]
    pub(crate) fn mean(self, cx: Cx, x: Tensor) -> Tensor {
        let Some(lengths) = self.lengths(cx) else {
            return mean_pool(x, cx.input("mask", DType::Bool, &self.tokens()));
        };
        let size = self.size();
        let sums = x
            .flatten_rows()
            .scatter_add(self.segments(cx), size + 1)
            .slice(0, 0, size);
        let lengths = lengths.cast(x.dtype());
        sums / lengths.maximum(lengths.scalar_like(1.0)).unsqueeze(-1)
    }
}

/// The elements of `x` one place later along an axis, with `first` in front.
#[track_caller]
pub(crate) fn delayed(x: Tensor, axis: isize, first: f64) -> Tensor {
    x.pad(axis, 1, 0, first).slice(axis, 0, x.dim(axis))
}
