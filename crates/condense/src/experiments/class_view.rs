//! Some of the classes of a set of images.

use lessen_base::{Error, Result};
use lessen_data::images::ImageSource;

/// The images of some classes, numbered anew from 0 in the order given.
pub struct ClassView<'a> {
    source: &'a dyn ImageSource,
    classes: usize,
    /// Numbers of the images in the source.
    images: Vec<usize>,
    labels: Vec<u32>,
}

impl<'a> ClassView<'a> {
    /// The images of these classes.
    ///
    /// # Errors
    /// No class, a class that the source does not have, a class that is given twice, a source with soft labels.
    pub fn new(source: &'a dyn ImageSource, classes: &[u32]) -> Result<ClassView<'a>> {
        if classes.is_empty() {
            return Err(Error::user("there is no class to learn; name at least one"));
        }
        if source.soft_labels().is_some() {
            return Err(Error::user(
                "images with probabilities of classes cannot be split by class; give images with labels",
            ));
        }
        let mut number = vec![None; source.classes()];
        for (new, &class) in classes.iter().enumerate() {
            match number.get_mut(class as usize) {
                Some(free @ None) => *free = Some(new as u32),
                Some(_) => {
                    return Err(Error::user(format!(
                        "class {class} is given twice; give each class once"
                    )));
                }
                None => {
                    return Err(Error::user(format!(
                        "there is no class {class}; the images have {} classes, from 0",
                        source.classes()
                    )));
                }
            }
        }
        let all = source.labels().iter().enumerate();
        let (images, labels) = all
            .filter_map(|(image, &class)| Some((image, number[class as usize]?)))
            .unzip();
        Ok(ClassView {
            source,
            classes: classes.len(),
            images,
            labels,
        })
    }
}

impl ImageSource for ClassView<'_> {
    fn shape(&self) -> [usize; 3] {
        self.source.shape()
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn read(&self, index: usize, pixels: &mut [f32]) -> Result<()> {
        self.source.read(self.images[index], pixels)
    }
}
