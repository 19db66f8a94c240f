//! The files that settings name: what is noted of them, and that a resumed run or job reads the same ones.

use crate::recipe::config::Config;
use crate::recipe::keys::Key;
use crate::recipe::settings::Settings;
use crate::recipe::value::{SettingValue, ValueKind};
use crc32c::crc32c_append;
use lessen_base::{Error, Result};
use lessen_data::images::FilesDigest;
use lessen_nn::checkpoint::ModelFolder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Endings of the files that models, tokenizers and networks are read from.
const ENDINGS: [&str; 8] = [
    "json",
    "jinja",
    "txt",
    "model",
    "safetensors",
    "onnx",
    "data",
    "onnx_data",
];

/// Keys whose data has digests of its own, or that hold no input.
const OTHERS: [&str; 4] = ["data.path", "data.dev", "data.test", "data.cache"];

/// The files that settings name, by the names of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InputFiles(BTreeMap<String, Named>);

/// The files of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Named {
    /// The folder in which they lie, which may be another one when the run is resumed.
    #[serde(skip)]
    folder: PathBuf,
    /// Their digests, in order of their names within the folder.
    files: Vec<FilesDigest>,
}

impl InputFiles {
    /// The files that these settings name, those of data left out.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(settings: &Settings) -> Result<InputFiles> {
        let mut own = InputFiles::default();
        for key in settings.schema().keys().filter(|key| !OTHERS.contains(&key.name)) {
            for value in settings.all_values(key.name) {
                if let Some(path) = path_of(key, value) {
                    own.add(key.name, &path)?;
                }
            }
        }
        if let Some(path) = settings.text("model.init").map(Path::new).filter(|path| path.is_dir())
            && let Ok(Some(base)) = ModelFolder::from(path).base()
        {
            own.add("model.base", &base)?;
        }
        Ok(own)
    }

    /// Adds images in files.
    pub fn with_images(mut self, config: &Config, mut files: Vec<FilesDigest>) -> InputFiles {
        let folder = config.data.path.clone().unwrap_or_default();
        files.iter_mut().for_each(|digest| digest.name_within(&folder));
        if !files.is_empty() {
            self.0.insert("data.path".to_string(), Named { folder, files });
        }
        self
    }

    fn add(&mut self, key: &str, path: &Path) -> Result<()> {
        let unreadable = |error: io::Error| {
            Error::user(format!(
                "{key}: {} cannot be read ({error}); check the file and its permissions",
                path.display()
            ))
        };
        let (folder, names) = if path.is_dir() {
            (path, names_in(path, has_ending).map_err(unreadable)?)
        } else {
            // The numbers of an ONNX file may lie beside it.
            let (folder, own) = (
                path.parent().unwrap_or(path),
                path.file_name().unwrap_or_default().to_string_lossy(),
            );
            let is_own = |name: &str| name == own || (name.starts_with(&*own) && has_ending(name));
            (folder, names_in(folder, is_own).map_err(unreadable)?)
        };
        let digest = |name: String| {
            let (bytes, crc) = digest(&folder.join(&name))?;
            Ok(FilesDigest::of_one(name, bytes, crc))
        };
        let files: io::Result<Vec<FilesDigest>> = names.into_iter().map(digest).collect();
        let named = Named {
            folder: folder.to_path_buf(),
            files: files.map_err(unreadable)?,
        };
        self.0.entry(key.to_string()).or_insert(named);
        Ok(())
    }

    /// Whether there are none, as in what earlier versions wrote.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses other files than the run or job in `out`, of this noun, began with.
    ///
    /// # Errors
    /// A file that differs, is gone, or is new.
    pub fn check(&self, now: &InputFiles, noun: &str, out: &Path) -> Result<()> {
        for (key, before) in &self.0 {
            let Some(now) = now.0.get(key) else { continue };
            if let Some((file, how)) = before.difference(now) {
                return Err(Error::user(format!(
                    "{key}: {file} is not what the {noun} {} began with ({how}); restore it, or start another {noun} with \
                     another --out",
                    out.display()
                )));
            }
        }
        Ok(())
    }
}

impl Named {
    /// The first file that differs, and how.
    fn difference(&self, now: &Named) -> Option<(String, &'static str)> {
        let by_name = |named: &Named| -> BTreeMap<String, FilesDigest> {
            let files = named.files.iter();
            files.map(|file| (file.name.clone(), file.clone())).collect()
        };
        let (before, after) = (by_name(self), by_name(now));
        let shown = |file: &FilesDigest| file.shown(&now.folder);
        let changed = before.iter().find_map(|(name, file)| match after.get(name) {
            Some(other) if other == file => None,
            Some(_) => Some((shown(file), "its contents differ")),
            None => Some((shown(file), "it is gone")),
        });
        changed.or_else(|| {
            let new = after.iter().find(|(name, _)| !before.contains_key(*name));
            new.map(|(_, file)| (shown(file), "it is new"))
        })
    }
}

/// The file or folder that a value names.
fn path_of(key: &Key, value: &SettingValue) -> Option<PathBuf> {
    let SettingValue::Text(text) = value else { return None };
    let ValueKind::Path(words) = key.kind else { return None };
    let path = Path::new(text);
    let is_there = path.is_dir() || path.is_file();
    (is_there && !words.contains(&text.as_str())).then(|| path.to_path_buf())
}

fn has_ending(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    !name.starts_with('.') && ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// The names of the files in a folder that are meant, in order.
fn names_in(dir: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    })? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_meant(&name) && entry.path().is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Length and CRC-32C of a file.
pub fn digest(path: &Path) -> io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    let (mut length, mut crc) = (0, 0);
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            return Ok((length, crc));
        }
        length += count as u64;
        crc = crc32c_append(crc, &block[..count]);
    }
}
