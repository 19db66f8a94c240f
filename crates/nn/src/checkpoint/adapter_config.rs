//! `adapter_config.json`, as `peft` writes it: the adapters that a folder has, and the model that they belong to.

use std::fmt::Display;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::adapter_files::{ADAPTERS, open_tensors};
use super::save::Entry;
use super::tensor_names::parameter_of;
use crate::architecture::{Architecture, family};
use crate::config::Fields;
use crate::labels::{has_class_rows, numbered_labels, put_labels};
use crate::lora::{Lora, adapter_layer, scale};
use crate::models::bert::Head;
use lessen_base::{Error, Result};

/// Remedy for adapters that Lessen does not have.
const REMEDY: &str = "merge them with peft: `model.merge_and_unload().save_pretrained(DIR)`";

/// Initial values of `A` and `B` that do not change the base model. Other initial values, such as PiSSA's, subtract the
/// first product from the base model.
const PLAIN_STARTS: [&str; 3] = ["gaussian", "eva", "orthogonal"];

/// Fields that change the computation unless they are false or null.
const OTHER_KINDS: [&str; 10] = [
    "use_dora",
    "lora_bias",
    "use_qalora",
    "use_bdlora",
    "layer_replication",
    "trainable_token_indices",
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
];

/// Contents of `adapter_config.json`.
pub(super) struct AdapterConfig {
    fields: Fields,
    base: String,
    alpha: f64,
    /// Names of layers, or last parts of such names, with an alpha of their own.
    alphas: Vec<(String, f64)>,
    stabilized: bool,
    task: Option<String>,
}

impl AdapterConfig {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// A damaged file, and adapters of a kind that Lessen does not have.
    pub(super) fn read(dir: &Path) -> Result<AdapterConfig> {
        let fields = Fields::read(&dir.join(ADAPTERS))?;
        let other = |field: &str, value: &Value| {
            fields.error(
                field,
                format!("is {value}, and Lessen has no adapters of this kind; {REMEDY}"),
            )
        };
        match fields.get("peft_type") {
            Some(kind) if *kind != "LORA" => return Err(other("peft_type", kind)),
            _ => {}
        }
        for field in OTHER_KINDS {
            if let Some(value) = fields.get(field).filter(|value| **value != false) {
                return Err(other(field, value));
            }
        }
        if let Some(start @ Value::String(name)) = fields.get("init_lora_weights")
            && !PLAIN_STARTS.contains(&name.as_str())
        {
            return Err(other("init_lora_weights", start));
        }
        let number = |field: &str, value: &Value| {
            let number = value.as_f64().filter(|number| number.is_finite());
            number.ok_or_else(|| fields.error(field, format!("must be a number, it is {value}")))
        };
        let mut alphas = Vec::new();
        if let Some(Value::Object(patterns)) = fields.get("alpha_pattern") {
            for (pattern, alpha) in patterns {
                // peft reads them as regular expressions, which these are for names only.
                let name = pattern.strip_prefix('^').unwrap_or(pattern);
                if !name
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'))
                {
                    let what = format!("has \"{pattern}\", and Lessen reads names of layers there only; {REMEDY}");
                    return Err(fields.error("alpha_pattern", what));
                }
                alphas.push((name.to_string(), number("alpha_pattern", alpha)?));
            }
        }
        let alpha = fields.get("lora_alpha").unwrap_or(&Value::Null);
        let alpha = number("lora_alpha", alpha)?;
        let stabilized = fields.switch_or("use_rslora", false)?;
        let text = |field: &str| Ok::<_, Error>(fields.word(field)?.map(str::to_string));
        Ok(AdapterConfig {
            base: text("base_model_name_or_path")?.unwrap_or_default(),
            task: text("task_type")?,
            alpha,
            alphas,
            stabilized,
            fields,
        })
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
    pub(super) fn scale(&self, layer: &str, rank: usize) -> f64 {
        let is_of = |name: &str| {
            layer
                .strip_suffix(name)
                .is_some_and(|start| start.is_empty() || start.ends_with('.'))
        };
        let own = self.alphas.iter().find(|(name, _)| is_of(name));
        scale(own.map_or(self.alpha, |(_, alpha)| *alpha), rank, self.stabilized)
    }

    /// All fields, with the base model in this folder if one is given.
    pub(super) fn into_map(self, base: Option<&Path>) -> Map<String, Value> {
        let mut map = self.fields.into_map();
        if let Some(base) = base {
            map.insert("base_model_name_or_path".into(), json!(base.display().to_string()));
        }
        map
    }

    /// The fields of the base model's `config.json` with the head that the adapters are for, and as many classes as
    /// their tensors have rows for.
    pub(super) fn fields_over(&self, base: Fields, dir: &Path) -> Result<Fields> {
        let (_, file) = open_tensors(dir)?;
        let rows = file.names().into_iter().find_map(|name| {
            let is_head = has_class_rows(&parameter_of(&name)?);
            is_head.then(|| file.shape(&name)?.first().copied())?
        });
        let own = Architecture::of(&base);
        let family = family(&base)?.to_string();
        let with_head = |head| Architecture::with_head(&family, head);
        let wanted = match self.task.as_deref() {
            Some("SEQ_CLS") => with_head(Head::SequenceClassification),
            Some("TOKEN_CLS") => with_head(Head::TokenClassification),
            Some("QUESTION_ANS") => with_head(Head::QuestionAnswering),
            Some("CAUSAL_LM") => Architecture::language_model(&family),
            _ => match (own, rows) {
                (Ok(own), _) => Some(own),
                (Err(_), Some(_)) => with_head(Head::SequenceClassification),
                (Err(error), None) => return Err(error),
            },
        };
        let wanted = wanted.ok_or_else(|| {
            let task = self.task.as_deref().unwrap_or_default();
            self.error(
                "task_type",
                format!("is {task}, which Lessen does not have for a {family} model; {REMEDY}"),
            )
        })?;
        let labels = base.labels();
        Ok(base.changed(|map| {
            map.insert("architectures".into(), json!([wanted.name()]));
            if let Some(rows) = rows.filter(|rows| labels.as_ref().is_ok_and(|labels| labels.len() != *rows)) {
                put_labels(map, &numbered_labels(rows), false);
            }
        }))
    }
}

/// The fields of the file for adapters that were trained here, with these tensors.
pub(super) fn config_of(lora: &Lora, entries: &[Entry]) -> Map<String, Value> {
    let whole = entries.iter().filter(|entry| adapter_layer(&entry.name).is_none());
    let mut modules: Vec<&str> = whole.filter_map(|entry| Some(entry.name.rsplit_once('.')?.0)).collect();
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
        ("fan_in_fan_out", json!(lora.fan_in_fan_out)),
        ("bias", json!("none")),
        ("init_lora_weights", json!(true)),
        ("inference_mode", json!(true)),
        ("task_type", Value::Null),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value));
    fields.collect()
}
