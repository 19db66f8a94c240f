//! The images of a recipe: those that are condensed, and those by which a condensed set is judged.

use crate::folder::manifest::DataDigest;
use crate::formats::KnownModel;
use crate::formats::images::{data_of, digest_of, preprocessing_for};
use crate::recipe::config::Config;
use crate::recipe::keys::DataFormat;
use crate::recipe::value::Origin;
use lessen_base::{Error, Result};
use lessen_condense::ImageSource;
use lessen_data::images::{ImageSet, PreparedImages, Preprocessing};

/// The images of a recipe.
pub struct RecipeImages {
    /// The training split, all of it where the recipe does not say what is kept for validation.
    pub train: PreparedSource,
    /// The test split, or else that for validation; none where the data has neither.
    pub test: Option<PreparedSource>,
    /// The names of the classes in the order of their numbers.
    pub names: Vec<String>,
    /// What there is to say of how they were read, a sentence each.
    pub remarks: Vec<String>,
}

impl RecipeImages {
    /// Reads the images that a recipe names.
    ///
    /// # Errors
    /// A recipe for other data than images, data that is missing, not named, or damaged.
    pub fn read(config: &Config) -> Result<RecipeImages> {
        if config.data.format != DataFormat::Images {
            return Err(Error::user(format!(
                "the recipe {} is for data.format = {}, and images are condensed; name one for images, such as mnist or \
                 cifar10",
                config.recipe(),
                config.data.format
            )));
        }
        let is_all = config.settings.origin("data.held_out") == Origin::Default;
        let whole = if is_all {
            config.clone().for_whole_data()
        } else {
            config.clone()
        };
        let data = data_of(&whole, &KnownModel::default())?;
        let preprocessing = preprocessing_for(config, &data)?;
        let dev = Some(data.dev).filter(|_| !data.is_whole);
        let classes = data.names.len();
        let source = |set: ImageSet| PreparedSource::new(set, preprocessing.clone(), classes);
        Ok(RecipeImages {
            test: data.test.or(dev).map(source),
            train: source(data.train),
            names: data.names,
            remarks: data.remarks,
        })
    }

    /// How images become what networks see.
    pub fn preprocessing(&self) -> &Preprocessing {
        self.train.images.preprocessing()
    }

    /// The digest of the training split.
    ///
    /// # Errors
    /// A file that cannot be read any more.
    pub(crate) fn digest(&self) -> Result<DataDigest> {
        digest_of(self.train.images.images())
    }
}

/// A set of images as a source: bytes stay bytes, and become the values that a network reads when they are asked for.
pub struct PreparedSource {
    images: PreparedImages,
    labels: Vec<u32>,
    classes: usize,
}

impl PreparedSource {
    fn new(set: ImageSet, preprocessing: Preprocessing, classes: usize) -> PreparedSource {
        PreparedSource {
            labels: set.labels().iter().map(|label| *label as u32).collect(),
            images: preprocessing.applied_to(set),
            classes,
        }
    }
}

impl ImageSource for PreparedSource {
    fn shape(&self) -> [usize; 3] {
        self.images.preprocessing().shape()
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn read(&self, index: usize, pixels: &mut [f32]) -> Result<()> {
        self.images.write(index, pixels)
    }
}
