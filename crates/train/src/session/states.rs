//! The states of a session, parameters among them: reading and replacing them, and files of them.

use super::Session;
use super::pieces::in_order;
use crate::array::{StateArray, write_le};
use crate::filed::FiledState;
use lessen_base::{Error, Result};
use lessen_device::HostArray;
use lessen_graph::Type;
use lessen_nn::checkpoint::{self, Entry, TensorFile};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

impl Session {
    /// Writes states to a file, tensor by tensor; returns what is in it.
    pub(crate) fn save_states(&self, path: &Path, states: &[FiledState]) -> Result<Vec<Entry>> {
        let states = in_order(states);
        let entry = |state: &&FiledState| Entry {
            name: state.tensor.clone(),
            ty: state.ty.clone(),
        };
        let entries: Vec<Entry> = states.iter().map(entry).collect();
        let mut own = states.iter();
        checkpoint::write_tensors(path, &entries, |_, out| {
            own.next().map_or(Ok(()), |state| self.write(&state.state, out))
        })?;
        Ok(entries)
    }

    /// Reads states of a file, which has them all in their types, in blocks.
    pub(crate) fn load_states(&mut self, file: &mut TensorFile, states: &[FiledState]) -> Result<()> {
        for FiledState { state, tensor, ty } in states {
            let mut first = 0;
            file.visit(tensor, &mut |bytes| {
                let part = HostArray::from_le_bytes(ty.dtype, bytes);
                self.upload_at(state, first, part.host())?;
                first += part.host().len();
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A state of training as a file has it.
    pub(crate) fn filed(&self, name: &str) -> FiledState {
        let whole = self.pieces.whole(name).cloned();
        let ty = whole.or_else(|| self.model.state_type(name)).unwrap_or(Type::f32(&[]));
        FiledState::of_training(name, &ty)
    }

    /// The elements of a state: of a parameter with one state, or of a state that a function declared.
    ///
    /// # Errors
    /// A state that the session does not have.
    pub fn state(&self, name: &str) -> Result<HostArray> {
        if let Some(whole) = self.gathered(name)? {
            return Ok(whole);
        }
        let mut data = None;
        self.model
            .download(name, &mut |host| data = Some(HostArray::from(host)))?;
        data.ok_or_else(|| Error::internal(format!("the state `{name}` cannot be read")))
    }

    /// States of training, as files name them.
    pub(crate) fn state_arrays(&self, names: &[String]) -> Result<Vec<StateArray>> {
        let array = |name: &String| {
            let FiledState { tensor, ty, .. } = self.filed(name);
            let data = self.state(name)?;
            Ok(StateArray {
                name: tensor,
                shape: ty.shape.into_vec(),
                data,
            })
        };
        names.iter().map(array).collect()
    }

    /// Sets the states of training in `names` to the values of `arrays`, in the order of `arrays`. Sets none and
    /// returns false unless `arrays` has exactly these states, each in its type.
    pub(crate) fn set_states(&mut self, names: &[String], arrays: &[StateArray]) -> Result<bool> {
        let mut own: HashMap<String, FiledState> = names
            .iter()
            .map(|name| self.filed(name))
            .map(|state| (state.tensor.clone(), state))
            .collect();
        let mut states = Vec::with_capacity(arrays.len());
        for array in arrays {
            let is_whole = array.data.host().len() == array.ty().numel();
            match own.remove(&array.name) {
                Some(state) if state.ty == array.ty() && is_whole => states.push((state.state, array)),
                _ => return Ok(false),
            }
        }
        if !own.is_empty() {
            return Ok(false);
        }
        for (name, array) in states {
            self.upload_at(&name, 0, array.data.host())?;
        }
        Ok(true)
    }

    /// Gives a state another value.
    ///
    /// # Errors
    /// A state that the session does not have, another dtype or number of elements.
    pub fn set_state(&self, name: &str, data: &HostArray) -> Result<()> {
        self.model.upload(name, data.host())
    }

    /// Gives the first elements of a state other values.
    pub(crate) fn set_state_part(&self, name: &str, data: &HostArray) -> Result<()> {
        self.model.upload_part(name, 0, data.host())
    }

    /// Sets a state to zeros.
    pub(crate) fn clear_state(&mut self, name: &str) -> Result<()> {
        match self.model.state_type(name) {
            Some(ty) => self.model.allocate(name, &ty),
            None => Ok(()),
        }
    }

    /// Allocates a state of zeros.
    pub(crate) fn allocate(&mut self, name: &str, ty: &Type) -> Result<()> {
        self.model.allocate(name, ty)?;
        self.states.insert(name.to_string());
        Ok(())
    }

    /// Frees a state, which no loaded function may read any more.
    pub(crate) fn free(&mut self, name: &str) {
        if self.states.remove(name) {
            self.model.free(name);
        }
    }

    fn write(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        if let Some(whole) = self.gathered(name).map_err(io::Error::other)? {
            return write_le(whole.host(), out);
        }
        let mut written = Ok(());
        let read = self.model.download(name, &mut |host| written = write_le(host, out));
        read.map_err(io::Error::other)?;
        written
    }
}
