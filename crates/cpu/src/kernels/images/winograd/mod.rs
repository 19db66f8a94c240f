//! Convolution with windows of 3 x 3 pixels by minimal filtering F(4 x 4, 3 x 3) (Winograd 1980; Lavin and Gray 2016):
//! a tile of 4 x 4 pixels takes 36 multiplications for each pair of channels, not 144.
//!
//! With the matrices of `transforms`, a tile of the result is `A^T [(G g G^T) . (B^T d B)] A` for the weight `g` and
//! the 6 x 6 pixels `d` that its windows read, where `.` multiplies elements; sums over channels make 36 products of
//! matrices of it. The derivative for images is the same sum with the weight turned round. The gradient of the weight
//! is `G^T [sum over tiles of (B^T d B) . (A dy A^T)] G`.
//!
//! Errors are at most four times those of the plain sum in `f32`, where other convolutions keep to twice. A number that
//! is not finite reaches all pixels of the tiles that read it, and all taps of the weight.

mod gradient;
mod product;
mod tiles;
mod transforms;

pub(super) use gradient::gradient;
pub(super) use product::product;
pub(super) use tiles::Tiles;

/// Products of matrices: the elements of a transformed tile.
const POINTS: usize = 36;

/// Columns of a product that are computed at once: a panel of a packed factor.
const PANEL: usize = 64;

/// The fewest and the most channels on both sides. With fewer, results of few pixels err more than four times as much
/// as plain sums.
const LEAST: usize = 32;
const MOST: usize = 1024;

/// The most bytes of transformed weights, or of sums for them, in the memory of a step: more outputs come in slices.
const SLICE: usize = 16 << 20;

/// The multiplications that take as long as the transforms of a channel of a tile, for each of its elements, and the
/// tiles whose products take as long as the transform of the weight.
const TRANSFORM: f64 = 10.0;
const WEIGHT: f64 = 20.0;

/// Elements between the matrices of two elements of tiles beyond their rows, so that they lie in other sets of a cache.
const GAP: usize = 16;

/// Whether minimal filtering is quicker than plain sums, by the multiplications of both, wasted ones included.
fn is_worth(tiles: &Tiles, inputs: usize, outputs: usize) -> bool {
    if [inputs, outputs]
        .iter()
        .any(|channels| !(LEAST..=MOST).contains(channels))
    {
        return false;
    }
    let (count, pairs) = (tiles.count() as f64, (inputs * outputs) as f64);
    let transforms = TRANSFORM * count * (inputs + outputs) as f64;
    let products = (count + WEIGHT) * pairs;
    POINTS as f64 * (products + transforms) < 9.0 * tiles.pixels() as f64 * pairs
}

/// Outputs of a slice: whole panels, or all.
fn slice(inputs: usize, outputs: usize) -> usize {
    let most = SLICE / (POINTS * inputs * size_of::<f32>()) / PANEL * PANEL;
    let slices = outputs.div_ceil(most.max(PANEL));
    outputs.div_ceil(slices).next_multiple_of(PANEL).min(outputs)
}
