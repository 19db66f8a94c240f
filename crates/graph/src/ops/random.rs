//! Random bits from a key.

use lessen_base::Result;

use super::{arity, key, key_of};
use crate::{Array, Attr, Attrs, Cost, DType, Graph, Op, Tensor, Type, Vjp, philox};

/// `u32` random bits of a shape from a key `u32[2]`: element `i` is word `i % 4` of block `i / 4` of the
/// stream (see [`philox::block`]).
#[derive(Clone, PartialEq, Debug)]
pub struct RandomBits {
    /// Sets the operation's bits apart from those of every other operation with the same key.
    pub stream: u32,
    /// Shape of the result.
    pub shape: Vec<usize>,
}

impl Op for RandomBits {
    fn name(&self) -> &'static str {
        "random_bits"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
            .with("stream", Attr::Int(self.stream.into()))
            .with("shape", Attr::sizes(&self.shape))
    }

    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        arity(inputs, 1)?;
        key(&inputs[0])?;
        Ok(vec![Type::new(DType::U32, &self.shape)])
    }

    fn eval(&self, inputs: &[&Array], outputs: &[Type]) -> Vec<Array> {
        let key = key_of(inputs[0]);
        let n = outputs[0].numel();
        let words = (0..n.div_ceil(4) as u64).flat_map(|b| philox::block(key, self.stream, b));
        vec![Array::new(
            outputs[0].clone(),
            words.take(n).map(f64::from).collect(),
        )]
    }

    fn vjp<'g>(&self, _: &Vjp<'_, 'g>) -> Vec<Option<Tensor<'g>>> {
        vec![None]
    }

    fn cost(&self, _: &[Type], outputs: &[Type]) -> Cost {
        // Ten rounds with two wide products each make four words.
        Cost {
            vector_flops: 10.0 * outputs[0].numel() as f64,
            bytes: outputs[0].bytes() as f64,
            ..Cost::default()
        }
    }
}

/// A stream that no operation of the graph uses: 1 + the largest attribute called `stream`.
pub fn next_stream(graph: &Graph) -> u32 {
    let streams = graph
        .nodes
        .iter()
        .filter_map(|node| node.op.attrs().int("stream").ok());
    streams.max().map_or(0, |largest| largest as u32 + 1)
}

impl<'g> Tensor<'g> {
    /// Random bits `u32` of a shape from this key `u32[2]`, different at every call within a trace.
    #[track_caller]
    pub fn random_bits(self, shape: &[usize]) -> Tensor<'g> {
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
