//! The chat templates beside a tokenizer, which go with it wherever it is saved. (A template in `tokenizer_config.json`
//! goes with that file.)

use lessen_base::{Result, atomic};
use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{make_folder, read_text};

/// The template of a folder, in a file of its own; in older folders a field of an object.
const FILES: [&str; 2] = ["chat_template.jinja", "chat_template.json"];

/// The folder of further templates.
const FOLDER: &str = "additional_chat_templates";

/// Files with chat templates.
#[derive(Clone, Default)]
pub(super) struct ChatFiles(Vec<(PathBuf, String)>);

impl ChatFiles {
    /// Reads the templates of a folder.
    ///
    /// # Errors
    /// A template that cannot be read.
    pub(super) fn read(dir: &Path) -> Result<ChatFiles> {
        let mut names = Vec::new();
        if let Ok(entries) = fs::read_dir(dir.join(FOLDER)) {
            names.extend(entries.flatten().map(|entry| Path::new(FOLDER).join(entry.file_name())));
        }
        names.retain(|name| name.extension().is_some_and(|ending| ending == "jinja"));
        names.extend(FILES.map(PathBuf::from));
        names.retain(|name| dir.join(name).is_file());
        names.sort();
        let read = |name: PathBuf| read_text(&dir.join(&name)).map(|text| (name, text));
        Ok(ChatFiles(names.into_iter().map(read).collect::<Result<_>>()?))
    }

    /// Writes the templates to a folder.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn save(&self, dir: &Path) -> Result<()> {
        for (name, text) in &self.0 {
            let path = dir.join(name);
            path.parent().map_or(Ok(()), make_folder)?;
            atomic::write_file(&path, text.as_bytes())?;
        }
        Ok(())
    }
}
