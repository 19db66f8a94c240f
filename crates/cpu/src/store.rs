//! The store: named states that live between runs, such as parameters and the optimizer's moments.

use std::collections::BTreeMap;

use lessen_base::Result;
use lessen_device::ProgramId;
use lessen_device::checks::checked_bytes;
use lessen_graph::{DType, Type};

use crate::arena::Arena;

/// One state: its type and its memory.
pub(crate) struct State {
    pub(crate) ty: Type,
    pub(crate) memory: Arena,
    /// The program whose kernels alone can read the packed elements; none for elements in row-major order.
    pub(crate) packed_for: Option<ProgramId>,
}

impl State {
    fn plain(ty: Type, memory: Arena) -> State {
        State {
            ty,
            memory,
            packed_for: None,
        }
    }

    fn is_plain_f32(&self) -> bool {
        self.ty.dtype == DType::F32 && self.packed_for.is_none()
    }
}

/// Named states. All executables that are run with a store share them.
#[derive(Default)]
pub struct Store {
    states: BTreeMap<String, State>,
}

impl Store {
    /// An empty store.
    pub fn new() -> Store {
        Store::default()
    }

    /// Adds or replaces an `f32` state.
    ///
    /// # Panics
    /// If the number of values is not the shape's, or there is no memory for them.
    pub fn insert_f32(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.insert_zeros(name, &Type::f32(shape)).expect("memory for a state");
        self.f32_mut(name).expect("just inserted").copy_from_slice(values);
    }

    /// Adds or replaces a state, filled with zeros.
    ///
    /// # Errors
    /// A state that the memory cannot hold, or whose size cannot be counted.
    pub fn insert_zeros(&mut self, name: &str, ty: &Type) -> Result<()> {
        let memory = Arena::new(checked_bytes(&format!("the state `{name}`"), ty)?)?;
        self.states.insert(name.to_string(), State::plain(ty.clone(), memory));
        Ok(())
    }

    /// Whether there is a state of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.states.contains_key(name)
    }

    /// The type of a state.
    pub fn ty(&self, name: &str) -> Option<&Type> {
        self.states.get(name).map(|s| &s.ty)
    }

    /// The shape of a state.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.ty(name).map(|ty| ty.shape.as_slice())
    }

    /// The values of an `f32` state, in row-major order; none where they lie otherwise.
    pub fn f32(&self, name: &str) -> Option<&[f32]> {
        let state = self.states.get(name).filter(|s| s.is_plain_f32())?;
        // SAFETY: the memory holds `numel` zero-initialized `f32`s, aligned to more than 4 bytes, and is borrowed
        // with the store.
        Some(unsafe { std::slice::from_raw_parts(state.memory.ptr().cast(), state.ty.numel()) })
    }

    /// The values of an `f32` state, to be changed.
    pub fn f32_mut(&mut self, name: &str) -> Option<&mut [f32]> {
        let state = self.states.get_mut(name).filter(|s| s.is_plain_f32())?;
        // SAFETY: as above; the store is borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(state.memory.ptr().cast(), state.ty.numel()) })
    }

    /// The names of all states, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.states.keys().map(String::as_str)
    }

    /// Removes a state.
    pub fn remove(&mut self, name: &str) {
        self.states.remove(name);
    }

    /// Bytes of all states.
    pub fn bytes(&self) -> usize {
        self.states.values().map(|s| s.memory.len()).sum()
    }

    /// Puts the elements of a state, packed for a program, in place of its present elements.
    pub(crate) fn pack(&mut self, name: &str, program: ProgramId, memory: Arena) {
        if let Some(state) = self.states.get_mut(name) {
            (state.memory, state.packed_for) = (memory, Some(program));
        }
    }

    pub(crate) fn state(&self, name: &str) -> Option<&State> {
        self.states.get(name)
    }
}
