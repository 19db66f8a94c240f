//! Checks a converted model as it is in its file, before the file takes its place.

use std::collections::HashSet;
use std::path::Path;

use lessen_base::Result;

use super::Converter;
use lessen_onnx::Model;
use lessen_onnx::aside::write_checked;
use lessen_onnx::import::extents;
use lessen_onnx::{Imported, Sizes};

impl Converter<'_> {
    /// Writes the converted model; the number of bytes written, a file beside it included, and what `check` finds,
    /// which compares it with the original one. Where that fails, nothing is written.
    ///
    /// # Errors
    /// A file that cannot be read or written; a written model that does not fit the original one.
    pub fn write_checked<T>(&self, path: &Path, check: impl FnOnce(&Model) -> Result<T>) -> Result<(u64, T)> {
        write_checked(self.model, &self.edits()?, path, |unfinished| {
            let written = Model::open(unfinished)?;
            self.check_types(&written)
                .and_then(|()| check(&written))
                .map_err(|why| {
                    self.model.error(&format!(
                    "the converted model does not pass its check, and is not written ({}); convert to another norm, or \
                     report the file",
                    why.message()
                ))
                })
        })
    }

    /// Checks that what is known of the original model is known of the written one, and that the written one has the
    /// types that its file says.
    fn check_types(&self, written: &Model) -> Result<()> {
        let sizes = &self.sizes;
        let imported = Imported::of(written, sizes)?;
        let outputs = |node: usize, model: &Model| model.nodes[node].proto.output.clone();
        let opaque = self.imported.opaque.iter();
        let opaque: HashSet<Vec<String>> = opaque.map(|(node, _)| outputs(*node, self.model)).collect();
        let mut new = imported.opaque.iter();
        if let Some((node, why)) = new.find(|(node, _)| !opaque.contains(&outputs(*node, written))) {
            let node = written.nodes[*node].shown();
            return Err(written.error(&format!("its node {node} cannot be run, since {why}")));
        }
        let before = contradictions(self.model, &self.imported, sizes);
        let mut after: Vec<String> = contradictions(written, &imported, sizes).into_iter().collect();
        after.retain(|name| !before.contains(name));
        after.sort_unstable();
        if let Some(name) = after.first() {
            return Err(written.error(&format!("its value `{name}` has not the type that the file says")));
        }
        match repeated(written).filter(|_| repeated(self.model).is_none()) {
            Some(name) => Err(written.error(&format!("two of its nodes are called `{name}`"))),
            None => Ok(()),
        }
    }
}

/// The values whose extents are not those that the file says.
fn contradictions(model: &Model, imported: &Imported, sizes: &Sizes) -> HashSet<String> {
    let said = model.values.values().chain(&model.outputs);
    let differs = said.filter(|value| {
        let said = value.r#type.as_ref().and_then(|ty| extents(ty, sizes));
        let found = imported
            .values
            .get(&value.name)
            .map(|value| &imported.graph.ty(*value).shape);
        said.zip(found).is_some_and(|((_, said), found)| said[..] != found[..])
    });
    differs.map(|value| value.name.clone()).collect()
}

/// A name that two nodes of a model have.
fn repeated(model: &Model) -> Option<&str> {
    let mut seen = HashSet::new();
    let names = model.nodes.iter().map(|node| node.proto.name.as_str());
    let mut named = names.filter(|name| !name.is_empty());
    named.find(|name| !seen.insert(*name))
}
