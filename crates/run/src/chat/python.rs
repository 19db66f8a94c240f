//! Values as Python writes them, for templates that were written for Python.

use minijinja::Value as Shown;
use minijinja::value::{Tuple, ValueKind};
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
    /// A value as JSON.
    pub(super) fn write(&self, value: &Value) -> String {
        let mut out = String::new();
        self.add(value, 0, &mut out);
        out
    }

    fn add(&self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::String(text) => self.quote(text, out),
            Value::Number(number) => out.push_str(&number_text(number)),
            Value::Array(items) => self.all('[', ']', items, depth, out, |item, out| self.add(item, depth + 1, out)),
            Value::Object(map) => {
                let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
                if self.sorted {
                    pairs.sort_by_key(|(key, _)| *key);
                }
                self.all('{', '}', &pairs, depth, out, |(key, value), out| {
                    self.quote(key, out);
                    out.push_str(&self.separators.1);
                    self.add(value, depth + 1, out);
                });
            }
            Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        }
    }

    fn all<T>(
        &self,
        open: char,
        close: char,
        items: &[T],
        depth: usize,
        out: &mut String,
        mut each: impl FnMut(&T, &mut String),
    ) {
        out.push(open);
        let line = |depth: usize, out: &mut String| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                out.push_str(&indent.repeat(depth));
            }
        };
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                out.push_str(&self.separators.0);
            }
            line(depth + 1, out);
            each(item, out);
        }
        if !items.is_empty() {
            line(depth, out);
        }
        out.push(close);
    }

    fn quote(&self, text: &str, out: &mut String) {
        let quoted = Value::from(text).to_string();
        if !self.ascii {
            out.push_str(&quoted);
            return;
        }
        for character in quoted.chars() {
            if character.is_ascii() {
                out.push(character);
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
}

/// A value of a template as Python's `str` writes it. What is undefined is empty.
pub(super) fn text_of(value: &Shown) -> String {
    match (value.kind(), value.as_str()) {
        (ValueKind::Undefined, _) => String::new(),
        (_, Some(text)) => text.to_string(),
        (_, None) => repr(value),
    }
}

/// A value of a template as Python's `repr` writes it.
fn repr(value: &Shown) -> String {
    let items = || value.try_iter().into_iter().flatten();
    let all = || items().map(|item| repr(&item)).collect::<Vec<_>>();
    match value.kind() {
        ValueKind::Undefined => "Undefined".to_string(),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Number => match serde_json::to_value(value) {
            Ok(Value::Number(number)) => number_text(&number),
            _ => value.to_string(),
        },
        ValueKind::Seq if value.downcast_object_ref::<Tuple>().is_some() => match &all()[..] {
            [only] => format!("({only},)"),
            all => format!("({})", all.join(", ")),
        },
        ValueKind::Seq | ValueKind::Iterable => format!("[{}]", all().join(", ")),
        ValueKind::Map => {
            let of = |key: &Shown| value.get_item(key).unwrap_or_default();
            let pairs = items().map(|key| format!("{}: {}", repr(&key), repr(&of(&key))));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
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
            form.write(&value)
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
            text_of(&Shown::from(Serde(value))),
            r#"["it's", '"\'', 'a\n', 1e+16, 1.5e-05, 0.1, -3, False, {'k': None}]"#
        );
    }
}
