//! The checkpoint of a job: the state after some of its iterations, epochs or tests, as a folder that is replaced as a
//! whole.

use crc32c::crc32c_append;
use lessen_base::atomic::{write_file, write_folder};
use lessen_base::{Error, Result};
use lessen_graph::{DType, Type};
use lessen_nn::checkpoint::{Entry, TensorFile, write_tensors};
use lessen_nn::{Weight, Weights};
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
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checkpoint {
    /// Iterations done.
    pub done: usize,
    /// All that the next iteration depends on beside its number.
    pub state: Weights,
}

impl Checkpoint {
    /// Writes the folder of the checkpoint; the one before stays until this one is whole.
    ///
    /// # Errors
    /// A folder that cannot be written to, a full disk.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let entries: Vec<Entry> = self
            .state
            .iter()
            .map(|(name, weight)| Entry {
                name: name.clone(),
                ty: Type::new(DType::F32, &weight.shape),
            })
            .collect();
        write_folder(dir, |aside| {
            let path = aside.join(STATE);
            write_tensors(&path, &entries, |entry, out| {
                let data = self.state.get(&entry.name).map_or(&[][..], |weight| &weight.data);
                data.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
            })?;
            let mark = Mark {
                done: self.done,
                crc32c: checksum(&path)?,
            };
            let text = serde_json::to_string(&mark);
            let text = text.map_err(|error| Error::internal(format!("the checkpoint cannot be written ({error})")))?;
            write_file(&aside.join(MARK), format!("{text}\n").as_bytes())
        })
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
        let mut state = Weights::new();
        for Entry { name, ty } in entries {
            let mut data = Vec::new();
            file.visit(&name, &mut |bytes| {
                let numbers = bytes.chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]]);
                data.extend(numbers.map(f32::from_le_bytes));
                Ok(())
            })?;
            let shape = ty.shape.to_vec();
            state.insert(name, Weight { shape, data });
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
        let weight = |shape: &[usize], data: &[f32]| Weight {
            shape: shape.to_vec(),
            data: data.to_vec(),
        };
        let state = Weights::from([
            ("images".to_string(), weight(&[2, 2], &[1.5, -0.0, 3e38, 1e-40])),
            ("momentum".to_string(), weight(&[1], &[0.1])),
        ]);
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
