//! Rotary position embeddings (Su et al. 2021).

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::{Cost, OnSlices, Op, OutRole, Role, RowWise, Vjp};
use crate::ops::attention::rope_scaling::RopeScaling;
use crate::ops::rules::{arity, float};
use crate::ops::shape::concat::concat;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Inputs: `x[B, T, H, D]` with an even `D`, and `positions i32[T]`. Every head of token `t` is rotated: with the angle
/// `a_i = positions[t] base^(-2i/D)`, elements `i` and `i + D/2` become `x_i cos a_i - x_(i+D/2) sin a_i` and
/// `x_(i+D/2) cos a_i + x_i sin a_i` (the order of GPT-NeoX and Llama). So the product of a query and a key depends on
/// the distance of their positions alone. [`RopeScaling`] may change the angles `a_i`. The decomposition computes
/// angles in the accumulator dtype of `x`, a kernel more accurately.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rope {
    /// The base of the wavelengths, at least 1; 10000 in the paper.
    pub base: f64,
    /// How the angles are changed for longer texts.
    pub scaling: RopeScaling,
    /// Whether to rotate by the negative angles: the derivative, and the inverse.
    pub inverse: bool,
}

impl Rope {
    /// The angle of each pair of elements at position 1, for heads of `width` elements.
    pub fn frequencies(&self, width: usize) -> Vec<f64> {
        let exponent = |i: usize| -2.0 * i as f64 / width as f64;
        let frequency = |i| self.scaling.apply(self.base.powf(exponent(i)));
        (0..width / 2).map(frequency).collect()
    }
}

named!("rope": Rope { base, scaling, inverse });

impl Op for Rope {
    named!();

    facts! { in_place((0, 0)); }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 2)?;
        let (x, positions) = (&inputs[0], &inputs[1]);
        float(x)?;
        if x.rank() != 4 || !x.last().is_multiple_of(2) {
            return Err(Error::user(format!("{x} is not [B,T,H,D] with an even D")));
        }
        let expected = Type::new(DType::I32, &[x.shape[1]]);
        if *positions != expected {
            return Err(Error::user(format!(
                "the positions of {x} must be {expected}, not {positions}"
            )));
        }
        if !(self.base >= 1.0 && self.base.is_finite()) {
            return Err(Error::user(format!(
                "the base {} is not at least 1 and finite",
                self.base
            )));
        }
        self.scaling.check()?;
        Ok(vec![x.clone()])
    }

    fn eval(&self, inputs: &[&Array], _: &[Type]) -> Vec<Array> {
        let mut y = inputs[0].clone();
        let [_, tokens, heads, width] = y.ty.shape[..] else {
            panic!("the type rule asks for four axes");
        };
        let (frequencies, half) = (self.frequencies(width), width / 2);
        let sign = if self.inverse { -1.0 } else { 1.0 };
        for (index, head) in y.data.chunks_exact_mut(width.max(1)).enumerate() {
            let position = inputs[1].data[index / heads % tokens];
            for (i, frequency) in frequencies.iter().enumerate() {
                let (sin, cos) = (sign * position * frequency).sin_cos();
                let (a, b) = (head[i], head[i + half]);
                (head[i], head[i + half]) = (a * cos - b * sin, b * cos + a * sin);
            }
        }
        vec![y]
    }

    fn vjp(&self, cx: &Vjp<'_>) -> Vec<Option<Tensor>> {
        let back = Rope {
            inverse: !self.inverse,
            ..*self
        };
        let dx = cx.cotangents[0].map(|dy| dy.trace().apply1(back, &[dy, cx.inputs[1]]));
        vec![dx, None]
    }

    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let (dtype, trace) = (inputs[0].dtype(), inputs[0].trace());
        let x = inputs[0].cast(dtype.accumulator());
        let half = x.dim(-1) / 2;
        let sign = if self.inverse { -1.0 } else { 1.0 };
        let frequencies = self.frequencies(2 * half).into_iter().map(|frequency| sign * frequency);
        let frequencies = Array::new(Type::new(x.dtype(), &[half]), frequencies.collect());
        let frequencies = trace.constant(frequencies);
        let angles = inputs[1].cast(x.dtype()).reshape(&[x.dim(1), 1, 1]) * frequencies;
        let (cos, sin) = (angles.cos(), angles.sin());
        let (a, b) = (x.slice(3, 0, half), x.slice(3, half, half));
        Some(vec![concat(&[a * cos - b * sin, b * cos + a * sin], 3).cast(dtype)])
    }

    /// A row is a token with all of its heads.
    fn row_wise(&self, inputs: &[Type], _: &[Type]) -> RowWise {
        let rows = inputs[0].shape[..2].iter().product();
        RowWise::by_rows(rows, &[Role::Rows, Role::Whole], &[OutRole::Rows])
    }

    /// An angle depends on the number of the row.
    fn on_slices(&self, _: (usize, usize), _: &[Type], _: &[Type]) -> OnSlices {
        OnSlices::No
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        Cost::vector(6.0 * outputs[0].numel() as f64, inputs, outputs)
    }
}

impl Tensor {
    /// The heads of each token, `[B, T, H, D]`, rotated by angles that grow with its position, `i32[T]`. See [`Rope`].
    #[track_caller]
    pub fn rope(self, positions: Tensor, base: f64, scaling: RopeScaling) -> Tensor {
        let op = Rope {
            base,
            scaling,
            inverse: false,
        };
        self.trace().apply1(op, &[self, positions])
    }
}
