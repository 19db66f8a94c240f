//! Rotary embeddings: features in pairs, turned by angles of their positions.

use lessen_base::{Error, Result};

use super::heads::exchanged;
use crate::operators::real::{Real, float_of, in_reals, rounded};
use lessen_onnx::host::{HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "RotaryEmbedding", rotary),
    ("com.microsoft", "RotaryEmbedding", contributed_rotary),
];

/// Cosines and sines of angles, a row for each position.
pub(super) struct Turns<'a, R> {
    pub cosines: &'a [R],
    pub sines: &'a [R],
    /// Pairs of features that are turned.
    pub pairs: usize,
    /// Whether a pair is two neighbours; it is of two halves otherwise.
    pub is_interleaved: bool,
}

impl<R: Real> Turns<'_, R> {
    /// Turns the first features of a head by the angles of a row.
    ///
    /// # Errors
    /// A row that is not there, too few features.
    pub(super) fn turn(&self, head: &mut [R], row: i64) -> Result<()> {
        let rows = self.cosines.len().checked_div(self.pairs).unwrap_or(0);
        let row = usize::try_from(row).ok().filter(|row| *row < rows);
        let Some(row) = row else {
            return Err(Error::user(format!("a position is beyond its {rows} angles")));
        };
        let part = row * self.pairs..(row + 1) * self.pairs;
        for (i, (cosine, sine)) in self.cosines[part.clone()].iter().zip(&self.sines[part]).enumerate() {
            let (first, second) = if self.is_interleaved {
                (2 * i, 2 * i + 1)
            } else {
                (i, i + self.pairs)
            };
            let (x, y) = (head[first], head[second]);
            head[first] = *cosine * x - *sine * y;
            head[second] = *sine * x + *cosine * y;
        }
        Ok(())
    }
}

/// The inputs of an embedding: what is turned, and where its parts are.
struct Inputs<'a> {
    x: &'a HostTensor,
    cosines: &'a HostTensor,
    sines: &'a HostTensor,
    /// Batch, positions, heads, features of a head.
    extents: [usize; 4],
    pairs: usize,
    /// The row of angles for each of batch and position.
    rows: Vec<i64>,
}

fn rotary(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, cosines, sines) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if x.is_empty() {
        return one((**x).clone());
    }
    let heads = call.int("num_heads", 0);
    let extents = extents(call, x, |features| {
        usize::try_from(heads)
            .ok()
            .filter(|heads| *heads > 0 && features % heads == 0)
            .map(|heads| features / heads)
    })?;
    let [batch, length, _, width] = extents;
    let pairs = pairs(call, width)?;
    let fits = match (call.optional(3)?, cosines.shape()) {
        (Some(positions), [_, last]) => *last == pairs && positions.shape() == [batch, length],
        (None, shape) => *shape == [batch, length, pairs],
        _ => false,
    };
    if !fits || cosines.shape() != sines.shape() {
        return call.refused("its angles or positions do not fit its input");
    }
    let rows = match call.has(3) {
        true => call.integers(3)?,
        false => (0..(batch * length) as i64).collect(),
    };
    let inputs = Inputs {
        x,
        cosines,
        sines,
        extents,
        pairs,
        rows,
    };
    in_reals!(x, turned(call, inputs))
}

/// The embedding of com.microsoft, whose positions come before the angles and may be one offset for all.
fn contributed_rotary(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (x, cosines, sines) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    if call.int("is_packed_batching", 0) != 0 || call.float("scale", 1.0) != 1.0 {
        return call.refused("its attributes is_packed_batching and scale are not known");
    }
    let [_, half] = *cosines.shape() else {
        return call.refused("its angles have not two axes");
    };
    if x.is_empty() {
        return one((**x).clone());
    }
    let heads = call.int("num_heads", 0);
    let extents = extents(call, x, |features| {
        let width = match usize::try_from(heads) {
            Ok(heads) if heads > 0 => features / heads,
            _ => half.saturating_mul(2),
        };
        Some(width).filter(|width| *width > 0 && features % width == 0)
    })?;
    let [batch, length, _, width] = extents;
    let pairs = pairs(call, width)?;
    if half != pairs || cosines.shape() != sines.shape() {
        return call.refused("its angles do not fit its input");
    }
    let given = call.integers(1)?;
    let rows: Vec<i64> = match (call.tensor(1)?.rank(), given.len()) {
        (0 | 1, 1) => {
            let one = (0..length as i64).map(|i| given[0].saturating_add(i));
            (0..batch).flat_map(|_| one.clone()).collect()
        }
        (2, count) if count == batch * length => given,
        _ => return call.refused("its positions do not fit its input"),
    };
    let inputs = Inputs {
        x,
        cosines,
        sines,
        extents,
        pairs,
        rows,
    };
    in_reals!(x, turned(call, inputs))
}

/// Batch, positions, heads and features of a head, whose number follows from all features of an array of three axes.
fn extents(call: &HostCall<'_>, x: &HostTensor, width: impl Fn(usize) -> Option<usize>) -> Result<[usize; 4]> {
    match *x.shape() {
        [batch, heads, length, width] => Ok([batch, length, heads, width]),
        [batch, length, features] => match width(features) {
            Some(width) if width > 0 => Ok([batch, length, features / width, width]),
            _ => call.refused(format!(
                "its {features} features are not split into its number of heads"
            )),
        },
        _ => call.refused(format!("its input has {} axes in place of 3 or 4", x.rank())),
    }
}

/// The number of pairs that are turned.
fn pairs(call: &HostCall<'_>, width: usize) -> Result<usize> {
    let turned = match call.int("rotary_embedding_dim", 0) {
        0 => Some(width),
        dim => usize::try_from(dim).ok(),
    };
    match turned.filter(|turned| *turned > 0 && *turned <= width && turned % 2 == 0) {
        Some(turned) => Ok(turned / 2),
        None => call.refused(format!("of {width} features not so many are turned")),
    }
}

fn turned<R: Real>(call: &HostCall<'_>, inputs: Inputs<'_>) -> Result<Vec<HostValue>> {
    let Inputs {
        x,
        extents: [batch, length, heads, width],
        ..
    } = inputs;
    let turns = Turns {
        cosines: &R::read(inputs.cosines)?,
        sines: &R::read(inputs.sines)?,
        pairs: inputs.pairs,
        is_interleaved: call.int("interleaved", 0) != 0,
    };
    let mut all = R::read(x)?.into_owned();
    if all.is_empty() {
        return one(x.clone());
    }
    let is_by_head = x.rank() == 4;
    if is_by_head {
        all = exchanged(&all, [batch, heads, length, width]);
    }
    for (position, row) in all.chunks_exact_mut(heads * width).zip(&inputs.rows) {
        for head in position.chunks_exact_mut(width) {
            turns.turn(head, *row)?;
        }
    }
    if is_by_head {
        all = exchanged(&all, [batch, length, heads, width]);
    }
    one(rounded(x.shape(), all, float_of(x)?)?)
}
