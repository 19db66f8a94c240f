//! The layers that `adapter_config.json` names, matched as `peft` matches them.

use std::fmt::Display;

use fancy_regex::Regex;
use serde_json::Value;

use crate::config::Fields;
use lessen_base::{Error, Result};

/// The word for all linear layers but the head.
const ALL_LINEAR: &str = "all-linear";

/// The modules that `peft` trains whole for adapters of these tasks, whether the file names them or not.
const HEADS: [(&str, [&str; 2]); 3] = [
    ("SEQ_CLS", ["classifier", "score"]),
    ("TOKEN_CLS", ["classifier", "score"]),
    ("QUESTION_ANS", ["qa_outputs", "qa_outputs"]),
];

/// The module that the file names for one that was trained whole: where `peft` trains a module whole for a task by
/// itself, it takes none within.
pub(super) fn module_to_save<'a>(module: &'a str, task: Option<&str>) -> &'a str {
    let of_task = HEADS.iter().filter(|(of, _)| Some(*of) == task);
    let mut heads = of_task.flat_map(|(_, heads)| heads);
    let within = heads.find(|head| module.strip_prefix(**head).is_some_and(|rest| rest.starts_with('.')));
    within.map_or(module, |head| &module[..head.len()])
}

/// Names of layers.
enum Names {
    /// No layer.
    None,
    /// Every linear layer but the head.
    AllLinear,
    /// A pattern of whole names.
    Pattern(Regex),
    /// Whole names, or last parts of them.
    Listed(Vec<String>),
}

impl Names {
    fn of(fields: &Fields, field: &str) -> Result<Names> {
        match fields.get(field) {
            None => Ok(Names::None),
            Some(Value::String(word)) if word == ALL_LINEAR => Ok(Names::AllLinear),
            Some(Value::String(pattern)) => regex(fields, field, &format!(r"\A(?:{pattern})\z")).map(Names::Pattern),
            Some(_) => texts(fields, field).map(Names::Listed),
        }
    }

    fn have(&self, layer: &str) -> Result<bool> {
        match self {
            Names::None => Ok(false),
            Names::AllLinear => Ok(!["lm_head", "embed_out"].contains(&layer)),
            Names::Pattern(pattern) => matches(pattern, layer),
            Names::Listed(names) => Ok(names.iter().any(|name| is_or_ends_with(layer, name))),
        }
    }
}

/// The layers that have adapters, and the modules that are trained whole.
pub(super) struct Targets {
    named: Names,
    excluded: Names,
    /// Modules that are trained whole, by the ends of their names.
    whole: Vec<String>,
    /// Patterns of the layers in those modules, which have no adapters.
    within_whole: Vec<Regex>,
    /// Numbers of the blocks of layers that have adapters.
    blocks: Option<Vec<u64>>,
    /// Patterns of names that find the number of a block.
    numbers: Vec<Regex>,
}

impl Targets {
    /// Reads the fields that name layers.
    ///
    /// # Errors
    /// A field of another type, a pattern that cannot be compiled, and fields that `peft` does not take together.
    pub(super) fn of(fields: &Fields) -> Result<Targets> {
        let mut whole = texts(fields, "modules_to_save")?;
        let task = fields.word("task_type")?;
        let heads = HEADS.into_iter().filter(|(of, _)| Some(*of) == task);
        whole.extend(heads.flat_map(|(_, heads)| heads).map(str::to_string));
        let within_whole = whole
            .iter()
            .map(|module| regex(fields, "modules_to_save", &format!(r"\A(?:(^|.*\.){module}($|\..*))")))
            .collect::<Result<_>>()?;
        let blocks = match fields.get("layers_to_transform") {
            Some(Value::Array(numbers)) if numbers.is_empty() => None,
            Some(value) => Some(numbers(fields, value)?),
            None => None,
        };
        let names = texts(fields, "layers_pattern")?;
        if blocks.is_none() && !names.is_empty() {
            return Err(fields.error(
                "layers_pattern",
                "has no effect without `layers_to_transform`; remove it",
            ));
        }
        let named = Names::of(fields, "target_modules")?;
        if blocks.is_some() && !matches!(named, Names::Listed(_)) {
            let what = "is for a list of `target_modules`; write the numbers into the pattern there";
            return Err(fields.error("layers_to_transform", what));
        }
        let mut patterns: Vec<String> = names
            .iter()
            .map(|name| format!(r"\A(?:(?:^|.*?\.){name}\.(?P<idx>\d+)\.)"))
            .collect();
        if names.is_empty() {
            patterns.push(r"\A(?:.*?\.[^.]*\.(?P<idx>\d+)\.)".to_string());
        }
        let patterns = patterns.iter().map(|pattern| regex(fields, "layers_pattern", pattern));
        Ok(Targets {
            numbers: patterns.collect::<Result<_>>()?,
            named,
            excluded: Names::of(fields, "exclude_modules")?,
            whole,
            within_whole,
            blocks,
        })
    }

    /// Whether a layer has an adapter.
    ///
    /// # Errors
    /// A pattern that takes too long.
    pub(super) fn adapt(&self, layer: &str) -> Result<bool> {
        if self.excluded.have(layer)? {
            return Ok(false);
        }
        for pattern in &self.within_whole {
            if matches(pattern, layer)? {
                return Ok(false);
            }
        }
        if !self.named.have(layer)? {
            return Ok(false);
        }
        let Some(blocks) = &self.blocks else { return Ok(true) };
        for pattern in &self.numbers {
            let found = pattern.captures(layer).map_err(|error| too_slow(pattern, error))?;
            if let Some(number) = found.and_then(|found| found.name("idx")?.as_str().parse().ok()) {
                return Ok(blocks.contains(&number));
            }
        }
        Ok(false)
    }

    /// Whether the file names a layer, so that it must have an adapter. A word for all layers names none.
    ///
    /// # Errors
    /// As [`Targets::adapt`].
    pub(super) fn name(&self, layer: &str) -> Result<bool> {
        Ok(!matches!(self.named, Names::AllLinear) && self.adapt(layer)?)
    }

    /// Whether a module is trained whole, apart from the base model's.
    pub(super) fn are_whole(&self, module: &str) -> bool {
        self.whole.iter().any(|name| module.ends_with(name.as_str()))
    }

    /// The ends of the names of the modules that are trained whole.
    pub(super) fn whole(&self) -> &[String] {
        &self.whole
    }
}

/// Numbers of layers whose names match patterns, the first pattern that does.
pub(super) struct PatternTable(Vec<(Regex, f64)>);

impl PatternTable {
    /// Reads a field that has numbers by patterns.
    ///
    /// # Errors
    /// A field of another type, and a pattern that cannot be compiled.
    pub(super) fn of(fields: &Fields, field: &str) -> Result<PatternTable> {
        let map = match fields.get(field) {
            None => return Ok(PatternTable(Vec::new())),
            Some(Value::Object(map)) => map,
            Some(value) => return Err(fields.error(field, format!("must be an object, it is {value}"))),
        };
        let entry = |(pattern, value): (&String, &Value)| {
            let number = value.as_f64().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| {
                let what = format!("must have a number for \"{pattern}\", it has {value}");
                fields.error(field, what)
            })?;
            Ok((regex(fields, field, &format!(r"\A(?:(.*\.)?({pattern})\z)"))?, number))
        };
        map.iter().map(entry).collect::<Result<_>>().map(PatternTable)
    }

    /// The number of a layer, if a pattern matches it.
    ///
    /// # Errors
    /// A pattern that takes too long.
    pub(super) fn number_of(&self, layer: &str) -> Result<Option<f64>> {
        for (pattern, number) in &self.0 {
            if matches(pattern, layer)? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }
}

/// Whether a name is another, or ends with it as whole parts.
fn is_or_ends_with(name: &str, end: &str) -> bool {
    let start = name.strip_suffix(end);
    start.is_some_and(|start| start.is_empty() || start.ends_with('.'))
}

/// Compiles a pattern of a field.
fn regex(fields: &Fields, field: &str, pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| {
        let error = error.to_string().replace('\n', " ");
        let what = format!("has a regular expression that cannot be read ({error}); write names of layers there");
        fields.error(field, what)
    })
}

fn matches(pattern: &Regex, name: &str) -> Result<bool> {
    pattern.is_match(name).map_err(|error| too_slow(pattern, error))
}

fn too_slow(pattern: &Regex, error: impl Display) -> Error {
    Error::user(format!(
        "adapter_config.json: the regular expression {} cannot be matched ({error}); write names of layers there",
        pattern.as_str()
    ))
}

/// A text or a list of texts; none where the field is missing.
fn texts(fields: &Fields, field: &str) -> Result<Vec<String>> {
    let Some(value) = fields.get(field) else {
        return Ok(Vec::new());
    };
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let texts = list.iter().map(|text| text.as_str().map(str::to_string));
    texts
        .collect::<Option<_>>()
        .ok_or_else(|| fields.error(field, format!("must be a text or a list of texts, it is {value}")))
}

/// A number or a list of numbers of blocks.
fn numbers(fields: &Fields, value: &Value) -> Result<Vec<u64>> {
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let what = || format!("must be a whole number or a list of them, it is {value}");
    let numbers: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
    numbers.ok_or_else(|| fields.error("layers_to_transform", what()))
}
