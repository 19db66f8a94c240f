//! Condensed images as arrays in files: `condensed.npz` and `condensed.safetensors`.

use super::folder::CondensedFolder;
use super::manifest::Manifest;
use lessen_base::{Error, Result};
use lessen_condense::{ImageSource, LabelledImages};
use lessen_data::arrays::{Array, Dtype, npz};
use lessen_graph::{DType, Type};
use lessen_nn::checkpoint::{Entry, write_tensors};
use std::path::Path;

/// Names of the arrays: images, labels, mean and deviation of the channels.
const IMAGES: &str = "images";
const LABELS: &str = "labels";
const MEAN: &str = "mean";
const STD: &str = "std";

/// Writes images, labels, mean and deviation of the channels in both formats.
///
/// # Errors
/// A folder that cannot be written to, a full disk.
pub(super) fn write(folder: &CondensedFolder, images: &LabelledImages, manifest: &Manifest) -> Result<()> {
    write_npz(&folder.npz(), images, manifest)?;
    write_safetensors(&folder.safetensors(), images, manifest)
}

/// Writes images, labels, mean and deviation as `.npz`.
///
/// # Errors
/// A folder that cannot be written to, a full disk.
fn write_npz(path: &Path, images: &LabelledImages, manifest: &Manifest) -> Result<()> {
    let [height, width, channels] = images.shape();
    let labels = images.labels();
    let arrays = [
        (
            IMAGES,
            Array::new(
                &[labels.len(), height, width, channels],
                images.pixels().iter().copied(),
            ),
        ),
        (
            LABELS,
            Array::new(&[labels.len()], labels.iter().map(|label| i64::from(*label))),
        ),
        (MEAN, Array::new(&[channels], manifest.mean.iter().copied())),
        (STD, Array::new(&[channels], manifest.std.iter().copied())),
    ];
    npz::write(path, &arrays.map(|(name, array)| (name.to_string(), array)))
}

/// Writes the same as `.safetensors`.
///
/// # Errors
/// A folder that cannot be written to, a full disk.
fn write_safetensors(path: &Path, images: &LabelledImages, manifest: &Manifest) -> Result<()> {
    let [height, width, channels] = images.shape();
    let labels = images.labels();
    let entry = |name: &str, dtype: DType, shape: &[usize]| Entry {
        name: name.to_string(),
        ty: Type::new(dtype, shape),
    };
    let entries = [
        entry(IMAGES, DType::F32, &[labels.len(), height, width, channels]),
        entry(LABELS, DType::I32, &[labels.len()]),
        entry(MEAN, DType::F32, &[channels]),
        entry(STD, DType::F32, &[channels]),
    ];
    write_tensors(path, &entries, |entry, out| {
        let floats = match &entry.name[..] {
            IMAGES => images.pixels(),
            MEAN => &manifest.mean,
            STD => &manifest.std,
            _ => return labels.iter().try_for_each(|label| out.write_all(&label.to_le_bytes())),
        };
        floats.iter().try_for_each(|float| out.write_all(&float.to_le_bytes()))
    })
}

/// Reads images and labels of a `.npz` file.
///
/// # Errors
/// A file that cannot be read, and arrays that are not those of the manifest.
pub(super) fn read(path: &Path, manifest: &Manifest) -> Result<LabelledImages> {
    let arrays = npz::read(path)?;
    let wrong = |what: String| Error::user(format!("{} {what}; condense anew", path.display()));
    let array = |name: &str| {
        let found = arrays.iter().find(|(own, _)| own == name);
        found
            .map(|(_, array)| array)
            .ok_or_else(|| wrong(format!("has no array {name}")))
    };
    let (images, labels) = (array(IMAGES)?, array(LABELS)?);
    let numbers = labels.integers().unwrap_or_default();
    let numbers: Option<Vec<u32>> = numbers.iter().map(|label| u32::try_from(*label).ok()).collect();
    let numbers = numbers.ok_or_else(|| wrong("has labels that are no numbers of classes".to_string()))?;
    let shape = [&[numbers.len()][..], &manifest.shape].concat();
    if images.dtype() != Dtype::Float(4) || images.shape() != shape {
        return Err(wrong(format!(
            "has images of shape {:?}, and the manifest tells of {shape:?}",
            images.shape()
        )));
    }
    let pixels = images.floats().map(|pixel| pixel as f32).collect();
    LabelledImages::new(manifest.shape, manifest.classes.len(), pixels, numbers)
        .map_err(|error| error.at(path.display()))
}
