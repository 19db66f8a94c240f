//! Truth values packed into words, 32 to each, and unpacked again. A plan keeps the words in place of a value that
//! backward reads through a comparison alone.

use lessen_base::{Error, Result};

use crate::array::Array;
use crate::op::Op;
use crate::ops::rules::arity;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// Bits of a word.
const WORD: usize = 32;

/// `bool[.., n]` as `u32[.., ceil(n / 32)]`: bit `i % 32` of word `i / 32` of a row says whether element `i` is true,
/// the lowest bit being number 0. Bits after the last element are 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PackBits;

named!("pack_bits": PackBits {});

/// The truth values `bool[.., width]` of words `u32[.., ceil(width / 32)]` that [`PackBits`] made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UnpackBits {
    /// Elements of a row.
    pub width: usize,
}

named!("unpack_bits": UnpackBits { width });

impl PackBits {
    /// The type of the words of a type; none for a type without rows of truth values.
    pub fn packed(ty: &Type) -> Option<Type> {
        let (width, lead) = ty.shape.split_last()?;
        let shape = [lead, &[width.div_ceil(WORD)]].concat();
        (ty.dtype == DType::Bool).then(|| Type::new(DType::U32, &shape))
    }
}

impl Op for PackBits {
    named!();

    facts! {
        no_derivative;
        rows;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let words = PackBits::packed(&inputs[0]);
        let words = words.ok_or_else(|| Error::user(format!("needs rows of bool, not {}", inputs[0])))?;
        Ok(vec![words])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let row_words = |row: &[f64]| -> Vec<f64> {
            let word = |bits: &[f64]| {
                (0..)
                    .zip(bits)
                    .map(|(i, &bit)| f64::from(u32::from(bit != 0.0) << i))
                    .sum()
            };
            row.chunks(WORD).map(word).collect()
        };
        let width = inputs[0].ty.last().max(1);
        vec![Array::new(
            outputs[0].clone(),
            inputs[0].data.chunks(width).flat_map(row_words).collect(),
        )]
    }
}

impl Op for UnpackBits {
    named!();

    facts! {
        no_derivative;
        rows;
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        let words = &inputs[0];
        match words.shape.split_last() {
            Some((&last, lead)) if words.dtype == DType::U32 && last == self.width.div_ceil(WORD) => {
                Ok(vec![Type::sized(DType::Bool, &[lead, &[self.width]].concat())?])
            }
            _ => Err(Error::user(format!(
                "rows of {} bits are u32[.., {}], not {words}",
                self.width,
                self.width.div_ceil(WORD)
            ))),
        }
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let bit = |row: &[f64], i: usize| f64::from(row[i / WORD] as u32 >> (i % WORD) & 1);
        let row_bits = |row: &[f64]| -> Vec<f64> { (0..self.width).map(|i| bit(row, i)).collect() };
        let words = inputs[0].ty.last().max(1);
        vec![Array::new(
            outputs[0].clone(),
            inputs[0].data.chunks(words).flat_map(row_bits).collect(),
        )]
    }
}

impl Tensor {
    /// Truth values `[.., n]` as words `u32[.., ceil(n / 32)]`. See [`PackBits`].
    #[track_caller]
    pub fn pack_bits(self) -> Tensor {
        self.trace().apply1(PackBits, &[self])
    }

    /// The truth values `[.., width]` of words. See [`UnpackBits`].
    #[track_caller]
    pub fn unpack_bits(self, width: usize) -> Tensor {
        self.trace().apply1(UnpackBits { width }, &[self])
    }
}
