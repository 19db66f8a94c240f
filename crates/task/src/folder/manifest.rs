//! What only a resumed run needs of saved models: in a checkpoint `training.safetensors` with the states of training,
//! and the manifest `training.json` with the step, the states' types and a checksum of every file of the checkpoint;
//! beside the best model `best.json` with its step and score.
//!
//! The manifest is written last and lists all other files: one that is missing, short or changed is an error.
//! `best.json` is written and removed together with its model, so the two never disagree.

use crate::input_files::{self, InputFiles};
use lessen_base::atomic::write_file;
use lessen_base::{Error, Result};
use lessen_nn::Joined;
use lessen_nn::checkpoint::{Entry, TensorFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The file with the states of training.
pub const STATE: &str = "training.safetensors";
/// The file of the manifest.
pub const MANIFEST: &str = "training.json";
/// The file with the best model's step and score.
pub const BEST: &str = "best.json";

/// The best evaluation of the training phase so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Steps done when it was reached.
    pub step: u64,
    /// The score that decides.
    pub score: f64,
    /// Whether less of the score is better. Earlier versions wrote the negative of such a score.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Its training phase; none in a run without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl Best {
    /// Its score such that greater is better.
    pub fn gain(&self) -> f64 {
        if self.is_error { -self.score } else { self.score }
    }
}

/// The training phase of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseMark {
    /// Its name.
    pub name: String,
    /// Steps that were done when it began.
    pub begun: u64,
    /// Batches that were taken when it began.
    pub batches: u64,
    /// The parameters that joined after the first step.
    pub joined: Joined,
}

/// The digest of a split, which tells it from other data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDigest {
    /// Examples, or bytes of a text; 0 where the data is made on the fly.
    pub size: u64,
    /// CRC-32C of texts, labels and the names of classes.
    pub crc: u32,
}

/// The digests of a run's data, which tell it from other data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDigests {
    /// The training split.
    pub train: DataDigest,
    /// The split of the evaluations.
    pub dev: DataDigest,
}

impl DataDigests {
    /// The digests that `of` gives of both splits.
    ///
    /// # Errors
    /// Those of `of`.
    pub(crate) fn of<T>([train, dev]: [&T; 2], of: impl Fn(&T) -> Result<DataDigest>) -> Result<DataDigests> {
        Ok(DataDigests {
            train: of(train)?,
            dev: of(dev)?,
        })
    }
}

/// How long a training phase has waited for a better evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The best score so far.
    pub score: f64,
    /// Evaluations since.
    pub evaluations: u64,
}

/// The manifest of a checkpoint: everything beside its arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this file's layout.
    format: u32,
    /// Steps done.
    pub step: u64,
    /// Number of steps that the training phase was planned to have.
    pub planned_steps: u64,
    /// The training phase; none in a run without phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseMark>,
    /// The data of the run.
    pub data: DataDigests,
    /// How long it has waited for a better evaluation, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Whether the training phase ended early here.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
    /// Whether it has no optimizer state.
    #[serde(default, skip_serializing_if = "is_false")]
    pub without_optimizer: bool,
    /// The step after which the optimizer's state began: that of the last checkpoint without it, else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub optimizer_since: u64,
    /// The files that its settings name; none in a checkpoint of an earlier version.
    #[serde(default, skip_serializing_if = "InputFiles::is_empty")]
    pub inputs: InputFiles,
    /// Dtype and shape of every state, such as `f32[2, 3]`.
    states: BTreeMap<String, String>,
    /// Length and CRC-32C of every other file.
    files: BTreeMap<String, (u64, u32)>,
}

const FORMAT: u32 = 3;

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Manifest {
    /// The manifest of a checkpoint after `step` steps on this data, in a run of `planned_steps`.
    pub fn new(step: u64, planned_steps: u64, data: DataDigests) -> Manifest {
        Manifest {
            format: FORMAT,
            step,
            planned_steps,
            phase: None,
            data,
            waiting: None,
            stopped: false,
            without_optimizer: false,
            optimizer_since: 0,
            inputs: InputFiles::default(),
            states: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }
}

/// Adds the manifest to a folder that holds the rest of the checkpoint; `states` are the states in [`STATE`].
///
/// # Errors
/// A folder that cannot be written to.
pub fn complete(dir: &Path, mut manifest: Manifest, states: &[Entry]) -> Result<()> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| Error::internal(format!("{what} cannot be written ({error})"));
    let types = states.iter().map(|state| (state.name.clone(), state.ty.to_string()));
    manifest.states = types.collect();
    let entries = fs::read_dir(dir).map_err(|error| unreadable(dir, &error.to_string()))?;
    for entry in entries {
        let path = entry.map_err(|error| unreadable(dir, &error.to_string()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        manifest.files.insert(name, digest(&path)?);
    }
    let text = serde_json::to_string_pretty(&manifest).map_err(|error| failed(MANIFEST, &error))?;
    write_file(&dir.join(MANIFEST), text.as_bytes())
}

/// Reads the manifest of a checkpoint and checks every file against it.
///
/// # Errors
/// A file that is missing, short or changed.
pub fn check(dir: &Path) -> Result<Manifest> {
    let path = dir.join(MANIFEST);
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
    let manifest = parse(&text).map_err(|reason| unreadable(&path, &reason))?;
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

/// A manifest from its text. The version is looked at first, since another one has other fields.
fn parse(text: &str) -> std::result::Result<Manifest, String> {
    let any: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match any["format"].as_u64() {
        Some(format) if format != u64::from(FORMAT) => Err("another version of Lessen wrote it".to_string()),
        _ => serde_json::from_value(any).map_err(|error| error.to_string()),
    }
}

/// Adds to the folder of the best model which evaluation it is of.
///
/// # Errors
/// A folder that cannot be written to.
pub fn write_best(dir: &Path, best: &Best) -> Result<()> {
    let text =
        serde_json::to_string(best).map_err(|error| Error::internal(format!("{BEST} cannot be written ({error})")))?;
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

/// Refuses a checkpoint whose file of states is not as the manifest says.
///
/// # Errors
/// A file that cannot be read, or holds something else than the manifest says.
pub fn check_states(dir: &Path, manifest: &Manifest) -> Result<()> {
    let path = dir.join(STATE);
    let file = TensorFile::open(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
    let found = file.entries().map(|entry| (entry.name, entry.ty.to_string()));
    if file.names().len() == manifest.states.len() && found.collect::<BTreeMap<_, _>>() == manifest.states {
        return Ok(());
    }
    let reason = format!("its states are not those that {MANIFEST} lists");
    Err(unreadable(&path, &reason))
}

fn unreadable(path: &Path, reason: &str) -> Error {
    Error::user(format!("{} cannot be used ({reason}){REMEDY}", path.display()))
}

/// The end of the errors of a checkpoint with a file that cannot be used.
pub const REMEDY: &str = "; remove the checkpoint or restore it";

/// Length and checksum of a file.
fn digest(path: &Path) -> Result<(u64, u32)> {
    input_files::digest(path).map_err(|error| unreadable(path, &error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_graph::{DType, Type};
    use lessen_nn::checkpoint::write_tensors;

    const DATA: DataDigests = DataDigests {
        train: DataDigest {
            size: 90_000,
            crc: u32::MAX,
        },
        dev: DataDigest { size: 10, crc: 1 },
    };

    /// A checkpoint with a state of every dtype.
    fn checkpoint() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("model.safetensors"), vec![7; 3_000]).unwrap();
        let entry = |name: &str, ty: Type| Entry { name: name.into(), ty };
        let states = [
            entry("a.mean", Type::f32(&[2, 3])),
            entry("b.step", Type::new(DType::F64, &[])),
            entry("c.running", Type::new(DType::BF16, &[2])),
            entry("d.count", Type::new(DType::I32, &[1])),
            entry("e.key", Type::new(DType::U32, &[2])),
            entry("f.seen", Type::new(DType::Bool, &[3])),
            entry("h.codes", Type::new(DType::U8, &[5])),
        ];
        let fill = |entry: &Entry, out: &mut dyn std::io::Write| out.write_all(&vec![1; entry.ty.bytes()]);
        write_tensors(&dir.path().join(STATE), &states, fill).unwrap();
        complete(dir.path(), Manifest::new(12, 30, DATA), &states).unwrap();
        dir
    }

    #[test]
    fn the_manifest_tells_the_states() {
        let dir = checkpoint();
        let manifest = check(dir.path()).unwrap();
        assert_eq!((manifest.step, manifest.planned_steps, manifest.data), (12, 30, DATA));
        assert_eq!(manifest.states["c.running"], "bf16[2]");
        check_states(dir.path(), &manifest).unwrap();
        for change in [
            |states: &mut BTreeMap<String, String>| drop(states.insert("d.count".into(), "u32[1]".into())),
            |states: &mut BTreeMap<String, String>| drop(states.insert("g.more".into(), "u32[1]".into())),
            |states: &mut BTreeMap<String, String>| drop(states.remove("a.mean")),
        ] {
            let mut other = manifest.clone();
            change(&mut other.states);
            let sentence = check_states(dir.path(), &other).unwrap_err().to_string();
            assert!(
                sentence.contains("its states are not those that training.json lists"),
                "{sentence}"
            );
        }
    }

    #[test]
    fn a_manifest_of_another_version_is_told() {
        let dir = checkpoint();
        fs::write(dir.path().join(MANIFEST), "{\"format\": 2, \"step\": 4}").unwrap();
        let sentence = check(dir.path()).unwrap_err().to_string();
        assert!(sentence.contains("another version of Lessen wrote it"), "{sentence}");
    }

    #[test]
    fn the_best_score_is_read_back_bit_by_bit() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_best(dir.path()).unwrap(), None);
        // A parser that is content with the nearest neighbours misses a bit of some of these scores.
        for score in [265.0 / 277.0, 371.0 / 408.0, 787.0 / 872.0, -0.1, -1e-300 / 3.0] {
            let best = Best {
                step: 10,
                score,
                is_error: score > 0.5,
                phase: None,
            };
            write_best(dir.path(), &best).unwrap();
            let found = read_best(dir.path()).unwrap().unwrap();
            assert_eq!(found, best);
            assert_eq!((found.step, found.score.to_bits()), (10, score.to_bits()), "{score}");
        }
        fs::write(dir.path().join(BEST), "{\"step\": 1").unwrap();
        let sentence = read_best(dir.path()).unwrap_err().to_string();
        assert!(sentence.contains("best.json cannot be used"), "{sentence}");
    }

    #[test]
    fn every_damage_is_noticed() {
        for name in ["model.safetensors", STATE] {
            let dir = checkpoint();
            let path = dir.path().join(name);
            let mut bytes = fs::read(&path).unwrap();
            bytes.pop();
            fs::write(&path, &bytes).unwrap();
            let short = check(dir.path()).unwrap_err().to_string();
            assert!(short.contains(name) && short.contains("bytes instead of"), "{short}");
            bytes.push(0x55);
            fs::write(&path, &bytes).unwrap();
            let changed = check(dir.path()).unwrap_err().to_string();
            assert!(changed.contains(name) && changed.contains("checksum"), "{changed}");
            fs::remove_file(&path).unwrap();
            assert!(check(dir.path()).unwrap_err().to_string().contains(name));
        }
        let dir = checkpoint();
        let text = fs::read_to_string(dir.path().join(MANIFEST)).unwrap();
        fs::write(dir.path().join(MANIFEST), &text[..text.len() / 2]).unwrap();
        assert!(check(dir.path()).unwrap_err().to_string().contains(MANIFEST));
    }
}
