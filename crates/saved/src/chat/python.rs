//! Values as Python writes them, for templates that were written for Python.

use super::bounds::{NAMESPACE, Text};
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, Value as Shown};
use serde_json::Value;

/// How Python's `json.dumps` writes.
pub(super) struct Dumps {
    /// Whether characters beyond ASCII are escaped.
    pub(super) ascii: bool,
    /// What each level of a list or an object is indented by; none is all on one line.
    pub(super) indent: Option<String>,
    /// What stands between items, and after keys.
    pub(super) separators: (String, String),
    /// Whether keys are sorted.
    pub(super) sorted: bool,
}

impl Dumps {
    /// A value as JSON of at most so many bytes.
    ///
    /// # Errors
    /// A value that takes more.
    pub(super) fn write(&self, value: &Value, most: usize) -> Result<String, Error> {
        let mut out = Text::of_at_most(most);
        self.add(value, 0, &mut out)?;
        Ok(out.into_string())
    }

    fn add(&self, value: &Value, depth: usize, out: &mut Text) -> Result<(), Error> {
        match value {
            Value::String(text) => self.quote(text, out),
            Value::Number(number) => out.push_str(&number_text(number)),
            Value::Array(items) => self.all("[", "]", items, depth, out, |item, out| self.add(item, depth + 1, out)),
            Value::Object(map) => {
                let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
                if self.sorted {
                    pairs.sort_by_key(|(key, _)| *key);
                }
                self.all("{", "}", &pairs, depth, out, |(key, value), out| {
                    self.quote(key, out)?;
                    out.push_str(&self.separators.1)?;
                    self.add(value, depth + 1, out)
                })
            }
            Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        }
    }

    fn all<T>(
        &self,
        open: &str,
        close: &str,
        items: &[T],
        depth: usize,
        out: &mut Text,
        mut each: impl FnMut(&T, &mut Text) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push_str(open)?;
        let line = |depth: usize, out: &mut Text| {
            let Some(indent) = &self.indent else { return Ok(()) };
            out.push_str("\n")?;
            (0..depth).try_for_each(|_| out.push_str(indent))
        };
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                out.push_str(&self.separators.0)?;
            }
            line(depth + 1, out)?;
            each(item, out)?;
        }
        if !items.is_empty() {
            line(depth, out)?;
        }
        out.push_str(close)
    }

    fn quote(&self, text: &str, out: &mut Text) -> Result<(), Error> {
        let quoted = Value::from(text).to_string();
        if !self.ascii {
            return out.push_str(&quoted);
        }
        for character in quoted.chars() {
            if character.is_ascii() {
                out.push_str(character.encode_utf8(&mut [0; 4]))?;
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"))?;
                }
            }
        }
        Ok(())
    }
}

/// A value of a template as Python's `str` writes it, in at most so many bytes. What is undefined is empty.
///
/// # Errors
/// A value that takes more.
pub(super) fn text_of(value: &Shown, most: usize) -> Result<String, Error> {
    match (value.kind(), value.as_str()) {
        (ValueKind::Undefined, _) => Ok(String::new()),
        (_, Some(text)) => Ok(text.to_string()),
        (_, None) => {
            let mut out = Text::of_at_most(most);
            repr(value, &mut out)?;
            Ok(out.into_string())
        }
    }
}

/// Adds a value of a template as Python's `repr` writes it.
fn repr(value: &Shown, out: &mut Text) -> Result<(), Error> {
    let items = || value.try_iter().into_iter().flatten();
    let all = |[open, close]: [&str; 2], out: &mut Text| {
        out.push_str(open)?;
        for (number, item) in items().enumerate() {
            out.push_str(if number > 0 { ", " } else { "" })?;
            repr(&item, out)?;
        }
        out.push_str(close)
    };
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => out.push_str(&quoted(value.as_str().unwrap_or_default())),
        ValueKind::Number => match serde_json::to_value(value) {
            Ok(Value::Number(number)) => out.push_str(&number_text(&number)),
            _ => out.push_str(&value.to_string()),
        },
        ValueKind::Seq if value.downcast_object_ref::<Tuple>().is_some() => {
            let close = if value.len() == Some(1) { ",)" } else { ")" };
            all(["(", close], out)
        }
        ValueKind::Seq | ValueKind::Iterable => all(["[", "]"], out),
        ValueKind::Map => {
            out.push_str("{")?;
            let keys = items().filter(|key| key.as_str() != Some(NAMESPACE));
            for (number, key) in keys.enumerate() {
                out.push_str(if number > 0 { ", " } else { "" })?;
                repr(&key, out)?;
                out.push_str(": ")?;
                repr(&value.get_item(&key).unwrap_or_default(), out)?;
            }
            out.push_str("}")
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// A string between the quotes that Python chooses.
fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(mark);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            own if own == mark => out.extend(['\\', own]),
            control if control.is_ascii_control() => out.push_str(&format!("\\x{:02x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push(mark);
    out
}

/// A number: floats have a point or an exponent, which is written from `1e16` on and below `1e-4`.
fn number_text(number: &serde_json::Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = float.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;
    use serde_json::json;

    #[test]
    fn values_are_written_as_python_does() {
        let value = json!({ "b": [1, 2.0, null, true], "a": { "ä\"\n": "😀" }, "c": [], "d": {} });
        let dumps = |ascii, indent: Option<usize>, sorted| {
            let item = if indent.is_some() { "," } else { ", " };
            let form = Dumps {
                ascii,
                indent: indent.map(|count| " ".repeat(count)),
                separators: (item.to_string(), ": ".to_string()),
                sorted,
            };
            form.write(&value, 1000).unwrap()
        };
        assert_eq!(
            dumps(false, None, false),
            r#"{"b": [1, 2.0, null, true], "a": {"ä\"\n": "😀"}, "c": [], "d": {}}"#
        );
        assert_eq!(
            dumps(true, None, true),
            r#"{"a": {"\u00e4\"\n": "\ud83d\ude00"}, "b": [1, 2.0, null, true], "c": [], "d": {}}"#
        );
        let lines = dumps(false, Some(2), false);
        assert!(
            lines.starts_with("{\n  \"b\": [\n    1,\n    2.0,\n") && lines.ends_with("\"c\": [],\n  \"d\": {}\n}")
        );
        let value = json!(["it's", "\"'", "a\n", 1e16, 1.5e-5, 0.1, -3, false, { "k": null }]);
        assert_eq!(
            text_of(&Shown::from(Serde(value)), 1000).unwrap(),
            r#"["it's", '"\'', 'a\n', 1e+16, 1.5e-05, 0.1, -3, False, {'k': None}]"#
        );
    }
}
