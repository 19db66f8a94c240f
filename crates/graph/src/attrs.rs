//! Attributes: the parameters of an operation as values that print, parse and compare.

use lessen_base::{Error, Result};
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::types::{DType, Type};

/// The value of an attribute. Two are equal when their texts are: 0.0 and -0.0 differ, and so do 1 and 1.0; all NaNs
/// are equal, and so are an empty list of integers and an empty list of floats.
#[derive(Clone, Debug)]
pub enum Attr {
    /// An integer.
    Int(i64),
    /// A float; prints with all its digits.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A list of integers: a shape, axes.
    Ints(Vec<i64>),
    /// A list of floats: the data of a constant.
    Floats(Vec<f64>),
    /// A word: a dtype, a function. Prints between quotation marks where it would parse as a number or a truth value.
    Word(String),
}

impl Attr {
    /// A list attribute from sizes or axes.
    pub fn sizes(values: &[usize]) -> Attr {
        Attr::Ints(values.iter().map(|&v| v as i64).collect())
    }

    /// The attribute that text without blanks, commas and brackets stands for: a number, a truth value or a word.
    pub(crate) fn from_atom(atom: &str) -> Attr {
        if let Ok(v) = atom.parse() {
            return Attr::Int(v);
        }
        match atom {
            "true" => Attr::Bool(true),
            "false" => Attr::Bool(false),
            _ => atom.parse().map_or_else(|_| Attr::Word(atom.to_string()), Attr::Float),
        }
    }
}

/// A name between quotation marks; line breaks, quotation marks and backslashes are escaped.
pub(crate) fn quoted(name: &str) -> String {
    format!(
        "\"{}\"",
        name.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
            .replace('\r', "\\r")
    )
}

/// Whether a word as an attribute reads back as that word without quotation marks.
fn is_plain_word(word: &str) -> bool {
    let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
    plain && matches!(Attr::from_atom(word), Attr::Word(_))
}

impl PartialEq for Attr {
    fn eq(&self, other: &Attr) -> bool {
        match (self, other) {
            (Attr::Int(a), Attr::Int(b)) => a == b,
            (Attr::Float(a), Attr::Float(b)) => same(a, b),
            (Attr::Bool(a), Attr::Bool(b)) => a == b,
            (Attr::Ints(a), Attr::Ints(b)) => a == b,
            (Attr::Floats(a), Attr::Floats(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Attr::Ints(a), Attr::Floats(b)) | (Attr::Floats(b), Attr::Ints(a)) => a.is_empty() && b.is_empty(),
            (Attr::Word(a), Attr::Word(b)) => a == b,
            _ => false,
        }
    }
}

/// Whether two numbers have the same text.
fn same(a: &f64, b: &f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// The bits of a number, the same for all NaNs.
fn bits(value: &f64) -> u64 {
    if value.is_nan() { f64::NAN } else { *value }.to_bits()
}

impl Eq for Attr {}

impl Hash for Attr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Attr::Int(v) => v.hash(state),
            Attr::Float(v) => bits(v).hash(state),
            Attr::Bool(v) => v.hash(state),
            Attr::Ints(v) => v.hash(state),
            Attr::Floats(v) => {
                v.len().hash(state);
                v.iter().for_each(|v| bits(v).hash(state));
            }
            Attr::Word(v) => v.hash(state),
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, values: &[T]) -> fmt::Result {
            write!(f, "[")?;
            for (i, v) in values.iter().enumerate() {
                write!(f, "{}{v:?}", if i == 0 { "" } else { "," })?;
            }
            write!(f, "]")
        }
        match self {
            Attr::Int(v) => write!(f, "{v}"),
            Attr::Float(v) => write!(f, "{v:?}"),
            Attr::Bool(v) => write!(f, "{v}"),
            Attr::Ints(v) => list(f, v),
            Attr::Floats(v) => list(f, v),
            Attr::Word(v) if is_plain_word(v) => write!(f, "{v}"),
            Attr::Word(v) => write!(f, "{}", quoted(v)),
        }
    }
}

/// The named attributes of an operation, in the operation's own order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attrs(pub Vec<(String, Attr)>);

impl Attrs {
    /// No attributes.
    pub fn new() -> Attrs {
        Attrs::default()
    }

    /// The same attributes and one more, whose name is of letters, digits and underscores.
    pub fn with(mut self, name: &str, value: Attr) -> Attrs {
        self.0.push((name.to_string(), value));
        self
    }

    /// The attributes `dtype` and `shape` of a type.
    pub(crate) fn of_type(ty: &Type) -> Attrs {
        Attrs::new()
            .with("dtype", Attr::Word(ty.dtype.name().to_string()))
            .with("shape", Attr::sizes(&ty.shape))
    }

    /// The type whose attributes are `dtype` and `shape`.
    pub(crate) fn ty(&self) -> Result<Type> {
        Ok(Type::new(self.dtype("dtype")?, &self.sizes("shape")?))
    }

    /// The attribute of this name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// An integer.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing or has another type.
    pub fn int(&self, name: &str) -> Result<i64> {
        match self.get(name) {
            Some(Attr::Int(v)) => Ok(*v),
            _ => Err(Error::user(format!("attribute `{name}` must be a whole number"))),
        }
    }

    /// A float; an integer is accepted.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing or has another type.
    pub fn float(&self, name: &str) -> Result<f64> {
        match self.get(name) {
            Some(Attr::Float(v)) => Ok(*v),
            Some(Attr::Int(v)) => Ok(*v as f64),
            _ => Err(Error::user(format!("attribute `{name}` must be a number"))),
        }
    }

    /// A boolean.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing or has another type.
    pub fn bool(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            Some(Attr::Bool(v)) => Ok(*v),
            _ => Err(Error::user(format!("attribute `{name}` must be true or false"))),
        }
    }

    /// A size or an axis, below 2^48.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing, has another type or is out of this range.
    pub fn size(&self, name: &str) -> Result<usize> {
        let value = usize::try_from(self.int(name)?).ok().filter(|&v| v < 1 << 48);
        value.ok_or_else(|| Error::user(format!("attribute `{name}` must be at least 0 and below 2^48")))
    }

    /// A dtype.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing, has another type or is no dtype's name.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        let word = self.word(name)?;
        DType::from_name(word).ok_or_else(|| Error::user(format!("attribute `{name}`: there is no dtype `{word}`")))
    }

    /// A list of sizes or axes, whose product is below 2^48.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing, has another type or is too large.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>> {
        let Some(Attr::Ints(list)) = self.get(name) else {
            return Err(Error::user(format!("attribute `{name}` must be a list of sizes")));
        };
        let sizes: Option<Vec<usize>> = list.iter().map(|&v| usize::try_from(v).ok()).collect();
        let product = |sizes: &Vec<usize>| sizes.iter().try_fold(1usize, |p, &n| p.checked_mul(n.max(1)));
        sizes
            .filter(|sizes| product(sizes).is_some_and(|p| p < 1 << 48))
            .ok_or_else(|| {
                Error::user(format!(
                    "attribute `{name}` must be a list of sizes, their product below 2^48"
                ))
            })
    }

    /// A list of floats; integers are accepted.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing or has another type.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>> {
        match self.get(name) {
            Some(Attr::Floats(v)) => Ok(v.clone()),
            Some(Attr::Ints(v)) => Ok(v.iter().map(|&x| x as f64).collect()),
            _ => Err(Error::user(format!("attribute `{name}` must be a list of numbers"))),
        }
    }

    /// A word.
    ///
    /// # Errors
    /// A sentence that names the attribute, when it is missing or has another type.
    pub fn word(&self, name: &str) -> Result<&str> {
        match self.get(name) {
            Some(Attr::Word(v)) => Ok(v),
            _ => Err(Error::user(format!("attribute `{name}` must be a word"))),
        }
    }
}
