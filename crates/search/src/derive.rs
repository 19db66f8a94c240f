//! The network that a search ends with.

use crate::cost::CostTable;
use crate::knapsack::{Item, knapsack};
use crate::space::{Aspect, Choice, Space};
use crate::variables::Variables;
use lessen_base::{Error, Result};

/// The most probable network: the first of the greatest logits of each choice. Where `limit` is given, it is the most
/// probable one of the networks that cost no more, found exactly as a knapsack; the two agree where the first one keeps
/// to the limit.
///
/// # Errors
/// A limit that no network meets.
pub fn derive(space: &Space, logits: &[f64], table: &CostTable, limit: Option<f64>) -> Result<Vec<Choice>> {
    let variables = Variables::of(space);
    let best = variables.choices(&variables.most_probable(logits));
    let Some(limit) = limit.filter(|limit| table.of(space, &best) > *limit) else {
        return Ok(best);
    };
    let probabilities = variables.probabilities(logits);
    let log_of = |block: usize, aspect: Aspect, place: usize| {
        variables.find(block, aspect).map_or(0.0, |variable| {
            probabilities[variable.first + place].max(f64::MIN_POSITIVE).ln()
        })
    };
    let group = |number: usize| {
        let block = &space.blocks[number];
        let item = |place: usize| {
            let choice = block.choice(place);
            let is_skipped = choice[Aspect::Skip as usize] == 1;
            // A block that is left out is one network, whatever its other choices are.
            let counted = if is_skipped { 1 } else { Aspect::ALL.len() };
            let aspects = Aspect::ALL.into_iter().zip(choice).take(counted);
            Item {
                cost: table.blocks[number][place],
                value: aspects.map(|(aspect, place)| log_of(number, aspect, place)).sum(),
            }
        };
        (0..block.choices()).map(item).collect::<Vec<Item>>()
    };
    let groups: Vec<Vec<Item>> = (0..space.blocks.len()).map(group).collect();
    let chosen = knapsack(&groups, limit - table.fixed).ok_or_else(|| over_limit(limit, table, ""))?;
    let chosen = chosen.iter().zip(&space.blocks);
    Ok(chosen.map(|(number, block)| block.choice(*number)).collect())
}

/// The error of a limit that no network of a table meets.
pub(crate) fn over_limit(limit: f64, table: &CostTable, unit: &str) -> Error {
    let [least, _] = table.range();
    Error::user(format!(
        "no network of the space keeps to {limit}{unit}; the least that one takes is {least:.6}{unit}, choose a limit from \
         there on or a smaller space"
    ))
}
