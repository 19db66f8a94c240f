//! Bits for the layers of a network that is there, chosen exactly.

use crate::cost::CostTable;
use crate::knapsack::{Item, knapsack};
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
    let groups: Vec<Vec<Item>> = (space.blocks.iter().zip(&table.blocks).zip(sensitivities))
        .map(|((block, costs), own)| {
            let item = |(number, cost): (usize, &f64)| {
                let [_, _, _, pointwise, depthwise] = block.choice(number);
                Item {
                    cost: *cost,
                    value: -(own[0][pointwise] + own[1][depthwise]),
                }
            };
            costs.iter().enumerate().map(item).collect()
        })
        .collect();
    let chosen = knapsack(&groups, table.left(limit)).ok_or_else(|| table.over_limit(limit, unit))?;
    let chosen = chosen.iter().zip(&space.blocks);
    Ok(chosen.map(|(number, block)| block.choice(*number)).collect())
}
