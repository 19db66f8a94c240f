//! What a field of a configuration file does to a model.

use serde_json::Value;

/// Effect of a field of a configuration file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldEffect {
    /// Lessen computes what the field says.
    Followed,
    /// The field changes no result of a model that is read.
    WithoutEffect,
    /// Lessen computes the model with this value only, in JSON, and refuses other values.
    Only(&'static str),
    /// Lessen refuses the field, unless it is null, false or empty.
    Refused,
    /// Lessen does not follow the field and says so, unless it is null, false, empty or has this value, in JSON.
    Named(&'static str),
}

impl FieldEffect {
    /// The effect in the words of the pages of reference.
    pub fn describe(self) -> String {
        match self {
            FieldEffect::Followed => "followed".to_string(),
            FieldEffect::WithoutEffect => "without effect".to_string(),
            FieldEffect::Only(value) => format!("refused unless `{value}`"),
            FieldEffect::Refused => "refused unless null, false or empty".to_string(),
            FieldEffect::Named("null") => "not followed, which a note says".to_string(),
            FieldEffect::Named(value) => format!("not followed unless `{value}`, which a note says"),
        }
    }
}

/// Whether a value is null, false or without contents.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A field and its effect.
pub type KnownField = (&'static str, FieldEffect);
