//! The model that a folder and the adapters of other folders describe together.
//!
//! Adapters alone, as `peft` writes them, change the head of their base model alone: their task names it, and its rows
//! give the number of classes. Adapters that Lessen wrote have the whole `config.json` of their model, under a name of
//! its own. Of adapters that are added to a model, the head is followed where they have it whole, and everything else
//! of such a file must be as in the model that they are added to.

use std::path::Path;

use serde_json::{Map, Value};

use super::adapter_files::model_config;
use super::adapter_folder::AdapterFolder;
use super::folder::ModelFolder;
use super::names::{Tied, tied_head};
use super::weighted_adapter::WeightedAdapter;
use crate::architecture::{Architecture, family};
use crate::config::{Fields, OWN_LOSS};
use crate::model::Model;
use crate::model::config_fields::{OWN, is_followed};
use crate::models::onnx::fields_of_file;
use crate::quantization_config::refuse_gguf;
use lessen_base::{Error, Result};

/// The fields of a `config.json` that describe the head.
const HEAD: [&str; 6] = [
    "architectures",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    OWN_LOSS,
];

impl ModelFolder<'_> {
    /// Fields of `config.json`: those of an ONNX file, the folder's own, or for adapters without this file the base
    /// model's, with the head that the adapters are for. Adapters that untie the head from the token embeddings leave
    /// `tie_word_embeddings` false.
    ///
    /// # Errors
    /// A file that is missing or damaged, the errors of [`ModelFolder::base`], and adapters that do not go together.
    pub(crate) fn fields(self) -> Result<Fields> {
        if self.is_onnx_file() {
            Ok(fields_of_file(self.path()))
        } else if self.is_adapted() {
            Described::of(self).map(|described| described.fields)
        } else {
            own_fields(self.path())
        }
    }
}

/// A model with its adapters, as their files describe it.
pub(super) struct Described {
    /// Fields of its `config.json`.
    pub(super) fields: Fields,
    /// The head that the base model ties to its token embeddings.
    pub(super) words: Option<Tied>,
    /// Whether one of the adapters unties the two.
    pub(super) is_untied: bool,
    /// Its adapters: the folder's own, if it has some, and those that are added.
    pub(super) parts: Vec<AdapterFolder>,
}

impl Described {
    /// Opens the files of a folder and of the adapters that are added to it.
    ///
    /// # Errors
    /// A file that is missing or damaged, and adapters that do not go together.
    pub(super) fn of(folder: ModelFolder<'_>) -> Result<Described> {
        let (before, mut parts) = if folder.has_adapters() {
            let own = AdapterFolder::open(folder.path(), 1.0)?;
            let fields = match model_config(folder.path()) {
                Some(path) => Fields::read(&path)?,
                None => {
                    let base = folder.base_of(&own.config)?;
                    own.config.fields_over(own_fields(&base)?, own.file())?
                }
            };
            (fields.clone(), vec![Part::of(own, fields)])
        } else {
            (own_fields(folder.path())?, Vec::new())
        };
        for added in folder.added() {
            parts.push(Part::added(added, &before)?);
        }
        let fields = with_head(before, &parts)?;
        Ok(Described::tied(fields, parts.into_iter().map(|part| part.adapters)))
    }

    /// Unties the head from the token embeddings where one of the adapters does.
    fn tied(fields: Fields, parts: impl Iterator<Item = AdapterFolder>) -> Described {
        let mut parts: Vec<AdapterFolder> = parts.collect();
        let words = tied_head(&fields);
        for part in &mut parts {
            let is_untied = part.config.untied(&fields, &part.file().names()).is_some();
            part.set_words(words.clone(), is_untied);
        }
        let is_untied = parts.iter().any(AdapterFolder::is_untied);
        let fields = if is_untied {
            fields.changed(|map| {
                map.insert("tie_word_embeddings".into(), Value::Bool(false));
            })
        } else {
            fields
        };
        Described {
            fields,
            words,
            is_untied,
            parts,
        }
    }
}

/// An adapter, and the model that it was made for.
struct Part {
    adapters: AdapterFolder,
    /// Fields of that model's `config.json`.
    fields: Fields,
    /// The class of that model; none where it has no head.
    architecture: Option<Architecture>,
    /// The class that the task of an added adapter without `config.json` asks for.
    wanted: Option<Architecture>,
    /// Whether the adapter has the model's head, or a part of it, whole.
    has_head: bool,
}

impl Part {
    fn of(mut adapters: AdapterFolder, fields: Fields) -> Part {
        let architecture = Architecture::of(&fields).ok();
        let model = architecture.and_then(|architecture| Model::from_fields(&fields, architecture).ok());
        let mut has_head = false;
        if let Some(model) = model {
            let names: Vec<String> = model.parameters().into_iter().map(|param| param.name).collect();
            has_head = names
                .iter()
                .any(|name| model.is_head(name) && adapters.tensor(name).is_some());
            adapters.set_made_for(names);
        }
        Part {
            adapters,
            fields,
            architecture,
            wanted: None,
            has_head,
        }
    }

    /// An adapter that is added to a model with these fields.
    fn added(added: &WeightedAdapter, base: &Fields) -> Result<Part> {
        added.check()?;
        let adapters = AdapterFolder::open(&added.dir, added.weight)?;
        if let Some(path) = model_config(&added.dir) {
            let part = Part::of(adapters, Fields::read(&path)?);
            part.check_like(base)?;
            return Ok(part);
        }
        let wanted = adapters.config.wanted(family(base)?)?;
        let fields = adapters.config.fields_over(base.clone(), adapters.file())?;
        Ok(Part {
            wanted,
            ..Part::of(adapters, fields)
        })
    }

    /// Refuses an adapter whose own `config.json` describes another model than that which it is added to, apart from
    /// the head.
    fn check_like(&self, base: &Fields) -> Result<()> {
        let differs = |field: &str, own: &Value, other: &Value| {
            let [own, other] = [own, other].map(|value| match value {
                Value::Null => "missing".to_string(),
                value => value.to_string(),
            });
            let what = format!(
                "is {own}, but {other} in the model that the adapters are added to; name adapters that were trained on this \
                 model"
            );
            self.fields.error(field, what)
        };
        let [own, other] = [family(&self.fields)?, family(base)?];
        if own != other {
            return Err(differs("model_type", &own.into(), &other.into()));
        }
        let own = Architecture::of(&self.fields)?;
        let other = Architecture::of(base).unwrap_or(own);
        let has_own_loss = own != other || self.has_head;
        let is_compared = |field: &str| {
            let is_of_head = HEAD.contains(&field) && (field != OWN_LOSS || has_own_loss);
            !is_of_head && !leaves_logits(field) && is_followed(own, field)
        };
        let own = Model::from_fields(&self.fields, own)?.config_json();
        let other = Model::from_fields(base, other)?.config_json();
        for field in own.keys().chain(other.keys()).filter(|field| is_compared(field)) {
            let value = |map: &Map<String, Value>| map.get(field).cloned().unwrap_or_default();
            let (own, other) = (value(&own), value(&other));
            // Lessen's own fields are missing where they would say what is usual.
            let are_known = field.starts_with(OWN) || (!own.is_null() && !other.is_null());
            if own != other && are_known {
                return Err(differs(field, &own, &other));
            }
        }
        Ok(())
    }

    /// The head in words.
    fn head(&self) -> String {
        let name = self.architecture.map_or("no class", Architecture::name);
        match self.fields.labels() {
            Ok(labels) if self.fields.get("id2label").is_some() => format!("{name} with {} classes", labels.len()),
            _ => name.to_string(),
        }
    }
}

/// The fields of a model with the head that one of its adapters has whole. Where none has one, the model keeps its own,
/// or gets that of the task that an adapter is for.
fn with_head(fields: Fields, parts: &[Part]) -> Result<Fields> {
    let first = parts.iter().find(|part| part.has_head);
    let is_other = |part: &&Part| part.has_head && first.is_some_and(|first| first.head() != part.head());
    if let (Some(first), Some(other)) = (first, parts.iter().find(is_other)) {
        return Err(Error::user(format!(
            "{} and {} each have a head, of {} and of {}; leave out one of the two",
            first.adapters.path().display(),
            other.adapters.path().display(),
            first.head(),
            other.head()
        )));
    }
    let is_known = Architecture::of(&fields).is_ok();
    let asked = parts.iter().find(|part| !is_known && part.wanted.is_some());
    let fields = match first.or(asked) {
        Some(part) => fields.changed(|map| {
            for field in HEAD {
                match part.fields.get(field) {
                    Some(value) => map.insert(field.into(), value.clone()),
                    None => map.shift_remove(field),
                };
            }
        }),
        None => fields,
    };
    let Ok(class) = Architecture::of(&fields) else {
        return Ok(fields);
    };
    for part in parts {
        if let Some(wanted) = part.wanted.filter(|wanted| *wanted != class) {
            let what = format!(
                "asks for a {}, but the model is a {}, and the adapters have no head of their own; name a model with this \
                 head, or leave them out",
                wanted.name(),
                class.name()
            );
            return Err(part.adapters.config.error("task_type", what));
        }
    }
    Ok(fields)
}

/// Whether a field changes no logits: it is for training, or says where a text ends.
fn leaves_logits(field: &str) -> bool {
    field.contains("drop") || ["initializer_range", "eos_token_id"].contains(&field)
}

fn own_fields(dir: &Path) -> Result<Fields> {
    if !dir.join("config.json").exists() {
        refuse_gguf(dir)?;
    }
    Fields::read(&dir.join("config.json"))
}
