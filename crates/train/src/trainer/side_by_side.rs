//! The groups of a process that run side by side in one function, since their model reads what others have.

use super::groups::Told;
use super::part::Part;
use super::steps::{StepFunctions, Steps, Sums};
use crate::session::{Function, Inputs, Session};
use lessen_base::Result;
use lessen_device::{Host, HostArray};
use lessen_nn::names::{KEY, SHARE, assigned_of, of_group};

impl Steps {
    /// Runs all groups of this process with the update, and returns the sums of the results over all groups. The means
    /// of carried states are set. Groups without a micro-batch are given zeros, and the share 0.
    ///
    /// Before it, all processes tell whether their inputs are right, so that a mistake of one changes nothing.
    pub(super) fn run_side_by_side(
        &mut self,
        session: &mut Session,
        batches: &[Part<'_>],
        before: &[HostArray],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Sums> {
        let StepFunctions { step, first, .. } = self.any_functions()?;
        let function = first.filter(|_| self.pending.is_none()).unwrap_or(step);
        let group = self.options.group.clone();
        let checked = self.with_groups(session, function, (batches, scalars), |session, all| {
            session.check(function, all)
        });
        group.agree("the batches", checked.map(|()| Vec::new()))?;
        let ended = self.run_checked(session, function, (batches, scalars), before);
        if let Err(error) = &ended {
            // Other processes may have updated their pieces.
            self.broken = Some(error.to_string());
        }
        ended
    }

    fn run_checked(
        &mut self,
        session: &mut Session,
        function: Function,
        (batches, scalars): (&[Part<'_>], &[(&str, Host<'_>)]),
        before: &[HostArray],
    ) -> Result<Sums> {
        let results = self.with_groups(session, function, (batches, scalars), |session, all| {
            session.run(function, all)
        })?;
        self.pending = None;
        let mut ended = Sums::default();
        ended.end(&results)?;
        let told = self.options.own_groups().enumerate().map(|(place, group)| {
            let Some(part) = batches.get(place) else {
                let (sums, carried) = (Sums::default(), None);
                return Ok(Told { sums, carried });
            };
            let (own, mut sums) = (results.that_end_in(&of_group("", group)), Sums::default());
            sums.add(&own, part.share)?;
            let carried = self.carried.iter();
            let carried = carried.map(|state| Ok(HostArray::from(own.get(&assigned_of(state))?)));
            let carried = Some(carried.collect::<Result<_>>()?);
            Ok(Told { sums, carried })
        });
        let told = told.collect::<Result<_>>()?;
        self.told(session, told, ended, before)
    }

    /// Does something with the inputs of all groups.
    fn with_groups<T>(
        &self,
        session: &mut Session,
        function: Function,
        (batches, scalars): (&[Part<'_>], &[(&str, Host<'_>)]),
        then: impl FnOnce(&mut Session, &Inputs<'_>) -> Result<T>,
    ) -> Result<T> {
        let groups: Vec<usize> = self.options.own_groups().collect();
        let zeros = match batches.len() < groups.len() {
            true => session.zeros_for(function)?,
            false => Vec::new(),
        };
        let keys: Vec<[u32; 2]> = groups.iter().map(|group| self.key(*group)).collect();
        let shares = (0..groups.len()).map(|place| [batches.get(place).map_or(0.0, |part| part.share)]);
        let shares: Vec<[f32; 1]> = shares.collect();
        let mut all: Vec<(String, Host<'_>)> = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            all.push((of_group(KEY, *group), Host::U32(&keys[place])));
            all.push((of_group(SHARE, *group), Host::F32(&shares[place])));
            match batches.get(place) {
                Some(part) => {
                    let own = part.inputs.iter();
                    all.extend(own.map(|(name, value)| (of_group(name, *group), *value)));
                }
                None => {
                    let end = of_group("", *group);
                    let own = zeros.iter().filter(|(name, _)| name.ends_with(&end));
                    all.extend(own.map(|(name, value)| (name.clone(), value.host())));
                }
            }
        }
        let own = all.iter().map(|(name, value)| (name.as_str(), *value));
        let all: Vec<(&str, Host<'_>)> = scalars.iter().copied().chain(own).collect();
        then(session, &all)
    }
}
