//! Values of settings: the values that a key takes, given values, and their origins.

use lessen_base::{Error, Result};
use lessen_train::{parse_budget, parse_size};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Values of keys with their origins.
pub type Values = BTreeMap<String, (SettingValue, Origin)>;

/// The syntax of texts with parameters, such as `helu:0.05`.
#[derive(Clone, Copy, Debug)]
pub struct TextSyntax {
    /// All of them, for messages.
    pub words: fn() -> String,
    /// Whether a text is one of them.
    pub accepts: fn(&str) -> bool,
}

impl PartialEq for TextSyntax {
    fn eq(&self, other: &TextSyntax) -> bool {
        (self.words)() == (other.words)()
    }
}

/// The values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// `true` or `false`.
    Switch,
    /// A whole number, at least this.
    Count(u64),
    /// A number between these two, both included.
    Number(f64, f64),
    /// A number of bytes with a unit, such as `512MiB`.
    Size,
    /// A size, a share of the memory that this process can have such as `80%`, or `auto` for all of it.
    Budget,
    /// Any text.
    Text,
    /// The path of a file or folder, or one of the words.
    Path(&'static [&'static str]),
    /// One of the words.
    Choice(&'static [&'static str]),
    /// A text of this syntax.
    TextSyntax(TextSyntax),
    /// A list, or a text with commas between its items; joined by commas they have this syntax.
    List(TextSyntax),
    /// A whole number, or a share of another one: a number below 1, or a text such as `6%`.
    CountOrShare,
}

impl ValueKind {
    /// The expected value, for messages: `a whole number, at least 1`.
    pub fn expected(self) -> String {
        match self {
            ValueKind::Switch => "true or false".to_string(),
            ValueKind::Count(0) => "a whole number".to_string(),
            ValueKind::Count(least) => format!("a whole number, at least {least}"),
            ValueKind::Number(low, high) if high < f64::MAX => format!("a number from {low} to {high}"),
            ValueKind::Number(low, _) => format!("a number, at least {low}"),
            ValueKind::Size => "a number with a unit, such as 512MiB or 2GiB".to_string(),
            ValueKind::Budget => "a size such as 512M, a share such as 80%, or auto".to_string(),
            ValueKind::Text => "a text".to_string(),
            ValueKind::Path([]) => "a path".to_string(),
            ValueKind::Path(words) => format!("a path, or {}", words.join(", ")),
            ValueKind::Choice(words) => format!("one of {}", words.join(", ")),
            ValueKind::TextSyntax(form) => format!("one of {}", (form.words)()),
            ValueKind::List(form) => format!("a list of {}", (form.words)()),
            ValueKind::CountOrShare => "a whole number, or a share such as 0.06 or \"6%\"".to_string(),
        }
    }
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Count(u64),
    /// A number of bytes.
    Size(u64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<SettingValue>),
}

impl SettingValue {
    /// The path of a file or folder.
    ///
    /// # Errors
    /// A path that is no text, as settings are written as texts.
    pub fn of_path(path: &Path) -> Result<SettingValue> {
        let text = path.to_str().ok_or_else(|| {
            Error::user(format!(
                "the path {} is not valid UTF-8, as settings are written; give it another name, or make a link with one",
                path.display()
            ))
        })?;
        Ok(SettingValue::Text(text.to_string()))
    }

    /// Whether it is a text without characters, or a list without items.
    pub fn is_empty(&self) -> bool {
        match self {
            SettingValue::Text(text) => text.is_empty(),
            SettingValue::List(items) => items.is_empty(),
            _ => false,
        }
    }

    /// The items of a list, or the value itself, as texts with commas between.
    pub fn joined(&self) -> String {
        match self {
            SettingValue::Text(text) => text.clone(),
            SettingValue::List(items) => items.iter().map(SettingValue::joined).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for SettingValue {
    /// As TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Switch(on) => write!(f, "{on}"),
            SettingValue::Count(count) => write!(f, "{count}"),
            SettingValue::Size(bytes) => write!(f, "\"{bytes}B\""),
            SettingValue::Number(number) => write!(f, "{number:?}"),
            SettingValue::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            SettingValue::List(items) => {
                let items: Vec<String> = items.iter().map(SettingValue::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
        }
    }
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A line of a recipe's file; for a built-in recipe the name stands for the file.
    Line(String, usize),
    /// A flag as it was written.
    Flag(String),
    /// The table of keys.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(file, line) => write!(f, "{file} line {line}"),
            Origin::Flag(flag) => f.write_str(flag),
            Origin::Default => f.write_str("the default"),
        }
    }
}

/// The value as a key holds it; none where the key does not take it.
pub fn fit(kind: ValueKind, value: SettingValue) -> Option<SettingValue> {
    match (kind, value) {
        (ValueKind::Switch, SettingValue::Switch(on)) => Some(SettingValue::Switch(on)),
        (ValueKind::Count(least), SettingValue::Count(count)) => (count >= least).then_some(SettingValue::Count(count)),
        (ValueKind::Number(low, high), SettingValue::Count(count)) => {
            let number = count as f64;
            (low..=high).contains(&number).then_some(SettingValue::Number(number))
        }
        (ValueKind::Number(low, high), SettingValue::Number(number)) => {
            (low..=high).contains(&number).then_some(SettingValue::Number(number))
        }
        (ValueKind::Size | ValueKind::Budget, SettingValue::Size(bytes)) => Some(SettingValue::Size(bytes)),
        (ValueKind::Size, SettingValue::Text(text)) => Some(SettingValue::Size(parse_size(&text).ok()? as u64)),
        (ValueKind::Budget, SettingValue::Text(text)) => Some(SettingValue::Size(parse_budget(&text).ok()? as u64)),
        (ValueKind::Text | ValueKind::Path(_), SettingValue::List(_)) => None,
        (ValueKind::Text | ValueKind::Path(_), SettingValue::Text(text)) => Some(SettingValue::Text(text)),
        // A bare word that looks like a number or a switch is a word all the same.
        (ValueKind::Text | ValueKind::Path(_), other) => Some(SettingValue::Text(other.to_string())),
        (ValueKind::Choice(words), SettingValue::Text(text)) => {
            words.contains(&text.as_str()).then_some(SettingValue::Text(text))
        }
        (ValueKind::TextSyntax(form), SettingValue::Text(text)) => {
            (form.accepts)(&text).then_some(SettingValue::Text(text))
        }
        (ValueKind::TextSyntax(form), SettingValue::Count(count)) => {
            let text = count.to_string();
            (form.accepts)(&text).then_some(SettingValue::Text(text))
        }
        (ValueKind::List(form), value) => (form.accepts)(&value.joined()).then_some(value),
        (ValueKind::CountOrShare, value) => count_or_share(value),
        _ => None,
    }
}

/// A count as it is, a share as a number from 0 to 1.
fn count_or_share(value: SettingValue) -> Option<SettingValue> {
    let share = |number: f64| (0.0..=1.0).contains(&number).then_some(SettingValue::Number(number));
    match value {
        SettingValue::Count(count) => Some(SettingValue::Count(count)),
        SettingValue::Number(number) => share(number),
        SettingValue::Text(text) => share(text.trim().strip_suffix('%')?.trim_end().parse::<f64>().ok()? / 100.0),
        SettingValue::Switch(_) | SettingValue::Size(_) | SettingValue::List(_) => None,
    }
}

/// The value of a TOML leaf; none for tables, dates and lists of them.
pub fn plain(value: &Spanned<DeValue<'_>>) -> Option<SettingValue> {
    match value.get_ref() {
        DeValue::Boolean(on) => Some(SettingValue::Switch(*on)),
        DeValue::String(text) => Some(SettingValue::Text(text.to_string())),
        DeValue::Float(float) => Some(SettingValue::Number(float.as_str().parse().ok()?)),
        DeValue::Integer(integer) => match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(count) => Some(SettingValue::Count(count)),
            // Negative, or beyond 64 bits: a number that no count takes.
            Err(_) => Some(SettingValue::Number(integer.as_str().parse().ok()?)),
        },
        DeValue::Array(items) => items.iter().map(plain).collect::<Option<_>>().map(SettingValue::List),
        _ => None,
    }
}

/// A single TOML value that a key can have.
pub(crate) fn parse_value(text: &str) -> Option<SettingValue> {
    let line = format!("v = {text}");
    let document = DeTable::parse(&line).ok()?;
    let table = document.get_ref();
    if table.len() != 1 {
        None
    } else {
        table.get("v").and_then(plain)
    }
}
