//! Checks a converted model as it is in its file, before the file takes its place.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::{Result, atomic};

use super::Converter;
use crate::import::{Imported, Sizes, extents};
use crate::model::Model;
use crate::tensor::Elements;
use crate::write;

/// A folder for files that are not finished, which vanishes with it.
struct Aside(PathBuf);

impl Aside {
    /// A new folder beside a file.
    fn beside(path: &Path) -> Result<Aside> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path.with_file_name(format!("{}{name}.folder", atomic::ASIDE));
        // A killed run may have left it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).map_err(|error| atomic::unwritable(path, &error))?;
        Ok(Aside(folder))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Converter<'_> {
    /// Writes the converted model; the number of bytes written, a file beside it included, and what `check` finds,
    /// which compares it with the original one. Where that fails, nothing is written.
    ///
    /// # Errors
    /// A file that cannot be read or written; a written model that does not fit the original one.
    pub fn write_checked<T>(&self, path: &Path, check: impl FnOnce(&Model) -> Result<T>) -> Result<(u64, T)> {
        self.keep_sources(path)?;
        let aside = Aside::beside(path)?;
        let unfinished = aside.0.join(path.file_name().unwrap_or_default());
        let bytes = write::write(self.model, &self.edits()?, &unfinished)?;
        let written = Model::open(&unfinished)?;
        let found = self.check_types(&written).and_then(|()| check(&written)).map_err(|why| {
            self.model.error(&format!(
                "the converted model does not pass its check, and is not written ({}); convert to another norm, or report the \
                 file",
                why.message()
            ))
        })?;
        let beside = write::beside(&unfinished);
        let moves = [(beside.clone(), write::beside(path)), (unfinished, path.to_path_buf())];
        for (from, to) in moves.iter().filter(|(from, _)| *from != beside || from.exists()) {
            fs::rename(from, to).map_err(|error| atomic::unwritable(to, &error))?;
        }
        atomic::sync_folder(path).map_err(|error| atomic::unwritable(path, &error))?;
        Ok((bytes, found))
    }

    /// Checks that no file of the model would be overwritten.
    fn keep_sources(&self, path: &Path) -> Result<()> {
        let real = |path: &Path| path.canonicalize().ok();
        let own = self.model.source.path();
        let folder = own.parent().unwrap_or(Path::new(""));
        let mut sources = vec![own.to_path_buf()];
        sources.extend(
            self.model
                .initializers
                .values()
                .filter_map(|tensor| match &tensor.elements {
                    Elements::There(external) => Some(folder.join(&external.file)),
                    _ => None,
                }),
        );
        let sources: HashSet<PathBuf> = sources.iter().filter_map(|source| real(source)).collect();
        let overwritten = [path.to_path_buf(), write::beside(path)];
        match overwritten
            .iter()
            .find(|path| real(path).is_some_and(|path| sources.contains(&path)))
        {
            Some(path) => Err(self.model.error(&format!(
                "{} would be read and written at once; write another file with -o",
                path.display()
            ))),
            None => Ok(()),
        }
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
