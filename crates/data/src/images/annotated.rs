//! A split whose images lie in one folder, and a file beside it has their classes, as `val` of tiny ImageNet: lines of
//! `val/val_annotations.txt` have the name of a file in `val/images`, its class, and a box, which is not read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::parts::{Part, PartLabels};
use super::set::Pixels;

/// The folder of the images.
pub(super) const IMAGES: &str = "images";

/// The file with the classes of the images of a split's folder, where there is one.
pub(super) fn annotations(dir: &Path) -> Option<PathBuf> {
    let name = dir.file_name()?.to_str()?;
    Some(dir.join(format!("{name}_annotations.txt"))).filter(|file| file.is_file())
}

/// The images that a file names.
///
/// # Errors
/// A file that cannot be read or names no image; a line without a class, or with an image that is not there.
pub(super) fn read(dir: &Path, file: &Path) -> Result<Part> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| Error::user(format!("{shown} cannot be read: {error}")))?;
    let (mut files, mut classes) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = format!("{shown}, line {}", number + 1);
        let mut fields = line.split('\t').map(str::trim);
        let (Some(name), Some(class)) = (fields.next(), fields.next().filter(|class| !class.is_empty())) else {
            return Err(Error::user(format!(
                "{at} has no class; write the name of an image, a tab and its class"
            )));
        };
        let image = dir.join(IMAGES).join(name);
        if !image.is_file() {
            return Err(Error::user(format!(
                "{at} names {}, which is not there; copy it, or take the line away",
                image.display()
            )));
        }
        files.push(image);
        classes.push(class.to_string());
    }
    if files.is_empty() {
        return Err(Error::user(format!(
            "{shown} names no image; copy or download it again"
        )));
    }
    let mut numbers: BTreeMap<&String, u32> = classes.iter().map(|class| (class, 0)).collect();
    numbers.values_mut().zip(0..).for_each(|(own, number)| *own = number);
    let places = classes.iter().map(|class| numbers[class]).collect();
    let names = numbers.into_keys().cloned().collect();
    Ok(Part {
        pixels: Pixels::InFiles(files.into()),
        labels: PartLabels::Names(names, places),
        place: file.to_path_buf(),
    })
}
