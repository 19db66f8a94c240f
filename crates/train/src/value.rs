//! Values of settings and where they come from.

use crate::keys::Kind;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Count(u64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for Value {
    /// As TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => write!(f, "{on}"),
            Value::Count(count) => write!(f, "{count}"),
            Value::Number(number) => write!(f, "{number:?}"),
            Value::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
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

/// The value as a key of this kind holds it; none where it does not fit.
pub(crate) fn fit(kind: Kind, value: Value) -> Option<Value> {
    match (kind, value) {
        (Kind::Switch, Value::Switch(on)) => Some(Value::Switch(on)),
        (Kind::Count(least), Value::Count(count)) => (count >= least).then_some(Value::Count(count)),
        (Kind::Number(low, high), Value::Count(count)) => {
            let number = count as f64;
            (low..=high).contains(&number).then_some(Value::Number(number))
        }
        (Kind::Number(low, high), Value::Number(number)) => {
            (low..=high).contains(&number).then_some(Value::Number(number))
        }
        (Kind::Text, Value::Text(text)) => Some(Value::Text(text)),
        // A bare word that looks like a number or a switch is a word all the same.
        (Kind::Text, other) => Some(Value::Text(other.to_string())),
        (Kind::Choice(words), Value::Text(text)) => {
            words.contains(&text.as_str()).then_some(Value::Text(text))
        }
        _ => None,
    }
}

/// The value of a TOML leaf; none for lists, tables and dates.
pub(crate) fn plain(value: &Spanned<DeValue<'_>>) -> Option<Value> {
    match value.get_ref() {
        DeValue::Boolean(on) => Some(Value::Switch(*on)),
        DeValue::String(text) => Some(Value::Text(text.to_string())),
        DeValue::Float(float) => Some(Value::Number(float.as_str().parse().ok()?)),
        DeValue::Integer(integer) => match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(count) => Some(Value::Count(count)),
            // Negative, or beyond 64 bits: a number that no count takes.
            Err(_) => Some(Value::Number(integer.as_str().parse().ok()?)),
        },
        _ => None,
    }
}

/// A single TOML value that a key can have.
pub(crate) fn parse_value(text: &str) -> Option<Value> {
    let line = format!("v = {text}");
    let document = DeTable::parse(&line).ok()?;
    let table = document.get_ref();
    if table.len() != 1 {
        None
    } else {
        table.get("v").and_then(plain)
    }
}
