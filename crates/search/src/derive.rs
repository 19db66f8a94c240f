//! The network that a search ends with.

use crate::cost::CostTable;
use crate::space::{Aspect, Choice, Space};
use crate::variables::Variables;
use lessen_base::Result;

/// The network of the most probable possibility of each choice; of equal ones the first. Where it exceeds a limit, the
/// most probable one of the networks that cost no more, found exactly as a knapsack.
///
/// # Errors
/// A limit that no network meets.
pub fn derive(space: &Space, logits: &[f64], table: &CostTable, limit: Option<f64>) -> Result<Vec<Choice>> {
    let variables = Variables::of(space);
    let best = variables.choices(&variables.most_probable(logits));
    let Some(limit) = limit.filter(|limit| table.of(space, &best) > CostTable::most(*limit)) else {
        return Ok(best);
    };
    let probabilities = variables.probabilities(logits);
    let log_of = |block: usize, aspect: Aspect, place: usize| {
        variables.find(block, aspect).map_or(0.0, |variable| {
            probabilities[variable.first + place].max(f64::MIN_POSITIVE).ln()
        })
    };
    let values = |number: usize| {
        let block = &space.blocks[number];
        let value = |place: usize| {
            let choice = block.choice(place);
            let is_skipped = choice[Aspect::Skip as usize] == 1;
            // A block that is left out is one network, whatever its other choices are.
            let counted = if is_skipped { 1 } else { Aspect::ALL.len() };
            let aspects = Aspect::ALL.into_iter().zip(choice).take(counted);
            aspects.map(|(aspect, place)| log_of(number, aspect, place)).sum()
        };
        (0..block.choices()).map(value).collect::<Vec<f64>>()
    };
    let values = (0..space.blocks.len()).map(values).collect();
    let chosen = table
        .best_within(values, limit)
        .ok_or_else(|| table.over_limit(limit, ""))?;
    let chosen = chosen.iter().zip(&space.blocks);
    Ok(chosen.map(|(number, block)| block.choice(*number)).collect())
}
