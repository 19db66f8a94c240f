//! What only a resumed run needs of saved models: in a checkpoint `training.safetensors` with the optimizer's state, and
//! `training.json` with the step and a checksum of every file of the checkpoint; beside the best model `best.json` with
//! its step and score.
//!
//! `training.json` is written last and vouches for all others: a file that is missing, short or changed is noticed.
//! `best.json` comes and goes with the model that it is about, so the two never disagree.

use crate::crc::extend;
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The file with the optimizer's state.
pub const STATE: &str = "training.safetensors";
/// The file that says what the checkpoint is.
pub const MANIFEST: &str = "training.json";
/// The file that says when the best model was the best.
pub const BEST: &str = "best.json";

/// A named array of the optimizer's state.
#[derive(Clone, Debug, PartialEq)]
pub struct StateArray {
    /// Name of the state.
    pub name: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub data: Vec<f32>,
}

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done when it was reached.
    pub step: u64,
    /// Its score; greater is better.
    pub score: f64,
}

/// What tells the training data of a run from other data, wherever it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataDigest {
    /// Examples, or bytes of a text; 0 where the data is made on the fly.
    pub size: u64,
    /// CRC-32C of texts, labels and the names of classes.
    pub crc: u32,
}

/// What is known of a checkpoint beside arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this file's layout.
    format: u32,
    /// Steps done.
    pub step: u64,
    /// What they were done on.
    pub(crate) data: DataDigest,
    /// Length and CRC-32C of every other file.
    files: BTreeMap<String, (u64, u32)>,
}

const FORMAT: u32 = 2;

/// Adds the state after `step` steps on this data, and the manifest, to a folder that holds the rest of the checkpoint.
///
/// # Errors
/// A folder that cannot be written to.
pub(crate) fn complete(dir: &Path, step: u64, data: DataDigest, state: &[StateArray]) -> Result<()> {
    let mut views = Vec::with_capacity(state.len());
    let bytes: Vec<Vec<u8>> = state
        .iter()
        .map(|array| array.data.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    for (array, bytes) in state.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, array.shape.clone(), bytes);
        let view = view
            .map_err(|error| Error::internal(format!("the state {} is not whole ({error})", array.name)))?;
        views.push((array.name.as_str(), view));
    }
    let whole = safetensors::serialize(views, None)
        .map_err(|error| Error::internal(format!("the optimizer's state cannot be written ({error})")))?;
    write_file(&dir.join(STATE), &whole)?;
    let mut files = BTreeMap::new();
    let entries = fs::read_dir(dir).map_err(|error| unreadable(dir, &error.to_string()))?;
    for entry in entries {
        let path = entry.map_err(|error| unreadable(dir, &error.to_string()))?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        files.insert(name, digest(&path)?);
    }
    let manifest = Manifest {
        format: FORMAT,
        step,
        data,
        files,
    };
    let text = serde_json::to_string_pretty(&manifest)
        .map_err(|error| Error::internal(format!("{MANIFEST} cannot be written ({error})")))?;
    write_file(&dir.join(MANIFEST), text.as_bytes())
}

/// Reads the manifest of a checkpoint and checks every file against it.
///
/// # Errors
/// A file that is missing, short or changed.
pub fn check(dir: &Path) -> Result<Manifest> {
    let path = dir.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|error| unreadable(&path, &error.to_string()))?;
    if manifest.format != FORMAT {
        return Err(unreadable(&path, "another version of Lessen wrote it"));
    }
    for (name, &expected) in &manifest.files {
        let path = dir.join(name);
        let found = digest(&path)?;
        if found.0 != expected.0 {
            return Err(unreadable(
                &path,
                &format!("it has {} bytes instead of {}", found.0, expected.0),
            ));
        }
        if found.1 != expected.1 {
            return Err(unreadable(&path, "its checksum is wrong"));
        }
    }
    Ok(manifest)
}

/// Adds to the folder of the best model which evaluation it is of.
///
/// # Errors
/// A folder that cannot be written to.
pub fn write_best(dir: &Path, best: Best) -> Result<()> {
    let text = serde_json::to_string(&best)
        .map_err(|error| Error::internal(format!("{BEST} cannot be written ({error})")))?;
    write_file(&dir.join(BEST), format!("{text}\n").as_bytes())
}

/// Which evaluation the best model in a folder is of; none where there is no such model.
///
/// # Errors
/// A file that cannot be read or holds something else.
pub fn read_best(dir: &Path) -> Result<Option<Best>> {
    let path = dir.join(BEST);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
    let best = serde_json::from_str(&text).map_err(|error| unreadable(&path, &error.to_string()))?;
    Ok(Some(best))
}

/// The optimizer's state of a checkpoint.
///
/// # Errors
/// A file that cannot be read or holds something else.
pub fn state(dir: &Path) -> Result<Vec<StateArray>> {
    let path = dir.join(STATE);
    let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| unreadable(&path, &error.to_string()))?;
    let mut arrays = Vec::new();
    for (name, view) in file.tensors() {
        if view.dtype() != Dtype::F32 {
            return Err(unreadable(
                &path,
                &format!("{name} has the dtype {:?} instead of F32", view.dtype()),
            ));
        }
        let value = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let data = view.data().chunks_exact(4).map(value).collect();
        arrays.push(StateArray {
            name,
            shape: view.shape().to_vec(),
            data,
        });
    }
    Ok(arrays)
}

fn unreadable(path: &Path, reason: &str) -> Error {
    Error::user(format!(
        "{} cannot be used ({reason}); remove the checkpoint or restore it",
        path.display()
    ))
}

/// Length and checksum of a file.
fn digest(path: &Path) -> Result<(u64, u32)> {
    let read = || -> std::io::Result<(u64, u32)> {
        let mut file = File::open(path)?;
        let mut block = vec![0; 1 << 20];
        let (mut length, mut crc) = (0, 0);
        loop {
            let count = file.read(&mut block)?;
            if count == 0 {
                return Ok((length, crc));
            }
            length += count as u64;
            crc = extend(crc, &block[..count]);
        }
    };
    read().map_err(|error| unreadable(path, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: DataDigest = DataDigest {
        size: 90_000,
        crc: u32::MAX,
    };

    fn checkpoint() -> (tempfile::TempDir, Vec<StateArray>) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("model.safetensors"), vec![7; 3_000]).unwrap();
        let data = vec![0.1, -0.0, f32::MIN_POSITIVE / 2.0, f32::MAX, 3.0, 4.0];
        let state = vec![
            StateArray {
                name: "w.mean".into(),
                shape: vec![2, 3],
                data,
            },
            StateArray {
                name: "step".into(),
                shape: vec![],
                data: vec![5.0],
            },
        ];
        complete(dir.path(), 12, DIGEST, &state).unwrap();
        (dir, state)
    }

    #[test]
    fn what_is_saved_is_read_back_bit_by_bit() {
        let (dir, mut saved) = checkpoint();
        let manifest = check(dir.path()).unwrap();
        assert_eq!((manifest.step, manifest.data), (12, DIGEST));
        let mut found = state(dir.path()).unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        saved.sort_by(|a, b| a.name.cmp(&b.name));
        let bits = |arrays: &[StateArray]| -> Vec<Vec<u32>> {
            arrays
                .iter()
                .map(|array| array.data.iter().map(|value| value.to_bits()).collect())
                .collect()
        };
        assert_eq!(bits(&found), bits(&saved));
        assert_eq!(found[1].shape, [2, 3]);
    }

    #[test]
    fn the_best_score_is_read_back_bit_by_bit() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_best(dir.path()).unwrap(), None);
        // Of these, a parser that is content with the nearest neighbours misses a bit.
        for score in [265.0 / 277.0, 371.0 / 408.0, 787.0 / 872.0, -0.1, -1e-300 / 3.0] {
            let best = Best { step: 10, score };
            write_best(dir.path(), best).unwrap();
            let found = read_best(dir.path()).unwrap().unwrap();
            assert_eq!(
                (found.step, found.score.to_bits()),
                (10, score.to_bits()),
                "{score}"
            );
        }
        fs::write(dir.path().join(BEST), "{\"step\": 1").unwrap();
        let sentence = read_best(dir.path()).unwrap_err().to_string();
        assert!(sentence.contains("best.json cannot be used"), "{sentence}");
    }

    #[test]
    fn every_damage_is_noticed() {
        for name in ["model.safetensors", STATE] {
            let (dir, _) = checkpoint();
            let path = dir.path().join(name);
            let mut bytes = fs::read(&path).unwrap();
            bytes.pop();
            fs::write(&path, &bytes).unwrap();
            let short = check(dir.path()).unwrap_err().to_string();
            assert!(
                short.contains(name) && short.contains("bytes instead of"),
                "{short}"
            );
            bytes.push(0x55);
            fs::write(&path, &bytes).unwrap();
            let changed = check(dir.path()).unwrap_err().to_string();
            assert!(
                changed.contains(name) && changed.contains("checksum"),
                "{changed}"
            );
            fs::remove_file(&path).unwrap();
            assert!(check(dir.path()).unwrap_err().to_string().contains(name));
        }
        let (dir, _) = checkpoint();
        let text = fs::read_to_string(dir.path().join(MANIFEST)).unwrap();
        fs::write(dir.path().join(MANIFEST), &text[..text.len() / 2]).unwrap();
        assert!(check(dir.path()).unwrap_err().to_string().contains(MANIFEST));
    }
}
