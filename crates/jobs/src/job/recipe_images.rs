//! The images of a recipe: those that a job reads, and those by which its result is judged.

use lessen_base::{Error, Result};
use lessen_data::images::ImageSource;
use lessen_data::images::{ImageSet, PreparedImages, Preprocessing};
use lessen_task::folder::manifest::DataDigest;
use lessen_task::formats::KnownModel;
use lessen_task::formats::images::{data_of, digest_of, preprocessing_for};
use lessen_task::input_files::InputFiles;
use lessen_task::recipe::config::Config;
use lessen_task::recipe::keys::DataFormat;
use lessen_task::recipe::value::Origin;
use lessen_task::shared_data::SharedData;

/// The images of a recipe.
pub struct RecipeImages {
    /// The training split: all of it where the data has a test split, unless the recipe says what is kept for
    /// validation.
    pub train: PreparedSource,
    /// The test split, or else that for validation.
    pub test: PreparedSource,
    /// Whether the data has a test split.
    pub has_test: bool,
    /// The share of the training images that is kept for validation.
    pub held_out: f64,
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
        RecipeImages::read_on(config, &SharedData::default())
    }

    /// [`RecipeImages::read`] of images that may be given in memory.
    ///
    /// # Errors
    /// As [`RecipeImages::read`].
    pub(crate) fn read_on(config: &Config, shared: &SharedData) -> Result<RecipeImages> {
        if config.data.format != DataFormat::Images {
            return Err(Error::user(format!(
                "the recipe {} is for data.format = {}, and this command needs images; name one for images, such as \
                 mnist or cifar10",
                config.recipe(),
                config.data.format
            )));
        }
        let (known, given) = (KnownModel::default(), shared.given_for(config)?);
        let spares_training = config.settings.origin("data.held_out") == Origin::Default;
        let data = if spares_training {
            data_of(&config.clone().sparing_training(), &known, given)?
        } else {
            data_of(config, &known, given)?
        };
        let held_out = match data.test {
            Some(_) if spares_training => 0.0,
            _ => config.data.held_out,
        };
        let preprocessing = preprocessing_for(config, &data)?;
        let classes = data.names.len();
        let source = |set: ImageSet| PreparedSource::new(set, preprocessing.clone(), classes);
        Ok(RecipeImages {
            has_test: data.test.is_some(),
            test: source(data.test.unwrap_or(data.dev)),
            train: source(data.train),
            held_out,
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

    /// The files that the settings of a job name, those of images among them.
    ///
    /// # Errors
    /// A file that cannot be read any more.
    pub(crate) fn inputs(&self, config: &Config) -> Result<InputFiles> {
        let images = [&self.train, &self.test].map(|source| source.images.images().file_digests());
        let [train, test] = images;
        Ok(InputFiles::of(&config.settings)?.with_images(config, [train?, test?].concat()))
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
