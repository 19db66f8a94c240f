//! Recomputation under a budget: nested sets of values to recompute, so that a larger budget never recomputes more.

use lessen_graph::Graph;

use crate::passes::{Packed, Recompute, remat};
use crate::plan::Plan;

/// The number of steps of the coarse search over sets of recomputed products.
const COARSE_STEPS: usize = 16;

/// Forward values that backward could recompute.
pub(crate) struct Choices {
    /// Values that need no matrix product: always recomputed.
    free: Vec<Recompute>,
    /// Values that need matrix products, the cheapest per byte first.
    priced: Vec<Recompute>,
}

impl Choices {
    /// The choices of a graph, of which backward keeps some values as bits; none for a graph without backward phase.
    pub fn of(graph: &Graph, bits: &[Packed]) -> Choices {
        if !remat::trains(graph) {
            return Choices {
                free: Vec::new(),
                priced: Vec::new(),
            };
        }
        Choices {
            free: remat::free(graph),
            priced: remat::priced(graph, bits),
        }
    }

    /// All free values and the first `count` priced ones.
    fn first(&self, count: usize) -> Vec<Recompute> {
        [&self.free, &self.priced[..count]].concat()
    }

    /// The counts of priced values that the coarse search tries.
    fn counts(&self) -> impl Iterator<Item = usize> {
        let (all, step) = (self.priced.len(), self.priced.len().div_ceil(COARSE_STEPS).max(1));
        (0..all).step_by(step).chain([all])
    }

    /// The plan with the fewest recomputations within the budget: a coarse search for a count that fits, then a binary
    /// search down to the last one that does not. Recomputing nothing is tried last, since the operands of a
    /// recomputation may take more memory than it frees.
    ///
    /// # Errors
    /// The least bytes of all plans tried, where none fits.
    pub fn within(&self, budget: usize, try_out: impl Fn(Vec<Recompute>) -> Plan) -> Result<Plan, usize> {
        let (mut floor, mut too_few) = (usize::MAX, 0);
        for count in self.counts() {
            let plan = try_out(self.first(count));
            if plan.peak_bytes() <= budget {
                return Ok(self.fewest(too_few, (count, plan), budget, try_out));
            }
            floor = floor.min(plan.peak_bytes());
            too_few = count;
        }
        let plan = try_out(Vec::new());
        match plan.peak_bytes() {
            bytes if bytes <= budget => Ok(plan),
            bytes => Err(floor.min(bytes)),
        }
    }

    /// Searches between a count that does not fit and one that does.
    fn fewest(
        &self,
        mut too_few: usize,
        (mut enough, mut plan): (usize, Plan),
        budget: usize,
        try_out: impl Fn(Vec<Recompute>) -> Plan,
    ) -> Plan {
        while too_few + 1 < enough {
            let middle = too_few.midpoint(enough);
            let tried = try_out(self.first(middle));
            if tried.peak_bytes() <= budget {
                (enough, plan) = (middle, tried);
            } else {
                too_few = middle;
            }
        }
        plan
    }
}
