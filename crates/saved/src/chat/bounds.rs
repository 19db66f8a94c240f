//! Bounds of what a template may do: its source, its values, the bytes that it makes, and its time. A template comes
//! with the files of a model, and nobody has read it.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use std::time::{Duration, Instant};

/// The most bytes of a template.
pub(super) const SOURCE: usize = 256 << 10;

/// The most tokens of a tag. Operators of one tag nest in each other, and each takes a place of the stack.
const TOKENS: usize = 2_000;

/// The most `elif` of a template, of which each lies within the one before.
const ELIFS: usize = 500;

/// The greatest depth of lists and objects.
const DEPTH: usize = 160;

/// Steps of the engine, each of which pays for 64 bytes too, that a template has beside those for what it reads.
const STEPS: u64 = 250_000;

/// Bytes that a list or an object may show beside those of what the template reads.
const SHOWN: usize = 2 << 20;

/// The time that a template has.
const TIME: Duration = Duration::from_secs(5);

/// The key of a namespace by which it is told from other objects; no template can write it.
pub(super) const NAMESPACE: &str = "\0namespace";

/// The error of a template that exceeds a bound.
pub(super) fn beyond(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::OutOfFuel, what.into())
}

/// Refuses a source that is too large or too deep to be parsed.
///
/// # Errors
/// Such a source.
pub(super) fn check_source(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    if source.len() > SOURCE {
        return Err(beyond(format!(
            "it has {} bytes; at most {SOURCE} are read",
            source.len()
        )));
    }
    let (mut tokens, mut elifs) = (0, 0);
    // A mistake in the syntax is for the parser to name.
    for (token, span) in tokenize(source, false, syntax.clone()).map_while(Result::ok) {
        tokens += 1;
        match token {
            Token::BlockStart | Token::VariableStart | Token::TemplateData(_) => tokens = 0,
            Token::Ident("elif") => elifs += 1,
            _ => {}
        }
        if tokens > TOKENS || elifs > ELIFS {
            return Err(beyond(format!(
                "line {}: a tag has more than {TOKENS} words and signs, or there are more than {ELIFS} `elif`",
                span.start_line
            )));
        }
    }
    Ok(())
}

/// The bounds of a template that reads these variables.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Steps of the engine.
    pub(super) steps: u64,
    /// The most bytes of a text, and of what a list or an object shows.
    pub(super) shown: usize,
    ends: Instant,
}

impl Bounds {
    /// Bounds in proportion to the variables.
    pub(super) fn of(variables: &serde_json::Value) -> Bounds {
        let (parts, bytes) = size(variables);
        Bounds {
            steps: STEPS + 200 * parts as u64 + bytes as u64 / 2,
            shown: SHOWN + 4 * (bytes + ITEM * parts),
            ends: Instant::now() + TIME,
        }
    }

    /// Refuses a value that an operation made if it is too deep or shows too much, and a template that takes too long.
    /// Values that are bounded can be shown, compared and dropped.
    ///
    /// # Errors
    /// Such a value or template.
    pub(super) fn check(&self, value: &Value) -> Result<(), Error> {
        if Instant::now() > self.ends {
            return Err(beyond(format!("it takes longer than {} s", TIME.as_secs())));
        }
        let mut left = self.shown;
        visit(value, 0, &mut left)
    }

    /// Refuses a namespace that shows too much as a whole: its attributes are checked one by one.
    ///
    /// # Errors
    /// Such a namespace.
    pub(super) fn check_namespace(&self, value: &Value) -> Result<(), Error> {
        if is_namespace(value) { self.check(value) } else { Ok(()) }
    }

    /// Refuses a value that may not be an attribute of a namespace: a namespace, or what cannot be shown.
    ///
    /// # Errors
    /// Such a value.
    pub(super) fn check_attribute(&self, value: &Value) -> Result<(), Error> {
        if is_namespace(value) || value.kind() == ValueKind::Plain {
            return Err(beyond(
                "an attribute of a namespace must be a text, a number, a list or an object",
            ));
        }
        self.check(value)
    }
}

/// What an item takes beside its text.
const ITEM: usize = 16;

/// Number of values in a value, and bytes of their texts.
fn size(value: &serde_json::Value) -> (usize, usize) {
    use serde_json::Value as Json;
    let sum = |(parts, bytes): (usize, usize), (own, text): (usize, usize)| (parts + own, bytes + text);
    match value {
        Json::String(text) => (1, text.len()),
        Json::Array(items) => items.iter().map(size).fold((1, 0), sum),
        Json::Object(map) => {
            let pairs = map.iter().map(|(key, value)| sum((1, key.len()), size(value)));
            pairs.fold((1, 0), sum)
        }
        _ => (1, 0),
    }
}

fn is_namespace(value: &Value) -> bool {
    value.kind() == ValueKind::Map && value.get_attr(NAMESPACE).is_ok_and(|mark| mark.is_true())
}

/// Goes through a value and takes what it shows from `left`.
fn visit(value: &Value, depth: usize, left: &mut usize) -> Result<(), Error> {
    let own = ITEM + value.as_str().map_or(0, str::len);
    *left = left
        .checked_sub(if depth == 0 { 0 } else { own })
        .ok_or_else(|| beyond("a list or an object of it shows too much"))?;
    if depth > DEPTH {
        return Err(beyond(format!("lists and objects of it are more than {DEPTH} deep")));
    }
    let is_sized = value.len().is_some();
    match value.kind() {
        ValueKind::Map => {
            if depth > 0 && is_namespace(value) {
                return Err(beyond("a list or an object holds a namespace"));
            }
            let Some(pairs) = value.as_object().and_then(|object| object.try_iter_pairs()) else {
                return Ok(());
            };
            for (key, item) in pairs {
                visit(&key, depth + 1, left)?;
                visit(&item, depth + 1, left)?;
            }
            Ok(())
        }
        // Without a length it may be gone once it was gone through.
        ValueKind::Seq | ValueKind::Iterable if is_sized => {
            let items = value.as_object().and_then(|object| object.try_iter());
            items
                .into_iter()
                .flatten()
                .try_for_each(|item| visit(&item, depth + 1, left))
        }
        _ => Ok(()),
    }
}

/// A text that may not become longer than its bound.
pub(super) struct Text {
    text: String,
    most: usize,
}

impl Text {
    /// An empty text of at most so many bytes.
    pub(super) fn of_at_most(most: usize) -> Text {
        let text = String::new();
        Text { text, most }
    }

    /// Adds a part.
    ///
    /// # Errors
    /// A part that makes it too long.
    pub(super) fn push_str(&mut self, part: &str) -> Result<(), Error> {
        if part.len() > self.most - self.text.len() {
            return Err(beyond(format!("a text of it is longer than {} bytes", self.most)));
        }
        self.text.push_str(part);
        Ok(())
    }

    /// The text.
    pub(super) fn into_string(self) -> String {
        self.text
    }
}
