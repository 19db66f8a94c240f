//! Typed access to the fields of `config.json`. Every error names the file and the field; unknown fields are preserved.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::activation::Activation;
use crate::loss::Loss;
use lessen_base::{Error, Result};

/// The remedy in errors about folders that are no checkpoint.
pub(crate) const WANTED_FOLDER: &str =
    "name a folder with config.json and model.safetensors, as transformers' save_pretrained writes it";

/// The largest accepted size: a matrix of two such sizes has 2^50 bytes in `f32`, so byte counts do not overflow.
const LARGEST: u64 = 1 << 24;

/// The largest accepted number of layers. The graph grows with each, so a mistyped number would exhaust the memory.
const DEEPEST: usize = 1024;

/// The field for the softmax of a cross entropy.
pub(crate) const OWN_LOSS: &str = "lessen_loss";

/// The field for an activation that transformers does not have.
const OWN_ACTIVATION: &str = "lessen_activation";

/// The fields of a `config.json`, and the path of the file for error messages.
#[derive(Clone, Debug)]
pub struct Fields {
    place: String,
    /// The folder of the file, if it is known.
    folder: Option<PathBuf>,
    map: Map<String, Value>,
}

impl Fields {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that is missing, unreadable, not UTF-8, or not a JSON object.
    pub fn read(path: &Path) -> Result<Fields> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::user(format!("there is no {shown}; {WANTED_FOLDER}")),
            ErrorKind::InvalidData => Error::user(format!("{shown} is not valid UTF-8; restore the file")),
            _ => Error::user(format!(
                "{shown} cannot be read ({e}); check the file and its permissions"
            )),
        })?;
        let fields = Fields::parse(&text, &path.display().to_string())?;
        Ok(Fields {
            folder: path.parent().map(Path::to_path_buf),
            ..fields
        })
    }

    /// Parses the text of a file; `place` names the file in error messages.
    ///
    /// # Errors
    /// Text that is not a JSON object.
    pub fn parse(text: &str, place: &str) -> Result<Fields> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Fields::of(map, place)),
            Ok(_) => Err(Error::user(format!("{place} must hold a JSON object"))),
            Err(e) => Err(Error::user(format!("{place} is no valid JSON: {e}"))),
        }
    }

    /// The fields of a map; `place` names it in error messages.
    pub(crate) fn of(map: Map<String, Value>, place: &str) -> Fields {
        Fields {
            place: place.to_string(),
            folder: None,
            map,
        }
    }

    /// The fields that describe a model in a file of a folder that has no `config.json`.
    pub(crate) fn of_file(map: Map<String, Value>, path: &Path) -> Fields {
        Fields {
            folder: path.parent().map(Path::to_path_buf),
            ..Fields::of(map, &path.display().to_string())
        }
    }

    /// The file beside `config.json` that a field names; none where the field is absent.
    ///
    /// # Errors
    /// A value that is no name of a file in the folder.
    pub(crate) fn beside(&self, field: &str) -> Result<Option<PathBuf>> {
        let Some(name) = self.word(field)? else { return Ok(None) };
        let is_name = Path::new(name).file_name().is_some_and(|own| own == name);
        match &self.folder {
            Some(folder) if is_name => Ok(Some(folder.join(name))),
            _ => Err(self.error(
                field,
                format!("is {name:?}, which is no file beside it; restore the folder"),
            )),
        }
    }

    /// Returns all fields of the file.
    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }

    /// All fields with their values, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.map.iter().map(|(field, value)| (field.as_str(), value))
    }

    /// The same file with other fields.
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut Map<String, Value>)) -> Fields {
        change(&mut self.map);
        self
    }

    /// Makes an error about one field: `PLACE: the field FIELD WHAT`.
    pub fn error(&self, field: &str, what: impl Display) -> Error {
        Error::user(format!("{}: the field `{field}` {what}", self.place))
    }

    /// Returns the value of a field; `null` counts as absent.
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

    /// Returns a required size of at least 1.
    pub fn size(&self, field: &str) -> Result<usize> {
        self.as_size(field, self.required(field)?)
    }

    /// Returns a required number of layers, 1 to 1024.
    pub fn depth(&self, field: &str) -> Result<usize> {
        match self.size(field)? {
            layers @ 1..=DEEPEST => Ok(layers),
            layers => Err(self.error(field, format!("is {layers}, but a model has at most {DEEPEST} layers"))),
        }
    }

    /// Returns an optional number of layers, 1 to 1024.
    pub fn depth_or(&self, field: &str, default: usize) -> Result<usize> {
        self.get(field).map_or(Ok(default), |_| self.depth(field))
    }

    /// Returns a size of at least 1, where there is one.
    pub fn optional_size(&self, field: &str) -> Result<Option<usize>> {
        self.get(field).map(|value| self.as_size(field, value)).transpose()
    }

    /// Returns an optional size of at least 1.
    pub fn size_or(&self, field: &str, default: usize) -> Result<usize> {
        self.get(field).map_or(Ok(default), |value| self.as_size(field, value))
    }

    /// Returns an optional height and width: a list of both, or a number that is both.
    pub fn extents_or(&self, field: &str, default: [usize; 2]) -> Result<[usize; 2]> {
        match self.get(field) {
            None => Ok(default),
            Some(Value::Array(both)) => match both.as_slice() {
                [height, width] => Ok([self.as_size(field, height)?, self.as_size(field, width)?]),
                _ => Err(self.error(field, "must be a whole number or a list of two, height and width")),
            },
            Some(side) => self.as_size(field, side).map(|side| [side, side]),
        }
    }

    /// Returns an optional token id.
    pub fn index_or(&self, field: &str, default: usize) -> Result<usize> {
        self.get(field).map_or(Ok(default), |value| match value.as_u64() {
            Some(n) if n < LARGEST => Ok(n as usize),
            _ => Err(self.error(
                field,
                format!("must be a whole number from 0 to {}, it is {value}", LARGEST - 1),
            )),
        })
    }

    /// Returns an optional number above 0.
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

    /// Returns a required number above 0.
    pub fn positive(&self, field: &str) -> Result<f64> {
        self.required(field)?;
        self.positive_or(field, 1.0)
    }

    /// Returns the fields of an optional object.
    pub fn within(&self, field: &str) -> Result<Option<Fields>> {
        let inner = |value: &Value| match value {
            Value::Object(map) => Ok(Fields {
                place: format!("{}: within the field `{field}`", self.place),
                folder: self.folder.clone(),
                map: map.clone(),
            }),
            other => Err(self.error(field, format!("must be an object, it is {other}"))),
        };
        self.get(field).map(inner).transpose()
    }

    /// Returns an optional dropout probability in `[0, 1)`.
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

    /// Returns an optional truth value.
    pub fn switch_or(&self, field: &str, default: bool) -> Result<bool> {
        self.get(field).map_or(Ok(default), |value| {
            value
                .as_bool()
                .ok_or_else(|| self.error(field, format!("must be true or false, it is {value}")))
        })
    }

    /// Returns an optional string.
    pub fn word(&self, field: &str) -> Result<Option<&str>> {
        self.get(field)
            .map(|value| {
                value
                    .as_str()
                    .ok_or_else(|| self.error(field, format!("must be a text, it is {value}")))
            })
            .transpose()
    }

    /// Returns an optional activation: what `put_activation` writes, or a word in the field itself.
    pub fn activation_or(&self, field: &str, default: Activation) -> Result<Activation> {
        let read = |field: &str| {
            let word = self.word(field)?;
            let parsed = word.map(|word| {
                word.parse::<Activation>().map_err(|_| {
                    let known = Activation::words();
                    self.error(
                        field,
                        format!("names the activation `{word}`, which Lessen does not have; it has {known}"),
                    )
                })
            });
            parsed.transpose()
        };
        let (shown, own) = (read(field)?.unwrap_or(default), read(OWN_ACTIVATION)?);
        match own {
            Some(own) if own.transformers_name() != shown.transformers_name() => Err(self.error(
                OWN_ACTIVATION,
                format!(
                    "is `{own}`, for which `{field}` must be `{}`, not `{shown}`; correct one of the two",
                    own.transformers_name()
                ),
            )),
            own => Ok(own.unwrap_or(shown)),
        }
    }

    /// Returns the softmax of the cross entropy, which `put_loss` writes.
    pub fn loss(&self) -> Result<Loss> {
        let word = self.word(OWN_LOSS)?;
        word.map_or(Ok(Loss::default()), |word| {
            word.parse().map_err(|_| {
                self.error(
                    OWN_LOSS,
                    format!("is `{word}`, which Lessen does not have; it has {}", Loss::words()),
                )
            })
        })
    }

    /// Refuses a field that is present with another value than `only`, the one that Lessen implements.
    pub fn must_be(&self, field: &str, only: &Value) -> Result<()> {
        match self.get(field) {
            Some(value) if value != only => Err(self.error(
                field,
                format!("is {value}, and Lessen computes this model only with {only}"),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses a field that is missing or has another value than `null`, with which alone Lessen computes the model.
    pub fn must_be_null(&self, field: &str) -> Result<()> {
        match self.map.get(field) {
            Some(Value::Null) => Ok(()),
            Some(value) => Err(self.error(
                field,
                format!("is {value}, and Lessen computes this model only with null"),
            )),
            None => Err(self.error(field, "is missing, and Lessen computes this model only with null")),
        }
    }

    /// Checks that the number of heads divides the width.
    pub fn divides(&self, width: &str, size: usize, heads: &str, count: usize) -> Result<()> {
        if size.is_multiple_of(count) {
            Ok(())
        } else {
            Err(self.error(width, format!("is {size}, which `{heads}` ({count}) does not divide")))
        }
    }

    /// Checks that the padding token is one of the vocabulary.
    pub(crate) fn check_padding(&self, token: usize, tokens: usize) -> Result<()> {
        if token < tokens {
            return Ok(());
        }
        let what = format!("is {token}, not one of the {tokens} tokens");
        Err(self.error("pad_token_id", what))
    }
}

/// Writes the fields that every model has: its class and its family.
pub fn put_identity(map: &mut Map<String, Value>, architecture: &str, model_type: &str) {
    map.insert("architectures".into(), Value::from(vec![architecture]));
    map.insert("model_type".into(), Value::from(model_type));
}

/// A height and a width as [`Fields::extents_or`] reads them: a number where both are equal.
pub(crate) fn extents_json([height, width]: [usize; 2]) -> Value {
    if height == width {
        Value::from(height)
    } else {
        Value::from(vec![height, width])
    }
}

/// Writes the dtype of the weights.
pub(crate) fn put_dtype(map: &mut Map<String, Value>, dtype: &str) {
    // transformers before 4.56 calls the field `torch_dtype`.
    let field = if map.contains_key("torch_dtype") {
        "torch_dtype"
    } else {
        "dtype"
    };
    map.insert(field.into(), Value::from(dtype));
}

/// Writes an activation: a name that transformers knows in `field`, and its own word beside it where that says more.
pub fn put_activation(map: &mut Map<String, Value>, field: &str, activation: Activation) {
    let (name, word) = (activation.transformers_name(), activation.to_string());
    map.insert(field.into(), Value::from(name));
    put_own(map, OWN_ACTIVATION, (word != name).then(|| Value::from(word)));
}

/// Writes the softmax of the cross entropy, unless it is that of the logits as they are.
pub fn put_loss(map: &mut Map<String, Value>, loss: Loss) {
    let word = (loss != Loss::default()).then(|| Value::from(loss.to_string()));
    put_own(map, OWN_LOSS, word);
}

/// Writes a field of our own, which transformers ignores, or removes it.
pub(crate) fn put_own(map: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(field.into(), value),
        None => map.remove(field),
    };
}
