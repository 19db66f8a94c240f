//! What a budget chooses from: sets of values to recompute, each part of the next, so that a larger budget never takes
//! more operations.

use lessen_graph::Graph;

use crate::passes::{Recompute, remat};
use crate::plan::Plan;

/// In how many parts the values whose recomputation has a price are given up before the search becomes finer.
const PARTS: usize = 16;

/// Values that backward could recompute.
pub(crate) struct Choices {
    /// Those that cost next to nothing.
    free: Vec<Recompute>,
    /// Those with a price, the cheapest per byte first.
    priced: Vec<Recompute>,
}

impl Choices {
    /// The choices of a graph; none where nothing is trained.
    pub fn of(graph: &Graph) -> Choices {
        if !remat::trains(graph) {
            return Choices {
                free: Vec::new(),
                priced: Vec::new(),
            };
        }
        Choices {
            free: remat::free(graph),
            priced: remat::priced(graph),
        }
    }

    /// The free ones and as many of the others.
    fn first(&self, count: usize) -> Vec<Recompute> {
        [&self.free, &self.priced[..count]].concat()
    }

    /// How many of those with a price to try, part by part.
    fn counts(&self) -> impl Iterator<Item = usize> {
        let (all, part) = (self.priced.len(), self.priced.len().div_ceil(PARTS).max(1));
        (0..all).step_by(part).chain([all])
    }

    /// The plan with the fewest recomputations that fits: the first part that does, less what it need not give up. At
    /// last nothing is recomputed at all, since what a recomputation needs on its way may take more than it frees.
    ///
    /// # Errors
    /// The least bytes that a plan takes, where none fits.
    pub fn within(&self, budget: usize, try_out: impl Fn(Vec<Recompute>) -> Plan) -> Result<Plan, usize> {
        let (mut floor, mut too_few) = (usize::MAX, 0);
        for count in self.counts() {
            let plan = try_out(self.first(count));
            if plan.peak_bytes() <= budget {
                return Ok(self.finer(too_few, (count, plan), budget, try_out));
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

    /// Halves the way from a count that does not fit to one that does.
    fn finer(
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

    /// The least bytes that a plan takes.
    pub fn floor(&self, try_out: impl Fn(Vec<Recompute>) -> Plan) -> usize {
        let sets = self.counts().map(|count| self.first(count)).chain([Vec::new()]);
        sets.map(|set| try_out(set).peak_bytes())
            .min()
            .expect("at least one set")
    }
}
