//! Dropout (Srivastava et al. 2014): elements become zero at random, the others grow so that the mean stays.
//! The mask is not stored: the backward pass regenerates it from the key.

use std::sync::Arc;

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{OnSlices, Op, Vjp};
use crate::ops::random::bits::RandomBits;
use crate::ops::rules::{arity, float, key, key_of, probability};
use crate::ops::shape::concat::concat;
use crate::philox::{dropout_keeps, dropout_scale, dropout_threshold};
use crate::size::checked_numel;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs `x` and a key `u32[2]`. Element `i` in row-major order, counted from `first` on, is kept if half-word `i % 8`
/// (low halves first) of Philox block `i / 8` of the stream is at least `threshold = round(65536 p)`; kept elements are
/// multiplied by `65536 / (65536 - threshold)`, the others are exactly 0, even where `x` is infinite or NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dropout {
    /// Probability of zero, in `0..1`.
    pub p: f64,
    /// Sets the operation's bits apart from the bits of every other operation with the same key.
    pub stream: u32,
    /// The number of the first element in a larger value, where the elements of `x` are a part of one.
    pub first: usize,
}

named!("dropout": Dropout { p, stream, first });

impl Op for Dropout {
    named!();

    facts! {
        rows(Rows, Whole => Rows);
        in_place((0, 0));
        flops(7.0);
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        float(&inputs[0])?;
        key(&inputs[1])?;
        probability(self.p)?;
        let last = self.first.checked_add(inputs[0].numel());
        // Elements are counted in pairs of half-words.
        let are_counted = last.is_some_and(|last| checked_numel(&[last.div_ceil(2), 2]).is_some());
        if !are_counted {
            return Err(Error::user(format!(
                "the elements of {} cannot be counted from {} on",
                inputs[0], self.first
            )));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let (key, threshold, scale) = (key_of(inputs[1]), dropout_threshold(self.p), dropout_scale(self.p));
        let keeps = |i: usize| dropout_keeps(key, self.stream, (self.first + i) as u64, threshold);
        let data = inputs[0]
            .data
            .iter()
            .enumerate()
            .map(|(i, &x)| if keeps(i) { x * scale } else { 0.0 });
        vec![Array::new(outputs[0].clone(), data.collect())]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        vec![
            cx.cotangents[0].map(|dy| dy.trace().apply1(*self, &[dy, cx.inputs[1]])),
            None,
        ]
    }

    /// The half-words of [`RandomBits`] of the same stream, compared with the threshold.
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (x, key) = (inputs[0], inputs[1]);
        let (first, n) = (self.first, x.ty().numel());
        let words = (first + n).div_ceil(2);
        let shape = vec![words, 1];
        let drawn = x
            .trace()
            .apply1(
                RandomBits {
                    stream: self.stream,
                    shape,
                },
                &[key],
            )
            .cast(DType::F64);
        let high = (drawn * (1.0 / 65536.0)).cast(DType::U32).cast(DType::F64);
        let low = drawn - high * 65536.0;
        let halves = concat(&[low, high], 1).reshape(&[words * 2]);
        let halves = halves.slice(0, first, n).reshape(&x.shape());
        let keep = halves.ge(halves.scalar_like(dropout_threshold(self.p).into()));
        Some(vec![keep.select(x * dropout_scale(self.p), x.scalar_like(0.0))])
    }

    fn without_stream(&self) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Dropout {
            stream: 0,
            first: 0,
            ..*self
        }))
    }

    fn on_slices(&self, (number, slices): (usize, usize), inputs: &[Type], _: &[Type]) -> OnSlices {
        let first = self.first + number * (inputs[0].numel() / slices);
        OnSlices::By(Arc::new(Dropout { first, ..*self }))
    }
}

impl Tensor {
    /// Sets each element to zero with probability `p` and multiplies the others by `1 / (1 - p)`. The random bits
    /// follow from the key `u32[2]` and the place of the call in the trace. With `p = 0` it returns this tensor.
    #[track_caller]
    pub fn dropout(self, p: f64, key: Tensor) -> Tensor {
        if p == 0.0 {
            return self;
        }
        let stream = self.trace().new_stream();
        self.dropout_of(Dropout { p, stream, first: 0 }, key)
    }

    /// Dropout with these random bits.
    #[track_caller]
    pub(crate) fn dropout_of(self, op: Dropout, key: Tensor) -> Tensor {
        self.trace().apply1(op, &[self, key])
    }
}
