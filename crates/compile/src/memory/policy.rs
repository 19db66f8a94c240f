//! Fixed policies, with which the planner is compared.

use super::blocked_graph::{BlockedGraph, Selection};
use super::compose::Choice;
use crate::options::Policy;

impl BlockedGraph {
    /// The recomputation of a policy; none where the policy does not go by blocks.
    pub fn of_policy(&self, policy: Policy) -> Option<Selection<'_>> {
        let counts = self.candidate_counts();
        let segment = match policy {
            Policy::SquareRoot => (counts.len() as f64).sqrt().ceil() as usize,
            Policy::EveryBlock | Policy::KeepAll | Policy::InvertAll => 1,
            Policy::Planner | Policy::RowWise | Policy::Tempo | Policy::Knapsack => return None,
        };
        let choices: Vec<Choice> = (counts.iter().enumerate())
            .map(|(block, &count)| {
                let is_last = (block + 1) % segment == 0 || block + 1 == counts.len();
                let is_inverted = policy == Policy::InvertAll && self.can_invert(block);
                let recomputes_all = is_inverted || policy == Policy::EveryBlock || segment > 1 && is_last;
                Choice {
                    recomputed: (0..count).filter(|_| recomputes_all).collect(),
                    is_inner: block % segment > 0,
                    in_segment: segment > 1 && !is_last,
                    is_inverted,
                    format: None,
                    is_sliced: false,
                }
            })
            .collect();
        Some(self.selection(&choices))
    }

    /// The graph with one way for each block, for the knapsack policy: inverted blocks recompute everything, the other
    /// blocks keep everything.
    pub fn for_knapsack(mut self) -> BlockedGraph {
        for (sample, ways) in &mut self.classes {
            let way = if sample.inverted.is_some() {
                &ways.all
            } else {
                &ways.none
            };
            ways.best = vec![way.clone()];
        }
        self.has_segments = false;
        self
    }
}
