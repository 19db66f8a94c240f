//! Bits for the layers of a network that is there, chosen exactly.

use crate::cost::CostTable;
use crate::space::{Choice, Space};
use lessen_base::Result;

/// The bits of each block of a space of bits alone, such that measured sensitivities have the least sum of all
/// allocations that cost `limit` at most: a multiple-choice knapsack, whose optimum is found. That losses of layers add
/// up is what is assumed. `sensitivities` are by block, layers and place of the bits in the space's lists; see
/// [`AnyBits::sensitivities`](crate::AnyBits::sensitivities).
///
/// # Errors
/// A limit that no allocation meets, with the least cost.
pub fn allocate(
    space: &Space,
    table: &CostTable,
    sensitivities: &[[Vec<f64>; 2]],
    (limit, unit): (f64, &str),
) -> Result<Vec<Choice>> {
    let values = (space.blocks.iter().zip(sensitivities)).map(|(block, own)| {
        let value = |number: usize| {
            let [_, _, _, pointwise, depthwise] = block.choice(number);
            -(own[0][pointwise] + own[1][depthwise])
        };
        (0..block.choices()).map(value).collect()
    });
    let chosen = table.best_within(values.collect(), limit);
    let chosen = chosen.ok_or_else(|| table.over_limit(limit, unit))?;
    let chosen = chosen.iter().zip(&space.blocks);
    Ok(chosen.map(|(number, block)| block.choice(*number)).collect())
}
