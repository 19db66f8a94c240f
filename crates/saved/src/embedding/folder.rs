//! The files by which sentence-transformers describes how a model embeds texts.

use super::known_fields::{check_known, must_be};
use super::layers::Layer;
use super::pooling::PoolingConfig;
use super::prompts::FILE as PROMPTS;
use crate::saved_run::AdapterOptions;
use lessen_base::atomic::unwritable;
use lessen_base::{Error, Result};
use lessen_nn::{Fields, Model};
use serde_json::{Value, json};
use std::fs;
use std::path::{Component, Path, PathBuf};

const MODULES: &str = "modules.json";

/// Names that the settings of the Transformer have had.
const TRANSFORMER_FILES: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// The modules of a folder, by their folders.
pub(super) struct Modules {
    /// The folder of the Transformer.
    pub(super) transformer: PathBuf,
    /// The `config.json` of the pooling; none where no file says how states are pooled.
    pooling: Option<PathBuf>,
    layers: Vec<(Layers, PathBuf)>,
    /// Whether the vectors are divided by their lengths.
    pub(super) normalizes: bool,
}

#[derive(Clone, Copy)]
enum Layers {
    Dense,
    LayerNorm,
}

impl Modules {
    /// Reads the modules of a folder. One without `modules.json` holds the Transformer itself, and beside it, perhaps,
    /// folders whose names end with `_Pooling`, `_Dense` and `_Normalize`.
    ///
    /// # Errors
    /// A damaged file, a module that Lessen does not have, and another order than Transformer, Pooling, layers,
    /// Normalize.
    pub(super) fn read(dir: &Path) -> Result<Modules> {
        let path = dir.join(MODULES);
        let listed = if path.exists() { listed(&path)? } else { beside(dir)? };
        let mut modules = Modules {
            transformer: dir.to_path_buf(),
            pooling: None,
            layers: Vec::new(),
            normalizes: false,
        };
        let shown = path.display();
        for (number, (kind, folder)) in listed.iter().enumerate() {
            let folder = dir.join(folder);
            let in_order = !modules.normalizes
                && match kind.as_str() {
                    "Transformer" => number == 0,
                    "Pooling" => number == 1,
                    _ => number > 1,
                };
            match kind.as_str() {
                _ if !in_order => {
                    return Err(Error::user(format!(
                        "{shown} has the module {kind} in place {number}; Lessen embeds texts by a Transformer, Pooling, \
                         layers, and Normalize, in this order"
                    )));
                }
                "Transformer" => modules.transformer = folder,
                "Pooling" => modules.pooling = Some(folder.join("config.json")),
                "Dense" => modules.layers.push((Layers::Dense, folder)),
                "LayerNorm" => modules.layers.push((Layers::LayerNorm, folder)),
                "Normalize" => {
                    check_normalize(&folder)?;
                    modules.normalizes = true;
                }
                // Dropout is for training.
                "Dropout" => {}
                _ => {
                    return Err(Error::user(format!(
                        "{shown} has the module {kind}, which Lessen does not have; it has Transformer, Pooling, Dense, \
                         LayerNorm, Dropout and Normalize"
                    )));
                }
            }
        }
        Ok(modules)
    }

    /// The pooling of states of this width; none where no file describes it.
    ///
    /// # Errors
    /// A file that is damaged, or does not fit the width.
    pub(super) fn pooling(&self, width: usize) -> Result<Option<PoolingConfig>> {
        let read = |path: &PathBuf| PoolingConfig::read(&Fields::read(path)?, width);
        self.pooling.as_ref().map(read).transpose()
    }

    /// The layers that follow the pooling, whose vectors have this width, and the width of their results.
    ///
    /// # Errors
    /// A file that is damaged, or does not fit the width.
    pub(super) fn layers(&self, mut width: usize) -> Result<(Vec<Layer>, usize)> {
        let mut layers = Vec::new();
        for (kind, dir) in &self.layers {
            layers.push(match kind {
                Layers::Dense => {
                    let (layer, out) = Layer::dense(dir, width)?;
                    width = out;
                    layer
                }
                Layers::LayerNorm => Layer::layer_norm(dir, width)?,
            });
        }
        Ok((layers, width))
    }
}

/// The folder of the Transformer within a folder.
///
/// # Errors
/// As [`Modules::read`].
pub(crate) fn transformer_of(dir: &Path) -> Result<PathBuf> {
    let modules = Modules::read(dir)?;
    let within = modules.transformer.strip_prefix(dir);
    Ok(within.map_or(PathBuf::new(), Path::to_path_buf))
}

/// Copies what says how a Transformer reads texts, beside its tokenizer.
///
/// # Errors
/// A file that cannot be read or written.
pub(crate) fn copy_reading(transformer: &Path, out: &Path) -> Result<()> {
    TRANSFORMER_FILES
        .iter()
        .try_for_each(|name| copy(transformer, out, name))
}

/// Copies the list of the modules of a folder, their prompts, and all modules but the Transformer.
///
/// # Errors
/// A file that cannot be read or written.
pub(crate) fn copy_modules(dir: &Path, out: &Path) -> Result<()> {
    let path = dir.join(MODULES);
    let listed = if path.exists() { listed(&path)? } else { beside(dir)? };
    [MODULES, PROMPTS].iter().try_for_each(|name| copy(dir, out, name))?;
    let others = listed
        .iter()
        .filter(|(kind, folder)| kind != "Transformer" && !folder.is_empty());
    for (_, folder) in others {
        let (from, to) = (dir.join(folder), out.join(folder));
        let Ok(entries) = fs::read_dir(&from) else {
            continue;
        };
        fs::create_dir_all(&to).map_err(|error| unwritable(&to, &error))?;
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            copy(&from, &to, &entry.file_name().to_string_lossy())?;
        }
    }
    Ok(())
}

/// Copies a file of a folder, if it is there.
fn copy(from: &Path, to: &Path, name: &str) -> Result<()> {
    let source = from.join(name);
    if !source.is_file() {
        return Ok(());
    }
    let copied = fs::copy(&source, to.join(name));
    copied.map(drop).map_err(|error| {
        let (source, to) = (source.display(), to.display());
        Error::user(format!(
            "{source} cannot be copied to {to} ({error}); check the disk and the permissions"
        ))
    })
}

/// Whether a folder holds a model whose use is to embed texts: one of sentence-transformers, or a Hugging Face folder
/// of a model without a head, such as a `BertModel`, unless an added adapter has a head.
///
/// # Errors
/// Adapters that do not go with the folder.
pub fn is_embedder(dir: &Path, adapters: &AdapterOptions) -> Result<bool> {
    let has_no_head = || -> Option<bool> {
        let fields = Fields::read(&dir.join("config.json")).ok()?;
        let class = fields.get("architectures")?.get(0)?.as_str()?;
        Some(class.ends_with("Model") && !class.ends_with("HeadModel"))
    };
    if dir.join(MODULES).is_file() {
        return Ok(true);
    }
    let gets_head = || Ok::<_, Error>(!adapters.added.is_empty() && Model::from_dir(adapters.of(dir)?).is_ok());
    Ok(has_no_head() == Some(true) && !gets_head()?)
}

/// The kinds of modules that a file lists, and their folders.
fn listed(path: &Path) -> Result<Vec<(String, String)>> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Error::user(format!("{shown} cannot be read ({error}); check its permissions")))?;
    let damaged = || {
        Error::user(format!(
            "{shown} is no list of modules, each with `type` and `path`; restore the file"
        ))
    };
    let list: Value = serde_json::from_str(&text).map_err(|_| damaged())?;
    let list = list.as_array().filter(|list| !list.is_empty()).ok_or_else(damaged)?;
    let mut modules = Vec::new();
    for module in list {
        let (Some(class), Some(folder)) = (module["type"].as_str(), module["path"].as_str()) else {
            return Err(damaged());
        };
        let is_inside = Path::new(folder)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_inside {
            return Err(Error::user(format!(
                "{shown} names the folder {folder}, which is not inside its own; restore the file"
            )));
        }
        let kind = class
            .strip_prefix("sentence_transformers.")
            .and_then(|rest| rest.rsplit('.').next());
        let kind = kind.ok_or_else(|| {
            Error::user(format!(
                "{shown} has the module {class}, whose code is not of sentence-transformers; Lessen does not run it"
            ))
        })?;
        let settings = module.get("kwargs").and_then(Value::as_array);
        if let Some(settings) = settings.filter(|settings| !settings.is_empty()) {
            return Err(Error::user(format!(
                "{shown} gives the module {kind} the arguments {settings:?}, which Lessen does not follow; remove them"
            )));
        }
        modules.push((kind.to_string(), folder.to_string()));
    }
    Ok(modules)
}

/// The modules in folders beside a Transformer that is in `dir` itself, in the order of their names.
fn beside(dir: &Path) -> Result<Vec<(String, String)>> {
    let mut names: Vec<(usize, String, String)> = Vec::new();
    let entries =
        fs::read_dir(dir).map_err(|error| Error::user(format!("{} cannot be read ({error})", dir.display())))?;
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((number, kind)) = name.split_once('_')
            && let Ok(number) = number.parse()
        {
            names.push((number, kind.to_string(), name.clone()));
        }
    }
    names.sort();
    if names.first().is_none_or(|(.., kind, _)| kind != "Pooling") {
        return Ok(vec![("Transformer".to_string(), String::new())]);
    }
    let transformer = ("Transformer".to_string(), String::new());
    let others = names.into_iter().map(|(_, kind, name)| (kind, name));
    Ok([transformer].into_iter().chain(others).collect())
}

fn check_normalize(dir: &Path) -> Result<()> {
    let path = dir.join("config.json");
    if !path.exists() {
        return Ok(());
    }
    let fields = Fields::read(&path)?;
    check_known(&fields, &["module_input_name", "module_output_name"])?;
    for field in ["module_input_name", "module_output_name"] {
        must_be(&fields, field, &json!("sentence_embedding"))?;
    }
    Ok(())
}

/// How the Transformer reads texts.
#[derive(Default)]
pub(super) struct Reading {
    /// The most tokens of a text.
    pub(super) max_length: Option<usize>,
    /// Whether texts are put into lower case first.
    pub(super) lower_case: bool,
}

impl Reading {
    /// Reads the settings in the folder of a Transformer; the defaults where there are none.
    ///
    /// # Errors
    /// A damaged file, and a field that is not known.
    pub(super) fn read(dir: &Path) -> Result<Reading> {
        let files = TRANSFORMER_FILES.iter().map(|name| dir.join(name));
        let Some(path) = files.into_iter().find(|path| path.exists()) else {
            return Ok(Reading::default());
        };
        let fields = Fields::read(&path)?;
        let nothing = json!({});
        let defaults = [
            ("transformer_task", &json!("feature-extraction")),
            ("module_output_name", &json!("token_embeddings")),
            ("processing_kwargs", &nothing),
            ("model_args", &nothing),
            ("tokenizer_args", &nothing),
            ("config_args", &nothing),
        ];
        let others = ["max_seq_length", "do_lower_case", "modality_config", "unpad_inputs"];
        let known: Vec<&str> = defaults.iter().map(|(field, _)| *field).chain(others).collect();
        check_known(&fields, &known)?;
        for (field, value) in defaults {
            must_be(&fields, field, value)?;
        }
        if let Some(modalities) = fields.within("modality_config")? {
            let text = json!({ "method": "forward", "method_output_name": "last_hidden_state" });
            must_be(&modalities, "text", &text)?;
        }
        Ok(Reading {
            max_length: fields
                .get("max_seq_length")
                .map(|_| fields.size("max_seq_length"))
                .transpose()?,
            lower_case: fields.switch_or("do_lower_case", false)?,
        })
    }
}

/// The most tokens of a text by `tokenizer_config.json`; none where it says nothing, or a number beyond all lengths.
///
/// # Errors
/// A damaged file.
pub(super) fn tokenizer_length(dir: &Path) -> Result<Option<usize>> {
    let path = dir.join("tokenizer_config.json");
    if !path.exists() {
        return Ok(None);
    }
    let fields = Fields::read(&path)?;
    let length = fields.get("model_max_length").and_then(Value::as_f64);
    Ok(length
        .filter(|length| (1.0..1e9).contains(length))
        .map(|length| length as usize))
}
