//! Condensed images as arrays in files: `condensed.npz` and `condensed.safetensors`.

use super::manifest::Manifest;
use lessen_base::{Error, Result};
use lessen_condense::{ImageSource, LabelledImages};
use lessen_data::images::Preprocessing;
use lessen_data::images::condensed::CondensedImages;
use lessen_graph::{DType, Type};
use lessen_nn::checkpoint::{Entry, write_tensors};
use std::path::Path;

/// Names of the tensors: images, labels, shares of classes, mean and deviation of the channels.
const IMAGES: &str = "images";
const LABELS: &str = "labels";
const SHARES: &str = "soft_labels";
const MEAN: &str = "mean";
const STD: &str = "std";

/// The file for safetensors.
const TENSORS: &str = "condensed.safetensors";

/// Writes images, labels, mean and deviation of the channels in both formats into a folder.
///
/// # Errors
/// A folder that cannot be written to, a full disk.
pub(super) fn write(root: &Path, images: &LabelledImages, preprocessing: &Preprocessing) -> Result<()> {
    let arrays = CondensedImages {
        shape: images.shape(),
        pixels: images.pixels().to_vec(),
        labels: images.labels().to_vec(),
        soft_labels: images.soft_labels().map(<[f32]>::to_vec),
    };
    arrays.write(root, preprocessing)?;
    write_safetensors(&root.join(TENSORS), &arrays, preprocessing)
}

fn write_safetensors(path: &Path, arrays: &CondensedImages, preprocessing: &Preprocessing) -> Result<()> {
    let [height, width, channels] = arrays.shape;
    let count = arrays.labels.len();
    let entry = |name: &str, dtype: DType, shape: &[usize]| Entry {
        name: name.to_string(),
        ty: Type::new(dtype, shape),
    };
    let mut entries = vec![
        entry(IMAGES, DType::F32, &[count, height, width, channels]),
        entry(LABELS, DType::I32, &[count]),
        entry(MEAN, DType::F32, &[channels]),
        entry(STD, DType::F32, &[channels]),
    ];
    if let Some(shares) = &arrays.soft_labels {
        entries.push(entry(SHARES, DType::F32, &[count, shares.len() / count.max(1)]));
    }
    write_tensors(path, &entries, |entry, out| {
        let floats = match &entry.name[..] {
            IMAGES => &arrays.pixels[..],
            MEAN => &preprocessing.mean,
            STD => &preprocessing.std,
            SHARES => arrays.soft_labels.as_deref().unwrap_or_default(),
            _ => {
                let mut labels = arrays.labels.iter();
                return labels.try_for_each(|label| out.write_all(&label.to_le_bytes()));
            }
        };
        floats.iter().try_for_each(|float| out.write_all(&float.to_le_bytes()))
    })
}

/// Reads the images of a folder.
///
/// # Errors
/// A file that cannot be read, and arrays that are not those of the manifest.
pub(super) fn read(dir: &Path, manifest: &Manifest) -> Result<LabelledImages> {
    let preprocessing = Preprocessing::load(dir)?.ok_or_else(|| {
        Error::user(format!(
            "{} has no preprocessor_config.json; restore the file, or condense anew",
            dir.display()
        ))
    })?;
    let classes = manifest.classes.len();
    let arrays = CondensedImages::read(dir, &preprocessing, classes)?;
    let images = LabelledImages::new(arrays.shape, classes, arrays.pixels, arrays.labels);
    let images = images.and_then(|images| match arrays.soft_labels {
        Some(shares) => images.with_soft_labels(shares),
        None => Ok(images),
    });
    images.map_err(|error| error.at(dir.display()))
}
