//! Values of keys: setting them, comparing them and writing them as TOML.

use super::keys::{Key, Schema};
use super::optimizer;
use super::value::{Origin, SettingValue, Values, fit};
use lessen_base::{Error, Result};

/// The keys in which two maps of values differ, as
/// [`Settings::changes`](super::settings::Settings::changes), with `prefix` before their names.
pub fn changes(schema: &Schema, prefix: &str, a: &Values, b: &Values) -> Vec<(String, String, String)> {
    let get = |values: &Values, name: &str| values.get(name).map(|(value, _)| value.to_string());
    let show = |value: Option<String>| value.unwrap_or("nothing".to_string());
    let names = schema.names(&[a, b]).into_iter();
    let changed = names.map(|name| (name, get(a, name), get(b, name)));
    changed
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| (format!("{prefix}{name}"), show(a), show(b)))
        .collect()
}

/// Values as TOML, a table for each section; `prefix` goes before the tables' names.
pub(crate) fn tables_of(schema: &Schema, values: &Values, prefix: &str) -> String {
    let (mut text, mut section) = (String::new(), "");
    for full in schema.names(&[values]) {
        let (own, name) = full.split_once('.').unwrap_or(("", full));
        if own != section {
            let gap = if section.is_empty() && prefix.is_empty() {
                ""
            } else {
                "\n"
            };
            text.push_str(&format!("{gap}[{prefix}{own}]\n"));
            section = own;
        }
        text.push_str(&format!("{name} = {}\n", values[full].0));
    }
    text
}

/// Gives a key a value. `prefix` goes before its name in messages; `None` stands for a list, a table or a date, which
/// no key takes.
///
/// # Errors
/// An unknown key, a value that the key does not take.
pub fn set(
    (schema, values): (&'static Schema, &mut Values),
    prefix: &str,
    name: &str,
    value: Option<SettingValue>,
    origin: Origin,
) -> Result<()> {
    if let (true, Some(value)) = (schema.keeps(name), &value) {
        values.insert(name.to_string(), (value.clone(), origin));
        return Ok(());
    }
    let key = schema.find(name).map_err(|nearest| {
        Error::user(format!(
            "{origin}: there is no key '{prefix}{name}'; did you mean {prefix}{nearest}?"
        ))
    })?;
    let shown = format!("{prefix}{}", key.name);
    match value {
        Some(value) => put(values, key, &shown, value, origin),
        None => {
            let expected = key.kind.expected();
            Err(Error::user(format!("{origin}: {shown} must be {expected}")))
        }
    }
}

/// Gives a key a value; `shown` is its name in messages.
pub fn put(values: &mut Values, key: &Key, shown: &str, value: SettingValue, origin: Origin) -> Result<()> {
    let given = value.to_string();
    let value = fit(key.kind, value).ok_or_else(|| {
        let expected = key.kind.expected();
        Error::user(format!("{origin}: {shown} must be {expected}, not {given}"))
    })?;
    values.insert(key.name.to_string(), (value, origin));
    if key.name == optimizer::KIND {
        optimizer::leave_out_unread(values);
    }
    Ok(())
}
