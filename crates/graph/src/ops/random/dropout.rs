//! Dropout (Srivastava et al. 2014): elements become zero at random, the others grow so that the mean stays.
//! The mask is not stored: the backward pass regenerates it from the key.

use lessen_base::Result;

use crate::array::Array;
use crate::attrs::Attrs;
use crate::named::Named;
use crate::op::{Cost, OnSlices, Op, OutRole, Role, RowWise, Vjp};
use crate::ops::random::bits::RandomBits;
use crate::ops::rules::{arity, float, key, key_of, probability, rows};
use crate::ops::shape::concat::concat;
use crate::philox::{dropout_keeps, dropout_scale, dropout_threshold};
use crate::trace::Tensor;
use crate::types::{DType, Type};

/// Inputs `x` and a key `u32[2]`. Element `i` in row-major order is kept if half-word `i % 8` (low halves
/// first) of Philox block `i / 8` of the stream is at least `threshold = round(65536 p)`; kept elements are
/// multiplied by `65536 / (65536 - threshold)`, the others are exactly 0, even where `x` is infinite or NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dropout {
    /// Probability of zero, in `0..1`.
    pub p: f64,
    /// Sets the operation's bits apart from those of every other operation with the same key.
    pub stream: u32,
}

named!("dropout": Dropout { p, stream });

impl Op for Dropout {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn attrs(&self) -> Attrs {
        self.to_attrs()
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        float(&inputs[0])?;
        key(&inputs[1])?;
        probability(self.p)?;
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (key, threshold, scale) = (key_of(inputs[1]), dropout_threshold(self.p), dropout_scale(self.p));
        let keeps = |i: usize| dropout_keeps(key, self.stream, i as u64, threshold);
        let data = inputs[0]
            .data
            .iter()
            .enumerate()
            .map(|(i, &x)| if keeps(i) { x * scale } else { 0.0 });
        vec![Array::new(outputs[0].clone(), data.collect())]
    }

    fn vjp<'g>(&self, cx: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![
            cx.cotangents[0].map(|dy| dy.trace().apply1(*self, &[dy, cx.inputs[1]])),
            None,
        ]
    }

    /// The half-words of [`RandomBits`] of the same stream, compared with the threshold.
    fn decompose<'g>(&self, inputs: &[Tensor<'g>]) -> Option<Vec<Tensor<'g>>> {
        let (x, key) = (inputs[0], inputs[1]);
        let n = x.ty().numel();
        let shape = vec![n.div_ceil(2), 1];
        let words = x
            .trace()
            .apply1(
                RandomBits {
                    stream: self.stream,
                    shape,
                },
                &[key],
            )
            .cast(DType::F64);
        let high = (words * (1.0 / 65536.0)).cast(DType::U32).cast(DType::F64);
        let low = words - high * 65536.0;
        let halves = concat(&[low, high], 1).reshape(&[n.div_ceil(2) * 2]);
        let halves = halves.slice(0, 0, n).reshape(&x.shape());
        let keep = halves.ge(halves.scalar_like(dropout_threshold(self.p).into()));
        Some(vec![keep.select(x * dropout_scale(self.p), x.scalar_like(0.0))])
    }

    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        RowWise::by_rows(rows(&inputs[0]), &[Role::Rows, Role::Whole], &[OutRole::Rows])
    }

    /// A random number depends on the number of its element.
    fn on_slices(&self, _: usize, _: &[Type], _: &[Type]) -> OnSlices {
        OnSlices::No
    }

    fn in_place(&self, input: usize, output: usize, _: &[Type], _: &[Type]) -> bool {
        (input, output) == (0, 0)
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(7.0 * inputs[0].numel() as f64, inputs, outputs)
    }
}

impl<'g> Tensor<'g> {
    /// Sets each element to zero with probability `p` and multiplies the others by `1 / (1 - p)`. The random bits
    /// follow from the key `u32[2]` and the place of the call in the trace. With `p = 0` it returns this tensor.
    #[track_caller]
    pub fn dropout(self, p: f64, key: Tensor<'g>) -> Tensor<'g> {
        if p == 0.0 {
            return self;
        }
        self.dropout_of(p, self.trace().new_stream(), key)
    }

    /// [`Tensor::dropout`] with the random bits of a stream.
    #[track_caller]
    pub(crate) fn dropout_of(self, p: f64, stream: u32, key: Tensor<'g>) -> Tensor<'g> {
        self.trace().apply1(Dropout { p, stream }, &[self, key])
    }
}
