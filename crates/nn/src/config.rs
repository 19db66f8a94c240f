//! Reading and writing `config.json`: every mistake is named with its file and field, and fields that Lessen
//! does not know are kept and written back.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value};

use crate::activation::Activation;
use crate::checkpoint::WANTED_FOLDER;
use lessen_base::{Error, Result};

/// No extent of a model is larger, so that byte counts cannot overflow.
const LARGEST: u64 = 1 << 24;

/// No model has more layers; each of them makes the graph larger, so that a slip of the pen would fill the
/// memory.
const DEEPEST: usize = 1024;

/// The fields of a `config.json` and the name of the file they are from, for messages.
#[derive(Clone, Debug)]
pub struct Fields {
    place: String,
    map: Map<String, Value>,
}

impl Fields {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or holds no JSON object.
    pub fn read(path: &Path) -> Result<Fields> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::user(format!("there is no {shown}; {WANTED_FOLDER}")),
            ErrorKind::InvalidData => Error::user(format!("{shown} is not valid UTF-8; restore the file")),
            _ => Error::user(format!(
                "{shown} cannot be read ({e}); check the file and its permissions"
            )),
        })?;
        Fields::parse(&text, &path.display().to_string())
    }

    /// Fields from the text of a file; `place` stands for the file in messages.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub fn parse(text: &str, place: &str) -> Result<Fields> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Fields {
                place: place.to_string(),
                map,
            }),
            Ok(_) => Err(Error::user(format!("{place} must hold a JSON object"))),
            Err(e) => Err(Error::user(format!("{place} is no valid JSON: {e}"))),
        }
    }

    /// All fields as they stand in the file.
    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }

    /// An error about one field.
    pub fn error(&self, field: &str, what: impl Display) -> Error {
        Error::user(format!("{}: the field `{field}` {what}", self.place))
    }

    /// The value of a field; `null` counts as absent.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    fn required(&self, field: &str) -> Result<&Value> {
        self.get(field).ok_or_else(|| self.error(field, "is missing"))
    }

    fn as_size(&self, field: &str, value: &Value) -> Result<usize> {
        match value.as_u64() {
            Some(n) if (1..=LARGEST).contains(&n) => Ok(n as usize),
            _ => Err(self.error(
                field,
                format!("must be a whole number from 1 to {LARGEST}, it is {value}"),
            )),
        }
    }

    fn as_number(&self, field: &str, value: &Value) -> Result<f64> {
        value
            .as_f64()
            .ok_or_else(|| self.error(field, format!("must be a number, it is {value}")))
    }

    /// An extent, which must be there.
    pub fn size(&self, field: &str) -> Result<usize> {
        self.as_size(field, self.required(field)?)
    }

    /// A number of layers, which must be there.
    pub fn depth(&self, field: &str) -> Result<usize> {
        match self.size(field)? {
            layers @ 1..=DEEPEST => Ok(layers),
            layers => Err(self.error(
                field,
                format!("is {layers}, but a model has at most {DEEPEST} layers"),
            )),
        }
    }

    /// An extent with a default.
    pub fn size_or(&self, field: &str, default: usize) -> Result<usize> {
        self.get(field)
            .map_or(Ok(default), |value| self.as_size(field, value))
    }

    /// A number of a token with a default.
    pub fn index_or(&self, field: &str, default: usize) -> Result<usize> {
        self.get(field).map_or(Ok(default), |value| match value.as_u64() {
            Some(n) if n < LARGEST => Ok(n as usize),
            _ => Err(self.error(
                field,
                format!("must be a whole number from 0 to {}, it is {value}", LARGEST - 1),
            )),
        })
    }

    /// A positive number with a default.
    pub fn positive_or(&self, field: &str, default: f64) -> Result<f64> {
        let number = self
            .get(field)
            .map_or(Ok(default), |value| self.as_number(field, value))?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(self.error(field, format!("must be above 0, it is {number}")))
        }
    }

    /// A probability of dropout with a default.
    pub fn dropout_or(&self, field: &str, default: f64) -> Result<f64> {
        let p = self
            .get(field)
            .map_or(Ok(default), |value| self.as_number(field, value))?;
        if (0.0..1.0).contains(&p) {
            Ok(p)
        } else {
            Err(self.error(field, format!("must be at least 0 and below 1, it is {p}")))
        }
    }

    /// A word, if the field is there.
    pub fn word(&self, field: &str) -> Result<Option<&str>> {
        self.get(field)
            .map(|value| {
                value
                    .as_str()
                    .ok_or_else(|| self.error(field, format!("must be a text, it is {value}")))
            })
            .transpose()
    }

    /// The activation that a field names.
    pub fn activation_or(&self, field: &str, default: Activation) -> Result<Activation> {
        let Some(name) = self.word(field)? else {
            return Ok(default);
        };
        Activation::from_name(name).ok_or_else(|| {
            let known = Activation::NAMES.join(", ");
            self.error(
                field,
                format!("names the activation `{name}`, which Lessen does not have; it has {known}"),
            )
        })
    }

    /// Refuses a setting that would change the model in a way that Lessen does not compute.
    pub fn must_be(&self, field: &str, only: &Value) -> Result<()> {
        match self.get(field) {
            Some(value) if value != only => Err(self.error(
                field,
                format!("is {value}, and Lessen computes this model only with {only}"),
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a width can be cut into heads.
    pub fn divides(&self, width: &str, size: usize, heads: &str, count: usize) -> Result<()> {
        if size.is_multiple_of(count) {
            Ok(())
        } else {
            Err(self.error(
                width,
                format!("is {size}, which `{heads}` ({count}) does not divide"),
            ))
        }
    }
}

/// Writes what every model's configuration holds: its class, its type, and the dtype of its weights.
pub fn put_identity(map: &mut Map<String, Value>, architecture: &str, model_type: &str) {
    map.insert("architectures".into(), Value::from(vec![architecture]));
    map.insert("model_type".into(), Value::from(model_type));
    // Before version 4.56 transformers called the field `torch_dtype`.
    let field = if map.contains_key("torch_dtype") {
        "torch_dtype"
    } else {
        "dtype"
    };
    map.insert(field.into(), Value::from("float32"));
}
