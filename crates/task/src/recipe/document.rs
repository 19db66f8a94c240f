//! A TOML text under the name that messages give it: its tables, and the line of every key.

use super::value::{Origin, SettingValue, plain};
use lessen_base::{Error, Result};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of a document at its key: full name, byte of the key, and the value unless no setting can have it.
pub struct Leaf {
    /// The key, after the keys of the tables around it: `train.lr`.
    pub name: String,
    /// Where it is written.
    pub at: usize,
    /// None for a list, a table without keys and a date.
    pub value: Option<SettingValue>,
}

/// A text that has been parsed.
pub struct Document<'a> {
    root: DeTable<'a>,
    text: &'a str,
    file: &'a str,
    folder: Option<&'a Path>,
}

impl<'a> Document<'a> {
    /// Parses a text. `file` names it in messages; relative paths in it start at `folder`, if there is one.
    ///
    /// # Errors
    /// A text that is no TOML.
    pub fn parse(text: &'a str, file: &'a str, folder: Option<&'a Path>) -> Result<Document<'a>> {
        let root = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(text, span.start));
            let reason = error.message().replace('\n', ", ");
            Error::user(format!(
                "{file} line {line} is not valid TOML ({reason}); correct the line"
            ))
        })?;
        Ok(Document {
            root: root.into_inner(),
            text,
            file,
            folder,
        })
    }

    /// The outermost table.
    pub fn root(&self) -> &DeTable<'a> {
        &self.root
    }

    /// The place of a byte, for messages.
    pub fn origin(&self, byte: usize) -> Origin {
        Origin::Line(self.file.to_string(), line_at(self.text, byte))
    }

    /// The folder at which relative paths start.
    pub fn folder(&self) -> Option<&'a Path> {
        self.folder
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte].iter().filter(|&&b| b == b'\n').count() + 1
}

/// The values of a table and of the tables in it. Where `is_key` is true of a name, it is no table of further keys.
pub fn leaves(table: &DeTable<'_>, is_key: &dyn Fn(&str) -> bool) -> Vec<Leaf> {
    let mut found = Vec::new();
    flatten("", table, is_key, &mut found);
    found
}

fn flatten(prefix: &str, table: &DeTable<'_>, is_key: &dyn Fn(&str) -> bool, found: &mut Vec<Leaf>) {
    for (name, value) in table {
        let full = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}.{}", name.get_ref())
        };
        match value.get_ref() {
            DeValue::Table(inner) if !is_key(&full) && !inner.is_empty() => flatten(&full, inner, is_key, found),
            _ => found.push(Leaf {
                name: full,
                at: name.span().start,
                value: plain(value),
            }),
        }
    }
}

/// The tables of a list of tables (`[[name]]`), each with the byte at which it begins; none where the value is
/// something else.
pub fn tables<'t, 'a>(value: &'t Spanned<DeValue<'a>>) -> Option<Vec<(usize, &'t DeTable<'a>)>> {
    let DeValue::Array(list) = value.get_ref() else {
        return None;
    };
    let table = |item: &'t Spanned<DeValue<'a>>| match item.get_ref() {
        DeValue::Table(table) => Some((item.span().start, table)),
        _ => None,
    };
    list.iter().map(table).collect()
}
