//! Splits of data sets as formats give them, before their classes are numbered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lessen_base::{Error, Result};

use super::idx::product;
use super::set::Pixels;
use crate::class_names;
use crate::classes::Classes;
use crate::splits;

/// The most classes that numbers can stand for.
const MOST_CLASSES: i64 = 1 << 16;

/// One split.
pub(super) struct Part {
    pub(super) pixels: Pixels,
    pub(super) labels: PartLabels,
    /// The file or folder of its labels, for messages.
    pub(super) place: PathBuf,
}

/// The labels of a split.
pub(super) enum PartLabels {
    /// Numbers of classes.
    Numbers(Vec<i64>),
    /// For each image the place of its class among these names.
    Names(Vec<String>, Vec<u32>),
}

/// All splits of a place, and the names of classes that are written beside them.
pub(super) struct Parts {
    pub(super) train: Part,
    pub(super) dev: Option<Part>,
    pub(super) test: Option<Part>,
    pub(super) names: Option<Classes>,
}

impl Part {
    /// A split without images.
    pub(super) fn empty(place: &Path) -> Part {
        Part {
            pixels: Pixels::InFiles(Default::default()),
            labels: PartLabels::Numbers(Vec::new()),
            place: place.to_path_buf(),
        }
    }

    /// A split of arrays: images `[N, H, W]`, `[N, H, W, C]` or, where C is 1 or 3 in that place only, `[N, C, H, W]`,
    /// and N labels.
    ///
    /// # Errors
    /// Other shapes; images without pixels.
    pub(super) fn of_arrays(
        (shape, bytes, images): (&[usize], Vec<u8>, &Path),
        (count, labels, place): (&[usize], Vec<i64>, &Path),
    ) -> Result<Part> {
        let (number, pixels) = pixels_of(shape, bytes, images)?;
        if labels.len() != number || count.iter().filter(|size| **size != 1).count() > 1 {
            return Err(Error::user(format!(
                "{} has labels of shape {count:?} for {number} images; save one number for each image",
                place.display()
            )));
        }
        let labels = PartLabels::Numbers(labels);
        let place = place.to_path_buf();
        Ok(Part { pixels, labels, place })
    }

    /// The number of images.
    pub(super) fn len(&self) -> usize {
        match &self.labels {
            PartLabels::Numbers(numbers) => numbers.len(),
            PartLabels::Names(_, places) => places.len(),
        }
    }

    /// The names of its classes: whole numbers by size, words by their characters. Numbers without names are named by
    /// themselves, from 0 on.
    ///
    /// # Errors
    /// A negative number, or one that is too large to be that of a class.
    pub(super) fn classes(&self) -> Result<Vec<String>> {
        let (least, most) = match &self.labels {
            PartLabels::Names(names, _) => {
                let mut sorted = names.clone();
                class_names::sort(&mut sorted);
                return Ok(sorted);
            }
            PartLabels::Numbers(numbers) => {
                let least = numbers.iter().copied().min().unwrap_or(0);
                (least, numbers.iter().copied().max().unwrap_or(0))
            }
        };
        if least < 0 || most >= MOST_CLASSES {
            let wrong = if least < 0 { least } else { most };
            return Err(Error::user(format!(
                "{} has the label {wrong}, which is no number of a class; number classes from 0 on",
                self.place.display()
            )));
        }
        Ok((0..=most).map(|class| class.to_string()).collect())
    }

    /// The number of each image's class.
    ///
    /// # Errors
    /// A label of none of the classes.
    pub(super) fn numbered(&self, classes: &Classes) -> Result<Vec<i32>> {
        let place = &self.place;
        match &self.labels {
            PartLabels::Numbers(numbers) => {
                let mut known = BTreeMap::new();
                let labels = numbers.iter().enumerate().map(|(image, label)| match known.get(label) {
                    Some(class) => Ok(*class),
                    None => {
                        let at = || format!("{}: image {}", place.display(), image + 1);
                        let class = classes.number(&label.to_string(), &at)?;
                        known.insert(*label, class);
                        Ok(class)
                    }
                });
                labels.collect()
            }
            PartLabels::Names(names, places) => {
                let number = |name: &String| {
                    let folder = || match splits::is_name(place) {
                        true => place.display().to_string(),
                        false => format!("the folder {}", place.join(name).display()),
                    };
                    classes.number(name, &folder)
                };
                let numbers: Vec<i32> = names.iter().map(number).collect::<Result<_>>()?;
                Ok(places.iter().map(|name| numbers[*name as usize]).collect())
            }
        }
    }

    /// Whether its labels are names.
    pub(super) fn has_names(&self) -> bool {
        matches!(self.labels, PartLabels::Names(..))
    }
}

/// The number of images in an array at this place, and their pixels.
///
/// # Errors
/// A shape that is not that of images; images without pixels.
pub(super) fn pixels_of(shape: &[usize], bytes: Vec<u8>, place: &Path) -> Result<(usize, Pixels)> {
    let wrong = |what: String| Err(Error::user(format!("{} {what}", place.display())));
    let is_channels = |size: usize| size == 1 || size == 3;
    let (sizes, planes) = match *shape {
        [number, height, width] => ([number, height, width, 1], false),
        [number, height, width, channels] if is_channels(channels) => ([number, height, width, channels], false),
        [number, channels, height, width] if is_channels(channels) => ([number, height, width, channels], true),
        _ => {
            return wrong(format!(
                "has an array of shape {shape:?}, which are no images; save [images, height, width], or the same with 1 \
                     or 3 channels"
            ));
        }
    };
    let [number, height, width, channels] = sizes;
    if number == 0 || product(&sizes) == Some(0) {
        return wrong(format!("has no images (shape {shape:?}); add at least one"));
    }
    let bytes = if planes {
        let images = bytes.chunks_exact(height * width * channels);
        images.flat_map(|planes| interleaved(planes, channels)).collect()
    } else {
        bytes
    };
    Ok((number, Pixels::InMemory([height, width, channels], bytes.into())))
}

/// The pixels of an image whose channels are planes, one after another.
pub(super) fn interleaved(planes: &[u8], channels: usize) -> impl Iterator<Item = u8> + '_ {
    let pixels = planes.len() / channels;
    (0..pixels).flat_map(move |pixel| (0..channels).map(move |channel| planes[channel * pixels + pixel]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(shape: &[usize], bytes: Vec<u8>, labels: Vec<i64>) -> Result<Part> {
        let count = [labels.len()];
        Part::of_arrays((shape, bytes, Path::new("x.npy")), (&count, labels, Path::new("y.npy")))
    }

    #[test]
    fn images_have_their_channels_last_whatever_they_had() {
        let pixels = |part: Part| part.pixels;
        let grey = arrays(&[2, 1, 2], vec![1, 2, 3, 4], vec![0, 1]).unwrap();
        assert_eq!(grey.len(), 2);
        assert_eq!(pixels(grey), Pixels::InMemory([1, 2, 1], vec![1, 2, 3, 4].into()));
        let planes = arrays(&[2, 3, 1, 2], (0..12).collect(), vec![0, 1]).unwrap();
        let expected = vec![0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11];
        assert_eq!(pixels(planes), Pixels::InMemory([1, 2, 3], expected.into()));
        let last = arrays(&[1, 2, 1, 3], (0..6).collect(), vec![0]).unwrap();
        assert_eq!(
            pixels(last),
            Pixels::InMemory([2, 1, 3], (0..6).collect::<Vec<u8>>().into())
        );
    }

    #[test]
    fn other_shapes_are_refused() {
        let refused = |shape: &[usize], labels| {
            let bytes = vec![0; shape.iter().product()];
            arrays(shape, bytes, labels).err().unwrap().to_string()
        };
        assert!(refused(&[4, 2], vec![0; 4]).contains("x.npy has an array of shape [4, 2], which are no images"));
        assert!(refused(&[1, 2, 2, 4], vec![0]).contains("no images"));
        assert!(refused(&[0, 2, 2], vec![]).contains("has no images"));
        assert!(refused(&[2, 0, 2], vec![0; 2]).contains("has no images"));
        assert!(refused(&[2, 1, 1], vec![0; 3]).contains("y.npy has labels of shape [3] for 2 images"));
    }

    #[test]
    fn classes_are_numbered() {
        let named = |names: &[&str]| Part {
            pixels: Pixels::InFiles(Default::default()),
            labels: PartLabels::Names(names.iter().map(|name| name.to_string()).collect(), vec![0, 1, 1]),
            place: "d".into(),
        };
        assert_eq!(named(&["b", "10", "a"]).classes().unwrap(), ["10", "a", "b"]);
        assert_eq!(named(&["2", "10"]).classes().unwrap(), ["2", "10"]);
        let classes = || Classes::of_model(vec!["2".to_string(), "10".to_string()]);
        assert_eq!(named(&["10", "2"]).numbered(&classes()).unwrap(), [1, 0, 0]);
        let sentence = named(&["3", "2"]).numbered(&classes()).unwrap_err().to_string();
        assert_eq!(
            sentence,
            "the folder d/3 has the label '3', but the 2 classes of the model are 2, 10; use one of these"
        );
        let numbers = |labels: Vec<i64>| arrays(&[labels.len(), 1, 1], vec![0; labels.len()], labels).unwrap();
        assert_eq!(numbers(vec![2, 0]).classes().unwrap(), ["0", "1", "2"]);
        assert_eq!(numbers(vec![1, 0]).numbered(&classes()).unwrap(), [1, 0]);
        // 2 is a name, and 1 is none.
        for labels in [vec![1, 2], vec![2, 1], vec![1, 3], vec![0, -1]] {
            let sentence = numbers(labels).numbered(&classes()).unwrap_err().to_string();
            assert!(
                sentence.starts_with("y.npy: image ") && sentence.contains("but the 2 classes of the model are 2, 10"),
                "{sentence}"
            );
        }
        assert!(
            numbers(vec![-1])
                .classes()
                .unwrap_err()
                .to_string()
                .contains("the label -1")
        );
        assert!(numbers(vec![1 << 40]).classes().is_err());
    }
}
