//! Labelled images in the values that a network reads: what is condensed or searched on, and what comes of it.

use lessen_base::{Error, Result};

/// Images of one size with the number of a class each, in the values that a network reads.
pub trait ImageSource {
    /// Height, width and channels.
    fn shape(&self) -> [usize; 3];

    /// Number of classes.
    fn classes(&self) -> usize;

    /// The class of each image, below [`ImageSource::classes`].
    fn labels(&self) -> &[u32];

    /// The probabilities of all classes for each image, `[N, classes]`, if networks learn from these in place of the
    /// labels.
    fn soft_labels(&self) -> Option<&[f32]> {
        None
    }

    /// The learning rate that was learned with the images, if one was; networks learn by it in place of another one.
    fn learned_rate(&self) -> Option<f32> {
        None
    }

    /// Writes the pixels of image `index` to `pixels`, rows of columns of channels.
    ///
    /// # Errors
    /// An image that cannot be read.
    fn read(&self, index: usize, pixels: &mut [f32]) -> Result<()>;

    /// Elements of an image.
    fn size(&self) -> usize {
        self.shape().iter().product()
    }

    /// The images with these numbers, one after another.
    ///
    /// # Errors
    /// An image that cannot be read.
    fn gather(&self, indices: &[usize]) -> Result<Vec<f32>> {
        let size = self.size();
        let mut pixels = vec![0.0; size * indices.len()];
        for (&index, to) in indices.iter().zip(pixels.chunks_exact_mut(size)) {
            self.read(index, to)?;
        }
        Ok(pixels)
    }

    /// The numbers of the images of each class, in order.
    fn by_class(&self) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new(); self.classes()];
        for (index, &label) in self.labels().iter().enumerate() {
            found[label as usize].push(index);
        }
        found
    }
}

/// Labelled images in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledImages {
    shape: [usize; 3],
    classes: usize,
    pixels: Vec<f32>,
    labels: Vec<u32>,
    soft_labels: Option<Vec<f32>>,
    learned_rate: Option<f32>,
}

impl LabelledImages {
    /// Images `[N, H, W, C]` of this `[H, W, C]`, one after another, and the class of each.
    ///
    /// # Errors
    /// No image, an image without elements, other numbers of images and labels, a label that is no class, and a pixel
    /// that is infinite or NaN.
    pub fn new(shape: [usize; 3], classes: usize, pixels: Vec<f32>, labels: Vec<u32>) -> Result<LabelledImages> {
        let size = shape.iter().try_fold(1usize, |size, &axis| size.checked_mul(axis));
        let needed = size.and_then(|size| size.checked_mul(labels.len()));
        if needed != Some(pixels.len()) || pixels.is_empty() {
            return Err(Error::user(format!(
                "{} images of {shape:?} are not {} pixels; give each image its height x width x channels",
                labels.len(),
                pixels.len()
            )));
        }
        if let Some(index) = labels.iter().position(|&label| label as usize >= classes) {
            return Err(Error::user(format!(
                "image {index} has the label {}, but there are {classes} classes; number them from 0",
                labels[index]
            )));
        }
        if let Some(place) = pixels.iter().position(|pixel| !pixel.is_finite()) {
            let image = place / (pixels.len() / labels.len());
            return Err(Error::user(format!(
                "image {image} has the pixel {}; give finite numbers",
                pixels[place]
            )));
        }
        Ok(LabelledImages {
            shape,
            classes,
            pixels,
            labels,
            soft_labels: None,
            learned_rate: None,
        })
    }

    /// Returns the images with a learning rate that was learned with them.
    pub fn with_learned_rate(self, rate: f32) -> LabelledImages {
        LabelledImages {
            learned_rate: Some(rate),
            ..self
        }
    }

    /// Returns the images with these probabilities of all classes for each of them, `[N, classes]`.
    ///
    /// # Errors
    /// Another number of probabilities, and a row that has a number below 0 or does not sum to 1 within 1e-3.
    pub fn with_soft_labels(self, soft_labels: Vec<f32>) -> Result<LabelledImages> {
        let needed = self.labels.len().checked_mul(self.classes);
        if needed != Some(soft_labels.len()) {
            return Err(Error::user(format!(
                "{} images of {} classes do not have {} probabilities; give each image one of each class",
                self.labels.len(),
                self.classes,
                soft_labels.len()
            )));
        }
        let is_sound = |row: &[f32]| row.iter().all(|p| *p >= 0.0) && (row.iter().sum::<f32>() - 1.0).abs() <= 1e-3;
        if let Some(image) = soft_labels.chunks(self.classes).position(|row| !is_sound(row)) {
            return Err(Error::user(format!(
                "the probabilities of image {image} are not from 0 with the sum 1; give shares of the classes"
            )));
        }
        Ok(LabelledImages {
            soft_labels: Some(soft_labels),
            ..self
        })
    }

    /// All images of several sets, whose classes follow each other: those of the second set are numbered from the
    /// number of classes of the first on. Where one set has soft labels, all images get some.
    ///
    /// # Errors
    /// No set, images of different sizes.
    pub fn of_more_classes(sets: &[LabelledImages]) -> Result<LabelledImages> {
        let Some(first) = sets.first() else {
            return Err(Error::user("there is no set of images; give at least one"));
        };
        if let Some(other) = sets.iter().find(|set| set.shape != first.shape) {
            return Err(Error::user(format!(
                "images of {:?} and of {:?} are no set; give images of one size",
                first.shape, other.shape
            )));
        }
        let classes = sets.iter().map(|set| set.classes).sum();
        let is_soft = sets.iter().any(|set| set.soft_labels.is_some());
        let (mut pixels, mut labels, mut soft_labels) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = 0;
        for set in sets {
            pixels.extend_from_slice(&set.pixels);
            for (image, label) in set.labels.iter().enumerate() {
                labels.push(before as u32 + label);
                if is_soft {
                    let mut row = vec![0.0; classes];
                    match &set.soft_labels {
                        Some(soft) => {
                            row[before..][..set.classes].copy_from_slice(&soft[image * set.classes..][..set.classes])
                        }
                        None => row[before + *label as usize] = 1.0,
                    }
                    soft_labels.extend(row);
                }
            }
            before += set.classes;
        }
        Ok(LabelledImages {
            soft_labels: is_soft.then_some(soft_labels),
            ..LabelledImages::new(first.shape, classes, pixels, labels)?
        })
    }

    /// The pixels of all images, `[N, H, W, C]`.
    pub fn pixels(&self) -> &[f32] {
        &self.pixels
    }

    /// A part of the images of another source, in this order.
    ///
    /// # Errors
    /// An image that cannot be read.
    pub fn part_of(source: &dyn ImageSource, indices: &[usize]) -> Result<LabelledImages> {
        let labels = indices.iter().map(|&index| source.labels()[index]).collect();
        let classes = source.classes();
        let soft_labels = source.soft_labels().map(|soft| {
            let rows = indices.iter().flat_map(|&index| &soft[index * classes..][..classes]);
            rows.copied().collect()
        });
        Ok(LabelledImages {
            soft_labels,
            ..LabelledImages::new(source.shape(), classes, source.gather(indices)?, labels)?
        })
    }
}

impl ImageSource for LabelledImages {
    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn soft_labels(&self) -> Option<&[f32]> {
        self.soft_labels.as_deref()
    }

    fn learned_rate(&self) -> Option<f32> {
        self.learned_rate
    }

    fn read(&self, index: usize, pixels: &mut [f32]) -> Result<()> {
        let size = self.size();
        pixels.copy_from_slice(&self.pixels[index * size..(index + 1) * size]);
        Ok(())
    }
}
