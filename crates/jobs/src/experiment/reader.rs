//! Reading of an experiment's file: a table whose keys are taken one by one, until one is left that nobody knows.

use lessen_base::{Error, Result};
use lessen_task::recipe::document::{Document, tables};
use lessen_task::recipe::settings::Settings;
use lessen_task::recipe::value::{Origin, SettingValue, plain};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table that is being read.
pub(super) struct Reader<'d, 'a> {
    document: &'d Document<'a>,
    table: DeTable<'a>,
    /// How messages call the table: empty for the outermost one, else its name with a dot.
    prefix: String,
    /// Where the table begins.
    origin: Origin,
    asked: Vec<&'static str>,
}

impl<'d, 'a> Reader<'d, 'a> {
    /// The outermost table of a document.
    pub(super) fn new(document: &'d Document<'a>) -> Reader<'d, 'a> {
        Reader {
            document,
            table: document.root().clone(),
            prefix: String::new(),
            origin: document.origin(0),
            asked: Vec::new(),
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.asked.push(key);
        self.table.remove(key)
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> Error {
        let (origin, prefix) = (self.document.origin(value.span().start), &self.prefix);
        Error::user(format!("{origin}: {prefix}{key} must be {expected}"))
    }

    /// The error of a key that is missing.
    pub(super) fn missing(&self, key: &str, example: &str) -> Error {
        let (origin, prefix) = (&self.origin, &self.prefix);
        Error::user(format!(
            "{origin}: {prefix}{key} is missing; write one, such as {example}"
        ))
    }

    /// An error about this table.
    pub(super) fn error(&self, what: &str) -> Error {
        Error::user(format!("{}: {what}", self.origin))
    }

    /// Where the table begins.
    pub(super) fn origin(&self) -> Origin {
        self.origin.clone()
    }

    /// A value of any kind that a setting has.
    pub(super) fn value(&mut self, key: &'static str) -> Result<Option<SettingValue>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let found = plain(&value).ok_or_else(|| self.wrong(key, &value, "a text, a number, true or false"))?;
        Ok(Some(found))
    }

    /// A text.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match plain(&value) {
            Some(SettingValue::Text(text)) => Ok(Some(text)),
            _ => Err(self.wrong(key, &value, "a text")),
        }
    }

    /// A text that must be there; `example` shows one.
    pub(super) fn required(&mut self, key: &'static str, example: &str) -> Result<String> {
        match self.text(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.missing(key, example)),
        }
    }

    /// One of the words in `words`.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let found = match plain(&value) {
            Some(SettingValue::Text(text)) => words.iter().find(|(word, _)| *word == text).map(|(_, found)| *found),
            _ => None,
        };
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        match found {
            Some(found) => Ok(Some(found)),
            None => Err(self.wrong(key, &value, &format!("one of {}", known.join(", ")))),
        }
    }

    /// True or false.
    pub(super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match plain(&value) {
            Some(SettingValue::Switch(on)) => Ok(Some(on)),
            _ => Err(self.wrong(key, &value, "true or false")),
        }
    }

    /// A number.
    pub(super) fn number(&mut self, key: &'static str) -> Result<Option<f64>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match plain(&value) {
            Some(SettingValue::Number(number)) if number.is_finite() => Ok(Some(number)),
            Some(SettingValue::Count(count)) => Ok(Some(count as f64)),
            _ => Err(self.wrong(key, &value, "a number")),
        }
    }

    /// A list of values, none of them a list or a table; a single text stands for a list of one.
    pub(super) fn list(&mut self, key: &'static str) -> Result<Option<Vec<SettingValue>>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let items: Option<Vec<SettingValue>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(plain).collect(),
            DeValue::String(_) => plain(&value).map(|text| vec![text]),
            _ => None,
        };
        items
            .map(Some)
            .ok_or_else(|| self.wrong(key, &value, "a list of values"))
    }

    /// A list of texts; a single text stands for a list of one.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<String>> {
        let origin = self
            .table
            .get(key)
            .map(|value| self.document.origin(value.span().start));
        let texts: Option<Vec<String>> = self
            .list(key)?
            .unwrap_or_default()
            .into_iter()
            .map(|value| match value {
                SettingValue::Text(text) => Some(text),
                _ => None,
            })
            .collect();
        texts.ok_or_else(|| {
            let origin = origin.unwrap_or(self.origin());
            Error::user(format!("{origin}: {}{key} must be a list of texts", self.prefix))
        })
    }

    /// A table; empty where there is none.
    pub(super) fn table(&mut self, key: &'static str) -> Result<DeTable<'a>> {
        match self.take(key) {
            None => Ok(DeTable::default()),
            Some(value) => match value.get_ref() {
                DeValue::Table(table) => Ok(table.clone()),
                _ => Err(self.wrong(key, &value, &format!("a table, begun by [{}{key}]", self.prefix))),
            },
        }
    }

    /// A reader of a table, if there is one.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Option<Reader<'d, 'a>>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Table(table) => Ok(Some(Reader {
                document: self.document,
                table: table.clone(),
                prefix: format!("{}{key}.", self.prefix),
                origin: self.document.origin(value.span().start),
                asked: Vec::new(),
            })),
            _ => Err(self.wrong(key, &value, &format!("a table, begun by [{}{key}]", self.prefix))),
        }
    }

    /// The tables of a list of tables.
    pub(super) fn tables(&mut self, key: &'static str) -> Result<Vec<Reader<'d, 'a>>> {
        let Some(value) = self.take(key) else {
            return Ok(Vec::new());
        };
        let found = tables(&value)
            .ok_or_else(|| self.wrong(key, &value, &format!("a list of tables, each begun by [[{key}]]")))?;
        let reader = |(at, table): (usize, &DeTable<'a>)| Reader {
            document: self.document,
            table: table.clone(),
            prefix: format!("{}{key}.", self.prefix),
            origin: self.document.origin(at),
            asked: Vec::new(),
        };
        Ok(found.into_iter().map(reader).collect())
    }

    /// Puts what has not been asked for over settings.
    pub(super) fn merge_into(self, settings: &mut Settings) -> Result<()> {
        settings.merge(self.document, &self.table)
    }

    /// Refuses a key that has not been asked for.
    pub(super) fn finish(self) -> Result<()> {
        let Some((name, _)) = self.table.iter().next() else {
            return Ok(());
        };
        let (origin, wrong) = (self.document.origin(name.span().start), name.get_ref());
        let alike = |known: &str| strsim::normalized_damerau_levenshtein(known, wrong);
        let nearest = self.asked.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        let (prefix, nearest) = (&self.prefix, nearest.copied().unwrap_or_default());
        Err(Error::user(format!(
            "{origin}: there is no key '{prefix}{wrong}'; did you mean {prefix}{nearest}?"
        )))
    }
}
