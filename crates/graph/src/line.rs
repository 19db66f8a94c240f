//! The lexer of one line of the text form.

use std::str::FromStr;

use lessen_base::{Error, Result};

use crate::attrs::{Attr, Attrs};
use crate::types::{DType, Type};

/// Whether a scope reads back without quotation marks.
pub(crate) fn is_plain_scope(scope: &str) -> bool {
    scope.chars().all(|c| c.is_alphanumeric() || "._-/".contains(c))
}

impl FromStr for Attrs {
    type Err = Error;

    /// Reads attributes in the text form, with or without braces, such as `axis=1, sizes=[2,3]`.
    fn from_str(text: &str) -> Result<Attrs> {
        let text = text.trim();
        let braced = if text.starts_with('{') {
            text.to_string()
        } else {
            format!("{{{text}}}")
        };
        let mut line = Line::new(&braced);
        let attrs = line.attrs()?;
        line.end()?;
        Ok(attrs)
    }
}

/// The rest of a line. Blanks in front of what is read are skipped.
pub(crate) struct Line<'t> {
    rest: &'t str,
}

impl<'t> Line<'t> {
    pub(crate) fn new(text: &'t str) -> Line<'t> {
        Line { rest: text }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// The longest beginning whose characters all satisfy the condition.
    fn take(&mut self, condition: impl Fn(char) -> bool) -> &'t str {
        self.skip_blanks();
        let end = self.rest.find(|c| !condition(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Reads a symbol if it comes next.
    pub(crate) fn accept(&mut self, symbol: &str) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads a symbol.
    pub(crate) fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.accept(symbol) {
            Ok(())
        } else {
            Err(self.instead_of(&format!("`{symbol}`")))
        }
    }

    fn instead_of(&self, expected: &str) -> Error {
        match self.rest {
            "" => Error::user(format!("{expected} is missing at the end")),
            rest => Error::user(format!("expected {expected} at `{rest}`")),
        }
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.skip_blanks();
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.instead_of("the end of the line"))
        }
    }

    /// A name of letters, digits and underscores.
    pub(crate) fn word(&mut self) -> Result<&'t str> {
        match self.take(|c| c.is_alphanumeric() || c == '_') {
            "" => Err(self.instead_of("a name")),
            word => Ok(word),
        }
    }

    /// The name of an operation: as [`Line::word`], with dots.
    pub(crate) fn op_name(&mut self) -> Result<&'t str> {
        match self.take(|c| c.is_alphanumeric() || "_.".contains(c)) {
            "" => Err(self.instead_of("the name of an operation")),
            name => Ok(name),
        }
    }

    /// A value, such as `%7`.
    pub(crate) fn value(&mut self) -> Result<u32> {
        self.expect("%")?;
        let digits = self.take(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| self.instead_of("the number of a value"))
    }

    /// A string between quotation marks.
    pub(crate) fn quoted(&mut self) -> Result<String> {
        self.expect("\"")?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[i + 1..];
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, c)) => text.push(c),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(Error::user("the closing `\"` is missing"))
    }

    /// A scope: plain or between quotation marks.
    pub(crate) fn scope(&mut self) -> Result<String> {
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        match self.take(|c| is_plain_scope(c.encode_utf8(&mut [0; 4]))) {
            "" => Err(self.instead_of("a scope")),
            scope => Ok(scope.to_string()),
        }
    }

    /// A type, such as `f32[2,3]`.
    pub(crate) fn ty(&mut self) -> Result<Type> {
        let name = self.word()?;
        let dtype = DType::from_name(name).ok_or_else(|| Error::user(format!("there is no dtype `{name}`")))?;
        self.expect("[")?;
        let mut shape: Vec<usize> = Vec::new();
        while !self.accept("]") {
            if !shape.is_empty() {
                self.expect(",")?;
            }
            let digits = self.take(|c| c.is_ascii_digit());
            shape.push(digits.parse().map_err(|_| self.instead_of("an extent"))?);
        }
        Type::sized(dtype, &shape)
    }

    /// Attributes between braces; none if no brace comes next.
    pub(crate) fn attrs(&mut self) -> Result<Attrs> {
        let mut attrs = Attrs::new();
        if !self.accept("{") {
            return Ok(attrs);
        }
        while !self.accept("}") {
            if !attrs.0.is_empty() {
                self.expect(",")?;
            }
            let name = self.word()?;
            self.expect("=")?;
            let value = if self.accept("[") {
                self.list()?
            } else if self.rest.starts_with('"') {
                Attr::Word(self.quoted()?)
            } else {
                Attr::from_atom(self.atom()?)
            };
            if attrs.get(name).is_some() {
                return Err(Error::user(format!("the attribute `{name}` is given twice")));
            }
            attrs = attrs.with(name, value);
        }
        Ok(attrs)
    }

    fn atom(&mut self) -> Result<&'t str> {
        match self.take(|c| !c.is_whitespace() && !",{}[]()=".contains(c)) {
            "" => Err(self.instead_of("a value of the attribute")),
            atom => Ok(atom),
        }
    }

    /// The rest of a list: of whole numbers, or of numbers if one of them is not whole.
    fn list(&mut self) -> Result<Attr> {
        let (mut ints, mut floats) = (Some(Vec::new()), Vec::new());
        while !self.accept("]") {
            if !floats.is_empty() {
                self.expect(",")?;
            }
            let atom = self.atom()?;
            match Attr::from_atom(atom) {
                Attr::Int(v) => {
                    floats.push(v as f64);
                    ints.iter_mut().for_each(|list| list.push(v));
                }
                Attr::Float(v) => {
                    floats.push(v);
                    ints = None;
                }
                _ => return Err(Error::user(format!("`{atom}` is no number"))),
            }
        }
        Ok(ints.map_or(Attr::Floats(floats), Attr::Ints))
    }
}
