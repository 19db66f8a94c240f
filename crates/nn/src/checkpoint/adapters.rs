//! Folders of adapters as `peft` writes them: `adapter_config.json` and `adapter_model.safetensors` with the adapters
//! and the parameters that were trained whole, beside a base model in another folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::dtype::WeightDtype;
use super::file::TensorFile;
use super::load::{Rest, Take, load_with};
use super::save::{Entry, Sink, create, save_with, write_config, write_json, write_weights};
use crate::config::Fields;
use crate::context::ParamSpec;
use crate::lora::{Adapter, Lora, adapter_layer};
use crate::model::Model;
use lessen_base::{Error, Result, atomic};
use lessen_graph::Type;

/// The file that makes a folder one of adapters.
const CONFIG: &str = "adapter_config.json";

/// The file with the tensors.
const TENSORS: &str = "adapter_model.safetensors";

/// What the names of tensors begin with.
const PREFIX: &str = "base_model.model.";

/// Whether a folder has adapters in place of a model's weights.
pub fn has_adapters(dir: &Path) -> bool {
    dir.join(CONFIG).is_file() && !dir.join("model.safetensors").exists()
}

/// Writes the trained parameters of a model with adapters, and its `config.json`, in this dtype. `show` passes the
/// elements of each of `entries`, which bear the names of parameters, to the sink.
///
/// # Errors
/// A file that cannot be written, which the message names, and a number that the dtype does not reach.
pub fn save_adapters(
    dir: &Path,
    config_json: &Map<String, Value>,
    lora: &Lora,
    dtype: WeightDtype,
    entries: &[Entry],
    mut show: impl FnMut(&Entry, &mut Sink<'_>) -> std::io::Result<()>,
) -> Result<()> {
    create(dir)?;
    let prefixed = entries.iter().map(|entry| Entry {
        name: format!("{PREFIX}{}", entry.name),
        ty: entry.ty.clone(),
    });
    let mut own = entries.iter();
    write_weights(&dir.join(TENSORS), &prefixed.collect::<Vec<_>>(), dtype, |_, sink| {
        own.next().map_or(Ok(()), |entry| show(entry, sink))
    })?;
    write_json(&dir.join(CONFIG), &config_of(lora, entries))?;
    write_config(dir, config_json.clone(), dtype)
}

/// The fields of `adapter_config.json`.
fn config_of(lora: &Lora, entries: &[Entry]) -> Map<String, Value> {
    let whole = entries.iter().filter(|entry| adapter_layer(&entry.name).is_none());
    let modules: BTreeSet<&str> = whole.filter_map(|entry| Some(entry.name.rsplit_once('.')?.0)).collect();
    let alpha = match lora.alpha {
        alpha if alpha.fract() == 0.0 && alpha.abs() < 1e15 => json!(alpha as i64),
        alpha => json!(alpha),
    };
    let fields = [
        ("peft_type", json!("LORA")),
        ("base_model_name_or_path", json!(lora.base)),
        ("r", json!(lora.rank)),
        ("lora_alpha", alpha),
        ("lora_dropout", json!(lora.dropout)),
        ("target_modules", json!(lora.targets)),
        (
            "modules_to_save",
            if modules.is_empty() {
                Value::Null
            } else {
                json!(modules)
            },
        ),
        ("fan_in_fan_out", json!(lora.fan_in_fan_out)),
        ("bias", json!("none")),
        ("init_lora_weights", json!(true)),
        ("inference_mode", json!(true)),
        ("task_type", Value::Null),
    ];
    fields
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}

/// A folder of adapters that is open.
struct Folder {
    lora: Lora,
    base: PathBuf,
    file: TensorFile,
    path: PathBuf,
}

impl Folder {
    fn open(dir: &Path) -> Result<Folder> {
        let fields = Fields::read(&dir.join(CONFIG))?;
        fields.must_be("peft_type", &json!("LORA"))?;
        fields.must_be("bias", &json!("none"))?;
        for field in ["use_dora", "use_rslora", "lora_bias"] {
            fields.must_be(field, &json!(false))?;
        }
        for field in ["rank_pattern", "alpha_pattern"] {
            fields.must_be(field, &json!({}))?;
        }
        let wrong = |field: &str, what: &str| fields.error(field, what);
        let alpha = fields.get("lora_alpha").and_then(Value::as_f64);
        let base = fields.word("base_model_name_or_path")?.unwrap_or_default().to_string();
        let lora = Lora {
            rank: fields.size("r")?,
            alpha: alpha.ok_or_else(|| wrong("lora_alpha", "must be a number"))?,
            dropout: 0.0,
            targets: Vec::new(),
            fan_in_fan_out: fields.switch_or("fan_in_fan_out", false)?,
            whole: Default::default(),
            base: base.clone(),
        };
        // A relative path is one from where the command runs, as in `peft`, or else from the folder itself.
        let base = [PathBuf::from(&base), dir.join(&base)]
            .into_iter()
            .find(|path| path.is_dir());
        let base = base.filter(|_| !lora.base.is_empty()).ok_or_else(|| {
            let what = format!(
                "names the model that the adapters belong to, \"{}\", which is no folder here; put the model there, or \
                 correct the path",
                lora.base
            );
            wrong("base_model_name_or_path", &what)
        })?;
        if has_adapters(&base) {
            return Err(wrong(
                "base_model_name_or_path",
                "names a folder of adapters; name that of a model",
            ));
        }
        let path = dir.join(TENSORS);
        let file = TensorFile::open(&path)?;
        Ok(Folder { lora, base, file, path })
    }

    /// The shape of the tensor of a parameter, if there is one.
    fn shape(&self, param: &str) -> Option<Vec<usize>> {
        self.file.shape(&format!("{PREFIX}{param}")).map(<[usize]>::to_vec)
    }

    /// The elements of a parameter.
    fn read(&mut self, param: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let mut all = Vec::with_capacity(shape.iter().product());
        self.file.visit_f32(&format!("{PREFIX}{param}"), shape, &mut |part| {
            all.extend_from_slice(part);
            Ok(())
        })?;
        Ok(all)
    }

    /// Shows the elements of a parameter of the folder to `take`, some after others.
    fn visit(&mut self, param: &ParamSpec, take: &mut Take<'_>) -> Result<()> {
        let mut first = 0;
        self.file
            .visit_f32(&format!("{PREFIX}{}", param.name), &param.shape, &mut |part| {
                take(param, first, part)?;
                first += part.len();
                Ok(())
            })
    }

    /// The adapter of a parameter with the elements of both matrices, if it has one.
    fn adapter(&mut self, param: &ParamSpec) -> Result<Option<Matrices>> {
        let Some(adapter) = Adapter::beside(param, &self.lora).filter(|adapter| self.shape(&adapter.a()).is_some())
        else {
            return Ok(None);
        };
        let a = self.read(&adapter.a(), &[adapter.rank, adapter.inputs])?;
        let b = self.read(&adapter.b(), &[adapter.outputs, adapter.rank])?;
        Ok(Some(Matrices { adapter, a, b }))
    }

    /// [`load_with`] of the parameters as they are with the adapters' products in them.
    fn load(&mut self, params: &[ParamSpec], may_lack: &dyn Fn(&str) -> bool, take: &mut Take<'_>) -> Result<Rest> {
        let (mut rest, mut adapters) = (Vec::new(), BTreeMap::new());
        for param in params {
            if self.shape(&param.name).is_some() {
                self.visit(param, take)?;
                continue;
            }
            if let Some(adapter) = self.adapter(param)? {
                adapters.insert(param.name.clone(), adapter);
            }
            rest.push(param.clone());
        }
        load_with(&self.base, &rest, may_lack, &mut |param, first, part| {
            let Some(Matrices { adapter, a, b }) = adapters.get(&param.name) else {
                return take(param, first, part);
            };
            let mut merged = part.to_vec();
            adapter.merge(&self.lora, (a, b), first, &mut merged);
            take(param, first, &merged)
        })
    }

    /// Refuses tensors that belong to none of the parameters of a model.
    fn check_tensors(&self, params: &[ParamSpec]) -> Result<()> {
        let has = |name: &str| params.iter().any(|param| param.name == name);
        let is_known = |name: &str| {
            let name = name.strip_prefix(PREFIX).unwrap_or_default();
            has(name) || adapter_layer(name).is_some_and(|layer| has(&format!("{layer}.weight")))
        };
        match self.file.names().into_iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(stranger) => Err(Error::user(format!(
                "{}: the tensor `{stranger}` belongs to no parameter of the model; are the adapters of another model?",
                self.path.display()
            ))),
        }
    }
}

/// An adapter with the elements of both matrices.
struct Matrices {
    adapter: Adapter,
    a: Vec<f32>,
    b: Vec<f32>,
}

/// [`load_with`] of a folder of adapters: the weights of the base model with the adapters' products in them, and the
/// parameters that were trained whole.
pub(super) fn load_merged(
    dir: &Path,
    params: &[ParamSpec],
    may_lack: &dyn Fn(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<Rest> {
    let mut folder = Folder::open(dir)?;
    folder.check_tensors(params)?;
    let mut found = folder.load(params, may_lack, take)?;
    // What the base model has of parameters that were trained is of no use, but nothing strange.
    found.extra.retain(|name| folder.shape(name).is_none());
    Ok(found)
}

/// Writes the model of a folder of adapters to the folder `target` as one without adapters, in this dtype: every weight
/// is `W + (alpha / rank) B A`. Blocks are read and written one after another, so that the model is never in memory.
///
/// # Errors
/// As [`load_with`], a file that cannot be written, and a number that the dtype does not reach.
pub(super) fn merge(source: &Path, target: &Path, dtype: WeightDtype) -> Result<()> {
    let model = Model::from_dir(source)?;
    let mut params = model.parameters();
    params.sort_by(|a, b| a.name.cmp(&b.name));
    let mut folder = Folder::open(source)?;
    folder.check_tensors(&params)?;
    let entry = |param: &ParamSpec| Entry {
        name: param.name.clone(),
        ty: Type::f32(&param.shape),
    };
    let entries: Vec<Entry> = params.iter().map(entry).collect();
    let mut left = params.chunks(1);
    save_with(target, &model.config_json(), dtype, &entries, |_, sink| {
        let fail = |error| atomic::error_of(target, error);
        let mut take = |_: &ParamSpec, _: usize, part: &[f32]| sink(part).map_err(fail);
        let read = folder.load(left.next().unwrap_or_default(), &|_| false, &mut take);
        read.map(drop).map_err(std::io::Error::other)
    })
}
