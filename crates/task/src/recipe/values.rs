//! Values of keys: setting them, comparing them and writing them as TOML.

use super::keys::{self, KEYS, Key};
use super::optimizer;
use super::value::{Origin, SettingValue, Values, fit};
use lessen_base::{Error, Result};

/// The keys in which two maps of values differ, as [`Settings::changes`], with `prefix` before their names.
pub fn changes(prefix: &str, a: &Values, b: &Values) -> Vec<(String, String, String)> {
    let get = |values: &Values, key: &Key| values.get(key.name).map(|(value, _)| value.to_string());
    let show = |value: Option<String>| value.unwrap_or("nothing".to_string());
    let both = KEYS.iter().map(|key| (key, get(a, key), get(b, key)));
    let changed = both.filter(|(_, a, b)| a != b);
    changed
        .map(|(key, a, b)| (format!("{prefix}{}", key.name), show(a), show(b)))
        .collect()
}

/// Values as TOML, a table for each section; `prefix` goes before the tables' names.
pub(crate) fn tables_of(values: &Values, prefix: &str) -> String {
    let (mut text, mut section) = (String::new(), "");
    for key in KEYS {
        let Some((value, _)) = values.get(key.name) else {
            continue;
        };
        let (own, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if own != section {
            let gap = if section.is_empty() && prefix.is_empty() {
                ""
            } else {
                "\n"
            };
            text.push_str(&format!("{gap}[{prefix}{own}]\n"));
            section = own;
        }
        text.push_str(&format!("{name} = {value}\n"));
    }
    text
}

/// Gives a key a value. `prefix` goes before its name in messages; `None` stands for a list, a table or a date, which
/// no key takes.
///
/// # Errors
/// An unknown key, a value that the key does not take.
pub fn set(values: &mut Values, prefix: &str, name: &str, value: Option<SettingValue>, origin: Origin) -> Result<()> {
    let key = keys::find(name).map_err(|nearest| {
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
pub fn put(values: &mut Values, key: &'static Key, shown: &str, value: SettingValue, origin: Origin) -> Result<()> {
    let given = value.to_string();
    let value = fit(key.kind, value).ok_or_else(|| {
        let expected = key.kind.expected();
        Error::user(format!("{origin}: {shown} must be {expected}, not {given}"))
    })?;
    values.insert(key.name, (value, origin));
    if key.name == optimizer::KIND {
        optimizer::leave_out_unread(values);
    }
    Ok(())
}
