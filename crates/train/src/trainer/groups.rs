//! The micro-batches of a step in groups, which several processes may share.
//!
//! Each group begins with the states from before the step. The processes tell each other the results of their groups;
//! the graph of the update adds up the gradients by the tree of the groups, so that a step's bits do not depend on how
//! many processes there are. A mistake in the micro-batches of one process is the error of all, and changes nothing.

use super::part::Part;
use super::steps::{StepFunctions, Steps, Sums};
use crate::array::write_le;
use crate::dealing::Move;
use crate::session::{Function, Inputs, Results, Session};
use lessen_base::{Error, Result};
use lessen_comm::Tree;
use lessen_device::{Host, HostArray};
use lessen_nn::names::LOSS_BEFORE;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a process tells the others of one of its groups.
pub(super) struct Told {
    pub sums: Sums,
    /// The states that micro-batches assign, after the group; none where it had no micro-batch.
    pub carried: Option<Vec<HostArray>>,
}

/// What a process has done of a step before the last of its micro-batches, which ends in the update.
struct Begun<'a> {
    told: Vec<Told>,
    /// The last micro-batch and its number in the step; none where the data has ended before.
    last: Option<(&'a Part<'a>, usize)>,
}

impl Steps {
    /// Runs the micro-batches of this process in their groups, and the update, and returns the sums of the results over
    /// all groups. The means of carried states are set. `before` has the carried states from before the step.
    ///
    /// Before the update all processes tell whether their inputs are right, so that a mistake of one changes nothing;
    /// where parameters are in pieces, before anything runs.
    pub(super) fn run_groups(
        &mut self,
        session: &mut Session,
        batches: &[Part<'_>],
        before: &[HostArray],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Sums> {
        let group = self.options.group.clone();
        let agree = |own: Result<()>| group.agree("the batches", own.map(|()| Vec::new()));
        if self.options.is_sharded() {
            agree(self.check_all(session, batches, scalars))?;
        }
        let begun = self.begin_groups(session, batches, before, scalars);
        if !self.options.is_sharded() {
            agree(begun.as_ref().map(|_| ()).map_err(Error::clone))?;
        }
        let ended = begun.and_then(|begun| self.end_groups(session, begun, before, scalars));
        if let Err(error) = &ended {
            // Other processes may have updated their pieces.
            self.broken = Some(error.to_string());
        }
        ended
    }

    /// Checks the inputs of all micro-batches of this process.
    fn check_all(&self, session: &Session, batches: &[Part<'_>], scalars: &[(&str, Host<'_>)]) -> Result<()> {
        let (first, most) = (self.options.own_batches().start, self.options.most_batches());
        for (number, part) in batches.iter().enumerate() {
            let own = self.functions_of(part)?;
            let last = own.last.filter(|_| number + 1 == most);
            let function = last.or(own.first).unwrap_or(own.step);
            self.with_last_inputs(part, first + number, &[], scalars, |all| session.check(function, all))?;
        }
        Ok(())
    }

    /// The groups of this process without the last micro-batch, whose inputs are checked; gradients are in the slots
    /// and the sums of gradients then.
    fn begin_groups<'a>(
        &mut self,
        session: &mut Session,
        mut batches: &'a [Part<'a>],
        before: &[HostArray],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Begun<'a>> {
        let each = self.options.accumulate / self.options.ranks;
        let most = self.options.most_batches();
        if self.options.is_sharded() {
            let ends_in_batch = batches.len() > each * (self.groups.dealing.moves.len() - 1);
            let own = batches.len() - usize::from(ends_in_batch);
            self.fill_in(session, most - 1 - own, scalars)?;
            self.set_carried(session, before)?;
        } else if most > 1 && batches.len() < 2 {
            // The first micro-batches of other processes begin with the updates that wait.
            self.flush_in_step(session)?;
        }
        let mut first = self.options.own_batches().start;
        let moves = self.groups.dealing.moves.clone();
        let mut told = Vec::with_capacity(moves.len());
        let mut last = None;
        for (group, moves) in moves.iter().enumerate() {
            let (mut own, rest) = batches.split_at(each.min(batches.len()));
            if group + 1 == self.groups.dealing.moves.len() {
                last = own.split_off_last().map(|part| (part, first + own.len()));
            }
            if !told.is_empty() {
                self.set_carried(session, before)?;
            }
            let sums = self.run_batches(session, own, first, scalars)?;
            told.push(Told {
                sums,
                carried: self.carried_after(session, own)?,
            });
            let ends_here = last.is_none() && !self.options.is_sharded();
            for step in moves
                .iter()
                .filter(|_| ends_here || group + 1 < self.groups.dealing.moves.len())
            {
                let function = match *step {
                    Move::Hold(slot) => self.groups.slots[slot][0],
                    Move::Add(slot) => self.groups.slots[slot][1],
                };
                session.run(function, &[])?;
            }
            (batches, first) = (rest, first + each);
        }
        if let Some((part, index)) = last {
            let function = self.last_of(part)?;
            self.with_last_inputs(part, index, &told, scalars, |all| session.check(function, all))?;
        }
        Ok(Begun { told, last })
    }

    /// Runs micro-batches of the share 0 in place of those that other processes have and this one has not, since all
    /// gather parameters together.
    fn fill_in(&mut self, session: &mut Session, count: usize, scalars: &[(&str, Host<'_>)]) -> Result<()> {
        for _ in 0..count {
            let StepFunctions { step, first, .. } = self.any_functions()?;
            let function = first.filter(|_| self.pending.is_none()).unwrap_or(step);
            self.run_empty(session, function, &[], scalars)?;
            self.pending = None;
        }
        Ok(())
    }

    /// Runs a function of micro-batches on zeros, as one of the share 0.
    fn run_empty(
        &self,
        session: &mut Session,
        function: Function,
        told: &[Told],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Results> {
        let zeros = session.zeros_for(function)?;
        let inputs: Vec<_> = zeros
            .iter()
            .map(|(name, zeros)| (name.as_str(), zeros.host()))
            .collect();
        let part = Part::new(0.0, &inputs);
        self.with_last_inputs(&part, 0, told, scalars, |all| session.run(function, all))
    }

    /// The functions of a layout.
    pub(super) fn any_functions(&self) -> Result<StepFunctions> {
        let functions = self.functions.values().next().copied();
        functions.ok_or_else(|| Error::internal("a training without a step"))
    }

    /// The last micro-batch with the update, or the update alone, and the sums over all groups.
    fn end_groups(
        &mut self,
        session: &mut Session,
        Begun { mut told, last }: Begun<'_>,
        before: &[HostArray],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Sums> {
        let mut ended = Sums::default();
        match last {
            Some((part, index)) => {
                let function = self.last_of(part)?;
                let run = |all: &Inputs<'_>| session.run(function, all);
                let results = self.with_last_inputs(part, index, &told, scalars, run)?;
                let carried = self.carried_after(session, std::slice::from_ref(part))?;
                if let Some(own) = told.last_mut() {
                    own.sums.add(&results, part.share)?;
                    own.carried = carried;
                }
                ended.end(&results)?;
            }
            None if self.options.is_sharded() => {
                let StepFunctions { step, first, last, .. } = self.any_functions()?;
                let function = last.unwrap_or_else(|| first.filter(|_| self.pending.is_none()).unwrap_or(step));
                ended.end(&self.run_empty(session, function, &told, scalars)?)?;
            }
            None => {
                self.flush_in_step(session)?;
                let apply = self.apply.ok_or_else(|| Error::internal("groups without an update"))?;
                let before = loss_before(&told);
                let all = [scalars, &[(LOSS_BEFORE, Host::F32(&before))]].concat();
                ended.end(&session.run(apply, &all)?)?;
            }
        }
        self.pending = None;
        self.told(session, told, ended, before)
    }

    /// Tells all processes the results of this one's groups, and returns the sums over all groups, beside the results
    /// of the update. The means of carried states are set.
    pub(super) fn told(
        &self,
        session: &mut Session,
        told: Vec<Told>,
        ended: Sums,
        before: &[HostArray],
    ) -> Result<Sums> {
        let (group, tree) = (&self.options.group, Tree::new(self.options.ranks));
        let all = group.agree("the losses", Ok(told_bytes(&told)))?;
        let arrays = arrays_of(told);
        let all = told_by_all(&all, before)?;
        self.set_means(session, &all)?;
        let sums = tree.sum(all.into_iter().map(|told| told.sums), Sums::add_all);
        let sums = sums.ok_or_else(|| Error::internal("a step without groups"))?;
        let Sums {
            gradient_norm, skipped, ..
        } = ended;
        Ok(Sums {
            arrays,
            gradient_norm,
            skipped,
            ..sums
        })
    }

    /// The function of a last micro-batch.
    fn last_of(&self, part: &Part<'_>) -> Result<Function> {
        let StepFunctions { step, first, last, .. } = self.functions_of(part)?;
        Ok(last.unwrap_or_else(|| first.filter(|_| self.pending.is_none()).unwrap_or(step)))
    }

    /// Does something with the inputs of the last micro-batch.
    fn with_last_inputs<T>(
        &self,
        part: &Part<'_>,
        index: usize,
        told: &[Told],
        scalars: &[(&str, Host<'_>)],
        then: impl FnOnce(&Inputs<'_>) -> Result<T>,
    ) -> Result<T> {
        let before = loss_before(told);
        let scalars = [scalars, &[(LOSS_BEFORE, Host::F32(&before))]].concat();
        self.with_inputs(part, index, &scalars, then)
    }

    /// The states that micro-batches assign, after a group; none where it had no micro-batch.
    fn carried_after(&self, session: &Session, own: &[Part<'_>]) -> Result<Option<Vec<HostArray>>> {
        let states = self.carried.iter().map(|name| session.state(name));
        (!own.is_empty()).then(|| states.collect()).transpose()
    }

    /// Sets the states that micro-batches assign to their means over the groups. States of other dtypes than `f32` get
    /// the values of the first group.
    fn set_means(&self, session: &mut Session, all: &[Told]) -> Result<()> {
        let told: Vec<&Vec<HostArray>> = all.iter().filter_map(|told| told.carried.as_ref()).collect();
        for (number, name) in self.carried.iter().enumerate() {
            let states: Vec<&HostArray> = told.iter().map(|states| &states[number]).collect();
            let numbers: Option<Vec<Vec<f32>>> = states.iter().map(|state| f32s(state)).collect();
            let count = states.len();
            let sum = numbers.and_then(|numbers| Tree::new(count).sum(numbers, |left, right| add(left, &right)));
            match sum {
                Some(mut mean) => {
                    mean.iter_mut().for_each(|x| *x /= count as f32);
                    session.set_state(name, &HostArray::F32(mean))?;
                }
                None => states.first().map_or(Ok(()), |first| session.set_state(name, first))?,
            }
        }
        Ok(())
    }
}

/// Zero where all losses so far are finite.
fn loss_before(told: &[Told]) -> [f32; 1] {
    let are_finite = told.iter().all(|told| told.sums.loss.is_finite());
    [if are_finite { 0.0 } else { f32::NAN }]
}

/// What a process tells the others of its groups: a line of JSON, and the carried states.
fn told_bytes(own: &[Told]) -> Vec<u8> {
    let group = |told: &Told| {
        let values = told.sums.values.iter();
        let values: BTreeMap<&String, u64> = values.map(|(name, value)| (name, value.to_bits())).collect();
        json!({ "loss": told.sums.loss.to_bits(), "values": values, "carried": told.carried.is_some() })
    };
    let mut bytes = format!("{}\n", own.iter().map(group).collect::<Value>()).into_bytes();
    for state in own.iter().filter_map(|told| told.carried.as_ref()).flatten() {
        // Writing to a vector does not fail.
        let _ = write_le(state.host(), &mut bytes);
    }
    bytes
}

/// The groups of all processes, in order. Carried states have the types of `before`.
///
/// # Errors
/// Another version on a process.
fn told_by_all(told: &[Vec<u8>], before: &[HostArray]) -> Result<Vec<Told>> {
    let mut all = Vec::new();
    for bytes in told {
        read_told(bytes, before, &mut all).ok_or_else(|| Error::internal("a process tells what cannot be read"))?;
    }
    Ok(all)
}

/// Reads what a process tells; none if it cannot be read.
fn read_told(bytes: &[u8], before: &[HostArray], all: &mut Vec<Told>) -> Option<()> {
    let (header, mut rest) = bytes.split_at_checked(bytes.iter().position(|byte| *byte == b'\n')? + 1)?;
    let header: Value = serde_json::from_slice(header).ok()?;
    for group in header.as_array()? {
        let mut states = Vec::new();
        for state in before.iter().filter(|_| group["carried"] == true) {
            let own = rest.split_off(..state.host().len() * state.dtype().bytes())?;
            states.push(HostArray::from_le_bytes(state.dtype(), own));
        }
        let value = |(name, bits): (&String, &Value)| Some((name.clone(), f64::from_bits(bits.as_u64()?)));
        all.push(Told {
            sums: Sums {
                loss: f32::from_bits(group["loss"].as_u64()?.try_into().ok()?),
                values: group["values"].as_object()?.iter().map(value).collect::<Option<_>>()?,
                ..Sums::default()
            },
            carried: (group["carried"] == true).then_some(states),
        });
    }
    Some(())
}

/// The arrays of all micro-batches of this process.
fn arrays_of(own: Vec<Told>) -> BTreeMap<String, Vec<HostArray>> {
    let mut arrays: BTreeMap<String, Vec<HostArray>> = BTreeMap::new();
    for (name, more) in own.into_iter().flat_map(|told| told.sums.arrays) {
        arrays.entry(name).or_default().extend(more);
    }
    arrays
}

/// The elements of an `f32` array.
fn f32s(array: &HostArray) -> Option<Vec<f32>> {
    match array {
        HostArray::F32(values) => Some(values.clone()),
        _ => None,
    }
}

/// Adds an array to another one.
fn add(left: &mut [f32], right: &[f32]) {
    left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
}
