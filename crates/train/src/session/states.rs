//! The states of a session, parameters among them: reading and replacing them, and files of them.

use super::Session;
use crate::array::{StateArray, write_le};
use lessen_base::{Error, Result};
use lessen_device::HostArray;
use lessen_graph::Type;
use lessen_nn::checkpoint::{self, Entry, TensorFile};
use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::Path;

impl Session {
    /// Writes states to a file, tensor by tensor; returns what is in it.
    pub(crate) fn save_states(&self, path: &Path, names: &[String]) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = names.iter().map(|name| self.entry(name)).collect();
        // Larger elements first: all are aligned.
        entries.sort_by(|a, b| {
            let size = |entry: &Entry| Reverse(entry.ty.dtype.bytes());
            size(a).cmp(&size(b)).then_with(|| a.name.cmp(&b.name))
        });
        checkpoint::write_tensors(path, &entries, |entry, out| self.write(&entry.name, out))?;
        Ok(entries)
    }

    /// Refuses a file that lacks one of these states or parameters, or has it in another type.
    pub(crate) fn check_states(&self, file: &TensorFile, names: &[String]) -> Result<()> {
        for name in names {
            let (own, found) = (self.entry(name).ty, file.entries().find(|entry| entry.name == *name));
            match found {
                Some(entry) if entry.ty == own => {}
                Some(entry) => {
                    let ty = entry.ty;
                    return Err(Error::user(format!(
                        "`{name}` is {ty} in the checkpoint and {own} in the model; take the model that was saved"
                    )));
                }
                None => {
                    return Err(Error::user(format!(
                        "the checkpoint has no `{name}`; take the model that was saved"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Reads those states of a file that `wanted` contains and the session has in the same type, in blocks. Returns the
    /// names of those that it read.
    pub(crate) fn load_states(&mut self, file: &mut TensorFile, wanted: &[String]) -> Result<Vec<String>> {
        let has = |entry: &Entry| {
            wanted.contains(&entry.name) && self.model.state_type(&entry.name).as_ref() == Some(&entry.ty)
        };
        let entries: Vec<Entry> = file.entries().filter(has).collect();
        for Entry { name, ty } in &entries {
            let mut first = 0;
            file.visit(name, &mut |bytes| {
                let part = HostArray::from_le_bytes(ty.dtype, bytes);
                self.model.upload_part(name, first, part.host())?;
                first += part.host().len();
                Ok(())
            })?;
        }
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// A state of any dtype, as it is now.
    pub(crate) fn state(&self, name: &str) -> Result<StateArray> {
        let ty = self.model.state_type(name);
        let mut data = None;
        self.model
            .download(name, &mut |host| data = Some(HostArray::from(host)))?;
        match (ty, data) {
            (Some(ty), Some(data)) => Ok(StateArray {
                name: name.to_string(),
                shape: ty.shape,
                data,
            }),
            _ => Err(Error::internal(format!("the state `{name}` cannot be read"))),
        }
    }

    /// Whether there is a state of this name and type.
    pub(crate) fn has_state(&self, array: &StateArray) -> bool {
        self.model.state_type(&array.name) == Some(array.ty())
    }

    /// Gives a state another value.
    pub(crate) fn set_state(&mut self, array: &StateArray) -> Result<()> {
        self.model.upload(&array.name, array.data.host())
    }

    /// Sets a state to zeros.
    pub(crate) fn clear_state(&mut self, name: &str) -> Result<()> {
        match self.model.state_type(name) {
            Some(ty) => self.model.allocate(name, &ty),
            None => Ok(()),
        }
    }

    /// Frees a state, which no loaded function may read any more.
    pub(crate) fn free(&mut self, name: &str) {
        if self.states.remove(name) {
            self.model.free(name);
        }
    }

    /// A state that is allocated, as a tensor of a file.
    pub(super) fn entry(&self, name: &str) -> Entry {
        Entry {
            name: name.to_string(),
            ty: self.model.state_type(name).unwrap_or(Type::f32(&[])),
        }
    }

    fn write(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        let mut written = Ok(());
        let read = self.model.download(name, &mut |host| written = write_le(host, out));
        read.map_err(io::Error::other)?;
        written
    }
}
