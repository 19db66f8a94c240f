//! Condensed images: the files of a folder that tell which images there are, and what they were made of.
//!
//! Images are numbers that networks read, not bytes: most of them lie between two bytes, and some beyond black or
//! white.

use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::preprocessing::Preprocessing;
use crate::arrays::{Array, Dtype, npz};

/// The file of the arrays.
pub(super) const ARRAYS: &str = "condensed.npz";

/// The file that tells what was condensed, among other things.
const MANIFEST: &str = "manifest.json";

/// Names of the arrays.
const IMAGES: &str = "images";
const LABELS: &str = "labels";
const SHARES: &str = "soft_labels";
const MEAN: &str = "mean";
const STD: &str = "std";

/// Condensed images, as arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct CondensedImages {
    /// Height, width and channels of an image.
    pub shape: [usize; 3],
    /// The pixels of all images, `[N, H, W, C]`, as networks read them.
    pub pixels: Vec<f32>,
    /// The class of each image.
    pub labels: Vec<u32>,
    /// The shares of all classes in each image, `[N, classes]`, if these are learned in place of the labels.
    pub soft_labels: Option<Vec<f32>>,
}

/// The training images of a job: where they lie, how they were read, and their checksum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingImages {
    /// Its file or folder; empty for data in memory.
    pub path: PathBuf,
    /// The file or folder of its split `dev`, where one was named.
    pub dev: Option<PathBuf>,
    /// The same of its split `test`.
    pub test: Option<PathBuf>,
    /// The share that was kept for validation where there is no such split.
    pub held_out: f64,
    /// Which images these are.
    pub held_out_seed: u64,
    /// Their number.
    pub images: u64,
    /// CRC-32C of these and of their labels; of images in files, of names and sizes.
    pub crc32c: u32,
}

/// The part of the manifest that tells what was condensed.
#[derive(Deserialize)]
struct Manifest {
    data: TrainingImages,
}

impl CondensedImages {
    /// Writes the arrays, with mean and deviation of the channels.
    ///
    /// # Errors
    /// A folder that cannot be written to, a full disk.
    pub fn write(&self, dir: &Path, preprocessing: &Preprocessing) -> Result<()> {
        let [height, width, channels] = self.shape;
        let count = self.labels.len();
        let floats = |shape: &[usize], numbers: &[f32]| Array::new(shape, numbers.iter().copied());
        let mut arrays = vec![
            (IMAGES, floats(&[count, height, width, channels], &self.pixels)),
            (
                LABELS,
                Array::new(&[count], self.labels.iter().map(|label| i64::from(*label))),
            ),
        ];
        if let Some(shares) = &self.soft_labels {
            arrays.push((SHARES, floats(&[count, shares.len() / count.max(1)], shares)));
        }
        arrays.push((MEAN, floats(&[channels], &preprocessing.mean)));
        arrays.push((STD, floats(&[channels], &preprocessing.std)));
        let named: Vec<(String, Array)> = arrays
            .into_iter()
            .map(|(name, array)| (name.to_string(), array))
            .collect();
        npz::write(&dir.join(ARRAYS), &named)
    }

    /// Reads the arrays of a folder, of images of so many classes that this preprocessing makes.
    ///
    /// # Errors
    /// A file that cannot be read, arrays that are missing or do not go together, a number that is not finite.
    pub fn read(dir: &Path, preprocessing: &Preprocessing, classes: usize) -> Result<CondensedImages> {
        let path = dir.join(ARRAYS);
        let arrays = npz::read(&path)?;
        let wrong =
            |what: String| Error::user(format!("{} {what}; restore the file, or condense anew", path.display()));
        let find = |name: &str| arrays.iter().find(|(own, _)| own == name).map(|(_, array)| array);
        let array = |name: &str| find(name).ok_or_else(|| wrong(format!("has no array {name}")));
        let floats = |name: &str, array: &Array, shape: &[usize]| -> Result<Vec<f32>> {
            if array.dtype() != Dtype::Float(4) || array.shape() != shape {
                let (dtype, found) = (array.dtype(), array.shape());
                return Err(wrong(format!(
                    "has {name} of {dtype} {found:?} in place of float32 {shape:?}"
                )));
            }
            let numbers: Vec<f32> = array.floats().map(|number| number as f32).collect();
            match numbers.iter().find(|number| !number.is_finite()) {
                Some(number) => Err(wrong(format!("has the number {number} in {name}"))),
                None => Ok(numbers),
            }
        };
        let labels = array(LABELS)?.integers().unwrap_or_default();
        let label = |label: &i64| u32::try_from(*label).ok().filter(|label| (*label as usize) < classes);
        let labels: Option<Vec<u32>> = labels.iter().map(label).collect();
        let labels = labels
            .filter(|labels| !labels.is_empty())
            .ok_or_else(|| wrong(format!("has labels that are no numbers of the {classes} classes")))?;
        let shape = preprocessing.shape();
        let images = [&[labels.len()][..], &shape].concat();
        for (name, own) in [(MEAN, &preprocessing.mean), (STD, &preprocessing.std)] {
            if floats(name, array(name)?, &[shape[2]])? != *own {
                return Err(wrong(format!("has another {name} than preprocessor_config.json")));
            }
        }
        Ok(CondensedImages {
            shape,
            pixels: floats(IMAGES, array(IMAGES)?, &images)?,
            soft_labels: match find(SHARES) {
                Some(shares) => Some(floats(SHARES, shares, &[labels.len(), classes])?),
                None => None,
            },
            labels,
        })
    }
}

impl TrainingImages {
    /// Where the data lies, for messages.
    pub fn place(&self) -> String {
        match self.is_in_memory() {
            true => "in memory".to_string(),
            false => self.path.display().to_string(),
        }
    }

    /// Whether the data was in memory, so that it has no path.
    pub fn is_in_memory(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// What the manifest of a folder tells.
    ///
    /// # Errors
    /// A file that cannot be read, or is none.
    pub(super) fn read(dir: &Path) -> Result<TrainingImages> {
        let path = dir.join(MANIFEST);
        let wrong = |what: String| {
            Error::user(format!(
                "{} does not tell what was condensed ({what}); restore the file, or condense anew",
                path.display()
            ))
        };
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        Ok(manifest.data)
    }
}

/// The folder of condensed images that a path names, itself or by its file of arrays; none where it names others.
pub(super) fn folder_of(path: &Path) -> Option<&Path> {
    let dir = match path.file_name() {
        Some(name) if name == ARRAYS => path.parent()?,
        _ => path,
    };
    [ARRAYS, MANIFEST]
        .iter()
        .all(|name| dir.join(name).is_file())
        .then_some(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::{Filter, Resize};

    fn preprocessing() -> Preprocessing {
        Preprocessing {
            resize: Resize::None,
            filter: Filter::Bilinear,
            size: [1, 2],
            mean: vec![0.1],
            std: vec![0.3],
        }
    }

    fn images() -> CondensedImages {
        CondensedImages {
            shape: [1, 2, 1],
            pixels: vec![-7.25, 1e-40, 0.1, 3e9],
            labels: vec![1, 0],
            soft_labels: Some(vec![0.25, 0.75, 1.0, 0.0]),
        }
    }

    #[test]
    fn arrays_come_back_to_the_bit() {
        let dir = tempfile::tempdir().unwrap();
        for soft_labels in [None, images().soft_labels] {
            let images = CondensedImages {
                soft_labels,
                ..images()
            };
            images.write(dir.path(), &preprocessing()).unwrap();
            let found = CondensedImages::read(dir.path(), &preprocessing(), 2).unwrap();
            assert_eq!(found, images);
            assert_eq!(found.pixels[1].to_bits(), 1e-40f32.to_bits());
        }
    }

    #[test]
    fn arrays_that_do_not_go_together_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |preprocessing: &Preprocessing, classes: usize| {
            let found = CondensedImages::read(dir.path(), preprocessing, classes);
            found.unwrap_err().to_string()
        };
        assert!(refused(&preprocessing(), 2).contains("condensed.npz"));
        images().write(dir.path(), &preprocessing()).unwrap();
        assert!(refused(&preprocessing(), 1).contains("has labels that are no numbers of the 1 classes"));
        assert!(refused(&preprocessing(), 3).contains("has soft_labels of float32 [2, 2] in place of float32 [2, 3]"));
        let mut other = preprocessing();
        other.size = [2, 1];
        assert!(refused(&other, 2).contains("has images of float32 [2, 1, 2, 1] in place of float32 [2, 2, 1, 1]"));
        let mut other = preprocessing();
        other.std = vec![0.5];
        assert!(refused(&other, 2).contains("has another std than preprocessor_config.json"));
        let mut broken = images();
        broken.pixels[3] = f32::NAN;
        broken.write(dir.path(), &preprocessing()).unwrap();
        assert!(refused(&preprocessing(), 2).contains("has the number NaN in images"));
    }

    #[test]
    fn a_folder_is_known_by_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let arrays = dir.path().join(ARRAYS);
        images().write(dir.path(), &preprocessing()).unwrap();
        assert_eq!((folder_of(dir.path()), folder_of(&arrays)), (None, None));
        let origin = TrainingImages {
            path: "/data/mnist".into(),
            dev: None,
            test: Some("/data/other".into()),
            held_out: 0.1,
            held_out_seed: 1,
            images: 60_000,
            crc32c: 7,
        };
        let path = dir.path().join(MANIFEST);
        let manifest = serde_json::json!({ "done": 3, "data": origin });
        std::fs::write(&path, manifest.to_string()).unwrap();
        assert_eq!(TrainingImages::read(dir.path()).unwrap(), origin);
        assert_eq!(
            (folder_of(dir.path()), folder_of(&arrays)),
            (Some(dir.path()), Some(dir.path()))
        );
        std::fs::write(&path, "{}").unwrap();
        let sentence = TrainingImages::read(dir.path()).unwrap_err().to_string();
        assert!(
            sentence.contains("manifest.json does not tell what was condensed"),
            "{sentence}"
        );
    }
}
