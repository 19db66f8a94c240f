//! The memory planner's choices by operation: number and bytes of the values that are not kept as they are.

use lessen_compile::Plan;
use lessen_compile::passes::Recompute;
use lessen_task::wording::counted;
use lessen_train::show_size;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most operations that are named.
const NAMED: usize = 6;

/// Characters of a name and bytes in a line.
const WIDTH: usize = 22;

/// The values of an operation for which the planner took the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OperationChoices {
    pub operation: String,
    /// Number of values.
    pub places: usize,
    /// Bytes that are not kept.
    pub bytes: usize,
}

/// Values that are not kept, by operation, the most bytes first.
pub(super) fn by_operation(choices: &[Recompute]) -> Vec<OperationChoices> {
    grouped(choices.iter().map(|choice| (choice.name.as_str(), choice.bytes)))
}

/// Values that are kept as bits, by operation, the most freed bytes first.
pub(super) fn packed_by_operation(plan: &Plan) -> Vec<OperationChoices> {
    grouped(plan.packed().iter().map(|choice| (choice.name.as_str(), choice.freed)))
}

/// Groups values, whose names are a scope and an operation.
fn grouped<'a>(values: impl Iterator<Item = (&'a str, usize)>) -> Vec<OperationChoices> {
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, own) in values {
        let operation = name.rsplit(' ').next().unwrap_or(name);
        let (places, bytes) = groups.entry(operation).or_default();
        (*places, *bytes) = (*places + 1, *bytes + own);
    }
    let group = |(operation, (places, bytes)): (&str, (usize, usize))| OperationChoices {
        operation: operation.to_string(),
        places,
        bytes,
    };
    let mut groups: Vec<OperationChoices> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| Reverse(group.bytes));
    groups
}

/// A line for each of the largest groups, and one for all others.
pub(super) fn said(groups: &[OperationChoices]) -> String {
    let line = |name: &str, bytes: usize, places: usize| {
        let (bytes, places) = (show_size(bytes), counted(places as u64, "place"));
        let room = WIDTH.saturating_sub(name.chars().count()).max(bytes.len() + 1);
        format!("  {name}{bytes:>room$} in {places}\n")
    };
    // A line for the others would take as much room as one more operation.
    let shown = if groups.len() == NAMED + 1 { NAMED + 1 } else { NAMED };
    let (named, others) = groups.split_at(groups.len().min(shown));
    let mut text: String = named
        .iter()
        .map(|group| line(&group.operation, group.bytes, group.places))
        .collect();
    if !others.is_empty() {
        let bytes = others.iter().map(|group| group.bytes).sum();
        let places = others.iter().map(|group| group.places).sum();
        text += &line("others", bytes, places);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_grouped_by_operation_the_largest_first() {
        let values = [
            ("h.0.mlp gelu", 100),
            ("add", 10),
            ("h.1.mlp gelu", 1000),
            ("h.0 add", 20),
            ("scaled_dot_product_attention", 8),
        ];
        let groups = grouped(values.into_iter());
        assert_eq!(
            said(&groups),
            "  gelu           1.1 KiB in 2 places\n  add               30 B in 2 places\n  \
             scaled_dot_product_attention 8 B in 1 place\n"
        );
    }

    #[test]
    fn small_groups_are_put_together() {
        let names: Vec<String> = (0..9).map(|index| format!("scope op{index}")).collect();
        let of = |count: usize| {
            let values = names[..count].iter().enumerate();
            said(&grouped(values.map(|(index, name)| (name.as_str(), 100 * (index + 1)))))
        };
        assert_eq!(of(7).lines().count(), 7);
        let all = of(9);
        assert_eq!(all.lines().count(), 7, "{all}");
        assert_eq!(
            all.lines().last(),
            Some("  others           600 B in 3 places"),
            "{all}"
        );
    }
}
