//! Random bits from a key.

use lessen_base::Result;

use crate::array::Array;
use crate::op::{Cost, Op};
use crate::ops::rules::{arity, key, key_of};
use crate::philox;
use crate::tensor::Tensor;
use crate::types::{DType, Type};

/// `u32` random bits of a shape from a key `u32[2]`: element `i` is word `i % 4` of block `i / 4` of the
/// stream (see [`philox::block`]).
#[derive(Clone, PartialEq, Debug)]
pub struct RandomBits {
    /// Sets the operation's bits apart from the bits of every other operation with the same key.
    pub stream: u32,
    /// Shape of the result.
    pub shape: Vec<usize>,
}

named!("random_bits": RandomBits { stream, shape });

impl Op for RandomBits {
    named!();

    facts! { no_derivative; }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        key(&inputs[0])?;
        Ok(vec![Type::sized(DType::U32, &self.shape)?])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let key = key_of(inputs[0]);
        let n = outputs[0].numel();
        let words = (0..n.div_ceil(4) as u64).flat_map(|b| philox::block(key, self.stream, b));
        vec![Array::new(outputs[0].clone(), words.take(n).map(f64::from).collect())]
    }

    fn cost(&self, inputs: &[Type], outputs: &[Type]) -> Cost {
        // Ten rounds with two wide products each make four words.
        Cost::vector(10.0 * outputs[0].numel() as f64, inputs, outputs)
    }
}

impl Tensor {
    /// Random bits `u32` of a shape from this key `u32[2]`, different at every call within a trace.
    #[track_caller]
    pub fn random_bits(self, shape: &[usize]) -> Tensor {
        let stream = self.trace().new_stream();
        self.trace().apply1(
            RandomBits {
                stream,
                shape: shape.to_vec(),
            },
            &[self],
        )
    }
}
