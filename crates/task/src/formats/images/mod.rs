//! Images with labels.

mod checks;
mod init;

pub use self::init::network_of;

use self::init::{given_channels, of_checkpoint, size_of_network};
use super::corpus::{Corpus, check_vocabulary, order_of, place};
use super::{ENCODER_LENGTH, Format, HeldOut, KnownModel, ModelSettings, assumed_classes};
use crate::folder::manifest::{DataDigest, DataDigests};
use crate::goal::SharedGoal;
use crate::goal::classes::Classes;
use crate::models::ModelRole;
use crate::reader::Reader;
use crate::recipe::config::Config;
use crate::recipe::keys::Transformer;
use crate::wording::counted;
use lessen_base::{Error, Result};
use lessen_data::images::{FilesDigest, ImageBatches, ImageData, ImageSet, Options, Preprocessing, read_from};
use lessen_data::memory::DataInMemory;
use lessen_data::{Metric, Order, Source, class_counts};
use lessen_nn::{BatchShape, Model};
use std::sync::Arc;

/// Steps below which a training on condensed images has hardly begun.
const FEW_STEPS: u64 = 100;

/// Images with labels: idx files, CIFAR, arrays of NumPy, folders of classes.
pub(super) struct ImagesFormat;

impl Format for ImagesFormat {
    fn own_keys(&self) -> &'static [&'static str] {
        &[
            "model.patch",
            "image.size",
            "image.channels",
            "image.crop",
            "image.augment",
            "image.mixup",
            "image.cutmix",
            "image.mean",
            "image.std",
        ]
    }

    fn learned_by(&self) -> ModelRole {
        ModelRole::ClassifiesImages
    }

    fn is_of_images(&self) -> bool {
        true
    }

    fn held_out(&self) -> HeldOut {
        HeldOut::ShareOrTest
    }

    fn check(&self, config: &Config) -> Result<()> {
        checks::check(config)
    }

    fn takes(&self, data: &DataInMemory) -> bool {
        data.images().is_some()
    }

    fn read(&self, config: &Config, known: &KnownModel, given: Option<&DataInMemory>) -> Result<Arc<dyn Corpus>> {
        let mut data = data_of(config, known, given)?;
        data.remarks.extend(few_steps(config, &data));
        Ok(Arc::new(LabelledImages(data)))
    }

    fn assumed_goal(&self, config: &Config) -> SharedGoal {
        Arc::new(Classes {
            names: assumed_classes(config),
            metrics: vec![Metric::Accuracy],
        })
    }

    fn assumed_shapes(&self, config: &Config, model: &Model) -> [BatchShape; 2] {
        let image = model.image().unwrap_or_else(|| config.image.assumed());
        [config.image.are_mixed(), false].map(|mixed| BatchShape::Images {
            size: config.train.batch,
            image,
            mixed,
        })
    }

    fn settings_of_model(&self, model: &Model) -> Option<ModelSettings> {
        model.image()?;
        Some(ModelSettings {
            longest: None,
            ..ModelSettings::encoder(Transformer::Vit, model, ENCODER_LENGTH)
        })
    }
}

/// A remark on a training on condensed images that has hardly begun when it ends.
fn few_steps(config: &Config, data: &ImageData) -> Option<String> {
    let (train, images) = (&config.train, data.train.len());
    let steps = train.epochs.saturating_mul((images / train.batch).max(1) as u64);
    let is_short = data.train.normalization().is_some() && !config.is_whole && train.steps == 0 && steps < FEW_STEPS;
    is_short.then(|| {
        format!(
            "{} are {} on {images} condensed images, from which networks learn in some hundred; give more, such as --set \
             train.epochs=300",
            config.place("train.epochs"),
            counted(steps, "step")
        )
    })
}

/// The images that are given, or else those that a recipe names, for a model with these traits.
///
/// # Errors
/// Data that is missing, not named, or damaged.
pub fn data_of(config: &Config, known: &KnownModel, given: Option<&DataInMemory>) -> Result<ImageData> {
    let (place, data) = (place(config, given.and_then(DataInMemory::images))?, &config.data);
    let channels = match known.channels {
        Some(channels) => Some(channels),
        None => given_channels(config)?,
    };
    let options = Options {
        channels,
        dev: data.dev.clone(),
        test: data.test.clone(),
        held_out: data.held_out,
        held_out_seed: data.held_out_seed,
        only_without_test: config.spares_training,
        whole: config.is_whole,
        without_training: false,
        classes: known.classes.clone(),
    };
    read_from(place, &options)
}

/// How images become what a model sees: as the data says, or else the checkpoint to start from, where no key says
/// otherwise; else with mean and deviation of the training images where none are given. An ONNX file to start from says
/// at most their size.
///
/// # Errors
/// A checkpoint or an image that cannot be read; keys, or a checkpoint, that ask for something else than the data says.
pub fn preprocessing_for(config: &Config, data: &ImageData) -> Result<Preprocessing> {
    let train = &data.train;
    if let Some(own) = &data.preprocessing {
        check_condensed(config, own)?;
        return Ok(own.clone());
    }
    if !config.image.is_preprocessing_given()
        && let Some(own) = of_checkpoint(config)?.filter(|own| own.mean.len() == train.channels())
    {
        return Ok(own);
    }
    let preprocessing = config
        .image
        .preprocessing(data.size, size_of_network(config)?, train.channels());
    if config.image.is_normalized_by_data() {
        preprocessing.normalized_by(train)
    } else {
        Ok(preprocessing)
    }
}

/// Refuses keys and a checkpoint that ask for other numbers than those that condensed images are.
fn check_condensed(config: &Config, own: &Preprocessing) -> Result<()> {
    let image = &config.image;
    let asked = [
        ("image.size", image.size.is_none_or(|size| own.size == [size, size])),
        ("image.crop", image.crop.is_none()),
        ("image.mean", image.mean.as_ref().is_none_or(|mean| mean.0 == own.mean)),
        ("image.std", image.std.as_ref().is_none_or(|std| std.0 == own.std)),
    ];
    if let Some((key, _)) = asked.into_iter().find(|(_, is_own)| !is_own) {
        return Err(Error::user(format!(
            "{} does not go with condensed images, which are numbers of the size {:?} by mean {:?} and deviation {:?}; leave \
             it out",
            config.place(key),
            own.size,
            own.mean,
            own.std
        )));
    }
    match of_checkpoint(config)?.filter(|checkpoint| checkpoint.normalization() != own.normalization()) {
        None => Ok(()),
        Some(checkpoint) => Err(Error::user(format!(
            "{} sees the size {:?} by mean {:?} and deviation {:?}, and the condensed images are numbers of {:?} by {:?} and \
             {:?}; condense with image.size, image.mean and image.std of the checkpoint",
            config.place("model.init"),
            checkpoint.size,
            checkpoint.mean,
            checkpoint.std,
            own.size,
            own.mean,
            own.std
        ))),
    }
}

/// The digest of a split. Of images in files, names and sizes are compared.
///
/// # Errors
/// A file that cannot be read any more.
pub fn digest_of(set: &ImageSet) -> Result<DataDigest> {
    Ok(DataDigest {
        size: set.len() as u64,
        crc: set.checksum()?,
    })
}

/// Images with labels, as they were read.
struct LabelledImages(ImageData);

impl LabelledImages {
    /// Images in a training batch, of which `asked` are asked for: all of a condensed set have room in it, if they are
    /// fewer.
    fn batch(&self, asked: usize) -> usize {
        match self.0.train.normalization() {
            Some(_) => asked.min(self.0.train.len()),
            None => asked,
        }
    }
}

impl Corpus for LabelledImages {
    fn goal(&self) -> SharedGoal {
        Arc::new(Classes {
            names: self.0.names.clone(),
            metrics: vec![Metric::Accuracy],
        })
    }

    fn reader(&self, config: &Config) -> Result<Reader> {
        check_vocabulary(config)?;
        Ok(Reader::Images(preprocessing_for(config, &self.0)?))
    }

    fn remarks(&self) -> &[String] {
        &self.0.remarks
    }

    fn is_whole(&self) -> bool {
        self.0.is_whole
    }

    fn example(&self) -> &'static str {
        "image"
    }

    fn digests(&self) -> Result<DataDigests> {
        DataDigests::of([&self.0.train, &self.0.dev], digest_of)
    }

    fn image_files(&self) -> Result<Vec<FilesDigest>> {
        Ok([self.0.train.file_digests()?, self.0.dev.file_digests()?].concat())
    }

    fn class_counts(&self, classes: usize) -> Option<Vec<u64>> {
        Some(class_counts(self.0.train.labels(), classes))
    }

    fn has_weights(&self) -> bool {
        self.0.train.weights().is_some()
    }

    /// Condensed images are fewer than a usual batch has, and may have shares of classes.
    fn training_shape(&self, assumed: BatchShape) -> BatchShape {
        match assumed {
            BatchShape::Images { size, image, mixed } => BatchShape::Images {
                size: self.batch(size),
                image,
                mixed: mixed || self.0.train.shares().is_some(),
            },
            other => other,
        }
    }

    fn source(&self, config: &Config, reader: &Reader, split: &str, _order: Order) -> Result<Arc<dyn Source>> {
        let set = Arc::new(self.0.split(split)?.clone());
        let batches = ImageBatches::evaluation(set, reader.preprocessing()?.clone(), config.train.batch)?;
        Ok(Arc::new(batches))
    }

    /// The batches of the training split, augmented.
    fn training(&self, config: &Config, reader: &Reader) -> Result<Arc<dyn Source>> {
        let batches = ImageBatches::training(
            Arc::new(self.0.train.clone()),
            reader.preprocessing()?.clone(),
            config.image.augmentation(config.train.seed),
            self.0.names.len(),
            self.batch(config.train.batch),
            order_of(config),
        )?;
        Ok(Arc::new(batches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe;
    use crate::recipe::keys::DataFormat;
    use lessen_data::Field;
    use std::fs;
    use std::path::Path;

    /// Six images of 1 x 2 bytes in two classes, and two of them for evaluations.
    fn config(dir: &Path) -> Config {
        let idx = |name: &str, shape: &[u8], bytes: &[u8]| {
            let mut file = vec![0, 0, 8, shape.len() as u8];
            file.extend(shape.iter().flat_map(|size| [0, 0, 0, *size]));
            file.extend(bytes);
            fs::write(dir.join(name), file).unwrap();
        };
        idx(
            "train-images-idx3-ubyte",
            &[6, 1, 2],
            &[0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255],
        );
        idx("train-labels-idx1-ubyte", &[6], &[0, 0, 0, 0, 1, 1]);
        idx("t10k-images-idx3-ubyte", &[2, 1, 2], &[0, 255, 255, 0]);
        idx("t10k-labels-idx1-ubyte", &[2], &[1, 0]);
        fs::write(dir.join("classes.txt"), "left\nright\n").unwrap();
        let mut config = Config::new(recipe::load("adder").unwrap()).unwrap();
        config.data.format = DataFormat::Images;
        config.data.path = Some(dir.to_path_buf());
        config.data.held_out = 0.0;
        config.train.batch = 4;
        config
    }

    fn read(config: &Config) -> Arc<dyn Corpus> {
        ImagesFormat.read(config, &KnownModel::default(), None).unwrap()
    }

    #[test]
    fn images_are_classes_in_batches_with_the_normalization_of_the_training_data() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let corpus = read(&config);
        let names = corpus.goal().class_names().to_vec();
        assert_eq!(
            (names, corpus.class_counts(2)),
            (vec!["left".into(), "right".into()], Some(vec![4, 2]))
        );
        let reader = corpus.reader(&config).unwrap();
        assert_eq!(reader.preprocessing().unwrap().mean, [0.5]);
        assert!(reader.tokenizer().err().unwrap().to_string().contains("reads images"));
        let dev = corpus.evaluation(&config, &reader, "dev").unwrap();
        let batch = dev.eval_batch(0).unwrap();
        let images = batch.get("images").unwrap();
        assert_eq!(images.shape(), [4, 1, 2, 1]);
        assert_eq!(images.as_f32().unwrap(), [-1.0, 1.0, 1.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((batch.examples, dev.eval_batches()), (2, 1));
        let training = corpus.training(&config, &reader).unwrap();
        assert_eq!(training.batches_per_epoch(), 1);
        let sentence = corpus.evaluation(&config, &reader, "valid").err().unwrap().to_string();
        assert!(sentence.contains("no split called valid"), "{sentence}");
        // What a model reads is kept beside it.
        reader.save(dir.path(), None).unwrap();
        let saved = Preprocessing::load(dir.path()).unwrap();
        assert_eq!(saved.as_ref(), reader.preprocessing().ok());
    }

    #[test]
    fn settings_decide_mixing_and_normalization() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        config.image.mixup = 1.0;
        config.image.mean = Some("0,0,0".parse().unwrap());
        config.image.std = Some("1,1,1".parse().unwrap());
        let corpus = read(&config);
        assert!(
            corpus.remarks()[0].contains("such images are converted to colour"),
            "{:?}",
            corpus.remarks()
        );
        let reader = corpus.reader(&config).unwrap();
        let batch = corpus.training(&config, &reader).unwrap().batch(0).unwrap();
        assert_eq!(batch.get("images").map(Field::shape), Some(&[4, 1, 2, 3][..]));
        assert_eq!(batch.get("targets").map(Field::shape), Some(&[4, 2][..]));
    }

    #[test]
    fn other_images_have_another_digest() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let digests = || read(&config).digests().unwrap();
        let before = digests();
        assert_eq!((before.train.size, before.dev.size, before), (6, 2, digests()));
        let path = dir.path().join("t10k-labels-idx1-ubyte");
        let mut labels = fs::read(&path).unwrap();
        *labels.last_mut().unwrap() = 1;
        fs::write(&path, labels).unwrap();
        assert_ne!(digests(), before);
    }
}
