//! The choice between parameters that are kept from forward on and parameters that backward gathers again, where each
//! process has a piece of them (ZeRO, stage 3).

use crate::graphs::StepGraphs;
use crate::options::TrainerOptions;
use crate::plans::StepPlans;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_device::PlanDevice;

/// The candidates, in quarters of the bytes of parameters in pieces.
const QUARTERS: [usize; 4] = [0, 1, 2, 4];

impl StepPlans {
    /// Compiles the graphs of training for a device. Under
    /// [`Placement::Planned`](lessen_compile::Placement::Planned) it chooses the placement of each parameter; see
    /// [`StepPlans::placements`]. Where each process has a piece of parameters, it chooses those that are kept; see
    /// [`TrainerOptions::kept_quarters`].
    ///
    /// # Errors
    /// A budget below the floor.
    pub fn new(
        device: &(impl PlanDevice + ?Sized),
        options: &TrainerOptions,
        graphs: &StepGraphs,
    ) -> Result<StepPlans> {
        let all = match (&graphs.sharding, options.kept_quarters) {
            (None, _) => return StepPlans::keeping(device, options, (graphs, 0)),
            (Some(_), Some(quarters)) => vec![quarters],
            (Some(_), None) if options.budget.is_none() => vec![0],
            (Some(_), None) => QUARTERS.to_vec(),
        };
        // More that is kept takes more memory, so what comes after plans that do not fit does not fit, either.
        let (mut tried, mut refused) = (Vec::with_capacity(all.len()), None);
        for quarters in all {
            match StepPlans::keeping(device, options, (&graphs.keeping(quarters), quarters)) {
                Ok(plans) => tried.push(plans),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let batches = match graphs.last {
            Some(_) => options.most_batches(),
            None => 1,
        };
        let seconds = |plans: &StepPlans| plans.estimated_seconds(batches);
        let best = tried.into_iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let none = || Error::internal("plans without a candidate");
        best.ok_or_else(|| refused.unwrap_or_else(none))
    }

    /// The quarters that all processes of a training keep: the fewest among their plans. All processes call this
    /// together.
    ///
    /// # Errors
    /// A process that does not answer.
    pub fn kept_by_all(&self, group: &Group) -> Result<usize> {
        let own = u8::try_from(self.kept_quarters).unwrap_or(u8::MAX);
        let all = group.agree("the parameters that are kept", Ok(vec![own]))?;
        Ok(all.into_iter().flatten().min().unwrap_or(own).into())
    }

    /// The quarters that these plans keep; see [`TrainerOptions::kept_quarters`].
    pub fn kept_quarters(&self) -> usize {
        self.kept_quarters
    }
}
