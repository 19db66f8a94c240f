//! Fixed policies, beside which the planner is measured.

use super::compose::Choice;
use super::search::{Layers, Selection};
use crate::options::Policy;

impl Layers {
    /// What a policy recomputes; none where it does not go by blocks.
    pub fn of_policy(&self, policy: Policy) -> Option<Selection<'_>> {
        let counts = self.candidate_counts();
        let segment = match policy {
            Policy::SquareRoot => (counts.len() as f64).sqrt().ceil() as usize,
            Policy::EveryBlock | Policy::KeepAll => 1,
            Policy::Planner | Policy::RowWise => return None,
        };
        let choices: Vec<Choice> = (counts.iter().enumerate())
            .map(|(block, &count)| {
                let is_last = (block + 1) % segment == 0 || block + 1 == counts.len();
                let recomputes_all = segment == 1 && policy == Policy::EveryBlock || segment > 1 && is_last;
                Choice {
                    recomputed: (0..count).filter(|_| recomputes_all).collect(),
                    is_inner: block % segment > 0,
                    in_segment: segment > 1 && !is_last,
                }
            })
            .collect();
        Some(self.selection(&choices))
    }
}
