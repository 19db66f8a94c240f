//! The functions of a step that is cut into groups.

use crate::dealing::Dealing;
use crate::options::TrainerOptions;
use crate::session::{Function, Session};
use lessen_base::Result;
use lessen_compile::Plan;

/// The functions that hold sums of gradients, and the sums of this process.
#[derive(Default)]
pub(super) struct GroupFunctions {
    /// For each slot: the function that holds the sums there, and the one that adds them.
    pub slots: Vec<[Function; 2]>,
    pub dealing: Dealing,
}

impl GroupFunctions {
    /// Loads the plans of slots.
    pub fn load(session: &mut Session, options: &TrainerOptions, plans: Vec<[Plan; 2]>) -> Result<GroupFunctions> {
        let mut load = |[hold, add]: [Plan; 2]| Ok([session.load(hold)?, session.load(add)?]);
        Ok(GroupFunctions {
            slots: plans.into_iter().map(&mut load).collect::<Result<_>>()?,
            dealing: Dealing::of(options.ranks, options.own_groups()),
        })
    }
}
