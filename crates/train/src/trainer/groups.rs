//! The micro-batches of a step in groups, which several processes may share.
//!
//! Each group begins with the states from before the step. The processes tell each other the results of their groups;
//! the graph of the update adds up the gradients by the tree of the groups, so that a step's bits do not depend on how
//! many processes there are. A mistake in the micro-batches of one process is the error of all, and changes nothing.

use super::part::Part;
use super::steps::{Steps, Sums};
use crate::array::write_le;
use crate::dealing::Move;
use crate::session::Session;
use lessen_base::{Error, Result};
use lessen_comm::Tree;
use lessen_device::{Host, HostArray};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a process tells the others of one of its groups.
struct Told {
    sums: Sums,
    /// The states that micro-batches assign, after the group; none where it had no micro-batch.
    carried: Option<Vec<HostArray>>,
}

impl Steps {
    /// Runs the micro-batches of this process in their groups, and returns the sums of the results over all groups. The
    /// means of carried states are set; gradients stay in the slots and sums of this process. `before` has the carried
    /// states from before the step.
    pub(super) fn run_groups(
        &mut self,
        session: &mut Session,
        batches: &[Part<'_>],
        before: &[HostArray],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Sums> {
        let (group, tree) = (self.options.group.clone(), Tree::new(self.options.ranks));
        let own = self.own_groups(session, batches, before, scalars);
        let told = group.agree("the losses", own.as_deref().map(told_bytes).map_err(Error::clone))?;
        let arrays = own.map(arrays_of)?;
        let all = told_by_all(&told, before)?;
        self.set_means(session, &all)?;
        let sums = tree.sum(all.into_iter().map(|told| told.sums), Sums::add_all);
        let sums = sums.ok_or_else(|| Error::internal("a step without groups"))?;
        Ok(Sums { arrays, ..sums })
    }

    /// The groups of this process; their gradients are in the slots and the sums of gradients then.
    fn own_groups(
        &mut self,
        session: &mut Session,
        mut batches: &[Part<'_>],
        before: &[HostArray],
        scalars: &[(&str, Host<'_>)],
    ) -> Result<Vec<Told>> {
        let each = self.options.accumulate / self.options.ranks;
        let mut first = self.options.own_batches().start;
        let mut told = Vec::with_capacity(self.groups.dealing.moves.len());
        if batches.is_empty() {
            self.flush(session)?;
        }
        for moves in self.groups.dealing.moves.clone() {
            let (own, rest) = batches.split_at(each.min(batches.len()));
            if !told.is_empty() {
                self.set_carried(session, before)?;
            }
            let sums = self.run_batches(session, own, first, scalars)?;
            let states = self.carried.iter().map(|name| session.state(name));
            told.push(Told {
                sums,
                carried: (!own.is_empty()).then(|| states.collect::<Result<_>>()).transpose()?,
            });
            for step in moves {
                let function = match step {
                    Move::Hold(slot) => self.groups.slots[slot][0],
                    Move::Add(slot) => self.groups.slots[slot][1],
                };
                session.run(function, &[])?;
            }
            (batches, first) = (rest, first + each);
        }
        Ok(told)
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
