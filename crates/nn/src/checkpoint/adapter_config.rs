//! `adapter_config.json`, as `peft` writes it: the adapters that a folder has, and the model that they belong to.

use std::fmt::Display;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::adapter_fields::ADAPTER_FIELDS;
use super::adapter_files::{ADAPTERS, TENSORS};
use super::adapter_targets::{PatternTable, Targets, module_to_save};
use super::file::TensorFile;
use super::names::{MERGE, Tied, tied_head};
use super::save::Entry;
use super::tensor_names::{embedding_layer, parameter_of};
use crate::architecture::{Architecture, family};
use crate::config::Fields;
use crate::field_effect::{FieldEffect, is_empty};
use crate::labels::{has_class_rows, numbered_labels, put_labels};
use crate::lora::{Lora, adapter_layer, scale};
use crate::models::bert::Head;
use lessen_base::{Error, Result};

/// Initial values of `A` and `B` that do not change the base model. Other initial values, such as PiSSA's, subtract the
/// first product from the base model.
const PLAIN_STARTS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// The rank and the alpha of adapters whose file names none.
const DEFAULT: f64 = 8.0;

/// Names of the modules whose ties `ensure_weight_tying` keeps.
const TIED_WORDS: [&str; 2] = ["embed_tokens", "lm_head"];

/// Contents of `adapter_config.json`.
pub(super) struct AdapterConfig {
    fields: Fields,
    base: String,
    rank: f64,
    ranks: PatternTable,
    alpha: f64,
    alphas: PatternTable,
    stabilized: bool,
    targets: Targets,
    ties: bool,
    task: Option<String>,
}

impl AdapterConfig {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// A damaged file, and adapters of a kind that Lessen does not have.
    pub(super) fn read(dir: &Path) -> Result<AdapterConfig> {
        let fields = Fields::read(&dir.join(ADAPTERS))?;
        check_fields(&fields)?;
        let number = |field: &str| match fields.get(field) {
            None => Ok(DEFAULT),
            Some(value) => {
                let number = value.as_f64().filter(|number| number.is_finite());
                number.ok_or_else(|| fields.error(field, format!("must be a number, it is {value}")))
            }
        };
        let text = |field: &str| Ok::<_, Error>(fields.word(field)?.map(str::to_string));
        let targets = Targets::of(&fields)?;
        Ok(AdapterConfig {
            base: text("base_model_name_or_path")?.unwrap_or_default(),
            task: text("task_type")?,
            rank: number("r")?,
            ranks: PatternTable::of(&fields, "rank_pattern")?,
            alpha: number("lora_alpha")?,
            alphas: PatternTable::of(&fields, "alpha_pattern")?,
            stabilized: fields.switch_or("use_rslora", false)?,
            ties: fields.switch_or("ensure_weight_tying", false)?,
            targets,
            fields,
        })
    }

    /// The layers that have adapters.
    pub(super) fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Checks that the file names a layer for which there is an adapter of this rank.
    ///
    /// # Errors
    /// A layer that the file leaves out, so that `peft` does not read its adapter, and another rank.
    pub(super) fn check_layer(&self, layer: &str, rank: usize) -> Result<()> {
        let is_tied = self.ties && TIED_WORDS.contains(&layer);
        if !is_tied && !self.targets.adapt(layer)? {
            let what = format!(
                "does not name `{layer}`, or another field excludes it, but {TENSORS} has an adapter of it, which \
                 peft leaves out; name the layer, or remove its tensors"
            );
            return Err(self.error("target_modules", what));
        }
        let (own, field) = match self.ranks.number_of(layer)? {
            Some(own) => (own, "rank_pattern"),
            None => (self.rank, "r"),
        };
        if own != rank as f64 {
            let what = format!("gives `{layer}` the rank {own}, but {TENSORS} has an adapter of rank {rank} there");
            return Err(self.error(field, format!("{what}; write the rank of the tensors")));
        }
        Ok(())
    }

    /// The model that the adapters belong to, as the file names it.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// An error about a field.
    pub(super) fn error(&self, field: &str, what: impl Display) -> Error {
        self.fields.error(field, what)
    }

    /// The factor of the product `B A` of a layer, where `A` has `rank` rows.
    ///
    /// # Errors
    /// A pattern that takes too long.
    pub(super) fn scale(&self, layer: &str, rank: usize) -> Result<f64> {
        let alpha = self.alphas.number_of(layer)?.unwrap_or(self.alpha);
        Ok(scale(alpha, rank, self.stabilized))
    }

    /// The head that these adapters, by the names of their tensors, untie from the token embeddings of a model with
    /// this `config.json`: where either has an adapter, or is trained whole without the other. `peft` gives the two
    /// values of their own then, whatever `tie_word_embeddings` says.
    pub(super) fn untied(&self, model: &Fields, tensors: &[String]) -> Option<Tied> {
        let words = tied_head(model)?;
        let is_of = |layer: &str| {
            [words.copy, &words.source]
                .into_iter()
                .any(|weight| weight.strip_suffix(".weight").is_some_and(|own| own == layer))
        };
        let is_word = |name: &String| name.rsplit('.').next().is_some_and(|part| TIED_WORDS.contains(&part));
        let keeps_ties = self.ties && self.targets.whole().iter().any(is_word);
        let is_apart = |tensor: &String| {
            let Some(name) = parameter_of(tensor) else { return false };
            let has_adapter = adapter_layer(&name)
                .or_else(|| embedding_layer(&name))
                .is_some_and(is_of);
            let module = name.strip_suffix(".weight").filter(|layer| is_of(layer));
            has_adapter || (module.is_some_and(|module| self.targets.are_whole(module)) && !keeps_ties)
        };
        tensors.iter().any(is_apart).then_some(words)
    }

    /// All fields, with the base model in this folder if one is given.
    pub(super) fn into_map(self, base: Option<&Path>) -> Map<String, Value> {
        let mut map = self.fields.into_map();
        if let Some(base) = base {
            map.insert("base_model_name_or_path".into(), json!(base.display().to_string()));
        }
        map
    }

    /// The class of a family, by its `model_type`, with the head of the task that the file names; none where the file
    /// names no task that has a head.
    ///
    /// # Errors
    /// A task that the family does not have.
    pub(super) fn wanted(&self, family: &str) -> Result<Option<Architecture>> {
        let with_head = |head| Architecture::with_head(family, head);
        let wanted = match self.task.as_deref() {
            Some("SEQ_CLS") => with_head(Head::SequenceClassification),
            Some("TOKEN_CLS") => with_head(Head::TokenClassification),
            Some("QUESTION_ANS") => with_head(Head::QuestionAnswering),
            Some("CAUSAL_LM") => Architecture::language_model(family),
            _ => return Ok(None),
        };
        wanted.map(Some).ok_or_else(|| {
            let task = self.task.as_deref().unwrap_or_default();
            self.error(
                "task_type",
                format!("is {task}, which Lessen does not have for a {family} model; {MERGE}"),
            )
        })
    }

    /// The fields of the base model's `config.json` with the head that the adapters are for, and as many classes as
    /// their tensors have rows for. A base model without a head stays without one where nothing says which is meant.
    ///
    /// # Errors
    /// A task that the base model's family does not have, and a `config.json` that names no family.
    pub(super) fn fields_over(&self, base: Fields, file: &TensorFile) -> Result<Fields> {
        let rows = file.names().into_iter().find_map(|name| {
            let is_head = has_class_rows(&parameter_of(&name)?);
            is_head.then(|| file.shape(&name)?.first().copied())?
        });
        let family = family(&base)?.to_string();
        let wanted = match (self.wanted(&family)?, Architecture::of(&base)) {
            (Some(wanted), _) => Some(wanted),
            (None, Ok(own)) => Some(own),
            (None, Err(_)) if rows.is_some() => Architecture::with_head(&family, Head::SequenceClassification),
            (None, Err(_)) => None,
        };
        let Some(wanted) = wanted else { return Ok(base) };
        let labels = base.labels();
        Ok(base.changed(|map| {
            map.insert("architectures".into(), json!([wanted.name()]));
            if let Some(rows) = rows.filter(|rows| labels.as_ref().is_ok_and(|labels| labels.len() != *rows)) {
                put_labels(map, &numbered_labels(rows), false);
            }
        }))
    }
}

/// Refuses fields that change what is computed.
fn check_fields(fields: &Fields) -> Result<()> {
    let other = |field: &str, value: &Value| {
        fields.error(
            field,
            format!("is {value}, and Lessen has no adapters of this kind; {MERGE}"),
        )
    };
    match fields.get("peft_type") {
        Some(kind) if *kind != "LORA" => return Err(other("peft_type", kind)),
        _ => {}
    }
    for (field, value) in fields.all() {
        let known = ADAPTER_FIELDS.iter().find(|(name, _)| *name == field);
        match known {
            _ if is_empty(value) => {}
            Some((_, FieldEffect::Refused)) => return Err(other(field, value)),
            Some(_) => {}
            None => {
                let what = format!("is {value}, and Lessen does not know whether it changes the computation; {MERGE}");
                return Err(fields.error(field, what));
            }
        }
    }
    match fields.get("init_lora_weights") {
        Some(start @ Value::String(name)) if !PLAIN_STARTS.contains(&name.as_str()) => {
            Err(other("init_lora_weights", start))
        }
        _ => Ok(()),
    }
}

/// The fields of the file for adapters that were trained here, with these tensors, of a model with this `config.json`.
/// `is_tied` says whether they hold the token embeddings and the head that the model ties to them.
pub(super) fn config_of(lora: &Lora, entries: &[Entry], is_tied: bool, model: &Fields) -> Map<String, Value> {
    let class = Architecture::of(model).ok();
    let task = class.and_then(task_of);
    let whole = entries.iter().filter(|entry| adapter_layer(&entry.name).is_none());
    let modules = whole.filter_map(|entry| Some(entry.name.rsplit_once('.')?.0));
    let mut modules: Vec<&str> = modules.map(|module| module_to_save(module, task)).collect();
    modules.sort_unstable();
    modules.dedup();
    let alpha = match lora.alpha {
        alpha if alpha.fract() == 0.0 && alpha.abs() < 1e15 => json!(alpha as i64),
        alpha => json!(alpha),
    };
    let modules = if modules.is_empty() {
        Value::Null
    } else {
        json!(modules)
    };
    let fields = [
        ("peft_type", json!("LORA")),
        ("base_model_name_or_path", json!(lora.base)),
        ("r", json!(lora.rank)),
        ("lora_alpha", alpha),
        ("lora_dropout", json!(lora.dropout)),
        ("use_rslora", json!(lora.rank_stabilized)),
        ("target_modules", json!(lora.targets)),
        ("modules_to_save", modules),
        ("ensure_weight_tying", json!(is_tied)),
        ("fan_in_fan_out", json!(lora.fan_in_fan_out)),
        ("bias", json!("none")),
        ("init_lora_weights", json!(true)),
        ("inference_mode", json!(true)),
        ("task_type", json!(task)),
        (
            "auto_mapping",
            class.filter(|_| task.is_none()).map_or(Value::Null, class_mapping),
        ),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value));
    fields.collect()
}

/// The name in `peft` of the task of a class; none where it has none.
fn task_of(class: Architecture) -> Option<&'static str> {
    match class {
        Architecture::Bert(_, Head::SequenceClassification) => Some("SEQ_CLS"),
        Architecture::Bert(_, Head::TokenClassification) => Some("TOKEN_CLS"),
        Architecture::Bert(_, Head::QuestionAnswering) => Some("QUESTION_ANS"),
        _ => (Architecture::language_model(class.model_type()) == Some(class)).then_some("CAUSAL_LM"),
    }
}

/// Where `peft` finds a class of transformers that has no task; nothing for classes of Lessen.
fn class_mapping(class: Architecture) -> Value {
    match class {
        Architecture::Bert(..) | Architecture::Vit(_) => {
            json!({ "base_model_class": class.name(), "parent_library": "transformers" })
        }
        _ => Value::Null,
    }
}
