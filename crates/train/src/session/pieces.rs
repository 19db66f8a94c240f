//! States of which this process has a piece, and the other processes the rest.

use super::Session;
use crate::array::{part_of, write_le};
use crate::filed::FiledState;
use lessen_base::{Error, Result};
use lessen_comm::Group;
use lessen_device::HostArray;
use lessen_graph::{Ranks, Type};
use lessen_nn::StateInPieces;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The states that processes have in pieces. All of them give each other these states in one order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    group: Group,
    states: BTreeMap<String, (Type, Range<usize>)>,
    /// The states that are given next, while processes give each other theirs.
    giving: Mutex<Option<VecDeque<String>>>,
}

impl Pieces {
    /// The pieces of a process.
    pub fn new(group: &Group, ranks: Ranks, states: Vec<StateInPieces>) -> Pieces {
        let own = states.into_iter().map(|state| {
            let owned = ranks.owned(state.whole.numel(), state.block);
            (state.name, (state.whole, owned))
        });
        Pieces {
            group: group.clone(),
            states: own.collect(),
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
    /// Sets the states of which this process has a piece.
    pub(crate) fn set_pieces(&mut self, pieces: Pieces) {
        self.pieces = pieces;
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

    /// The whole of a state of which this process has a piece; none for other states.
    ///
    /// # Errors
    /// A process that does not answer.
    pub(super) fn gathered(&self, name: &str) -> Result<Option<HostArray>> {
        if self.pieces.whole(name).is_none() {
            return Ok(None);
        }
        let next = self.pieces.giving().as_mut().and_then(VecDeque::pop_front);
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
        let all = self.pieces.group.agree("the states of the optimizer", own)?.concat();
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
    pub(super) fn upload_at(&self, name: &str, first: usize, data: &HostArray) -> Result<()> {
        let Some(owned) = self.pieces.owned(name) else {
            return self.model.upload_part(name, first, data.host());
        };
        let end = first.saturating_add(data.host().len());
        let (start, end) = (owned.start.max(first), owned.end.min(end));
        if start >= end {
            return Ok(());
        }
        let part = part_of(data, start - first..end - first);
        self.model.upload_part(name, start - owned.start, part)
    }
}
