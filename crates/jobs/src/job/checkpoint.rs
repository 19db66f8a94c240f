//! The checkpoint of a job: the state after some of its iterations, epochs or tests, as a folder that is replaced as a
//! whole.

use crc32c::crc32c_append;
use lessen_base::atomic::{write_file, write_folder};
use lessen_base::watcher::{self, Event};
use lessen_base::{Error, Result};
use lessen_device::HostArray;
use lessen_nn::checkpoint::{Entry, TensorFile, write_tensors};
use lessen_nn::{Weight, Weights};
use lessen_train::StateArray;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The file with the state.
const STATE: &str = "state.safetensors";

/// The file that says after how many.
const MARK: &str = "checkpoint.json";

/// What is said of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Iterations done.
    done: usize,
    /// CRC-32C of the file with the state.
    crc32c: u32,
}

/// The state of a job after some of its iterations, epochs or tests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Checkpoint {
    /// Iterations done.
    pub done: usize,
    /// All that the next iteration depends on beside its number, ordered by name.
    pub state: Vec<StateArray>,
}

impl Checkpoint {
    /// The checkpoint of weights after `done` iterations.
    pub(crate) fn of(done: usize, weights: Weights) -> Checkpoint {
        let array = |(name, weight): (String, Weight)| StateArray {
            name,
            shape: weight.shape,
            data: HostArray::F32(weight.data),
        };
        Checkpoint {
            done,
            state: weights.into_iter().map(array).collect(),
        }
    }

    /// With another array.
    pub(crate) fn with(mut self, array: StateArray) -> Checkpoint {
        self.state.push(array);
        self.state.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// Takes the array of this name out of it.
    pub(crate) fn take(&mut self, name: &str) -> Option<StateArray> {
        let place = self.state.iter().position(|array| array.name == name)?;
        Some(self.state.remove(place))
    }

    /// Takes all arrays of `f32` out of it.
    pub(crate) fn take_weights(&mut self) -> Weights {
        let mut weights = Weights::new();
        for StateArray { name, shape, data } in std::mem::take(&mut self.state) {
            match data {
                HostArray::F32(data) => drop(weights.insert(name, Weight { shape, data })),
                data => self.state.push(StateArray { name, shape, data }),
            }
        }
        weights
    }

    /// Writes the folder of the checkpoint, and tells the watcher of it; the one before stays until this one is whole.
    ///
    /// # Errors
    /// A folder that cannot be written to, a full disk.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let entry = |array: &StateArray| Entry {
            name: array.name.clone(),
            ty: array.ty(),
        };
        let entries: Vec<Entry> = self.state.iter().map(entry).collect();
        let mut arrays = self.state.iter();
        write_folder(dir, |aside| {
            let path = aside.join(STATE);
            write_tensors(&path, &entries, |_, out| {
                arrays.next().map_or(Ok(()), |array| array.write(out))
            })?;
            let mark = Mark {
                done: self.done,
                crc32c: checksum(&path)?,
            };
            let text = serde_json::to_string(&mark);
            let text = text.map_err(|error| Error::internal(format!("the checkpoint cannot be written ({error})")))?;
            write_file(&aside.join(MARK), format!("{text}\n").as_bytes())
        })?;
        let step = self.done as u64;
        watcher::tell(&Event::Checkpoint { step, folder: dir });
        Ok(())
    }

    /// Reads the folder of a checkpoint; none where there is no such folder.
    ///
    /// # Errors
    /// A folder that is not whole.
    pub(crate) fn read(dir: &Path) -> Result<Option<Checkpoint>> {
        if !dir.exists() {
            return Ok(None);
        }
        let wrong = |what: String| {
            Error::user(format!(
                "the checkpoint {} cannot be used ({what}); restore it, or begin anew with another --out",
                dir.display()
            ))
        };
        let text = fs::read_to_string(dir.join(MARK)).map_err(|error| wrong(error.to_string()))?;
        let mark: Mark = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let path = dir.join(STATE);
        if checksum(&path).map_err(|error| wrong(error.to_string()))? != mark.crc32c {
            return Err(wrong(format!("{STATE} is not the file that was written")));
        }
        let mut file = TensorFile::open(&path)?;
        let entries: Vec<Entry> = file.entries().collect();
        let mut state = Vec::with_capacity(entries.len());
        for Entry { name, ty } in entries {
            let (count, mut done) = (ty.shape.iter().product(), 0);
            let mut data = HostArray::zeros(ty.dtype, count).ok_or_else(|| wrong(format!("{name} is too large")))?;
            file.visit(&name, &mut |bytes| {
                let part = HostArray::from_le_bytes(ty.dtype, bytes);
                data.write(done, part.host());
                done += part.len();
                Ok(())
            })?;
            let shape = ty.shape.to_vec();
            state.push(StateArray { name, shape, data });
        }
        Ok(Some(Checkpoint { done: mark.done, state }))
    }
}

/// The checksum of a file.
fn checksum(path: &Path) -> Result<u32> {
    let bytes = fs::read(path)
        .map_err(|error| Error::user(format!("{} cannot be read ({error}); restore the file", path.display())))?;
    Ok(crc32c_append(0, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_back_and_a_damaged_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("checkpoint");
        assert_eq!(Checkpoint::read(&folder).unwrap(), None);
        let array = |name: &str, data: HostArray| StateArray {
            name: name.to_string(),
            shape: vec![data.len()],
            data,
        };
        let state = vec![
            array("count", HostArray::U32(vec![7])),
            array("images", HostArray::F32(vec![1.5, -0.0, 3e38, 1e-40])),
            array(
                "losses",
                HostArray::F64(vec![0.1, -1.0 / 3.0, f64::MIN_POSITIVE, 1e300]),
            ),
            array("none", HostArray::F64(Vec::new())),
        ];
        for done in [3, 4] {
            let checkpoint = Checkpoint {
                done,
                state: state.clone(),
            };
            checkpoint.write(&folder).unwrap();
            assert_eq!(Checkpoint::read(&folder).unwrap(), Some(checkpoint));
        }
        let path = folder.join(STATE);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        let sentence = Checkpoint::read(&folder).unwrap_err().to_string();
        assert!(sentence.contains("is not the file that was written"), "{sentence}");
        fs::remove_file(folder.join(MARK)).unwrap();
        let sentence = Checkpoint::read(&folder).unwrap_err().to_string();
        assert!(sentence.contains("cannot be used"), "{sentence}");
    }
}
