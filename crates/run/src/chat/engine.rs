//! Jinja with what transformers adds to it for chat templates.
//!
//! Values are written as Python does, but for floats that have an exponent there (from `1e16` on and below `1e-4`):
//! within `~`, and in filters that make texts of them, they have none.

use super::python::{Dumps, text_of};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::borrow::Cow;

/// The work that a template may do, in steps of the engine: far more than a long chat needs, and an end to a template
/// without one.
const FUEL: u64 = 50_000_000;

/// Applies a template to variables.
///
/// # Errors
/// A template that is no Jinja, that raises an exception, or does not end.
pub(super) fn render(source: &str, variables: &serde_json::Value) -> Result<String, Error> {
    let mut engine = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    engine.set_syntax(syntax.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?);
    engine.set_fuel(Some(FUEL));
    engine.set_unknown_method_callback(unknown_method_callback);
    engine.set_formatter(|out, _, value| Ok(out.write_str(&text_of(value))?));
    engine.add_filter("tojson", to_json);
    engine.add_filter("string", |value: &Value| text_of(value));
    engine.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, text_of(message)))
    });
    engine.add_function("strftime_now", |format: &str| {
        let now = jiff::Zoned::now();
        jiff::fmt::strtime::format(format, &now)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
    });
    let source = without_generation(source);
    engine
        .template_from_str(&source)?
        .render(minijinja::value::Serde(variables))
}

fn plain(value: &Value) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// The filter `tojson` of transformers: `json.dumps(x, ensure_ascii=False, indent=None, separators=None,
/// sort_keys=False)`.
fn to_json(_: &State, value: &Value, ordered: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "tojson of what is not defined"));
    }
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    if ordered.len() > names.len() {
        return Err(Error::new(ErrorKind::TooManyArguments, "tojson has four arguments"));
    }
    let argument = |place: usize| -> Result<Option<Value>, Error> {
        let named = named.get::<Option<Value>>(names[place])?;
        Ok(ordered.get(place).cloned().or(named).filter(|value| !value.is_none()))
    };
    let indent = argument(1)?.map(|indent| match (indent.as_i64(), indent.as_str()) {
        (Some(count), _) => Ok(" ".repeat(usize::try_from(count).unwrap_or(0).min(64))),
        (None, Some(text)) => Ok(text.to_string()),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            "indent must be a number or a text",
        )),
    });
    let indent = indent.transpose()?;
    let separators = match argument(2)? {
        None if indent.is_some() => (",".to_string(), ": ".to_string()),
        None => (", ".to_string(), ": ".to_string()),
        Some(both) => {
            let both: Vec<String> = both.try_iter()?.map(|part| part.to_string()).collect();
            match <[String; 2]>::try_from(both) {
                Ok([item, key]) => (item, key),
                Err(_) => return Err(Error::new(ErrorKind::InvalidOperation, "separators must be two texts")),
            }
        }
    };
    let form = Dumps {
        ascii: argument(0)?.is_some_and(|ascii| ascii.is_true()),
        indent,
        separators,
        sorted: argument(3)?.is_some_and(|sorted| sorted.is_true()),
    };
    named.assert_all_used()?;
    Ok(form.write(&plain(value)?))
}

/// The template with blocks that always hold in place of the marks around what an assistant says, `{% generation %}`
/// and `{% endgeneration %}`, which change no text.
fn without_generation(source: &str) -> Cow<'_, str> {
    let mut whole = String::new();
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let (before, block, after) = (
            &rest[..start],
            &rest[start + 2..start + length],
            &rest[start + length + 2..],
        );
        let is_control = |character: char| character == '-' || character == '+';
        let word = block.trim_matches(is_control).trim();
        let replaced = match word {
            "generation" => block.replacen("generation", " if true ", 1),
            "endgeneration" => block.replacen("endgeneration", " endif ", 1),
            _ => block.to_string(),
        };
        whole.push_str(before);
        whole.push_str("{%");
        whole.push_str(&replaced);
        whole.push_str("%}");
        rest = after;
    }
    if whole.is_empty() {
        return Cow::Borrowed(source);
    }
    whole.push_str(rest);
    Cow::Owned(whole)
}
