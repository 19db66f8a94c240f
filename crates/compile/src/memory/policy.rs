//! Fixed policies, beside which the planner is measured.

use super::compose::Choice;
use super::layers::{Layers, Selection};
use crate::options::Policy;

impl Layers {
    /// What a policy recomputes; none where it does not go by blocks.
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
                    form: None,
                    is_sliced: false,
                }
            })
            .collect();
        Some(self.selection(&choices))
    }

    /// The same blocks, of which each is kept as a whole or inverted and recomputed as a whole.
    pub fn for_knapsack(mut self) -> Layers {
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
