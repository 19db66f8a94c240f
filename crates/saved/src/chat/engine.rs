//! Jinja with what transformers adds to it for chat templates.
//!
//! Values are written as Python does, but for floats that have an exponent there (from `1e16` on and below `1e-4`):
//! within `~`, and in filters that make texts of them, they have none.

use super::bounds::{Bounds, NAMESPACE, beyond, check_source};
use super::checks::{CHECK, CHECK_ATTRIBUTE, CHECK_NAMESPACE, compiled};
use super::python::{Dumps, text_of};
use crate::locked::locked;
use minijinja::machinery::{eval, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Serde, ValueKind, from_args};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

/// Bytes of the stack on which a template is compiled and applied: more than its depths take.
const STACK: usize = 16 << 20;

/// The greatest sum of the numbers in a format, such as widths.
const WIDTHS: usize = 10_000;

/// Templates are applied one after another, so that what one of them may take is taken once.
static TURN: Mutex<()> = Mutex::new(());

/// Applies a template to variables.
///
/// # Errors
/// A template that is no Jinja, that raises an exception, or exceeds its bounds.
pub(super) fn render(source: &str, variables: &serde_json::Value) -> Result<String, Error> {
    let _turn = locked(&TURN);
    let failed = |what: String| Error::new(ErrorKind::InvalidOperation, what);
    thread::scope(|scope| {
        let own = thread::Builder::new().stack_size(STACK);
        let running = own
            .spawn_scoped(scope, || applied(source, variables))
            .map_err(|error| failed(format!("no thread can be started for it ({error})")))?;
        running
            .join()
            .unwrap_or_else(|_| Err(failed("the engine failed".to_string())))
    })
}

/// Whether a template is at fault for an error, whatever it reads.
pub(super) fn is_of_template(error: &Error) -> bool {
    use ErrorKind::*;
    let is_deep = error
        .detail()
        .is_some_and(|detail| detail == "recursion limit exceeded");
    is_deep
        || matches!(
            error.kind(),
            SyntaxError | OutOfFuel | UnknownFilter | UnknownTest | UnknownFunction
        )
}

/// Applies a template on this thread.
fn applied(source: &str, variables: &serde_json::Value) -> Result<String, Error> {
    let source = without_generation(source);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let syntax = syntax.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    check_source(&source, &syntax)?;
    let instructions = compiled(&source, &syntax)?;
    let bounds = Bounds::of(variables);
    let engine = engine(bounds);
    let (mut text, blocks) = (String::new(), BTreeMap::new());
    let mut output = make_string_output(&mut text);
    let variables = Value::from(Serde(variables));
    eval(
        &engine,
        &instructions,
        variables,
        &blocks,
        &mut output,
        AutoEscape::None,
    )?;
    drop(output);
    Ok(text)
}

/// The engine, with what transformers adds to it and with checks of the bounds.
fn engine<'a>(bounds: Bounds) -> Environment<'a> {
    let mut engine = Environment::new();
    engine.set_fuel(Some(bounds.steps));
    engine.set_unknown_method_callback(|state, value, method, ordered| {
        if let ("format", Some(format)) = (method, value.as_str()) {
            check_format(format)?;
        }
        unknown_method_callback(state, value, method, ordered)
    });
    engine.set_formatter(move |out, _, value| Ok(out.write_str(&text_of(value, bounds.shown)?)?));
    engine.add_filter(
        "tojson",
        move |_: &State, value: &Value, ordered: Rest<Value>, named: Kwargs| {
            to_json(value, &ordered, &named, bounds.shown)
        },
    );
    engine.add_filter("string", move |value: &Value| text_of(value, bounds.shown));
    engine.add_function("raise_exception", move |message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, text_of(message, bounds.shown)?))
    });
    engine.add_function("strftime_now", |format: &str| {
        check_format(format)?;
        let now = jiff::Zoned::now();
        jiff::fmt::strtime::format(format, &now)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
    });
    engine.add_function("namespace", namespace);
    // It would show all variables without a bound.
    engine.remove_global("debug");
    engine.add_global(CHECK, Value::from_function(move |value: Value| bounds.check(&value)));
    engine.add_global(
        CHECK_ATTRIBUTE,
        Value::from_function(move |value: Value| bounds.check_attribute(&value)),
    );
    engine.add_global(
        CHECK_NAMESPACE,
        Value::from_function(move |value: Value| bounds.check_namespace(&value)),
    );
    engine
}

/// A namespace that is told from other objects by an attribute.
fn namespace(initial: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut attributes: BTreeMap<String, Value> = BTreeMap::from([(NAMESPACE.to_string(), Value::from(true))]);
    if let Some(initial) = initial {
        if initial.kind() != ValueKind::Map {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "a namespace is made of an object",
            ));
        }
        for key in initial.try_iter()? {
            attributes.insert(key.to_string(), initial.get_item(&key)?);
        }
    }
    for name in named.args() {
        attributes.insert(name.to_string(), named.peek(name)?);
    }
    named.assert_all_used().ok();
    let (attributes,) = from_args(&[Value::from(attributes)])?;
    minijinja::functions::namespace(attributes)
}

/// Refuses a format whose widths and precisions are large, or are numbers of their own.
fn check_format(format: &str) -> Result<(), Error> {
    let numbers = format
        .split(|character: char| !character.is_ascii_digit())
        .filter(|digits| !digits.is_empty());
    let sum = numbers.fold(0_usize, |sum, digits| {
        sum.saturating_add(digits.parse().unwrap_or(usize::MAX))
    });
    let is_nested = format.split('{').any(|part| part.contains(':') && !part.contains('}'));
    if sum > WIDTHS || is_nested {
        return Err(beyond(format!(
            "the numbers in a format sum to {WIDTHS} at most, and are written in it"
        )));
    }
    Ok(())
}

fn plain(value: &Value) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// The filter `tojson` of transformers: `json.dumps(x, ensure_ascii=False, indent=None, separators=None,
/// sort_keys=False)`.
fn to_json(value: &Value, ordered: &[Value], named: &Kwargs, most: usize) -> Result<String, Error> {
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
    form.write(&plain(value)?, most)
}

/// The template with blocks that always hold in place of the marks around what an assistant says, `{% generation %}`
/// and `{% endgeneration %}`, which change no text.
fn without_generation(source: &str) -> Cow<'_, str> {
    let mut whole = String::new();
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, inside) = (&rest[..start], &rest[start + 2..]);
        let Some((block, after)) = inside.split_once("%}") else {
            break;
        };
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
