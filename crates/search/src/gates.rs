//! Shares of the possibilities of each choice, by which a supernet mixes them.

use crate::rounding::Rounding;
use crate::space::{Aspect, Choice, Space};
use crate::variables::Variables;
use lessen_graph::{Array, Tensor, TraceRef};
use std::collections::BTreeMap;

/// The shares of each open choice, `f32[count]` with the sum 1.
pub struct Gates {
    shares: BTreeMap<(usize, Aspect), Tensor>,
    /// The largest codes of each block's 1 x 1 layers and of its depthwise layer, `f32[blocks, 2]`, in place of bits.
    codes: Option<Tensor>,
    /// Whether a code may stand for no rounding.
    has_floats: bool,
}

impl Gates {
    /// Samples of the Gumbel softmax (Jang et al. 2017): `softmax((logits + noise) / temperature)` of each choice, for
    /// logits and noise one after another, `f32[logits]`, and the inverse of the temperature.
    #[track_caller]
    pub fn sampled(variables: &Variables, logits: Tensor, noise: Tensor, inverse: Tensor) -> Gates {
        let warm = (logits + noise) * inverse;
        let of = |variable: &crate::Variable| {
            let own = warm.slice(0, variable.first, variable.count);
            ((variable.block, variable.aspect), own.softmax())
        };
        Gates {
            shares: variables.all().iter().map(of).collect(),
            codes: None,
            has_floats: false,
        }
    }

    /// One network of a space: the shares are 0 and 1.
    pub fn of_network(trace: TraceRef, space: &Space, choices: &[Choice]) -> Gates {
        let of = |variable: &crate::Variable| {
            let chosen = choices[variable.block][variable.aspect as usize];
            let shares = (0..variable.count).map(|place| f64::from(u8::from(place == chosen)));
            let shares = trace.constant(Array::f32(&[variable.count], shares.collect()));
            ((variable.block, variable.aspect), shares)
        };
        Gates {
            shares: Variables::of(space).all().iter().map(of).collect(),
            codes: None,
            has_floats: false,
        }
    }

    /// A network with a single possibility of everything but the bits, whose largest codes are values of the graph,
    /// `f32[blocks, 2]`.
    pub(crate) fn of_codes(codes: Tensor, has_floats: bool) -> Gates {
        Gates {
            shares: BTreeMap::new(),
            codes: Some(codes),
            has_floats,
        }
    }

    /// How the 1 x 1 layers and the depthwise layer of a block are rounded.
    pub(crate) fn rounding<'a>(&self, block: usize, bits: &'a [Vec<u32>; 2]) -> [Rounding<'a>; 2] {
        let aspects = [Aspect::PointwiseBits, Aspect::DepthwiseBits];
        std::array::from_fn(|which| match self.codes {
            Some(codes) => {
                let code = codes.slice(0, block, 1).slice(1, which, 1).reshape(&[]);
                Rounding::of_code(code, self.has_floats)
            }
            None => Rounding::of_bits(&bits[which], self.of(block, aspects[which])),
        })
    }

    /// The shares of a choice; none where there is a single possibility.
    pub fn of(&self, block: usize, aspect: Aspect) -> Option<Tensor> {
        self.shares.get(&(block, aspect)).copied()
    }
}
