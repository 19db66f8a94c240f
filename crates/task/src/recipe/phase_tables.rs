//! The tables of training phases in a recipe: the settings that each changes.

use super::document::{Document, leaves, tables};
use super::keys::Schema;
use super::value::{Origin, SettingValue, Values, plain};
use super::values::{changes as changes_of, set, tables_of};
use lessen_base::{Error, Result};
use toml::Spanned;
use toml::de::DeValue;

/// The name of the list of training phases in a recipe, and the prefix of flags for one of them.
pub const KEY: &str = "phase";

/// The changes of a training phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseTable {
    /// Name of the training phase.
    pub name: String,
    /// The keys that it changes.
    pub changes: Values,
}

impl PhaseTable {
    /// Changes a key.
    ///
    /// # Errors
    /// An unknown key, one that holds for the whole run, a value that the key does not take.
    pub(crate) fn set(
        &mut self,
        schema: &'static Schema,
        key: &str,
        value: Option<SettingValue>,
        origin: Origin,
    ) -> Result<()> {
        let prefix = format!("{KEY}.{}.", self.name);
        if schema.has(key) && !may_change(key) {
            return Err(Error::user(format!(
                "{origin}: {prefix}{key} cannot be, since {key} is the same in all phases; set it for the whole recipe"
            )));
        }
        set((schema, &mut self.changes), &prefix, key, value, origin)
    }

    /// A table of the list of training phases in a recipe.
    pub(crate) fn to_toml(&self, schema: &Schema) -> String {
        let tables = tables_of(schema, &self.changes, &format!("{KEY}."));
        format!("\n[[{KEY}]]\nname = \"{}\"\n{tables}", self.name)
    }
}

/// Whether a key may differ between training phases. Keys that name run and data may not, nor keys that decide the
/// vocabulary, the family of the model or random numbers.
fn may_change(key: &str) -> bool {
    match key.split_once('.') {
        Some(("data", name)) => name == "max_length",
        Some(("image", name)) => ["augment", "mixup", "cutmix"].contains(&name),
        Some(("model", name)) => !["init", "base", "kind", "vocab", "classes"].contains(&name),
        // Averages and adapters go on through all training phases.
        Some(("train", name)) => !["seed", "ema"].contains(&name),
        Some(("lora", _)) => false,
        Some((section, _)) => section != "run",
        None => false,
    }
}

/// Training phase and key of `phase.NAME.KEY`, as flags name them; none for the name of another key.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(KEY)?.strip_prefix('.')?;
    Some(rest.split_once('.').unwrap_or((rest, "")))
}

/// The training phase that a flag names.
///
/// # Errors
/// A name that no training phase has.
pub fn find<'a>(phases: &'a mut [PhaseTable], name: &str, origin: &Origin) -> Result<&'a mut PhaseTable> {
    let names: Vec<String> = phases.iter().map(|phase| phase.name.clone()).collect();
    let found = phases.iter_mut().find(|phase| phase.name == name);
    found.ok_or_else(|| {
        Error::user(if names.is_empty() {
            format!("{origin}: the recipe has no phases; leave out '{KEY}.{name}.'")
        } else {
            let names = names.join(", ");
            format!("{origin}: there is no phase '{name}'; the recipe's phases are {names}")
        })
    })
}

/// Reads the list of training phases in a recipe.
///
/// # Errors
/// A value other than a list of tables, a training phase without a name or with the name of another one, an unknown
/// key, a value that the key does not take.
pub(crate) fn read(
    schema: &'static Schema,
    document: &Document<'_>,
    list: &Spanned<DeValue<'_>>,
) -> Result<Vec<PhaseTable>> {
    let tables = tables(list).ok_or_else(|| {
        let origin = document.origin(list.span().start);
        Error::user(format!(
            "{origin}: {KEY} must be a list of tables, each begun by [[{KEY}]]"
        ))
    })?;
    let mut phases: Vec<PhaseTable> = Vec::new();
    for (start, table) in tables {
        let mut table = table.clone();
        let origin = document.origin(start);
        let name = match table.remove("name").as_ref().and_then(plain) {
            Some(SettingValue::Text(name)) if is_name(&name) => name,
            _ => {
                return Err(Error::user(format!(
                    "{origin}: a phase needs a name of letters, digits, '-' and '_', such as name = \"first\""
                )));
            }
        };
        if phases.iter().any(|phase| phase.name == name) {
            return Err(Error::user(format!(
                "{origin}: there are two phases called '{name}'; give each a name of its own"
            )));
        }
        let mut phase = PhaseTable {
            name,
            changes: Values::new(),
        };
        for leaf in leaves(&table, &|name| schema.has(name)) {
            phase.set(schema, &leaf.name, leaf.value, document.origin(leaf.at))?;
        }
        phases.push(phase);
    }
    Ok(phases)
}

/// Whether a text can be the name of a training phase: it occurs in flags and in names of keys.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().all(fits)
}

/// The keys in which two lists of training phases differ, as in
/// [`Settings::changes`](super::settings::Settings::changes); where their names differ, the list itself.
pub(crate) fn changes(schema: &Schema, a: &[PhaseTable], b: &[PhaseTable]) -> Vec<(String, String, String)> {
    let names = |phases: &[PhaseTable]| {
        let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        if names.is_empty() {
            "nothing".to_string()
        } else {
            names.join(", ")
        }
    };
    if names(a) != names(b) {
        return vec![(KEY.to_string(), names(a), names(b))];
    }
    let both = a.iter().zip(b);
    both.flat_map(|(a, b)| changes_of(schema, &format!("{KEY}.{}.", a.name), &a.changes, &b.changes))
        .collect()
}
