//! The tensors of a folder: `model.safetensors`, or the shards that `model.safetensors.index.json` lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::file::TensorFile;
use super::names::{Tied, packed, tied};
use super::save::Stored;
use crate::config::WANTED_FOLDER;
use crate::params::ParamSpec;
use crate::quantization_config::{refuse_gguf, turned_layers};
use lessen_base::lfs::refuse_pointer;
use lessen_base::{Error, Result};

/// The files of a checkpoint, and the index of the file that holds each tensor.
pub(super) struct Checkpoint {
    /// The file that errors about missing tensors name.
    pub(super) path: PathBuf,
    files: Vec<TensorFile>,
    pub(super) places: BTreeMap<String, usize>,
    /// The layers whose matrices of 4 bits are stored as transposes.
    turned: BTreeSet<String>,
}

impl Checkpoint {
    pub(super) fn open(dir: &Path) -> Result<Checkpoint> {
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        if single.exists() {
            let file = TensorFile::open(&single)?;
            let places = file.names().into_iter().map(|name| (name, 0)).collect();
            return Ok(Checkpoint {
                path: single,
                files: vec![file],
                places,
                turned: turned_layers(dir),
            });
        }
        if index.exists() {
            return Checkpoint::open_shards(dir, index);
        }
        let shown = dir.display();
        let pickled = ["pytorch_model.bin", "pytorch_model.bin.index.json"];
        pickled.iter().try_for_each(|name| refuse_pointer(&dir.join(name)))?;
        if pickled.iter().any(|name| dir.join(name).exists()) {
            return Err(Error::user(format!(
                "{shown} has a pytorch_model.bin but no model.safetensors; convert it with: python -c \"import transformers \
                 as t; d = '{shown}'; getattr(t, t.AutoConfig.from_pretrained(d).architectures[0]).from_pretrained(d)\
                 .save_pretrained(d)\""
            )));
        }
        refuse_gguf(dir)?;
        Err(Error::user(format!(
            "{shown} has no model.safetensors; {WANTED_FOLDER}"
        )))
    }

    /// All tensors with their stored dtypes.
    pub(super) fn tensors(&self) -> Vec<Stored> {
        let stored = |(name, place): (&String, &usize)| self.files[*place].stored(name);
        self.places.iter().filter_map(stored).collect()
    }

    /// A tensor with its stored dtype, if the checkpoint has it.
    pub(super) fn stored(&self, name: &str) -> Option<Stored> {
        self.files[*self.places.get(name)?].stored(name)
    }

    /// Whether the checkpoint has a tensor, or codes of 4 bits in its place.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name) || self.places.contains_key(&packed(name))
    }

    /// Whether the codes of 4 bits in place of a tensor are of its transpose.
    pub(super) fn is_turned(&self, name: &str) -> bool {
        self.turned.contains(name.trim_end_matches(".weight"))
    }

    /// The file of a tensor that the checkpoint has.
    pub(super) fn file(&mut self, name: &str) -> &mut TensorFile {
        &mut self.files[self.places[name]]
    }

    /// Refuses a checkpoint whose copy of a tied tensor differs from its source. Copies that a parameter was read from
    /// are skipped.
    pub(super) fn check_tied(
        &mut self,
        params: &[ParamSpec],
        missing: &[String],
        used: &BTreeMap<String, String>,
    ) -> Result<()> {
        let has_value = |name: &str| used.contains_key(name) && !missing.iter().any(|own| own == name);
        for Tied { copy, source, user } in tied() {
            let (Some(param), true) = (params.iter().find(|param| param.name == source), has_value(user)) else {
                continue;
            };
            let Some(tensor) = used.get(&source).filter(|_| has_value(&source)) else {
                continue;
            };
            if !self.places.contains_key(copy) || used.values().any(|used| used == copy) {
                continue;
            }
            if !self.are_equal(copy, tensor, &param.shape)? {
                return Err(Error::user(format!(
                    "{}: the tensor `{copy}` differs from `{source}`, and Lessen computes this model only \
                     with both the same (`tie_word_embeddings`)",
                    self.path.display()
                )));
            }
        }
        Ok(())
    }

    /// Whether two tensors of this shape have the same bits as `f32`.
    fn are_equal(&mut self, one: &str, other: &str, shape: &[usize]) -> Result<bool> {
        const COUNT: usize = 1 << 16;
        for first in (0..shape.iter().product()).step_by(COUNT) {
            let mut bits = |name: &str| -> Result<Vec<u32>> {
                if !self.places.contains_key(name) {
                    let codes = packed(name);
                    let what = "has a tied copy of numbers beside it, which no codes are; leave out the copy";
                    return Err(self.file(&codes).wrong(&codes, what));
                }
                let part = self.file(name).read_part(name, shape, first, COUNT)?;
                Ok(part.into_iter().map(f32::to_bits).collect())
            };
            if bits(one)? != bits(other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn open_shards(dir: &Path, index: PathBuf) -> Result<Checkpoint> {
        let wrong = |what: String| Error::user(format!("{} {what}", index.display()));
        let text = fs::read_to_string(&index).map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| wrong(format!("is no valid JSON: {e}")))?;
        let map: &Map<String, Value> = json
            .get("weight_map")
            .and_then(Value::as_object)
            .ok_or_else(|| wrong("has no object `weight_map` from tensors to files".into()))?;
        let mut shards: Vec<String> = Vec::new();
        let mut checkpoint = Checkpoint {
            path: index.clone(),
            files: Vec::new(),
            places: BTreeMap::new(),
            turned: turned_layers(dir),
        };
        for (name, shard) in map {
            // A shard lies beside its index: a path would leave the folder.
            let shard = shard
                .as_str()
                .filter(|s| Path::new(s).file_name().is_some_and(|n| n == *s));
            let shard = shard.ok_or_else(|| wrong(format!("gives no file name for the tensor `{name}`")))?;
            let place = match shards.iter().position(|s| s == shard) {
                Some(place) => place,
                None => {
                    checkpoint.files.push(TensorFile::open(&dir.join(shard))?);
                    shards.push(shard.to_string());
                    shards.len() - 1
                }
            };
            checkpoint.places.insert(name.clone(), place);
        }
        // A tensor that the index leaves out is read nevertheless, as transformers does.
        for (place, file) in checkpoint.files.iter().enumerate() {
            for name in file.names() {
                checkpoint.places.entry(name).or_insert(place);
            }
        }
        Ok(checkpoint)
    }
}
