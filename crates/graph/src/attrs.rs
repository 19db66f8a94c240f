//! Attributes: what an operation is told besides its inputs, in a form that prints, parses and compares.

use std::fmt;

use crate::types::DType;

/// One attribute's value. Numbers are equal when their bits are: 0.0 and -0.0 differ, NaN equals itself.
#[derive(Clone, Debug)]
pub enum Attr {
    /// A whole number.
    Int(i64),
    /// A real number; prints with all its digits.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A list of whole numbers: a shape, axes.
    Ints(Vec<i64>),
    /// A list of real numbers: the data of a constant.
    Floats(Vec<f64>),
    /// A word: a dtype, a direction.
    Word(String),
}

impl Attr {
    /// A list attribute from sizes or axes.
    pub fn sizes(values: &[usize]) -> Attr {
        Attr::Ints(values.iter().map(|&v| v as i64).collect())
    }
}

impl PartialEq for Attr {
    fn eq(&self, other: &Attr) -> bool {
        match (self, other) {
            (Attr::Int(a), Attr::Int(b)) => a == b,
            (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
            (Attr::Bool(a), Attr::Bool(b)) => a == b,
            (Attr::Ints(a), Attr::Ints(b)) => a == b,
            (Attr::Floats(a), Attr::Floats(b)) => {
                a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
            }
            (Attr::Word(a), Attr::Word(b)) => a == b,
            _ => false,
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
            Attr::Word(v) => write!(f, "{v}"),
        }
    }
}

/// The named attributes of an operation, in the operation's own order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Attrs(pub Vec<(String, Attr)>);

impl Attrs {
    /// No attributes.
    pub fn new() -> Attrs {
        Attrs::default()
    }

    /// The same attributes and one more.
    pub fn with(mut self, name: &str, value: Attr) -> Attrs {
        self.0.push((name.to_string(), value));
        self
    }

    /// The attribute of this name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// A whole number, or a sentence that says what is missing.
    pub fn int(&self, name: &str) -> Result<i64, String> {
        match self.get(name) {
            Some(Attr::Int(v)) => Ok(*v),
            _ => Err(format!("attribute `{name}` must be a whole number")),
        }
    }

    /// A real number (a whole one counts).
    pub fn float(&self, name: &str) -> Result<f64, String> {
        match self.get(name) {
            Some(Attr::Float(v)) => Ok(*v),
            Some(Attr::Int(v)) => Ok(*v as f64),
            _ => Err(format!("attribute `{name}` must be a number")),
        }
    }

    /// A truth value.
    pub fn bool(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            Some(Attr::Bool(v)) => Ok(*v),
            _ => Err(format!("attribute `{name}` must be true or false")),
        }
    }

    /// A size or an axis, below 2^48.
    pub fn size(&self, name: &str) -> Result<usize, String> {
        let value = usize::try_from(self.int(name)?).ok().filter(|&v| v < 1 << 48);
        value.ok_or_else(|| format!("attribute `{name}` must be at least 0 and below 2^48"))
    }

    /// The stream of an operation that draws random bits.
    pub fn stream(&self) -> Result<u32, String> {
        u32::try_from(self.int("stream")?).map_err(|_| "attribute `stream` must be in 0..2^32".to_string())
    }

    /// A dtype.
    pub fn dtype(&self, name: &str) -> Result<DType, String> {
        let word = self.word(name)?;
        DType::from_name(word).ok_or_else(|| format!("attribute `{name}`: there is no dtype `{word}`"))
    }

    /// A list of sizes or axes, whose product is below 2^48.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>, String> {
        let Some(Attr::Ints(list)) = self.get(name) else {
            return Err(format!("attribute `{name}` must be a list of sizes"));
        };
        let sizes: Option<Vec<usize>> = list.iter().map(|&v| usize::try_from(v).ok()).collect();
        let product = |sizes: &Vec<usize>| sizes.iter().try_fold(1usize, |p, &n| p.checked_mul(n.max(1)));
        sizes
            .filter(|sizes| product(sizes).is_some_and(|p| p < 1 << 48))
            .ok_or_else(|| format!("attribute `{name}` must be a list of sizes, their product below 2^48"))
    }

    /// A list of real numbers (whole ones count).
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, String> {
        match self.get(name) {
            Some(Attr::Floats(v)) => Ok(v.clone()),
            Some(Attr::Ints(v)) => Ok(v.iter().map(|&x| x as f64).collect()),
            _ => Err(format!("attribute `{name}` must be a list of numbers")),
        }
    }

    /// A word.
    pub fn word(&self, name: &str) -> Result<&str, String> {
        match self.get(name) {
            Some(Attr::Word(v)) => Ok(v),
            _ => Err(format!("attribute `{name}` must be a word")),
        }
    }
}
