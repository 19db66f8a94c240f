//! States of which this process has a piece, and the other processes the rest.

use super::Session;
use crate::array::{part_of, write_le};
use crate::carrier::GroupCarrier;
use crate::filed::FiledState;
use crate::sharding::Sharding;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_device::{Host, HostArray};
use lessen_graph::{Ranks, Type};
use lessen_nn::StateInPieces;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The states that processes have in pieces. All of them give each other these states in one order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    group: Group,
    states: BTreeMap<String, (Type, Range<usize>)>,
    /// The parameters among them, and what carries the gathering of them.
    params: Option<(Sharding, Arc<GroupCarrier>)>,
    /// The states that are given next, while processes give each other theirs.
    giving: Mutex<Option<VecDeque<String>>>,
}

impl Clone for Pieces {
    /// The same pieces, which are not given to others.
    fn clone(&self) -> Pieces {
        Pieces {
            group: self.group.clone(),
            states: self.states.clone(),
            params: self.params.clone(),
            giving: Mutex::default(),
        }
    }
}

impl Pieces {
    /// The pieces of a process: states of the optimizer, and parameters, which programs gather through the carrier.
    pub fn new(
        group: &Group,
        ranks: Ranks,
        states: Vec<StateInPieces>,
        params: Option<(Sharding, Arc<GroupCarrier>)>,
    ) -> Pieces {
        let of_params: Vec<StateInPieces> = params.iter().flat_map(|(sharding, _)| sharding.states()).collect();
        let own = states.into_iter().chain(of_params).map(|state| {
            let owned = ranks.owned(state.whole.numel(), state.block);
            (state.name, (state.whole, owned))
        });
        Pieces {
            group: group.clone(),
            states: own.collect(),
            params,
            giving: Mutex::default(),
        }
    }

    fn giving(&self) -> MutexGuard<'_, Option<VecDeque<String>>> {
        self.giving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The type of the whole state, where this process has a piece of it.
    pub fn whole(&self, name: &str) -> Option<&Type> {
        self.states.get(name).map(|(whole, _)| whole)
    }

    /// The most bytes that giving a state takes: the pieces of all processes, the whole of them, and this process's
    /// piece in messages.
    pub fn bytes_to_give(&self) -> usize {
        let whole = self.states.values().map(|(whole, _)| whole.bytes());
        4 * whole.max().unwrap_or(0)
    }

    /// The parameters in pieces, and what carries the gathering of them.
    pub fn params(&self) -> Option<&(Sharding, Arc<GroupCarrier>)> {
        self.params.as_ref()
    }

    /// The names of the parameters in pieces.
    fn param_names(&self) -> Vec<String> {
        let params = self.params.iter().flat_map(|(sharding, _)| sharding.states());
        params.map(|state| state.name).collect()
    }

    /// The elements of a whole state that are this process's.
    fn owned(&self, name: &str) -> Option<Range<usize>> {
        self.states.get(name).map(|(_, owned)| owned.clone())
    }
}

/// States in the order in which a file has them: larger elements first, so that all are aligned.
pub(crate) fn in_order(states: &[FiledState]) -> Vec<&FiledState> {
    let mut states: Vec<&FiledState> = states.iter().collect();
    states.sort_by(|a, b| {
        let size = |state: &FiledState| Reverse(state.ty.dtype.bytes());
        size(a).cmp(&size(b)).then_with(|| a.tensor.cmp(&b.tensor))
    });
    states
}

impl Session {
    /// Sets the states of which this process has a piece, and cuts the parameters among them.
    ///
    /// # Errors
    /// Memory that the device does not have.
    pub(crate) fn set_pieces(&mut self, pieces: Pieces) -> Result<()> {
        self.pieces = pieces;
        for name in self.pieces.param_names() {
            let (Some(whole), Some(owned)) = (self.pieces.whole(&name).cloned(), self.pieces.owned(&name)) else {
                continue;
            };
            if self.model.state_type(&name) != Some(whole.clone()) {
                continue;
            }
            let mut own = None;
            self.model.download(&name, &mut |host| {
                own = Some(HostArray::from(part_of(host, owned.clone())));
            })?;
            self.model.allocate(&name, &Type::new(whole.dtype, &[owned.len()]))?;
            if let Some(own) = own {
                self.model.upload(&name, own.host())?;
            }
        }
        Ok(())
    }

    /// Gives each process all parameters as wholes. All processes do so together.
    ///
    /// # Errors
    /// A process that does not answer; memory that the device does not have.
    pub(crate) fn join_params(&mut self) -> Result<()> {
        for name in self.pieces.param_names() {
            let whole = self.given(&name)?;
            let Some((ty, _)) = self.pieces.states.remove(&name) else {
                continue;
            };
            self.model.allocate(&name, &ty)?;
            self.model.upload(&name, whole.host())?;
        }
        self.pieces.params = None;
        Ok(())
    }

    /// Begins to give the other processes pieces of these states, in this order; whether that was not begun before.
    pub(crate) fn begin_giving<'a>(&self, names: impl Iterator<Item = &'a str>) -> bool {
        let mut giving = self.pieces.giving();
        if giving.is_some() {
            return false;
        }
        let in_pieces = names.filter(|name| self.pieces.whole(name).is_some());
        *giving = Some(in_pieces.map(String::from).collect());
        true
    }

    /// Gives the other processes what is left.
    ///
    /// # Errors
    /// A process that does not answer.
    pub(crate) fn end_giving(&self) -> Result<()> {
        let left = self.pieces.giving().take().unwrap_or_default();
        left.iter().try_for_each(|name| self.given(name).map(drop))
    }

    /// The whole of a state of which this process has a piece; none for other states. All processes ask for a parameter
    /// together, and for other states between [`Session::begin_giving`] and [`Session::end_giving`] alone.
    ///
    /// # Errors
    /// A process that does not answer.
    pub(super) fn gathered(&self, name: &str) -> Result<Option<HostArray>> {
        if self.pieces.whole(name).is_none() {
            return Ok(None);
        }
        let is_param = self.pieces.params().is_some_and(|(sharding, _)| sharding.has(name));
        let next = match self.pieces.giving().as_mut() {
            None if is_param => Some(name.to_string()),
            giving => giving.and_then(VecDeque::pop_front),
        };
        if next.as_deref() != Some(name) {
            return Err(Error::internal(format!(
                "the processes do not give each other the state `{name}` now"
            )));
        }
        self.given(name).map(Some)
    }

    /// The whole of a state, as all processes give it each other.
    fn given(&self, name: &str) -> Result<HostArray> {
        let mut own = Ok(Vec::new());
        self.model.download(name, &mut |host| {
            let mut bytes = Vec::new();
            own = write_le(host, &mut bytes).map(|()| bytes);
        })?;
        let own = own.map_err(|error| Error::internal(error.to_string()));
        let all = self.pieces.group.agree("the states", own)?.concat();
        let ty = self.pieces.whole(name).cloned().unwrap_or(Type::f32(&[]));
        if all.len() != ty.bytes() {
            return Err(Error::internal(format!(
                "the pieces of the state `{name}` do not fit together"
            )));
        }
        Ok(HostArray::from_le_bytes(ty.dtype, &all))
    }

    /// Gives elements of a state from number `first` of the whole on other values; of a state in pieces, those that
    /// this process has.
    ///
    /// # Errors
    /// A state that the session does not have, another dtype, more elements than it has.
    pub(super) fn upload_at(&self, name: &str, first: usize, data: Host<'_>) -> Result<()> {
        let Some(owned) = self.pieces.owned(name) else {
            return self.model.upload_part(name, first, data);
        };
        let end = first.saturating_add(data.len());
        let (start, end) = (owned.start.max(first), owned.end.min(end));
        if start >= end {
            return Ok(());
        }
        let part = part_of(data, start - first..end - first);
        self.model.upload_part(name, start - owned.start, part)
    }
}
