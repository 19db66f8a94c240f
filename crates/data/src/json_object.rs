//! Objects of JSON whose values keep the text that they are written in.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::class_names;
use crate::raw_label::RawLabel;

/// An object of JSON: names and values in order.
pub(crate) struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The object in a text.
    ///
    /// # Errors
    /// A text that is no JSON, and one that is another value (`is_data`).
    pub(crate) fn of(text: &'a str) -> serde_json::Result<Object<'a>> {
        serde_json::from_str(text)
    }

    /// The names, each once.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The value of this name; of several the last one.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut fields: Vec<(String, &RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    match fields.iter_mut().find(|(own, _)| *own == name) {
                        Some((_, own)) => *own = value,
                        None => fields.push((name, value)),
                    }
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A text.
pub(crate) fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The values of a list.
pub(crate) fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

/// A text or a number, as it is written.
pub(crate) fn written(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => text(value),
        b'-' | b'0'..=b'9' => Some(value.get().to_string()),
        _ => None,
    }
}

/// A value as a cell of a table: a text without quotes, other values as they are written, and none for null.
pub(crate) fn cell(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => text(value),
        b'n' => None,
        _ => Some(value.get().to_string()),
    }
}

/// A text, a number, `true` or `false` as a label. A number has one name however it is written.
pub(crate) fn word(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => text(value).map(|text| text.trim().to_string()),
        b'-' | b'0'..=b'9' => Some(class_names::of_number(value.get())),
        b't' | b'f' => Some(value.get().to_string()),
        _ => None,
    }
}

/// A label, or a list of labels.
pub(crate) fn label(value: &RawValue) -> Option<RawLabel> {
    if !value.get().starts_with('[') {
        return word(value).map(RawLabel::One);
    }
    let labels: Option<Vec<String>> = list(value)?.into_iter().map(word).collect();
    labels.map(RawLabel::Many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text_and_names_their_order() {
        let object = Object::of(r#" {"b": 12345678901234567890123, "a": " x\n", "b": [1.0, true, "y "], "c": null} "#);
        let object = object.unwrap();
        assert_eq!(object.names().collect::<Vec<_>>(), ["b", "a", "c"]);
        let of = |name: &str| object.get(name).unwrap();
        let expected = ["1", "true", "y"].map(str::to_string).to_vec();
        assert_eq!(label(of("b")), Some(RawLabel::Many(expected)));
        assert_eq!(label(of("a")), Some(RawLabel::One("x".to_string())));
        assert_eq!(written(of("a")).as_deref(), Some(" x\n"));
        assert_eq!((label(of("c")), written(of("c"))), (None, None));
        assert!(object.get("d").is_none());
        let long = Object::of(r#"{"a":-12345678901234567890123.50}"#).unwrap();
        let value = long.get("a").unwrap();
        assert_eq!(word(value).as_deref(), Some("-12345678901234567890123.5"));
        assert_eq!(written(value).as_deref(), Some("-12345678901234567890123.50"));
    }

    #[test]
    fn what_is_no_object_is_told_from_what_is_no_json() {
        for text in ["[1]", "1", "\"a\"", "null"] {
            assert!(Object::of(text).err().unwrap().is_data(), "{text}");
        }
        for text in ["{\"a\": 1", "{a: 1}", "{\"a\": 01}", "{\"a\": tru}", "{} x", ""] {
            assert!(!Object::of(text).err().unwrap().is_data(), "{text}");
        }
        let half = Object::of(r#"{"a": "\ud800"}"#).unwrap();
        assert_eq!(text(half.get("a").unwrap()), None);
    }
}
