//! Schemas: the sections of keys that settings may have.

use super::Key;
use crate::recipe::names;
use crate::recipe::value::{Origin, Values};
use std::collections::BTreeMap;

/// The keys that settings may have.
#[derive(Debug, PartialEq)]
pub struct Schema {
    /// The keys of each section, in the order in which they are listed and written.
    pub sections: &'static [&'static [Key]],
    /// The names of sections whose keys are not known here; their values are kept as they are written.
    pub kept: &'static [&'static str],
}

impl Schema {
    /// All keys, section by section.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.sections.iter().copied().flatten()
    }

    /// The key of this name.
    ///
    /// # Errors
    /// The name of the most similar key, by its own name or by its names in other programs.
    pub fn find(&self, name: &str) -> std::result::Result<&'static Key, &'static str> {
        let exact = self.keys().find(|key| key.name == name);
        exact.ok_or_else(|| names::nearest(name, self.keys().map(|key| key.name)))
    }

    /// Whether a name is that of a key, or in a section whose values are kept as they are written.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.keeps(name) || self.find(name).is_ok()
    }

    /// Whether a name is in a section whose values are kept as they are written.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        name.split_once('.')
            .is_some_and(|(section, _)| self.kept.contains(&section))
    }

    /// The names of the values in these maps: keys in their order, then those in sections that are kept, in the order
    /// of their lines.
    pub(crate) fn names<'a>(&self, maps: &[&'a Values]) -> Vec<&'a str> {
        let known = self.keys().filter_map(|key| {
            let mut found = maps.iter().filter_map(|values| values.get_key_value(key.name));
            found.next().map(|(name, _)| name.as_str())
        });
        let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, (_, origin)) in maps.iter().copied().flatten().filter(|(name, _)| self.keeps(name)) {
            let line = match origin {
                Origin::Line(_, line) => *line,
                _ => usize::MAX,
            };
            kept.entry(name).or_insert(line);
        }
        let mut kept: Vec<(&str, usize)> = kept.into_iter().collect();
        kept.sort_by_key(|(name, line)| (name.split('.').next(), *line));
        known.chain(kept.into_iter().map(|(name, _)| name)).collect()
    }
}
