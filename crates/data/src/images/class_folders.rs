//! Folders with a folder of PNG and JPEG files for each class, either at once or within folders of splits.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::decode::is_image;
use super::parts::{DEV, Part, PartLabels, Parts};
use super::set::Pixels;
use crate::places::listed;

/// Endings of images in other formats, which are left out.
const OTHERS: [&str; 7] = ["gif", "webp", "bmp", "tif", "tiff", "heic", "avif"];

/// The splits of a folder, and what there is to say of it; none where there are no folders of images.
///
/// # Errors
/// A folder that cannot be read; one class; a class without images.
pub(super) fn read(dir: &Path) -> Result<Option<(Parts, Vec<String>)>> {
    let mut others = Vec::new();
    let within = dir.join("train");
    let is_split = within.is_dir();
    let Some(train) = part(if is_split { &within } else { dir }, &mut others)? else {
        return Ok(None);
    };
    let PartLabels::Names(names, places) = &train.labels else {
        return Ok(None);
    };
    if let [name] = &names[..] {
        return Err(Error::user(format!(
            "{} has the folder {name} only, and with one class there is nothing to tell apart; make a folder for each class",
            train.place.display()
        )));
    }
    let count = |class: usize| places.iter().filter(|place| **place == class as u32).count();
    if let Some(empty) = (0..names.len()).find(|class| count(*class) == 0) {
        return Err(Error::user(format!(
            "{} has no PNG or JPEG file; add some, or take the folder away",
            train.place.join(&names[empty]).display()
        )));
    }
    let mut split = |names: &[&str]| {
        let found = names.iter().map(|name| dir.join(name)).find(|path| path.is_dir());
        match found.filter(|_| is_split) {
            Some(path) => part(&path, &mut others),
            None => Ok(None),
        }
    };
    let parts = Parts {
        dev: split(&DEV)?,
        test: split(&["test"])?,
        train,
        names: None,
    };
    let remark = others.first().map(|first: &PathBuf| {
        let files = if others.len() == 1 { "file is" } else { "files are" };
        let (count, first) = (others.len(), first.display());
        format!("{count} {files} neither PNG nor JPEG and left out, such as {first}")
    });
    Ok(Some((parts, remark.into_iter().collect())))
}

/// The images in the folders of a folder; none where there are none at all. Images of other formats are added to
/// `others`.
pub(super) fn part(dir: &Path, others: &mut Vec<PathBuf>) -> Result<Option<Part>> {
    let (mut files, mut names, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for class in listed(dir)?.into_iter().filter(|path| path.is_dir()) {
        add(&class, &mut files, others)?;
        places.resize(files.len(), names.len() as u32);
        names.push(class.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    Ok((!files.is_empty()).then(|| Part {
        pixels: Pixels::InFiles(files.into()),
        labels: PartLabels::Names(names, places),
        place: dir.to_path_buf(),
    }))
}

/// Adds all images in a folder and those within it, by name.
fn add(dir: &Path, files: &mut Vec<PathBuf>, others: &mut Vec<PathBuf>) -> Result<()> {
    for path in listed(dir)? {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_dir() {
            add(&path, files, others)?;
        } else if is_image(&path) {
            files.push(path);
        } else if OTHERS.contains(&&extension[..]) {
            others.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }

    fn shown(dir: &Path, part: &Part) -> Vec<String> {
        let (Pixels::InFiles(files), PartLabels::Names(names, places)) = (&part.pixels, &part.labels) else {
            panic!("files and names");
        };
        let show = |(file, place): (&PathBuf, &u32)| {
            format!(
                "{} {}",
                file.strip_prefix(dir).unwrap().display(),
                names[*place as usize]
            )
        };
        files.iter().zip(places).map(show).collect()
    }

    #[test]
    fn classes_are_folders_also_within_those_of_splits() {
        let dir = folder(&[
            "b/2.PNG",
            "b/1.jpg",
            "a/deep/3.jpeg",
            "a/.x.png",
            "a/notes.txt",
            "a/4.webp",
        ]);
        let (parts, remarks) = read(dir.path()).unwrap().unwrap();
        assert_eq!(
            shown(dir.path(), &parts.train),
            ["a/deep/3.jpeg a", "b/1.jpg b", "b/2.PNG b"]
        );
        assert!(parts.dev.is_none() && parts.test.is_none());
        assert!(
            remarks[0].starts_with("1 file is neither PNG nor JPEG and left out, ") && remarks[0].ends_with("a/4.webp")
        );
        let dir = folder(&["train/a/1.png", "train/b/2.png", "val/b/3.png", "test/a/4.png"]);
        let (parts, remarks) = read(dir.path()).unwrap().unwrap();
        assert_eq!(shown(dir.path(), &parts.train), ["train/a/1.png a", "train/b/2.png b"]);
        assert_eq!(shown(dir.path(), &parts.dev.unwrap()), ["val/b/3.png b"]);
        assert_eq!(shown(dir.path(), &parts.test.unwrap()), ["test/a/4.png a"]);
        assert!(remarks.is_empty());
    }

    #[test]
    fn one_class_and_empty_ones_are_refused() {
        let refused = |files: &[&str]| read(folder(files).path()).err().unwrap().to_string();
        assert!(refused(&["a/1.png"]).contains("has the folder a only"));
        let empty = refused(&["train/a/1.png", "train/b/2.gif"]);
        assert!(empty.contains("train/b has no PNG or JPEG file; add some"), "{empty}");
        assert!(read(folder(&["1.png", "a/x.txt"]).path()).unwrap().is_none());
    }
}
