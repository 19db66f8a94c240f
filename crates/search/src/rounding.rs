//! How inputs and weights of a layer of a supernet are rounded: in some bits, mixed by their shares.

use lessen_graph::Tensor;
use lessen_graph::ops::FakeQuantize;

/// The bits of numbers that are not rounded.
pub(crate) const FLOAT: u32 = 32;

/// The code that stands for no rounding where codes are values of a graph.
const FLOAT_CODE: f32 = 2_147_483_647.0;

/// The least scale, so that rows of zeros have one.
const LEAST_SCALE: f64 = f32::MIN_POSITIVE as f64;

/// The largest code of some bits, `2^(bits - 1) - 1`, from which a graph tells how to round.
pub(crate) fn code_of(bits: u32) -> f32 {
    match bits {
        FLOAT => FLOAT_CODE,
        bits => FakeQuantize::symmetric(bits, 0).high as f32,
    }
}

/// How inputs and weights of a layer are rounded, row by row of the first axis: each output channel of a weight and
/// each image by its own magnitude (section 2.3.3.3).
#[derive(Clone, Copy)]
pub(crate) struct Rounding<'a> {
    bits: &'a [u32],
    /// The shares of the bits, if there are several.
    shares: Option<Tensor>,
    /// The largest code, `[]`, in place of bits.
    code: Option<Tensor>,
    /// Whether that code may stand for no rounding.
    may_be_float: bool,
}

impl<'a> Rounding<'a> {
    /// To bits, of which several have shares.
    pub fn of_bits(bits: &'a [u32], shares: Option<Tensor>) -> Rounding<'a> {
        Rounding {
            bits,
            shares,
            code: None,
            may_be_float: false,
        }
    }

    /// To codes up to one that is a value of the graph: of 8 bits at most, or the code of no rounding if it may be.
    pub fn of_code(code: Tensor, may_be_float: bool) -> Rounding<'a> {
        Rounding {
            bits: &[],
            shares: None,
            code: Some(code),
            may_be_float,
        }
    }

    /// A tensor whose rows have these magnitudes, `[rows]`.
    #[track_caller]
    pub fn of(self, x: Tensor, magnitudes: Tensor) -> Tensor {
        let rounded = |codes: FakeQuantize, step: Tensor| {
            let scale = step.maximum(step.scalar_like(LEAST_SCALE));
            let rows = x.reshape(&[x.dim(0), x.ty().numel() / x.dim(0).max(1)]);
            rows.fake_quantize(codes, scale, None).reshape(&x.shape())
        };
        if let Some(code) = self.code {
            let codes = FakeQuantize::symmetric(8, 0);
            let rounded = rounded(codes, magnitudes / code);
            if !self.may_be_float {
                return rounded;
            }
            let is_float = code.gt(code.scalar_like(codes.high as f64));
            return is_float.select(x, rounded);
        }
        mixed(self.shares, self.bits.len(), |place| match self.bits[place] {
            FLOAT => x,
            bits => {
                let codes = FakeQuantize::symmetric(bits, 0);
                rounded(codes, magnitudes / codes.high as f64)
            }
        })
    }

    /// A tensor by the magnitudes of all its rows.
    #[track_caller]
    pub fn of_rows(self, x: Tensor) -> Tensor {
        self.of(x, magnitudes(x))
    }
}

/// The largest magnitude of each row of the first axis, `[rows]`, without a gradient.
#[track_caller]
pub(crate) fn magnitudes(x: Tensor) -> Tensor {
    let axes: Vec<usize> = (1..x.rank()).collect();
    x.stop_gradient().abs().max_axes(&axes)
}

/// The same of images `[N, H, W, C]` whose channels count by factors `[C]`: those of factor 0 do not count.
#[track_caller]
pub(crate) fn magnitudes_of_channels(x: Tensor, factors: Tensor) -> Tensor {
    let by_channel = x.stop_gradient().abs().max_axes(&[1, 2]);
    let counted = (by_channel * factors.stop_gradient()).max_last();
    counted.reshape(&[x.dim(0)])
}

/// The sum of some tensors times their shares; with a single tensor there are no shares.
#[track_caller]
pub(crate) fn mixed(shares: Option<Tensor>, count: usize, of: impl Fn(usize) -> Tensor) -> Tensor {
    let Some(shares) = shares else { return of(0) };
    let term = |place: usize| of(place) * shares.slice(0, place, 1).reshape(&[]);
    (1..count).fold(term(0), |sum, place| sum + term(place))
}
